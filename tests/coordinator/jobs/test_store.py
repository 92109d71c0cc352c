"""Jobs in both databases: one attempt is begun, one lease is taken, one charge is made."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from common.models.dataset import DatasetRequest
from common.models.job import Failure, JobRequest, JobState
from common.service.clock import ManualClock, uuid7
from common.service.database import migrate, reading
from coordinator.app import MIGRATIONS
from coordinator.datasets import ledger
from coordinator.datasets.holding import Datasets
from coordinator.errors import AttemptOver, AttemptRefused, LeaseUsed
from coordinator.jobs.attempts import Attempts, digest
from coordinator.jobs.submission import Submission
from coordinator.settings import CoordinatorSettings
from coordinator.storage_key import StorageKey
from coordinator.store import jobs as store
from coordinator.store.jobs import AttemptRow, JobRow

ROWS = b"a,b\n" + b"".join(b"%d,%d\n" % (n % 10, n % 7) for n in range(50))
PARAMS = {"k": 2, "epsilon": "1", "bounds": [[0, 10], [0, 10]], "n_hint": 50}


class Desk:
    """The parts of jobs without workers."""

    def __init__(self, engine: AsyncEngine, clock: ManualClock, directory: Path) -> None:
        settings = CoordinatorSettings(data_dir=directory)
        key = StorageKey(bytes(32))
        self.engine, self.clock = engine, clock
        self.datasets = Datasets(engine, key, directory / "datasets", clock, settings)
        self.submission = Submission(engine, self.datasets, key, settings, clock)
        self.attempts = Attempts(engine, self.datasets, key, settings, clock, lambda: None)

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
        async with self.engine.begin() as connection:
            await self.datasets.add(connection, dataset_id, request, checked)
        return dataset_id

    async def job(self, dataset_id: str) -> JobRow:
        """A queued job."""
        request = JobRequest(algorithm="kmeans", dataset=dataset_id, params=PARAMS)
        prepared = await self.submission.prepare(request)
        async with self.engine.begin() as connection:
            return await self.submission.add(connection, prepared)

    def attempt(self, job: JobRow, number: int = 1) -> AttemptRow:
        """An attempt whose ticket is "ticket"."""
        until = self.clock.now() + timedelta(seconds=10)
        name = str(uuid7(self.clock))
        return AttemptRow(
            name, job.id, number, store.OFFERED, digest("ticket"), None, "test", until
        )

    async def begin(self, row: AttemptRow, before: int = 0) -> bool:
        """Whether the attempt was begun."""
        async with self.engine.begin() as connection:
            return await store.begin(connection, row, self.clock.now(), before)

    async def found(self, job: JobRow) -> JobRow:
        """The job as it is now."""
        async with reading(self.engine) as connection:
            row = await store.find(connection, job.id)
        assert row is not None
        return row

    async def kinds(self, dataset_id: str) -> list[str]:
        """What happened to the budget."""
        async with reading(self.engine) as connection:
            shown = await ledger.statement(connection, dataset_id)
        return [event["kind"] for event in shown["events"]]


@pytest.fixture
async def desk(engine: AsyncEngine, clock: ManualClock, tmp_path: Path) -> Desk:
    await migrate(engine, MIGRATIONS)
    return Desk(engine, clock, tmp_path)


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
