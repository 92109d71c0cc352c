"""Opens the rounds of scheduled queries: one for each period that is over, in order, also after any
downtime. Also does the periodic housekeeping.

A slot is opened once: the store refuses a second round of the same query and slot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

from sqlalchemy.exc import IntegrityError

from common.runtime.background import Repeating
from common.runtime.logs import get_logger
from common.store.database import exclusive
from common.web.grants import forget_grants
from common.web.idempotency import forget_before
from coordinator.queries import periods
from coordinator.rounds import opening
from coordinator.rounds.context import Conduct
from coordinator.rounds.opening import OpenRequest
from coordinator.store import queries
from coordinator.store import rounds as store
from coordinator.store.queries import QueryRow
from coordinator.store.tables import grants, idempotency_keys
from tacit.errors import DomainError

log = get_logger("tacit.schedule")

LOOK_S = 1.0
TIDY_S = 600.0
KEPT = timedelta(days=2)
MAX_UNFINISHED = 8
"""Rounds of one scheduled query at a time: what was missed is caught up in this stride."""


def lock(query_id: str) -> str:
    """The lock held while a scheduled query's round is opened, or its schedule is ended."""
    return f"schedule {query_id}"


class Scheduler(Repeating):
    """The coordinator's loop over scheduled queries: it opens rounds, the conductor advances them.
    Every process has one."""

    def __init__(self, conduct: Conduct, opened: Callable[[], None]) -> None:
        super().__init__("schedule", log, LOOK_S, version=conduct.database.version)
        self._conduct = conduct
        self._opened = opened
        self._problems: dict[str, str] = {}
        self._tidied: float | None = None

    async def look(self) -> bool:
        """Do what is due."""
        scheduled = await self.open_due()
        await self._tidy()
        return not scheduled

    async def open_due(self) -> int:
        """Open every round that is due; how many queries have a schedule."""
        async with self._conduct.database.reading() as transaction:
            found = await queries.scheduled(transaction)
            await self._conduct.ledger.follow(transaction)
        for query in found:
            try:
                while not self._pauses.ending:
                    slot = await self._slot_due(query)
                    if slot is None or not await self._open(query, slot):
                        break
                self._problems.pop(query.id, None)
            except DomainError as error:
                if self._problems.get(query.id) != error.name:  # once, not every second
                    log.warning("schedule_waits", query=query.id, problem=error.name)
                self._problems[query.id] = error.name
        return len(found)

    async def _slot_due(self, row: QueryRow) -> int | None:
        """The next period of a schedule whose window is over and that has no round yet."""
        schedule = row.query.schedule
        assert schedule is not None
        over = periods.over(schedule, self._conduct.clock.now())
        if not over:
            return None
        async with self._conduct.database.reading() as transaction:
            newest = await store.newest_slot(transaction, row.id)
            following = 0 if newest is None else newest + 1
            if following >= over:
                return None
            unfinished = await store.count_active(transaction, row.id)
        return following if unfinished < MAX_UNFINISHED else None

    async def _open(self, row: QueryRow, slot: int) -> bool:
        """Open the round of a slot; False where the schedule was stopped meanwhile."""
        schedule = row.query.schedule
        assert schedule is not None
        request = OpenRequest(query_id=row.id, window=periods.window(schedule, slot))
        prepared = await opening.prepare(self._conduct, row, request)
        try:
            async with self._conduct.database.begin() as transaction:
                await exclusive(transaction, lock(row.id))
                now = await queries.find(transaction, row.id)
                if now is None or now.stopped is not None:
                    return False
                await opening.add(self._conduct, transaction, prepared, slot)
        except IntegrityError:
            return True  # another replica opened it
        self._opened()
        return True

    async def _tidy(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._tidied is not None and now - self._tidied < TIDY_S:
            return
        self._tidied = now
        before = self._conduct.clock.now() - KEPT
        async with self._conduct.database.begin() as transaction:
            await forget_before(transaction, idempotency_keys, before)
            await forget_grants(transaction, grants, before)
        await self._conduct.ledger.checkpoint()
