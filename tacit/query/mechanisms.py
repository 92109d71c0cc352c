"""Which noise each party adds to a contribution or a partial sum (spec: aggregation, section 4).

A part of sensitivity Delta whose share of an epsilon is s gets scale b = Delta / (s epsilon):

- `two-layer` (thesis, Algorithm 4.1): every curator a discrete Laplace of Delta/epsilon_u with
  probability pr_u, every aggregator one of Delta/epsilon_s with probability pr_s; one coin per
  contribution.
- `local` (thesis, Algorithm 5.1): every curator a discrete Laplace of Delta/epsilon_i.
- `distributed`: Polya shares of weight 1/(min_participants - t_u) at curators, 1/(c_noise - t_s)
  at aggregators, so that the honest parties' shares alone hold one whole discrete Laplace.
- `exact`: no party adds noise.

With Gaussian noise (distributed alone; spec: profiles, section 3) the same weights share out a
variance instead: of a part of squared sensitivity D and share s of rho, with a little more for the
difference between a sum of discrete Gaussians and one of them,

    sigma^2 = D / (2 rho s) (1 + 2^-40).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from tacit.crypto.sharing import Additive, Scheme, Shamir
from tacit.noise.bits import Bernoulli
from tacit.noise.discrete_gaussian import DEVIATION_LIMIT
from tacit.noise.discrete_laplace import SCALE_LIMIT, DiscreteLaplace
from tacit.noise.gaussian_privacy import zcdp_rho
from tacit.noise.vector import gaussian, polya_shares, probabilistic_laplace
from tacit.query.encoding import Linear, headroom
from tacit.query.fields import RHO_STEPS, QueryFields
from tacit.query.functions import parts
from tacit.query.tables import cells
from tacit.query.terms import (
    MAX_DIMENSION,
    Function,
    Layer,
    Mechanism,
    Noise,
    Sharing,
    Validity,
)
from tacit.randomness import NoiseSource
from tacit.units import MAX_QUANTITY
from tacit.wire import format_exact

if TYPE_CHECKING:
    from tacit.validity.noise_bound import Tail

Ints = NDArray[np.int64]

_TOGETHER = 1 << 18
"""Numbers drawn at a time, about, of which only the total is kept."""


LEAST_DEVIATION: Final = 10
"""Ring units of one party's Gaussian noise, at least: sums of such noise are as private as one
Gaussian of their variance, but for less than 10^-300."""
SUM_OF_GAUSSIANS: Final = 1 + Fraction(1, 1 << 40)
"""By this factor variances are larger, for the difference between a sum and one Gaussian."""


@dataclass(frozen=True)
class GaussianPlan:
    """One party's Gaussian noise: the variance of what it draws, ring units squared, and a
    dimension for each part; `weight`: its share of the whole noise's variance."""

    variances: tuple[Fraction, ...]
    dimensions: tuple[int, ...]
    weight: Fraction = Fraction(1)

    @property
    def probability(self) -> Fraction:
        """Every party draws."""
        return Fraction(1)


@dataclass(frozen=True)
class LaplacePlan:
    """One party's noise: a scale and a dimension for each part.

    `weight` is the share of one discrete Laplace that the party draws; `probability` that it
    draws at all (one coin per contribution).
    """

    scales: tuple[Fraction, ...]
    dimensions: tuple[int, ...]
    probability: Fraction = Fraction(1)
    weight: Fraction = Fraction(1)


NoisePlan = LaplacePlan | GaussianPlan


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
            honest = query.min_participants - query.collusion.curators
            return _share_of_whole(query, Fraction(1, honest))
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
            honest = noisy_aggregators(query) - query.collusion.aggregators
            return _share_of_whole(query, Fraction(1, honest))
        case _:
            return None


def clamped_tail(query: QueryFields) -> Tail | None:
    """How much total variation the clamping of curators' noise can cost in a round; None if none
    is clamped. Spec: validity, section 5."""
    if query.validity is not Validity.PROVED or curator_plan(query) is None:
        return None
    # A client that makes no proofs loads nothing of them.
    from tacit.validity.noise_bound import DEFAULT_TAIL, Tail

    total = DEFAULT_TAIL if query.noise_tail is None else query.noise_tail
    return Tail(query.n_max, sum(part.dimension for part in parts(query)), total)


def arithmetic_problem(query: QueryFields) -> tuple[str, str] | None:
    """The offending field and the reason, if the query's numbers do not fit the machine's.

    Every contribution, and the square of every reading, stays within 62 bits; no sum of `n_max`
    contributions wraps, even without noise; every noise scale can be sampled.
    """
    groups = parts(query)
    grain = "blocks" if query.blocks else "resolution"
    if (long := _long_vector(query)) is not None:
        return long
    if (field := _too_coarse(query)) is not None:
        return field, "a bound is below one ring unit: rounding would leave nothing"
    if (window := _window_problem(query)) is not None:
        return window
    if any(part.largest > MAX_QUANTITY for part in groups):
        return grain, "max_readings readings (or their squares) pass 62 bits: choose it coarser"
    modulus = scheme(query).modulus
    if not all(headroom(query.n_max, part.largest, 0, modulus) for part in groups):
        return "n_max", "a sum of this many contributions could wrap"
    if is_gaussian(query):
        return _gaussian_problem(query, grain)
    for plan in (curator_plan(query), aggregator_plan(query)):
        if isinstance(plan, LaplacePlan) and max(plan.scales) > SCALE_LIMIT:
            return grain, f"a noise scale passes {SCALE_LIMIT} ring units: choose it coarser"
    return None


def _gaussian_problem(query: QueryFields, grain: str) -> tuple[str, str] | None:
    """The same for Gaussian noise: no share is too small for sums, none too large for the
    sampler."""
    if zcdp_of(query) == 0:
        return "epsilon", "with this delta no rho of 10^-12 or more gives it: choose it larger"
    for plan in (curator_plan(query), aggregator_plan(query)):
        if not isinstance(plan, GaussianPlan):
            continue
        if max(plan.variances) > DEVIATION_LIMIT**2:
            return (
                grain,
                f"a noise deviation passes {DEVIATION_LIMIT} ring units: choose it coarser",
            )
        least, part = min(zip(plan.variances, parts(query), strict=True), key=lambda pair: pair[0])
        if least >= LEAST_DEVIATION**2:
            continue
        small = f"one party's noise has a deviation below {LEAST_DEVIATION} ring units"
        if part.linear not in _OF_RESOLUTION:  # counts have the ring unit 1
            most = zcdp_of(query) * least / LEAST_DEVIATION**2
            works = format_exact(Fraction(math.floor(most * RHO_STEPS), RHO_STEPS))
            field = "epsilon" if query.rho is None else "rho"
            return field, (
                f"{small} in the part {part.name}: choose a rho of at most {works}, or a smaller "
                "part of split"
            )
        finer = math.isqrt(math.ceil(LEAST_DEVIATION**2 / least) - 1) + 1
        return grain, f"{small}: choose it finer, at most 1/{finer} of it"
    return None


_OF_RESOLUTION: Final = (Linear.SUM, Linear.SQUARES, Linear.VECTOR)


def _long_vector(query: QueryFields) -> tuple[str, str] | None:
    """The offending field if a vector is longer than its noise and bounds allow."""
    if query.columns is not None:
        many = cells(query.columns) > MAX_DIMENSION
        return ("columns", f"a table has at most {MAX_DIMENSION} cells") if many else None
    bounds = [block.window_bound for block in query.blocks or ()] or [query.window_bound]
    bounded = None not in bounds
    total = sum(part.dimension for part in parts(query))
    if total <= MAX_DIMENSION or (is_gaussian(query) and bounded):
        return None
    return "blocks" if query.blocks else "dimension", (
        f"more than {MAX_DIMENSION} coordinates need gaussian noise and a window_bound: choose "
        f"both, or at most {MAX_DIMENSION} coordinates"
    )


def _window_problem(query: QueryFields) -> tuple[str, str] | None:
    """The first bound on a window that truncation to whole units would spoil."""
    for part in parts(query):
        least = math.isqrt(100 * part.dimension - 1) + 1
        if part.window is not None and part.window.most < least:
            works = format_exact(least * part.value)
            field = "blocks" if query.blocks else "window_bound"
            return field, (
                f"a bound of {part.window.most} ring units on {part.dimension} coordinates would "
                f"be lost to rounding: at least {works} at this resolution, or a finer resolution"
            )
    return None


def _too_coarse(query: QueryFields) -> str | None:
    """The offending field if the resolution is larger than a bound to which readings are
    clamped."""
    counts = query.function is Function.TABLE and query.measure is None
    if counts or query.function in (Function.COUNT, Function.HISTOGRAM):
        return None
    low, high = query.bounds
    centred = query.function in (Function.MEAN, Function.VARIANCE)
    largest = high - low if centred else max(abs(low), abs(high))
    if query.blocks:
        small = any(min(largest, block.l1_bound) < block.resolution for block in query.blocks)
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
    if isinstance(plan, GaussianPlan):
        return gaussian(source, plan.variances, plan.dimensions, count)
    if plan.weight != 1:
        return polya_shares(source, plan.scales, plan.dimensions, plan.weight, count)
    return probabilistic_laplace(source, plan.scales, plan.dimensions, plan.probability, count)


def draw_total(plan: NoisePlan, source: NoiseSource, contributions: int) -> Ints:
    """The total noise of this many contributions, (sum of dimensions,), without each of them.

    Shares of weight r add up to one of weight n r: whole discrete Laplaces, and one share of the
    rest. With coins, as many Laplaces count as coins show true, the same number for all
    coordinates; all are drawn, so that the time does not reveal how many. Spec: validity,
    section 5. Gaussian shares are drawn as one of their total variance, which protects as much.
    """
    if isinstance(plan, GaussianPlan):
        together = tuple(contributions * variance for variance in plan.variances)
        total: Ints = gaussian(source, together, plan.dimensions, 1)[0]
        return total
    whole_draws, rest = divmod(contributions * plan.weight, 1)
    total = np.zeros(sum(plan.dimensions), np.int64)
    step = max(1, _TOGETHER // total.size)
    for start in range(0, whole_draws, step):
        rows = min(step, whole_draws - start)
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
    assert isinstance(plan, LaplacePlan)  # no source has Gaussian noise
    count = local.shape[0]
    coins = Bernoulli(plan.probability).draw(source, count)
    noise = np.zeros((count, sum(plan.dimensions)), np.int64)
    start = 0
    for column, (scale, dimension) in enumerate(zip(plan.scales, plan.dimensions, strict=True)):
        # A table for each scale is expensive: one for each sensitivity among those that draw.
        for sensitivity in np.unique(local[coins, column]):
            rows = np.flatnonzero(coins & (local[:, column] == sensitivity))
            if sensitivity > 0:
                sampler = DiscreteLaplace(scale * Fraction(int(sensitivity), sensitivities[column]))
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
) -> LaplacePlan:
    groups = parts(query)
    return LaplacePlan(
        tuple(part.sensitivity / (epsilon * part.epsilon_share) for part in groups),
        tuple(part.dimension for part in groups),
        probability,
        weight,
    )


def is_gaussian(query: QueryFields) -> bool:
    """Whether the noise of a query is Gaussian."""
    return query.noise is Noise.GAUSSIAN


@lru_cache(maxsize=512)
def zcdp_of(query: QueryFields) -> Fraction:
    """The rho of a Gaussian query: its own, or the largest multiple of 10^-12 with which its
    epsilon holds at its delta (0: none does)."""
    if query.rho is not None:
        return query.rho
    assert query.epsilon is not None
    most = zcdp_rho(float(query.epsilon), float(query.delta))
    return Fraction(math.floor(Fraction(most) * RHO_STEPS), RHO_STEPS)


def _share_of_whole(query: QueryFields, weight: Fraction) -> NoisePlan:
    """The share of this weight of the noise that covers the whole query."""
    if not is_gaussian(query):
        assert query.epsilon is not None
        return _plan(query, query.epsilon, weight=weight)
    groups, rho = parts(query), zcdp_of(query)
    variances = []
    for part in groups:
        assert part.squared_sensitivity is not None
        variance = part.squared_sensitivity / (2 * rho * part.epsilon_share) * SUM_OF_GAUSSIANS
        variances.append(weight * variance)
    return GaussianPlan(tuple(variances), tuple(part.dimension for part in groups), weight)


def scheme(query: QueryFields) -> Scheme:
    """The sharing that a query names; `none` (local mode) is additive sharing with one piece."""
    if query.sharing is Sharing.SHAMIR:
        assert query.threshold is not None
        return Shamir(query.threshold, query.aggregators)
    return Additive(query.aggregators)
