"""Room in the ring: no sum may wrap (spec: aggregation, section 2).

Per coordinate, n_max * max|f| + noise tail at 2^-64 < modulus / 2. The tail t of all noise there
can be, P(|Z| >= t) <= 2^-64, is Chernoff's: for every theta below 1/b of the widest layer

    t = (65 ln 2 + sum over layers n r ln M(theta)) / theta,
    M(theta) = (1-a)^2 / ((1 - a e^theta) (1 - a e^-theta)),

the least over a few theta. A coin only takes noise away: M >= 1, so the worst is that all draw.
A wrap would spoil a result, not privacy. The sums of a proved query lie in its prime field, and
clamped noise of curators reaches no further than its bound: spec: validity, section 6.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

from tacit.accounting.error import all_draws
from tacit.accounting.loss.draws import Draws
from tacit.query.fixedpoint import headroom
from tacit.query.functions import parts
from tacit.query.mechanisms import aggregator_plan, scheme
from tacit.query.query import Query
from tacit.query.words import Validity

TAIL_BITS: Final = 64
_MARGIN: Final = 1.0001
_THETAS: Final = tuple(step / 100 for step in range(1, 100))


def noise_tail(layers: tuple[Draws, ...]) -> int:
    """A t with P(|Z| >= t) <= 2^-64 for the sum of all draws, in ring units."""
    layers = tuple(layer for layer in layers if layer.parties and layer.probability)
    if not layers:
        return 0
    widest = float(max(layer.scale for layer in layers))
    best = math.inf
    for share in _THETAS:
        theta = share / widest
        growth = sum(float(layer.total) * _log_moment(layer, theta) for layer in layers)
        best = min(best, ((TAIL_BITS + 1) * math.log(2) + growth) / theta)
    return math.ceil(best * _MARGIN)


def _log_moment(layer: Draws, theta: float) -> float:
    rate = float(1 / layer.scale)
    return (
        2 * math.log(-math.expm1(-rate))
        - math.log(-math.expm1(theta - rate))
        - math.log(-math.expm1(-theta - rate))
    )


@lru_cache(maxsize=4096)  # an aggregator asks it in every round of a query
def headroom_problem(query: Query) -> str | None:
    """Why sums of this query could wrap; None if they cannot."""
    if query.validity is Validity.PROVED:
        return _proved_problem(query)
    modulus = scheme(query).modulus
    for index, part in enumerate(parts(query)):
        tail = noise_tail(all_draws(query, query.n_max, index))
        if not headroom(query.n_max, part.largest, tail, modulus):
            return (
                f"part {part.name}: {query.n_max} contributions of up to {part.largest} ring units "
                f"and noise of up to {tail} could pass {modulus // 2}, where sums wrap; "
                "choose a coarser resolution or a smaller n_max"
            )
    return None


def _proved_problem(query: Query) -> str | None:
    # A library without its extra `proofs` reads all other queries.
    from tacit.query.proofs import proof_plan, wrapping_part

    plan = aggregator_plan(query)
    tails = [0] * len(parts(query))
    if plan is not None:
        layers = (
            Draws(scale, query.aggregators, plan.weight, plan.probability) for scale in plan.scales
        )
        tails = [noise_tail((layer,)) for layer in layers]
    if (name := wrapping_part(query, tails)) is None:
        return None
    return (
        f"part {name}: {query.n_max} proved contributions and noise of up to {max(tails)} could "
        f"pass half of the field of {proof_plan(query).prime} elements, or 62 bits, where sums "
        "wrap; choose a coarser resolution or a smaller n_max"
    )
