"""What parties say they debited for a round, against what this ledger charges (spec: budget, 5).

The curators' own ledgers are the authority; a difference is shown, never settled here.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field
from sqlalchemy.ext.asyncio import AsyncConnection

from common import sets
from common.errors import Invalid
from common.models.base import Binary, WireModel
from common.service.clock import Clock
from coordinator.budget.state import LedgerState
from coordinator.errors import UnknownParty, UnknownRound
from coordinator.store import ledger as store
from coordinator.store import registry

NAMED = 100


class Acknowledgement(WireModel):
    """Whom of its curators a party debited: a bitmap in the order of its run of numbers."""

    members: Annotated[Binary, Field(max_length=1_250_000)]


async def acknowledge(
    connection: AsyncConnection,
    state: LedgerState,
    round_id: str,
    party_id: str,
    body: Acknowledgement,
    clock: Clock,
) -> None:
    """Keep a party's word. Raises UnknownRound, UnknownParty, Invalid."""
    if round_id not in state.spending.rounds:
        raise UnknownRound
    party = await registry.party(connection, party_id)
    if party is None:
        raise UnknownParty
    try:
        sets.unpack(body.members, party.curators)
    except ValueError as error:
        raise Invalid(str(error), pointer="/members") from None
    await store.put_acknowledgement(connection, round_id, party_id, body.members, clock.now())


async def differences(
    connection: AsyncConnection, state: LedgerState, round_id: str
) -> dict[str, Any]:
    """Curators that say they paid and are not charged here, and the other way round."""
    charge = state.spending.rounds.get(round_id)
    if charge is None:
        raise UnknownRound
    charged = state.spending.members_of(charge)
    said, known = np.zeros_like(charged), np.zeros_like(charged)
    parties = await store.list_acknowledgements(connection, round_id)
    for _, first, count, members in parties:
        known[first : first + count] = True
        said[first : first + count] = sets.unpack(members, count)
    only_there, only_here = known & said & ~charged, known & charged & ~said
    numbers = [*np.flatnonzero(only_there)[:NAMED], *np.flatnonzero(only_here)[:NAMED]]
    names = await store.curator_names(connection, [int(number) for number in numbers])
    return {
        "round": round_id,
        "state": charge.state,
        "charged": int(charged.sum()),
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
