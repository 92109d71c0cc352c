"""Compares the debits that parties report for a round with this ledger's charges.

Spec: budget, section 5.

The curators' own ledgers are the authority; a difference is shown, never settled here.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from common.arrays import grown
from common.runtime.clock import Clock
from common.store.transactions import Transaction
from coordinator.budget.state import LedgerState
from coordinator.errors import UnknownParty, UnknownRound
from coordinator.store import ledger as store
from coordinator.store import registry
from tacit import sets
from tacit.errors import Invalid
from tacit.protocol.round.descriptor import RoundId
from tacit.wire import Binary, WireModel

NAMED = 100


class Acknowledgement(WireModel):
    """Which of its curators a party debited: a bitmap in the order of its run of numbers."""

    members: Annotated[Binary, Field(max_length=1_250_000)]


class CarriedAcknowledgement(Acknowledgement):
    """One party's for one round among several in one request: with its own token."""

    round: RoundId
    token: Annotated[str, Field(max_length=512)]


class Acknowledgements(WireModel):
    """What the parties of one process say of rounds."""

    reports: Annotated[tuple[CarriedAcknowledgement, ...], Field(min_length=1, max_length=1000)]


async def acknowledge(
    transaction: Transaction,
    state: LedgerState,
    round_id: str,
    party_id: str,
    body: Acknowledgement,
    clock: Clock,
) -> None:
    """Store a party's report. Raises UnknownRound, UnknownParty, Invalid."""
    if round_id not in state.spending.rounds:
        raise UnknownRound
    party = await registry.party(transaction, party_id)
    if party is None:
        raise UnknownParty
    try:
        sets.unpack(body.members, party.curators)
    except ValueError as error:
        raise Invalid(str(error), pointer="/members") from None
    await store.put_acknowledgement(transaction, round_id, party_id, body.members, clock.now())


async def differences(
    transaction: Transaction, state: LedgerState, round_id: str
) -> dict[str, Any]:
    """Curators reported as debited that are not charged here, and the reverse."""
    charge = state.spending.rounds.get(round_id)
    if charge is None:
        raise UnknownRound
    parties = await store.list_acknowledgements(transaction, round_id)
    # A party that enrolled after the round may say that it was in it.
    size = max((first + count for _, first, count, _ in parties), default=0)
    charged = grown(state.spending.members_of(charge), size)
    said, known = np.zeros_like(charged), np.zeros_like(charged)
    for _, first, count, members in parties:
        known[first : first + count] = True
        said[first : first + count] = sets.unpack(members, count)
    only_there, only_here = known & said & ~charged, known & charged & ~said
    numbers = [*np.flatnonzero(only_there)[:NAMED], *np.flatnonzero(only_here)[:NAMED]]
    names = await store.curator_names(transaction, [int(number) for number in numbers])
    return {
        "round": round_id,
        "state": charge.state,
        "charged": 0 if charge.credited else int(charged.sum()),
        "credited": int(charged.sum()) if charge.credited else 0,
        "acknowledged_by": [party for party, *_ in parties],
        "acknowledged": int(said.sum()),
        "not_acknowledged_yet": int((charged & ~known).sum()),
        "debited_but_not_charged": _part(only_there, names),
        "charged_but_not_debited": _part(only_here, names),
    }


def _part(members: sets.Bits, names: dict[int, str]) -> dict[str, Any]:
    numbers = np.flatnonzero(members)
    return {
        "curators": int(numbers.size),
        "some": [names[int(number)] for number in numbers[:NAMED] if int(number) in names],
    }
