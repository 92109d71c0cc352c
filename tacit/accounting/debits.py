"""What a round is charged, and what the sound stance refuses (spec: aggregation, section 7)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from tacit.accounting.costs import UNVERIFIED, Cost, debited_delta, format_delta
from tacit.accounting.guarantees import VerifiedLine, verified_line
from tacit.accounting.scenarios import Scenario
from tacit.query.query import Query
from tacit.query.words import Mechanism, Stance
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
