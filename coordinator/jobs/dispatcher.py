"""Gives every queued job an attempt, and every job whose attempt was lost the next one.

Runs in the background of one coordinator process; several may share a database: an attempt is begun
by one conditional change of the job's row. An attempt whose lease has run out is lost, whoever
began it. Jobs run in workers; nothing here blocks the event loop.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import uuid4

from sqlalchemy.ext.asyncio import AsyncConnection

from common.models.job import JobState
from common.service.clock import uuid7
from common.service.database import reading
from common.service.logs import describe, get_logger
from coordinator.background import Pauses, finish
from coordinator.errors import UnknownDataset
from coordinator.jobs.attempts import Attempts, digest
from coordinator.jobs.cluster import Cluster, ClusterAway
from coordinator.jobs.link import Ticket
from coordinator.jobs.problems import WorkerLost, plain_problem
from coordinator.settings import CoordinatorSettings
from coordinator.store import jobs as store
from coordinator.store.jobs import AttemptRow, JobRow

log = get_logger("tacit.jobs")

LOOK_S: Final = 0.5
CANCEL_S: Final = 1.5
AWAY_S: Final = 2.0


class Dispatcher:
    """One process's hand on the queue."""

    def __init__(
        self,
        attempts: Attempts,
        cluster: Cluster,
        settings: CoordinatorSettings,
        changed: Callable[[], None],
    ) -> None:
        self._attempts, self._cluster, self._settings = attempts, cluster, settings
        self._engine, self._clock = attempts.engine, attempts.clock
        self._changed = changed
        self._replica = f"replica {uuid4().hex}"
        self._under_way: set[str] = set()
        self._pauses = Pauses()
        self._task: asyncio.Task[None] | None = None
        self._killing: set[asyncio.Task[None]] = set()
        self._starting: asyncio.Task[int] | None = None

    def start(self) -> None:
        """Begin to look."""
        self._task = asyncio.create_task(self._run(), name="jobs")

    async def stop(self) -> None:
        """Stop; what our own workers were at begins again with the next start."""
        self._pauses.end()
        tasks = [task for task in (self._task, *self._killing) if task is not None]
        await finish(tasks)
        under_way = sorted(self._under_way) if self._cluster.local else []
        await self._cluster.close()
        if under_way:
            async with self._engine.begin() as connection:
                for attempt_id in under_way:
                    await store.change_attempt(connection, attempt_id, until=self._clock.now())

    def wake(self) -> None:
        """Look at once: a job was queued or is to end."""
        self._pauses.wake()

    async def _run(self) -> None:
        while not self._pauses.ending:
            self._pauses.begin()
            pause = LOOK_S
            try:
                await self._look()
            except ClusterAway:
                pause = AWAY_S
            except Exception as error:
                log.error("dispatch_failed", **describe(error))
                pause = AWAY_S
            await self._pauses.pause(pause)

    # --- one look --------------------------------------------------------------------------------

    async def _look(self) -> None:
        async with reading(self._engine) as connection:
            running = await store.running(connection)
            live = {row.job_id: row for row in await store.live_attempts(connection)}
            waiting = await store.queued(connection, 1)
        await self._keep_offers(list(live.values()))
        lost = [job for job in running if await self._is_lost(job, live.get(job.id))]
        if lost or waiting:
            slots = await self._slots()
            if slots is not None:
                for job in lost:
                    await self._again(job)
                await self._fill(slots - len(self._under_way))

    async def _keep_offers(self, live: list[AttemptRow]) -> None:
        """An attempt of ours that waits for a worker is not lost."""
        soon = self._clock.now() + self._lease / 2
        kept = [
            row.id
            for row in live
            if row.state == store.OFFERED and row.id in self._under_way and row.until < soon
        ]
        if kept:
            async with self._engine.begin() as connection:
                for attempt_id in kept:
                    await store.change_attempt(connection, attempt_id, until=self._until())

    async def _is_lost(self, job: JobRow, attempt: AttemptRow | None) -> bool:
        """Whether a running job needs another attempt. One that is to end, and whose worker does
        not, is ended here."""
        now = self._clock.now()
        if job.cancelling is None:
            return attempt is None or attempt.until <= now
        late = now - job.cancelling >= timedelta(seconds=CANCEL_S)
        if attempt is None or attempt.state == store.OFFERED or late:
            await self._attempts.end(job.id, JobState.CANCELLED, None)
            if attempt is not None and attempt.state == store.HELD:
                self._kill(attempt.holder)
        return False

    async def _again(self, job: JobRow) -> None:
        """The attempt is lost: the next one, or the end."""
        if job.attempts >= self._settings.job_attempts:
            await self._attempts.end(job.id, JobState.FAILED, plain_problem(WorkerLost()))
        else:
            log.warning("attempt_lost", job=job.id, attempt=job.attempts)
            await self._begin(job)

    async def _slots(self) -> int | None:
        """How many attempts the workers take; None while they are being started, which may last:
        what runs is followed meanwhile."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._cluster.slots())
        await asyncio.wait([self._starting], timeout=LOOK_S)
        if not self._starting.done():
            return None
        starting, self._starting = self._starting, None
        return starting.result()

    async def _fill(self, free: int) -> None:
        """Begin queued jobs, the oldest first, while workers are free."""
        if free <= 0:
            return
        async with reading(self._engine) as connection:
            names = await store.queued(connection, free)
            jobs = [await store.find(connection, name) for name in names]
        for job in jobs:
            if job is not None:
                await self._begin(job)

    async def _begin(self, job: JobRow) -> None:
        """Begin the next attempt at a job, unless another replica does."""
        token, now = secrets.token_urlsafe(32), self._clock.now()
        row = AttemptRow(
            id=str(uuid7(self._clock)),
            job_id=job.id,
            number=job.attempts + 1,
            state=store.OFFERED,
            ticket_hash=digest(token),
            session_hash=None,
            holder=self._replica,
            until=self._until(),
        )
        async with self._engine.begin() as connection:
            gone = await self._gone(connection, job)
            begun = gone is None and await store.begin(
                connection, row, job.started or now, job.attempts
            )
        if gone is not None:
            await self._attempts.end(job.id, JobState.FAILED, gone)
            return
        if not begun:
            return
        self._changed()
        self._under_way.add(row.id)
        try:
            url = worker_url(self._settings)
            ended = partial(self._ended, row.id)
            await self._cluster.submit(Ticket(url, row.id, token), ended)
        except Exception:
            self._under_way.discard(row.id)
            raise

    async def _gone(self, connection: AsyncConnection, job: JobRow) -> dict[str, Any] | None:
        """What is wrong if the data was deleted meanwhile."""
        if job.dataset_id is None:
            return None
        try:
            await self._attempts.datasets.find(connection, job.dataset_id)
        except UnknownDataset as error:
            return plain_problem(error)
        return None

    def _ended(self, attempt_id: str) -> None:
        """Nothing of an attempt runs any more: if it left nothing, it is lost now."""
        self._under_way.discard(attempt_id)
        if not self._pauses.ending:
            task = asyncio.create_task(self._lose(attempt_id))
            self._killing.add(task)
            task.add_done_callback(self._killing.discard)

    async def _lose(self, attempt_id: str) -> None:
        async with self._engine.begin() as connection:
            await store.change_attempt(connection, attempt_id, until=self._clock.now())
        self.wake()

    def _kill(self, address: str) -> None:
        task = asyncio.create_task(self._cluster.kill(address))
        self._killing.add(task)
        task.add_done_callback(self._killing.discard)

    @property
    def _lease(self) -> timedelta:
        return timedelta(seconds=self._settings.job_lease_s)

    def _until(self) -> datetime:
        return self._clock.now() + self._lease


def worker_url(settings: CoordinatorSettings) -> str:
    """Where workers reach this service."""
    if settings.job_url is not None:
        return settings.job_url.rstrip("/")
    if settings.public_url is not None and settings.dask_scheduler is not None:
        return settings.public_url.rstrip("/")
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host
    scheme = "http" if settings.tls_certificate is None else "https"
    return f"{scheme}://{host}:{settings.port}"
