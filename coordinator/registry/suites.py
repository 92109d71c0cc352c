"""Which suites the parties can do, and so which format a round may have. Spec: keys, section 3.

The rounds of a deployment are of one format: a descriptor is one hash, and two populations would be
two sums. Once a round of format 2 was opened, parties that took part in it refuse format 1 for
good, and so the format never goes back by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

import numpy as np

from common.runtime.clock import Clock
from common.store.transactions import Database, Transaction
from coordinator.errors import SuitesRefused, UnknownParty
from coordinator.store import registry
from coordinator.store import suites as store
from tacit import sets
from tacit.crypto.signing import SignatureBroken, Signed, verify
from tacit.protocol.suites import SUITES_LABEL, Suites

FormatSetting = Literal["1", "2", "auto"]
IN_USE: Final = timedelta(days=30)
"""A party that delivered within it is taken to be in use."""
NOTED_EVERY: Final = timedelta(days=1)
SHOWN: Final = 100


@dataclass(frozen=True)
class Formats:
    """What format the next round has, by `TACIT_ROUND_FORMAT`."""

    setting: FormatSetting
    key_per_round: bool

    async def next(self, transaction: Transaction, now: datetime) -> int:
        """1 or 2. `auto`: 2 once no party in use needs 1, and ever after."""
        if self.setting != "auto":
            return int(self.setting)
        if await store.highest_format(transaction) == 2:
            return 2
        return 1 if await store.laggards(transaction, 2, now - IN_USE, 1) else 2

    async def may_be_first(self, transaction: Transaction) -> bool:
        """Whether a round of format 1 can stand in for one of format 2 whose aggregators know no
        seal keys."""
        return self.setting == "auto" and await store.highest_format(transaction) == 1


async def announce(database: Database, clock: Clock, party: str, signed: Signed[Suites]) -> None:
    """Keep what a party says it can do. Raises UnknownParty or SuitesRefused."""
    async with database.begin() as transaction:
        known = await registry.party(transaction, party)
        if known is None:
            raise UnknownParty
        try:
            said = verify(SUITES_LABEL, signed, known.identity_key)
        except SignatureBroken:
            raise SuitesRefused("it is not signed by this party", pointer="/signature") from None
        if said.party != party:
            raise SuitesRefused("it is of another party", pointer="/statement/party")
        await store.put_suite(transaction, party, max(said.suites), said.software, clock.now())


async def note_delivered(
    transaction: Transaction, members: bytes, roster_size: int, now: datetime
) -> None:
    """Whose curators are in a sum that is released now; of each party once a day."""
    stale = await store.seen_before(transaction, now - NOTED_EVERY, roster_size)
    if not stale:
        return
    before = np.concatenate([[0], np.cumsum(sets.unpack(members, roster_size))])
    present = [
        party
        for party, first, curators in stale
        if before[min(first + curators, roster_size)] > before[first]
    ]
    await store.mark_delivered(transaction, present, now)
