"""Opens the rounds of scheduled queries, and drops what rounds said once their retention is over.

One round for each period that is over, in order, also after any downtime; the store refuses a
second round of a slot. Spec: aggregation, section 8: what is old is dropped a few rounds in each
transaction; every step is whole and can be repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from prometheus_client import Counter
from sqlalchemy.exc import IntegrityError

from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.runtime.tasks import Repeating
from common.runtime.telemetry import ServiceMetrics
from common.store.database import exclusive
from common.store.transactions import Database
from common.web.grants import forget_grants
from common.web.idempotency import forget_before
from coordinator import queries as periods
from coordinator.budget.ledger import HEADS_LOOKED_AT
from coordinator.rounds import opening
from coordinator.rounds.context import Conduct
from coordinator.rounds.opening import OpenRequest
from coordinator.store import queries, rounds
from coordinator.store import round_details as store
from coordinator.store.queries import QueryRow
from coordinator.store.tables import grants, idempotency_keys
from tacit.errors import DomainError

LOCK: Final = "retention"
EXPIRY_LOOK_S: Final = 60.0
AT_ONCE: Final = 50
"""Rounds that share a transaction: others that write wait for it."""
REST_S: Final = 0.05
_log = get_logger("tacit.expiry")


class Expiry(Repeating):
    """Expires rounds that ended more than `retention_s` ago; None: never.

    The newest rounds stay complete whatever their age: their descriptors have heads of the
    ledger, against which it is checked at a start (`coordinator.budget.ledger`).
    """

    def __init__(
        self, database: Database, clock: Clock, retention_s: float | None, metrics: ServiceMetrics
    ) -> None:
        super().__init__("expiry", _log, EXPIRY_LOOK_S)
        self._database, self._clock = database, clock
        self._retention = None if retention_s is None else timedelta(seconds=retention_s)
        self._expired: Counter = metrics.counter(
            "rounds_expired", "Rounds whose content this process dropped after their retention."
        )

    async def look(self) -> None:
        """Expire all that are due."""
        while self._retention is not None and not self._pauses.ending:
            now = self._clock.now()
            async with self._database.begin() as transaction:
                await exclusive(transaction, LOCK)
                expired = await store.expire(
                    transaction,
                    now - self._retention,
                    now,
                    spared=HEADS_LOOKED_AT,
                    limit=AT_ONCE,
                )
            self._expired.inc(expired)
            if expired < AT_ONCE:
                return
            await self._pauses.pause(REST_S)


log = get_logger("tacit.schedule")

LOOK_S = 1.0
TIDY_S = 600.0
KEPT = timedelta(days=2)
MAX_UNFINISHED = 8
"""Rounds of one scheduled query at a time: what was missed is caught up in this stride."""


def lock(query_id: str) -> str:
    """The lock under which a scheduled query's round is opened, or its schedule is ended."""
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
            scheduled_queries = await queries.scheduled(transaction)
            await self._conduct.ledger.follow(transaction)
        for query in scheduled_queries:
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
        return len(scheduled_queries)

    async def _slot_due(self, row: QueryRow) -> int | None:
        """The next period of a schedule whose window is over and that has no round yet."""
        schedule = row.query.schedule
        assert schedule is not None
        over = periods.periods_over(schedule, self._conduct.clock.now())
        if not over:
            return None
        async with self._conduct.database.reading() as transaction:
            newest = await rounds.newest_slot(transaction, row.id)
            following = 0 if newest is None else newest + 1
            if following >= over:
                return None
            unfinished = await rounds.count_active(transaction, row.id)
        return following if unfinished < MAX_UNFINISHED else None

    async def _open(self, row: QueryRow, slot: int) -> bool:
        """Open the round of a slot; False if the schedule was stopped meanwhile."""
        schedule = row.query.schedule
        assert schedule is not None
        request = OpenRequest(query_id=row.id, window=periods.period_window(schedule, slot))
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
