"""Jobs in both databases: one attempt is begun, one lease is taken, one charge is made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from fastapi import FastAPI
from sqlalchemy import select

from algorithms.datasets.declaration import DatasetRequest
from common.runtime.clock import ManualClock, uuid7
from common.store.transactions import Database
from common.web.dependencies import part_of
from coordinator.datasets import ledger
from coordinator.datasets.datasets import Datasets
from coordinator.errors import AttemptOver, AttemptRefused, LeaseUsed
from coordinator.jobs.attempts import digest
from coordinator.jobs.dispatcher import Dispatcher
from coordinator.models.job import Beat, Failure, JobRequest, JobState
from coordinator.services import Jobs
from coordinator.store import jobs as store
from coordinator.store.jobs import AttemptRow, JobRow
from coordinator.store.tables import jobs
from tests.coordinator.conftest import Houses

ROWS = b"a,b\n" + b"".join(b"%d,%d\n" % (n % 10, n % 7) for n in range(50))
PARAMS = {"k": 2, "epsilon": "1", "bounds": [[0, 10], [0, 10]], "n_hint": 50}


class Desk:
    """The parts of jobs, of a coordinator that begins no attempt by itself."""

    def __init__(self, app: FastAPI, clock: ManualClock) -> None:
        self.database, self.clock = part_of(app, Database), clock
        self.datasets, jobs = part_of(app, Datasets), part_of(app, Jobs)
        self.submission, self.attempts = jobs.submission, jobs.attempts

    async def dataset(self) -> str:
        """A small dataset with a budget of 1."""
        request = DatasetRequest.model_validate_json(
            '{"name": "d", "kind": "numeric-table", "format": "csv", "budget": {"epsilon": "1"}}'
        )
        dataset_id = self.datasets.new_id()
        self.datasets.vault.prepare(dataset_id)
        writer = self.datasets.vault.writer(dataset_id, "file")
        writer.write(ROWS)
        writer.close()
        checked = await self.datasets.check(dataset_id, request, {"file"})
        async with self.database.begin() as transaction:
            await self.datasets.add(transaction, dataset_id, request, checked)
        return dataset_id

    async def job(self, dataset_id: str) -> JobRow:
        """A queued job."""
        request = JobRequest(algorithm="kmeans", dataset=dataset_id, params=PARAMS)
        prepared = await self.submission.prepare(request)
        async with self.database.begin() as transaction:
            return await self.submission.add(transaction, prepared)

    def attempt(self, job: JobRow, number: int = 1) -> AttemptRow:
        """An attempt whose ticket is "ticket"."""
        until = self.clock.now() + timedelta(seconds=10)
        name = str(uuid7(self.clock))
        return AttemptRow(
            name, job.id, number, store.OFFERED, digest("ticket"), None, "test", until, 1
        )

    async def begin(self, row: AttemptRow, before: int = 0) -> bool:
        """Whether the attempt was begun."""
        async with self.database.begin() as transaction:
            return await store.begin(transaction, row, self.clock.now(), before)

    async def found(self, job: JobRow) -> JobRow:
        """The job as it is now."""
        async with self.database.reading() as transaction:
            row = await store.find(transaction, job.id)
        assert row is not None
        return row

    async def kinds(self, dataset_id: str) -> list[str]:
        """What happened to the budget."""
        async with self.database.reading() as transaction:
            shown = await ledger.statement(transaction, dataset_id)
        return [event.kind for event in shown.events]


@pytest.fixture
async def desk(
    house: Houses, database_url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Desk]:
    async def idle(_: Dispatcher) -> None: ...

    monkeypatch.setattr(Dispatcher, "look", idle)
    async with house(0, database_url, clock=clock) as it:
        yield Desk(it.app, clock)


async def test_two_replicas_begin_one_attempt(desk: Desk) -> None:
    job = await desk.job(await desk.dataset())
    rows = [desk.attempt(job), desk.attempt(job)]
    assert sorted(await asyncio.gather(*(desk.begin(row) for row in rows))) == [False, True]


async def test_a_ticket_is_good_once_and_the_charge_is_made_once(desk: Desk) -> None:
    dataset = await desk.dataset()
    job = await desk.job(dataset)
    row = desk.attempt(job)
    assert await desk.begin(row)
    with pytest.raises(AttemptRefused):
        await desk.attempts.claim(row.id, "another", "w")
    claims = await asyncio.gather(
        *(desk.attempts.claim(row.id, "ticket", "w") for _ in range(2)), return_exceptions=True
    )
    (found,) = [item for item in claims if not isinstance(item, BaseException)]
    assert [type(item) for item in claims if isinstance(item, BaseException)] == [LeaseUsed]
    seeds = await asyncio.gather(*(desk.attempts.seed(row.id, found.session) for _ in range(3)))
    assert len({seed.secret for seed in seeds}) == 1
    assert await desk.kinds(dataset) == ["declared", "reserved", "charged"]
    with pytest.raises(AttemptRefused):
        await desk.attempts.seed(row.id, "ticket")
    again = replace(desk.attempt(job, 2), ticket_hash=digest("second"))
    assert await desk.begin(again, 1)
    with pytest.raises(AttemptOver):
        await desk.attempts.seed(row.id, found.session)
    other = await desk.attempts.claim(again.id, "second", "w")
    assert (await desk.attempts.seed(again.id, other.session)).secret == seeds[0].secret
    assert await desk.kinds(dataset) == ["declared", "reserved", "charged"]
    await desk.attempts.fail(again.id, other.session, Failure(problem={"type": "x"}))
    ended = await desk.found(job)
    assert (ended.state, ended.secret) == (JobState.FAILED, None)
    assert await desk.kinds(dataset) == ["declared", "reserved", "charged"]


class ClockThatReports(ManualClock):
    """Sets an event whenever it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.was_read = asyncio.Event()

    def now(self) -> datetime:
        """The time, and the event."""
        self.was_read.set()
        return super().now()


@pytest.mark.parametrize("later", [True, False], ids=["a later attempt", "later progress"])
async def test_a_beat_that_is_held_up_changes_nothing_later(desk: Desk, later: bool) -> None:
    """It found its attempt alive; before it could write, the next one had begun, or this one had
    come further."""
    job = await desk.job(await desk.dataset())
    row = desk.attempt(job)
    await desk.begin(row)
    clock = ClockThatReports()
    attempts = replace(desk.attempts, clock=clock)
    session = (await attempts.claim(row.id, "ticket", "w")).session
    clock.was_read.clear()
    async with desk.database.begin() as transaction:
        await transaction.execute(select(jobs.c.id).where(jobs.c.id == job.id).with_for_update())
        beat = asyncio.create_task(attempts.beat(row.id, session, Beat(progress=0.2, stage="old")))
        await clock.was_read.wait()
        if later:
            assert await store.begin(transaction, desk.attempt(job, 2), desk.clock.now(), 1)
        else:
            await store.change(transaction, job.id, (JobState.RUNNING,), progress=0.5)
    if later:
        with pytest.raises(AttemptOver):
            await beat
        found = await desk.found(job)
        assert (found.attempts, found.progress, found.stage) == (2, 0.0, "waiting for a worker")
    else:
        assert not (await beat).cancel
        assert (await desk.found(job)).progress == 0.5


async def test_a_job_that_ends_before_its_noise_gives_back(desk: Desk) -> None:
    dataset = await desk.dataset()
    job = await desk.job(dataset)
    row = desk.attempt(job)
    await desk.begin(row)
    session = (await desk.attempts.claim(row.id, "ticket", "w")).session
    assert await desk.attempts.end(job.id, JobState.CANCELLED, None)
    assert not await desk.attempts.end(job.id, JobState.FAILED, None)
    with pytest.raises(AttemptOver):
        await desk.attempts.seed(row.id, session)
    assert await desk.kinds(dataset) == ["declared", "reserved", "credited"]
    await desk.job(dataset)  # the budget is there again


async def test_a_worker_that_gives_up_leaves_the_job_to_the_next(desk: Desk) -> None:
    job = await desk.job(await desk.dataset())
    row = desk.attempt(job)
    await desk.begin(row)
    session = (await desk.attempts.claim(row.id, "ticket", "w")).session
    await desk.attempts.fail(row.id, session, Failure(cancelled=True))
    assert (await desk.found(job)).state is JobState.RUNNING
    assert await desk.begin(desk.attempt(job, 2), 1)
