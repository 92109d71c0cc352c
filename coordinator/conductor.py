"""The conductor carries every unfinished round forward, also after a restart or a dead replica.

Each round is one task that looks at the stored state, makes the one transition that is due, and
looks again. A replica conducts the rounds whose lease it holds. Scheduled queries open their rounds
here, one for each period that is over, however long the service was down.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from uuid import uuid4

import structlog
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from common.errors import DomainError
from common.models.query import Window
from common.models.round import RoundState
from common.service.database import reading
from common.service.logs import describe
from coordinator import rounds, store
from coordinator.rounds import Conduct, OpenRequest, RoundAborted
from coordinator.store import QueryRow, RoundRow

log = structlog.get_logger("tacit.conductor")

RETRY_S = 0.5
SCHEDULE_S = 1.0


class Conductor:
    """Runs in the background of one coordinator process."""

    def __init__(
        self, conduct: Conduct, *, lease_s: float, poll_s: float, changed: Callable[[], None]
    ) -> None:
        self._conduct = conduct
        self._lease_s = lease_s
        self._poll_s = poll_s
        self._changed = changed
        self._holder = uuid4().hex
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to conduct."""
        self._loop = asyncio.create_task(self._run(), name="conductor")

    async def stop(self) -> None:
        """Stop where every round stands, and give the leases back."""
        tasks = [*self._tasks.values(), *([self._loop] if self._loop else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        async with self._conduct.engine.begin() as connection:
            now = self._conduct.clock.now()
            await store.release_lease(connection, self._holder, now)

    def wake(self) -> None:
        """Look at once: a round was opened, or an operator wants one closed."""
        self._wake.set()

    async def _run(self) -> None:
        while True:
            try:
                await self._open_scheduled()
                await self._claim()
            except Exception as error:
                log.error("conductor_failed", **describe(error))
            self._wake.clear()
            try:
                async with asyncio.timeout(min(SCHEDULE_S, self._lease_s / 3)):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _claim(self) -> None:
        now = self._conduct.clock.now()
        async with self._conduct.engine.begin() as connection:
            until = now + timedelta(seconds=self._lease_s)
            held = await store.claim_rounds(connection, self._holder, now, until)
        for round_id in held:
            if round_id not in self._tasks:
                task = asyncio.create_task(self._carry(round_id), name=f"round {round_id}")
                self._tasks[round_id] = task
                task.add_done_callback(partial(self._finished, round_id))
        for round_id in set(self._tasks) - set(held):
            self._tasks[round_id].cancel()

    def _finished(self, round_id: str, _: asyncio.Task[None]) -> None:
        self._tasks.pop(round_id, None)

    async def _carry(self, round_id: str) -> None:
        while True:
            async with reading(self._conduct.engine) as connection:
                row = await rounds.find(connection, round_id)
            if row.state in (RoundState.RELEASED, RoundState.ABORTED):
                return
            pause = await self._step(row)
            self._changed()
            if pause:
                await asyncio.sleep(pause)

    async def _step(self, row: RoundRow) -> float:
        """Make the transition that is due; seconds to wait before the next look."""
        try:
            return await self._advance(row)
        except RoundAborted as reason:
            await rounds.abort(self._conduct, row, str(reason))
        except rounds.ENDINGS as ending:
            await rounds.abort(self._conduct, row, ending.title)
        except DomainError as error:
            if self._out_of_patience(row):
                await rounds.abort(self._conduct, row, error.detail)
                return 0
            log.warning("round_waits", round=row.id, state=row.state.value, problem=error.name)
            return RETRY_S
        except Exception as error:
            log.error("round_failed", round=row.id, state=row.state.value, **describe(error))
            return RETRY_S * 4
        return 0

    async def _advance(self, row: RoundRow) -> float:
        match row.state:
            case RoundState.OPEN if not row.announced:
                await rounds.announce(self._conduct, row)
            case RoundState.OPEN:
                left = (row.deadline - self._conduct.clock.now()).total_seconds()
                due = left <= 0 or row.closing
                if not due and not await rounds.all_delivered(self._conduct, row):
                    return min(self._poll_s, max(left, 0.01))
                await rounds.freeze(self._conduct, row)
            case RoundState.FROZEN:
                await rounds.commit(self._conduct, row)
            case RoundState.COMMITTED:
                await rounds.release(self._conduct, row)
            case _:
                pass
        return 0

    def _out_of_patience(self, row: RoundRow) -> bool:
        waited = self._conduct.clock.now() - row.deadline
        return waited.total_seconds() > self._conduct.patience_s

    async def _open_scheduled(self) -> None:
        async with reading(self._conduct.engine) as connection:
            due = [
                (query, slot)
                for query in await store.scheduled_queries(connection)
                if (slot := await self._slot_due(connection, query)) is not None
            ]
        for query, slot in due:
            assert query.query.schedule is not None
            period = timedelta(seconds=query.query.schedule.period_s)
            start = query.query.schedule.first_start + slot * period
            request = OpenRequest(query_id=query.id, window=Window(start=start, end=start + period))
            try:
                await rounds.open_round(self._conduct, query, request, slot)
            except IntegrityError:
                continue  # another replica opened it
            except DomainError as error:
                log.warning("schedule_waits", query=query.id, problem=error.name)

    async def _slot_due(self, connection: AsyncConnection, query: QueryRow) -> int | None:
        """The next period of a schedule whose window is over and that has no round yet."""
        schedule = query.query.schedule
        assert schedule is not None
        since = (self._conduct.clock.now() - schedule.first_start).total_seconds()
        over = int(since // schedule.period_s) - 1
        newest = await store.newest_slot(connection, query.id)
        following = 0 if newest is None else newest + 1
        return following if following <= over else None
