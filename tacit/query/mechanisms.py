"""Which noise each party adds to a contribution or a partial sum (spec: aggregation, section 4).

A part of sensitivity Delta whose share of an epsilon is s gets scale b = Delta / (s epsilon):

- `two-layer` (thesis, Algorithm 4.1): every curator a discrete Laplace of Delta/epsilon_u with
  probability pr_u, every aggregator one of Delta/epsilon_s with probability pr_s; one coin per
  contribution.
- `local` (thesis, Algorithm 5.1): every curator a discrete Laplace of Delta/epsilon_i.
- `distributed`: Polya shares of weight 1/(min_participants - t_u) at curators, 1/(c_noise - t_s)
  at aggregators, so that the honest parties' shares alone hold one whole discrete Laplace.
- `exact`: no party adds noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tacit.crypto.sharing import Additive, Scheme, Shamir
from tacit.noise.bits import Bernoulli
from tacit.noise.discrete_laplace import SCALE_LIMIT, DiscreteLaplace
from tacit.noise.vector import polya_shares, probabilistic_laplace
from tacit.query.encoding import headroom
from tacit.query.fields import QueryFields
from tacit.query.functions import parts
from tacit.query.terms import Function, Layer, Mechanism, Sharing, Validity
from tacit.randomness import NoiseSource
from tacit.units import MAX_QUANTITY

if TYPE_CHECKING:
    from tacit.validity.noise_bound import Tail

Ints = NDArray[np.int64]

_TOGETHER = 1 << 18
"""Numbers drawn at a time, about, of which only the total is kept."""


@dataclass(frozen=True)
class NoisePlan:
    """One party's noise: a scale and a dimension for each part.

    `weight` is the share of one discrete Laplace that the party draws; `probability` that it
    draws at all (one coin per contribution).
    """

    scales: tuple[Fraction, ...]
    dimensions: tuple[int, ...]
    probability: Fraction = Fraction(1)
    weight: Fraction = Fraction(1)


def curator_plan(query: QueryFields) -> NoisePlan | None:
    """The noise that each curator adds to its contribution; None where curators add none."""
    match query.mechanism:
        case Mechanism.TWO_LAYER:
            assert query.epsilon_u is not None
            assert query.pr_u is not None
            return _plan(query, query.epsilon_u, probability=query.pr_u)
        case Mechanism.LOCAL:
            assert query.epsilon_i is not None
            return _plan(query, query.epsilon_i)
        case Mechanism.DISTRIBUTED if query.layer in (Layer.CURATOR, Layer.BOTH):
            assert query.epsilon is not None
            honest = query.min_participants - query.collusion.curators
            return _plan(query, query.epsilon, weight=Fraction(1, honest))
        case _:
            return None


@lru_cache(maxsize=512)
def aggregator_plan(query: QueryFields) -> NoisePlan | None:
    """The noise that each aggregator adds; None where aggregators add none."""
    match query.mechanism:
        case Mechanism.TWO_LAYER:
            assert query.epsilon_s is not None
            assert query.pr_s is not None
            return _plan(query, query.epsilon_s, probability=query.pr_s)
        case Mechanism.DISTRIBUTED if query.layer in (Layer.AGGREGATOR, Layer.BOTH):
            assert query.epsilon is not None
            honest = noisy_aggregators(query) - query.collusion.aggregators
            return _plan(query, query.epsilon, weight=Fraction(1, honest))
        case _:
            return None


def clamped_tail(query: QueryFields) -> Tail | None:
    """How much total variation the clamping of curators' noise may cost in a round; None where none
    is clamped. Spec: validity, section 5."""
    if query.validity is not Validity.PROVED or curator_plan(query) is None:
        return None
    # A client that makes no proofs loads nothing of them.
    from tacit.validity.noise_bound import DEFAULT_TAIL, Tail

    total = DEFAULT_TAIL if query.noise_tail is None else query.noise_tail
    return Tail(query.n_max, sum(part.dimension for part in parts(query)), total)


def arithmetic_problem(query: QueryFields) -> tuple[str, str] | None:
    """The field to blame and the reason, if the query's numbers do not fit the machine's.

    Every contribution, and the square of every reading, stays within 62 bits; no sum of `n_max`
    contributions wraps, even without noise; every noise scale is one that the sampler serves.
    """
    groups = parts(query)
    grain = "blocks" if query.blocks else "resolution"
    if (field := _too_coarse(query)) is not None:
        return field, "a bound is below one ring unit: rounding would leave nothing"
    if any(part.largest > MAX_QUANTITY for part in groups):
        return grain, "max_readings readings (or their squares) pass 62 bits: choose it coarser"
    modulus = scheme(query).modulus
    if not all(headroom(query.n_max, part.largest, 0, modulus) for part in groups):
        return "n_max", "a sum of this many contributions could wrap"
    for plan in (curator_plan(query), aggregator_plan(query)):
        if plan is not None and max(plan.scales) > SCALE_LIMIT:
            return grain, f"a noise scale passes {SCALE_LIMIT} ring units: choose it coarser"
    return None


def _too_coarse(query: QueryFields) -> str | None:
    """The field to blame if the resolution is larger than a bound that readings are clamped to."""
    if query.function in (Function.COUNT, Function.HISTOGRAM):
        return None
    low, high = query.bounds
    centred = query.function in (Function.MEAN, Function.VARIANCE)
    largest = high - low if centred else max(abs(low), abs(high))
    if query.blocks:
        small = any(min(largest, each.l1_bound) < each.resolution for each in query.blocks)
        return "blocks" if small else None
    if query.l1_bound is not None and query.l1_bound < query.resolution:
        return "l1_bound"
    return "resolution" if largest < query.resolution else None


def noisy_aggregators(query: QueryFields) -> int:
    """How many aggregators' noise a released sum is sure to hold."""
    if query.sharing is Sharing.SHAMIR:
        return query.c_noise or 0  # mechanism exact declares none
    return query.aggregators


def shares_its_noise(query: QueryFields) -> bool:
    """Whether aggregators share their noise before the freeze, as a contribution.

    Noise cannot be added to a Shamir share; under additive sharing it joins the partial sum.
    """
    return query.sharing is Sharing.SHAMIR and aggregator_plan(query) is not None


def draw(plan: NoisePlan, source: NoiseSource, count: int) -> Ints:
    """The noise of `count` contributions, (count, sum of dimensions) ring units."""
    if plan.weight != 1:
        return polya_shares(source, plan.scales, plan.dimensions, plan.weight, count)
    return probabilistic_laplace(source, plan.scales, plan.dimensions, plan.probability, count)


def draw_total(plan: NoisePlan, source: NoiseSource, contributions: int) -> Ints:
    """The total noise of this many contributions, (sum of dimensions,), without each of them.

    Shares of weight r add up to one of weight n r: whole discrete Laplaces, and one share of the
    rest. With coins as many Laplaces count as coins say, one number for all coordinates; all are
    drawn, so that the time does not reveal how many. Spec: validity, section 5.
    """
    whole, rest = divmod(contributions * plan.weight, 1)
    total = np.zeros(sum(plan.dimensions), np.int64)
    step = max(1, _TOGETHER // total.size)
    for start in range(0, whole, step):
        rows = min(step, whole - start)
        total += probabilistic_laplace(
            source, plan.scales, plan.dimensions, plan.probability, rows
        ).sum(axis=0)
    if rest:
        total += polya_shares(source, plan.scales, plan.dimensions, rest, 1).sum(axis=0)
    return total


def draw_by_local_sensitivity(
    plan: NoisePlan, sensitivities: tuple[int, ...], local: Ints, source: NoiseSource
) -> Ints:
    """The thesis's noise: each curator's scale from its own data (`paper` stance only).

    `sensitivities`: the declared ones from which the plan's scales are computed; `local`: (count,
    parts) ring units. A curator whose readings are all zero draws nothing, as the source has it.
    """
    count = local.shape[0]
    coins = Bernoulli(plan.probability).draw(source, count)
    noise = np.zeros((count, sum(plan.dimensions)), np.int64)
    start = 0
    for column, (scale, dimension) in enumerate(zip(plan.scales, plan.dimensions, strict=True)):
        # A table for each scale is expensive: one for each sensitivity among those that draw.
        for own in np.unique(local[coins, column]):
            rows = np.flatnonzero(coins & (local[:, column] == own))
            if own > 0:
                sampler = DiscreteLaplace(scale * Fraction(int(own), sensitivities[column]))
                drawn = sampler.draw(source, rows.size * dimension)
                noise[rows, start : start + dimension] = drawn.reshape(rows.size, dimension)
        start += dimension
    return noise


def _plan(
    query: QueryFields,
    epsilon: Fraction,
    *,
    probability: Fraction = Fraction(1),
    weight: Fraction = Fraction(1),
) -> NoisePlan:
    groups = parts(query)
    return NoisePlan(
        tuple(part.sensitivity / (epsilon * part.epsilon_share) for part in groups),
        tuple(part.dimension for part in groups),
        probability,
        weight,
    )


def scheme(query: QueryFields) -> Scheme:
    """The sharing that a query names; `none` (local mode) is additive sharing with one piece."""
    if query.sharing is Sharing.SHAMIR:
        assert query.threshold is not None
        return Shamir(query.threshold, query.aggregators)
    return Additive(query.aggregators)
