"""Whether a query is accepted: what its rounds are charged, what the sound stance refuses, and
headroom in the ring.

What a round is charged, and what the sound stance refuses (spec: aggregation, section 7).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple

from tacit.accounting.amounts import UNVERIFIED, Cost, debited_delta, format_delta
from tacit.accounting.expected_error import all_draws
from tacit.accounting.guarantees import VerifiedLine, verified_line
from tacit.accounting.loss.rounding import Draws
from tacit.accounting.scenarios import Scenario
from tacit.query.encoding import headroom
from tacit.query.functions import parts
from tacit.query.mechanisms import aggregator_plan, scheme
from tacit.query.query import Query
from tacit.query.terms import Mechanism, Stance, Validity
from tacit.wire import format_exact


class Debit(NamedTuple):
    """What a round costs a curator: under the query's own assumption, and if all aggregators
    collude."""

    assumed: Cost
    all_corrupt: Cost

    @property
    def epsilon(self) -> Fraction | None:
        return self.assumed.epsilon

    @property
    def delta(self) -> Fraction | None:
        return self.assumed.delta

    @property
    def epsilon_all_corrupt(self) -> Fraction | None:
        return self.all_corrupt.epsilon

    @property
    def delta_all_corrupt(self) -> Fraction | None:
        return self.all_corrupt.delta


def sound_refusal(query: Query, operators: Sequence[str] | None = None) -> str | None:
    """Why the sound stance refuses this query; None if it is fit.

    It refuses what does not hold at the declared (epsilon, delta) under the query's own collusion.
    Whether `exact` and the paper stance are allowed is the deployment's choice, not this
    function's. Noise that cannot be drawn is refused before: such a query is not valid.
    """
    if query.mechanism is Mechanism.EXACT or query.stance is Stance.PAPER:
        return None
    line = verified_line(query, Scenario.ASSUMED, None, operators)
    if line.epsilon is None:
        return f"under the query's own collusion assumption nothing holds: {line.reason}"
    if Fraction(line.delta) > query.delta:
        return (
            "under the query's own collusion assumption delta is "
            f"{format_delta(line.delta)} at epsilon {format_exact(line.epsilon)}, above the "
            f"declared {format_exact(query.delta)}: {line.reason}"
        )
    return None


def debit(query: Query, operators: Sequence[str] | None = None) -> Debit:
    """What a curator's ledger is charged for one round: row e, and row d in the second column.

    Pass the operators of the round's aggregators, where they are known.
    """
    return Debit(
        _cost(verified_line(query, Scenario.ASSUMED, None, operators)),
        _cost(verified_line(query, Scenario.EVERYONE, None, operators)),
    )


def _cost(line: VerifiedLine) -> Cost:
    if line.epsilon is None:
        return UNVERIFIED
    return Cost(line.epsilon, debited_delta(line.delta))


# Room in the ring: no sum may wrap (spec: aggregation, section 2).
#
# Per coordinate, n_max * max|f| + noise tail at 2^-64 < modulus / 2. The tail t of all noise there
# can be, P(|Z| >= t) <= 2^-64, is Chernoff's: for every theta below 1/b of the widest layer
#
#     t = (65 ln 2 + sum over layers n r ln M(theta)) / theta,
#     M(theta) = (1-a)^2 / ((1 - a e^theta) (1 - a e^-theta)),
#
# the least over a few theta. A coin only takes noise away: M >= 1, so the worst is that all draw.
# A wrap would spoil a result, not privacy. The sums of a proved query lie in its prime field, and
# clamped noise of curators reaches no further than its bound: spec: validity, section 6.

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
