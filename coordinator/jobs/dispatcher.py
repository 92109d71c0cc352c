"""Starts an attempt at every queued job, and another one where an attempt was lost.

Runs in the background of one coordinator process; several may share a database: an attempt begins
with one conditional update of the job's row. An attempt of this process is lost when its worker has
ended, or Dask reports that its task has: a late heartbeat is no proof that its worker is dead. Any
other attempt (of another replica, or from before a restart) is lost when its lease has run out.
Jobs run in workers; nothing here blocks the event loop.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import uuid4

from common.runtime.clock import uuid7
from common.runtime.logs import get_logger
from common.runtime.tasks import Repeating, finish
from common.store.transactions import Transaction
from coordinator.errors import UnknownDataset
from coordinator.jobs.attempts import Attempts, digest
from coordinator.jobs.workers.cluster import Cluster, ClusterAway
from coordinator.jobs.workers.link import Ticket
from coordinator.jobs.workers.own_workers import OwnWorkers
from coordinator.models.job import JobState, WorkerLost, plain_problem
from coordinator.settings import CoordinatorSettings
from coordinator.store import jobs as store
from coordinator.store.jobs import AttemptRow, JobRow

log = get_logger("tacit.jobs")

LOOK_S: Final = 0.5
CANCEL_S: Final = 1.5
AWAY_S: Final = 2.0


class Dispatcher(Repeating):
    """The coordinator's loop over jobs on datasets: it begins attempts and replaces lost ones.
    Every process has one, with its own workers."""

    def __init__(
        self,
        attempts: Attempts,
        cluster: Cluster | OwnWorkers,
        settings: CoordinatorSettings,
        changed: Callable[[], None],
    ) -> None:
        super().__init__("dispatch", log, LOOK_S, retry_s=AWAY_S, version=attempts.database.version)
        self._attempts, self._cluster, self._settings = attempts, cluster, settings
        self._database, self._clock = attempts.database, attempts.clock
        self._changed = changed
        self._replica = f"replica {uuid4().hex}"
        self._under_way: set[str] = set()
        self._killing: set[asyncio.Task[None]] = set()
        self._starting: asyncio.Task[int] | None = None

    async def warm(self) -> None:
        """Start what the next job needs, where there is nothing yet."""
        await self._cluster.warm()

    async def stop(self) -> None:
        """Stop; attempts in our own workers are started again after the next start."""
        await super().stop()
        await finish(self._killing)
        under_way = sorted(self._under_way) if self._cluster.local else []
        await self._cluster.close()
        if under_way:
            async with self._database.begin() as transaction:
                for attempt_id in under_way:
                    await store.change_attempt(transaction, attempt_id, until=self._clock.now())

    async def look(self) -> bool:
        """Check what runs and begin what is queued; without Dask, pause for AWAY_S in total."""
        try:
            return not await self._dispatch()
        except ClusterAway:
            await self._pauses.pause(AWAY_S - LOOK_S)
            return False

    # --- one pass --------------------------------------------------------------------------------

    async def _dispatch(self) -> bool:
        """Whether any job runs or waits."""
        async with self._database.reading() as transaction:
            running = await store.running(transaction)
            live = {row.job_id: row for row in await store.live_attempts(transaction)}
            waiting = await store.queued(transaction, 1)
        await self._renew(list(live.values()))
        lost = [job for job in running if await self._is_lost(job, live.get(job.id))]
        if lost or waiting:
            slots = await self._slots()
            if slots is not None:
                for job in lost:
                    await self._again(job)
                await self._fill(slots - len(self._under_way))
        return bool(running or live or waiting)

    async def _renew(self, live: list[AttemptRow]) -> None:
        """Renew the leases of our attempts, whether they run or wait for a worker."""
        soon = self._clock.now() + self._lease / 2
        renewed = [row.id for row in live if row.id in self._under_way and row.until < soon]
        if renewed:
            async with self._database.begin() as transaction:
                for attempt_id in renewed:
                    if attempt_id in self._under_way:  # it may have ended before this write
                        await store.change_attempt(transaction, attempt_id, until=self._until())

    async def _is_lost(self, job: JobRow, attempt: AttemptRow | None) -> bool:
        """Whether a running job needs another attempt. Ends a job that is being cancelled but
        whose worker does not stop."""
        now = self._clock.now()
        if job.cancelling is None:
            return not self._lives(attempt)
        late = now - job.cancelling >= timedelta(seconds=CANCEL_S)
        if attempt is None or attempt.state == store.OFFERED or late:
            await self._attempts.end(job.id, JobState.CANCELLED, None)
            if attempt is not None and attempt.state == store.HELD:
                self._kill(attempt.holder)
        return False

    def _lives(self, attempt: AttemptRow | None) -> bool:
        """Whether an attempt may still have an outcome."""
        if attempt is None:
            return False
        return attempt.id in self._under_way or attempt.until > self._clock.now()

    async def _again(self, job: JobRow) -> None:
        """The attempt is lost: begin the next one, or end the job."""
        async with self._database.reading() as transaction:
            live = {row.job_id: row for row in await store.live_attempts(transaction)}
        if self._lives(live.get(job.id)):  # its heartbeat arrived meanwhile
            return
        if job.attempts >= self._settings.job_attempts:
            await self._attempts.end(job.id, JobState.FAILED, plain_problem(WorkerLost()))
        else:
            log.warning("attempt_lost", job=job.id, attempt=job.attempts)
            await self._begin(job)

    async def _slots(self) -> int | None:
        """How many attempts the workers can run; None while they start, which may take long and
        must not delay checks of running attempts."""
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
        async with self._database.reading() as transaction:
            names = await store.queued(transaction, free)
            jobs = [await store.find(transaction, name) for name in names]
        for job in jobs:
            if job is not None:
                await self._begin(job)

    async def _begin(self, job: JobRow) -> None:
        """Begin the next attempt at a job, unless another replica does."""
        token, now = secrets.token_urlsafe(32), self._clock.now()
        async with self._database.begin() as transaction:
            row = AttemptRow(
                id=str(uuid7(self._clock)),
                job_id=job.id,
                number=job.attempts + 1,
                state=store.OFFERED,
                ticket_hash=digest(token),
                session_hash=None,
                holder=self._replica,
                until=self._until(),
                generation=(await self._attempts.keys.hold(transaction)).generation,
            )
            gone = await self._gone(transaction, job)
            begun = gone is None and await store.begin(
                transaction, row, job.started or now, job.attempts
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

    async def _gone(self, transaction: Transaction, job: JobRow) -> dict[str, Any] | None:
        """The problem, if the data was deleted since."""
        if job.dataset_id is None:
            return None
        try:
            await self._attempts.datasets.find(transaction, job.dataset_id)
        except UnknownDataset as error:
            return plain_problem(error)
        return None

    def _ended(self, attempt_id: str) -> None:
        """An attempt has stopped running: without an outcome it is lost now."""
        self._under_way.discard(attempt_id)
        if not self._pauses.ending:
            task = asyncio.create_task(self._lose(attempt_id))
            self._killing.add(task)
            task.add_done_callback(self._killing.discard)

    async def _lose(self, attempt_id: str) -> None:
        async with self._database.begin() as transaction:
            await store.change_attempt(transaction, attempt_id, until=self._clock.now())
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
