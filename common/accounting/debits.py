"""What a round is charged, and what the sound stance refuses (spec: aggregation, section 7)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from common.accounting.costs import UNVERIFIED, Cost, debited_delta, shown_delta
from common.accounting.guarantees import VerifiedLine, verified_line
from common.accounting.scenarios import Scenario
from common.functions import parts
from common.mechanisms import aggregator_plan, curator_plan
from common.models.base import format_exact
from common.models.query import Mechanism, Query, Stance
from common.noise import SCALE_LIMIT


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


def noise_scale_problem(query: Query) -> str | None:
    """Why the noise cannot be drawn, if so."""
    for plan in (curator_plan(query), aggregator_plan(query)):
        if plan is None:
            continue
        for part, scale in zip(parts(query), plan.scales, strict=True):
            if scale <= 0:
                return (
                    f"part {part.name}: its sensitivity is 0 ring units; choose a finer resolution"
                )
            if scale > SCALE_LIMIT:
                return (
                    f"part {part.name}: the noise scale of {float(scale):.3g} ring units is above "
                    f"{SCALE_LIMIT}; choose a coarser resolution or a larger epsilon"
                )
    return None


def sound_refusal(query: Query, operators: Sequence[str] | None = None) -> str | None:
    """Why the sound stance refuses this query; None if it is fit.

    It refuses what does not hold at the declared (epsilon, delta) under the query's own collusion,
    and noise that cannot be drawn. Whether `exact` and the paper stance are allowed is the
    deployment's choice, not this function's: for them only the scale is checked.
    """
    if (problem := noise_scale_problem(query)) is not None:
        return problem
    if query.mechanism is Mechanism.EXACT or query.stance is Stance.PAPER:
        return None
    line = verified_line(query, Scenario.ASSUMED, None, operators)
    if line.epsilon is None:
        return f"under the query's own collusion assumption nothing holds: {line.reason}"
    if Fraction(line.delta) > query.delta:
        return (
            "under the query's own collusion assumption delta is "
            f"{shown_delta(line.delta)} at epsilon {format_exact(line.epsilon)}, above the "
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
