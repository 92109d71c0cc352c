"""Proposes curators that may be polluting a deployment, from the ledger: never a verdict.

Spec: budget, section 4. Two screens of `tacit.accounting.screening`, which need no private data:
declared bounds and attendance. The route is for operators alone.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from common.store.transactions import Database
from coordinator.budget.ledger import Ledger
from coordinator.budget.round_charges import STATES, RoundCharge
from coordinator.budget.state import LedgerState
from tacit.accounting.screening import Proposal, far_bounds, missed_rounds
from tacit.answers import budget as answers

Ints = NDArray[np.int64]
Bits = NDArray[np.bool_]

NAMED: Final = 1000
"""At most this many proposals of each screen are listed; all are counted."""
NEWEST: Final = 1000
"""At most this many released rounds are examined."""
SENTENCE: Final = (
    "A proposal is a question: a large industrial meter has large bounds, a weak radio misses "
    "rounds, and so does a curator whose own budget or policy refuses them. Only an operator turns "
    "it into flagged or non_compliant. Who declares bounds like the others' and takes part like "
    "the others is not seen, whatever its data."
)
_SCREENED: Final = {"sensitivity": 1, "largest_contribution": 2}
"""The declared figures that are screened, and their columns."""
_NANO: Final = 10**9


@dataclass(frozen=True)
class Seen:
    """The input of the screens at one moment: U (size,), the numbers (n,) in it with
    declarations, their declarations (n, 3), and released rounds."""

    members: Bits
    declaring: Ints
    declared: Ints
    rounds: tuple[RoundCharge, ...]


@dataclass(frozen=True)
class Found:
    """A proposal about a roster number. `field`: the declared figure that it is about, if any."""

    number: int
    proposal: Proposal
    field: str | None = None


def seen_in(state: LedgerState) -> Seen:
    """A copy of what the screens need, as the state may change while they run."""
    rounds = state.spending.rounds
    ended = np.flatnonzero(rounds.column("state") == STATES.index("released"))[-NEWEST:]
    charges = tuple(rounds.charge(int(place)) for place in ended)
    return Seen(state.roster.members().copy(), *state.roster.declarations(), charges)


def bounds_far_out(roster_seen: Seen) -> list[Found]:
    """Curators of U whose declared bounds are far from the others'."""
    return [
        Found(int(roster_seen.declaring[item.curator]), item, field)
        for field, column in _SCREENED.items()
        for item in far_bounds(roster_seen.declared[:, column] / _NANO)
    ]


def absences(roster_seen: Seen, alpha: float) -> list[Found]:
    """Curators of U that missed more of the rounds than chance explains."""
    invited, missed = attendance(roster_seen.rounds, roster_seen.members.size)
    numbers = np.flatnonzero(roster_seen.members & (invited > 0))
    absent = missed_rounds(invited[numbers], missed[numbers], alpha)
    return [Found(int(numbers[item.curator]), item) for item in absent]


def attendance(rounds: Sequence[RoundCharge], size: int) -> tuple[Ints, Ints]:
    """(size,) to how many of these rounds each number was invited, and how many it missed.

    Rounds with the same sets are counted together.
    """
    invited, missed = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for (asked, charged), times in Counter((item.invited, item.members) for item in rounds).items():
        if asked is None:
            continue
        expected, came = asked.bits(), charged.bits()
        absent = expected.copy()
        absent[: came.size] &= ~came[: absent.size]
        invited[: expected.size] += times * expected
        missed[: absent.size] += times * absent
    return invited, missed


def shown(
    proposals: Sequence[Found], names: Mapping[int, str], state: LedgerState
) -> list[answers.Proposal]:
    """The proposals of one screen as they are answered."""
    return [
        answers.Proposal(
            curator=names.get(item.number),
            number=item.number,
            status=state.roster.status(item.number).name.lower(),
            reason=item.proposal.reason.value,
            field=item.field,
            figures=item.proposal.figures,
        )
        for item in proposals[:NAMED]
    ]


async def screened(
    database: Database, ledger: Ledger, alpha: float
) -> tuple[LedgerState, Seen, Sequence[Found], Sequence[Found]]:
    """The state, its screened part, and the proposals: far bounds, missed rounds."""
    async with database.reading() as transaction:
        state = await ledger.current(transaction)
    attendance_seen = seen_in(state)
    far = await asyncio.to_thread(bounds_far_out, attendance_seen)
    absent = await asyncio.to_thread(absences, attendance_seen, alpha)
    return state, attendance_seen, far, absent
