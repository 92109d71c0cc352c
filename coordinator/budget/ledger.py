"""The ledger against the store: catching up, appending, verifying.

The events are the truth; the state is folded from them in memory, in every process. Who writes
holds the ledger's lock, catches up, decides on the state, and appends in the same transaction as
what it decides: two rounds that are opened at one instant cannot both be let in by the same budget.
A ledger that does not verify lets nothing be opened until an operator has looked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from common.models.round import RoundDescriptor
from common.service.clock import Clock
from common.service.database import exclusive, reading
from common.service.logs import get_logger
from common.signing import Signed
from coordinator.budget.events import Break, Draft, Event, Kind, chain, first_break
from coordinator.budget.figures import Disclosure, reopened
from coordinator.budget.state import LedgerState
from coordinator.errors import LedgerBroken
from coordinator.store import ledger as store

LOCK = "ledger"
SYSTEM = "system"
HEADS_LOOKED_AT = 100
log = get_logger("tacit.ledger")


class Ledger:
    """The ledger of one process."""

    def __init__(self, engine: AsyncEngine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._disclosures: dict[str, Disclosure] = {}
        self._state = LedgerState(self._disclosures.__getitem__)
        self.broken: Break | None = None

    async def load(self) -> None:
        """Verify the whole chain and fold it; take in who was enrolled before there was a ledger.

        What does not verify is kept in `broken`, and nothing can be appended.
        """
        async with reading(self._engine) as connection:
            rebuilt, self.broken = await self._rebuild(connection)
        if self.broken is not None:
            log.error("ledger_broken", row=self.broken.seq, reason=self.broken.reason)
            return
        self._state = rebuilt
        async with self._engine.begin() as connection:
            await exclusive(connection, LOCK)
            if (await store.head(connection))[0] == 0:
                await self._found(connection)
        await self.checkpoint()

    async def readiness(self) -> str | None:
        """For readiness: nothing when the ledger verified, else where it broke."""
        return None if self.broken is None else f"row {self.broken.seq}: {self.broken.reason}"

    async def _found(self, connection: AsyncConnection) -> None:
        drafts = []
        for party, first, count, left in await store.runs_of_parties(connection):
            drafts.append(Draft(Kind.JOINED, SYSTEM, {"party": party}, first, count))
            if left:
                drafts.append(Draft(Kind.LEFT, SYSTEM, {"party": party}, first, count))
        if drafts:
            await self.append(connection, drafts)

    @property
    def folded(self) -> LedgerState:
        """The state as far as this process has folded it: for metrics, not for decisions."""
        return self._state

    async def current(self, connection: AsyncConnection) -> LedgerState:
        """The state after the newest event that this connection sees. Raises LedgerBroken."""
        if self.broken is not None:
            raise LedgerBroken(self.broken.reason, extra={"row": self.broken.seq})
        async for events in store.chunks(connection, self._state.seq):
            await self._disclose(connection, events)
            for event in events:
                if event.seq > self._state.seq:  # another task may have been faster
                    self._state.fold(event)
        return self._state

    async def follow(self, connection: AsyncConnection) -> None:
        """Fold what was appended, also by other processes, as long as the ledger verifies."""
        if self.broken is None:
            await self.current(connection)

    async def append(self, connection: AsyncConnection, drafts: Sequence[Draft]) -> list[Event]:
        """Append events; the caller holds the lock. They are folded when they are committed."""
        if self.broken is not None:
            raise LedgerBroken(self.broken.reason, extra={"row": self.broken.seq})
        seq, head = await store.head(connection)
        now = self._clock.now()
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)
        events = list(chain(drafts, seq, head, now))
        await store.add(connection, events)
        return events

    async def head(self, connection: AsyncConnection) -> tuple[int, bytes]:
        """(number, hash) of the newest event."""
        return await store.head(connection)

    async def checkpoint(self) -> None:
        """Write down what the state is, for the next start to compare with."""
        async with reading(self._engine) as connection:
            state, known = await self.current(connection), await store.checkpoint(connection)
            if known is not None and known.seq >= state.seq:
                return
            snapshot = state.snapshot()
        figures = await asyncio.to_thread(snapshot.figures)  # a second for a million
        async with self._engine.begin() as connection:
            await exclusive(connection, LOCK)
            await store.put_checkpoint(connection, figures)

    async def verify(self, connection: AsyncConnection) -> Break | None:
        """Look at every row, at the checkpoint, and at the heads that round descriptors carry.

        The first bad row; None if the ledger is whole.
        """
        return (await self._rebuild(connection))[1]

    async def _rebuild(self, connection: AsyncConnection) -> tuple[LedgerState, Break | None]:
        rebuilt = LedgerState(self._disclosures.__getitem__)
        known = await store.checkpoint(connection)
        async for events in store.chunks(connection):
            found = await asyncio.to_thread(first_break, events, rebuilt.seq, rebuilt.head)
            if found is not None:
                return rebuilt, found
            for event in events:
                try:
                    await self._disclose(connection, [event])
                    rebuilt.fold(event)
                except (KeyError, ValueError, TypeError):
                    return rebuilt, Break(event.seq, "the row cannot follow from those before it")
                if known is not None and event.seq == known.seq:
                    figures = await asyncio.to_thread(rebuilt.figures)
                    if figures != known:
                        reason = "the stored state is not what the rows lead to"
                        return rebuilt, Break(event.seq, reason)
        if known is not None and known.seq > rebuilt.seq:
            reason = f"the tail is missing: row {known.seq} was there once"
            return rebuilt, Break(rebuilt.seq + 1, reason)
        return rebuilt, await self._heads(connection, rebuilt.seq)

    async def _heads(self, connection: AsyncConnection, last: int) -> Break | None:
        for text in await store.newest_descriptors(connection, HEADS_LOOKED_AT):
            descriptor = Signed[RoundDescriptor].model_validate_json(text).statement
            if descriptor.ledger is None:
                continue
            seq, head = descriptor.ledger.seq, descriptor.ledger.head
            if seq > last:
                return Break(last + 1, f"the tail is missing: a round carries row {seq}")
            if await store.hash_of(connection, seq) != head:
                return Break(seq, f"round {descriptor.round} carries another hash of this row")
        return None

    async def _disclose(self, connection: AsyncConnection, events: Sequence[Event]) -> None:
        """Have the disclosures at hand that these events name; ValueError for a changed one."""
        wanted = {
            digest
            for event in events
            if isinstance(digest := event.payload.get("disclosed"), str)
            and digest not in self._disclosures
        }
        if wanted:
            for digest, body in (await store.load_disclosures(connection, wanted)).items():
                self._disclosures[digest] = reopened(digest, body)
