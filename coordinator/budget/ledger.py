"""The ledger in the store: catching up, appending, verifying.

The events are authoritative; every process folds the state from them in memory. A writer holds the
ledger's lock, catches up, decides on the state, and appends in the same transaction as its
decision: two rounds opened at the same instant cannot both be admitted by the same budget. While a
ledger does not verify, nothing can be opened until an operator has examined it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.store.database import exclusive
from common.store.transactions import Database, Transaction
from coordinator.budget.state import LedgerState
from coordinator.errors import LedgerBroken
from coordinator.models.budget_events import Break, Draft, Event, Kind, chain, first_break
from coordinator.models.budget_figures import Disclosure, reopened
from coordinator.store import ledger as store
from tacit.crypto.signing import Signed
from tacit.protocol.round import RoundDescriptor

LOCK = "ledger"
SYSTEM = "system"
HEADS_LOOKED_AT = 100
log = get_logger("tacit.ledger")


class Ledger:
    """The ledger of one process."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._disclosures: dict[str, Disclosure] = {}
        self._state = LedgerState(self._disclosures.__getitem__)
        self.broken: Break | None = None

    async def load(self) -> None:
        """Verify the whole chain and fold it; add the curators enrolled before there was a ledger.

        A row that does not verify is kept in `broken`, and nothing can be appended.
        """
        async with self._database.reading(large=True) as transaction:
            rebuilt, self.broken = await self._rebuild(transaction)
        if self.broken is not None:
            log.error("ledger_broken", row=self.broken.seq, reason=self.broken.reason)
            return
        self._state = rebuilt
        async with self._database.begin() as transaction:
            await exclusive(transaction, LOCK)
            if (await store.head(transaction))[0] == 0:
                await self._found(transaction)
        await self.checkpoint()

    async def readiness(self) -> str | None:
        """For readiness: None when the ledger verified, else the first bad row."""
        return None if self.broken is None else f"row {self.broken.seq}: {self.broken.reason}"

    async def _found(self, transaction: Transaction) -> None:
        drafts = []
        for party, first, count, left in await store.runs_of_parties(transaction):
            drafts.append(Draft(Kind.JOINED, SYSTEM, {"party": party}, first, count))
            if left:
                drafts.append(Draft(Kind.LEFT, SYSTEM, {"party": party}, first, count))
        if drafts:
            await self.append(transaction, drafts)

    @property
    def folded(self) -> LedgerState:
        """The state as far as this process has folded it: for metrics, not for decisions."""
        return self._state

    async def current(self, transaction: Transaction) -> LedgerState:
        """The state after the newest event that this connection sees. Raises LedgerBroken."""
        if self.broken is not None:
            raise LedgerBroken(self.broken.reason, extra={"row": self.broken.seq})
        async for events in store.chunks(transaction, self._state.seq):
            await self._disclose(transaction, events)
            for event in events:
                if event.seq > self._state.seq:  # another task may have been faster
                    self._state.fold(event)
        return self._state

    async def follow(self, transaction: Transaction) -> None:
        """Fold what was appended, also by other processes, as long as the ledger verifies."""
        if self.broken is None:
            await self.current(transaction)

    async def append(self, transaction: Transaction, drafts: Sequence[Draft]) -> list[Event]:
        """Append events; the caller holds the lock. They are folded when they are committed."""
        if self.broken is not None:
            raise LedgerBroken(self.broken.reason, extra={"row": self.broken.seq})
        seq, head = await store.head(transaction)
        now = self._clock.now()
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)
        events = list(chain(drafts, seq, head, now))
        await store.add(transaction, events)
        return events

    async def head(self, transaction: Transaction) -> tuple[int, bytes]:
        """(number, hash) of the newest event."""
        return await store.head(transaction)

    async def checkpoint(self) -> None:
        """Store a checkpoint of the state, for the next start to compare with."""
        async with self._database.reading() as transaction:
            state, known = await self.current(transaction), await store.checkpoint(transaction)
            if known is not None and known.seq >= state.seq:
                return
            snapshot = state.snapshot()
        figures = await asyncio.to_thread(snapshot.figures)  # a second for a million
        async with self._database.begin() as transaction:
            await exclusive(transaction, LOCK)
            await store.put_checkpoint(transaction, figures)

    async def verify(self, transaction: Transaction) -> Break | None:
        """Check every row, the checkpoint, and the heads in round descriptors.

        The first bad row; None if the ledger is whole.
        """
        return (await self._rebuild(transaction))[1]

    async def _rebuild(self, transaction: Transaction) -> tuple[LedgerState, Break | None]:
        rebuilt = LedgerState(self._disclosures.__getitem__)
        known = await store.checkpoint(transaction)
        async for events in store.chunks(transaction):
            found = await asyncio.to_thread(first_break, events, rebuilt.seq, rebuilt.head)
            if found is not None:
                return rebuilt, found
            for event in events:
                try:
                    await self._disclose(transaction, [event])
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
        return rebuilt, await self._heads(transaction, rebuilt.seq)

    async def _heads(self, transaction: Transaction, last: int) -> Break | None:
        for text in await store.newest_descriptors(transaction, HEADS_LOOKED_AT):
            descriptor = Signed[RoundDescriptor].model_validate_json(text).statement
            if descriptor.ledger is None:
                continue
            seq, head = descriptor.ledger.seq, descriptor.ledger.head
            if seq > last:
                return Break(last + 1, f"the tail is missing: a round carries row {seq}")
            if await store.hash_of(transaction, seq) != head:
                return Break(seq, f"round {descriptor.round} carries another hash of this row")
        return None

    async def _disclose(self, transaction: Transaction, events: Sequence[Event]) -> None:
        """Load the disclosures that these events name; ValueError for a changed one."""
        wanted = {
            digest
            for event in events
            if isinstance(digest := event.payload.get("disclosed"), str)
            and digest not in self._disclosures
        }
        if wanted:
            for digest, body in (await store.load_disclosures(transaction, wanted)).items():
                self._disclosures[digest] = reopened(digest, body)
