"""Scheduled federated jobs: one job for each period that is over, whatever happened meanwhile."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from common.runtime.clock import ManualClock, uuid7
from common.store.transactions import Database
from common.web.dependencies import part_of
from coordinator import examples
from coordinator.jobs import schedules
from coordinator.models.job import JobRequest
from coordinator.restoring import MARKER
from coordinator.services import Jobs
from coordinator.store import jobs as store
from coordinator.store.jobs import JobScheduleRow
from tests.coordinator.conftest import Houses
from tests.coordinator.double import House, pointers, problem

HOUR = timedelta(hours=1)
START = "2026-01-01T00:00:00Z"
FEDERATION: dict[str, Any] = {
    "collect": "reports",
    "columns": [{"register": "energy_import", "statistic": "sum"}],
    "schedule": {"period_s": 3600, "first_start": START},
    "min_participants": 2,
    "n_max": 10,
    "deadline": 60,
}
HOURLY: dict[str, Any] = {
    "algorithm": "crowd-tasking",
    "params": {
        "sensor": {"name": "hour", "coordinates": [{"name": "kwh", "lower": 0, "upper": 5}]},
        "n": 10,
        "epsilon": "1/4",
    },
    "federation": FEDERATION,
}


def hourly(**federation: Any) -> dict[str, Any]:
    """The same with another federation."""
    return {**HOURLY, "federation": {**FEDERATION, **federation}}


async def begin(it: House, body: dict[str, Any] = HOURLY, **more: Any) -> dict[str, Any]:
    """A schedule that must be accepted."""
    answer = await it.ask("POST", "/v1/job-schedules", body, **more)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    assert answer.headers["location"] == f"/v1/job-schedules/{found['id']}"
    return found


async def starts(it: House, schedule: str, count: int) -> list[str]:
    """The starts of the windows of all its jobs, once there are so many."""
    found: list[Any] = []
    async with asyncio.timeout(120):
        while len(found) < count:
            part_of(it.app, Jobs).scheduler.wake()
            await asyncio.sleep(0.02)
            answer = await it.ask("GET", f"/v1/jobs?schedule={schedule}")
            found = answer.json()["jobs"]
    return sorted(item["federation"]["window"]["start"][11:16] for item in found)


async def still(it: House, schedule: str, count: int) -> None:
    """There are so many jobs, and no more come."""
    for _ in range(5):
        part_of(it.app, Jobs).scheduler.wake()
        await asyncio.sleep(0.03)
    assert len(await starts(it, schedule, count)) == count


async def test_a_job_for_each_period_that_is_over(house: Houses) -> None:
    clock = ManualClock()
    async with house(0, clock=clock) as it:
        made = await begin(it)
        assert (made["state"], made["runs"], made["waits_for"]) == ("running", 0, None)
        assert made["next_window"] == {"start": START, "end": "2026-01-01T01:00:00Z"}
        clock.advance(HOUR - timedelta(seconds=1))
        await still(it, made["id"], 0)
        clock.advance(timedelta(seconds=1))
        assert await starts(it, made["id"], 1) == ["00:00"]
        # Down for three hours: every period still gets its job, in order, and none gets two.
        await it.stop()
        clock.advance(3 * HOUR)
        await it.start()
        assert await starts(it, made["id"], 4) == ["00:00", "01:00", "02:00", "03:00"]
        async with it.replica():
            await still(it, made["id"], 4)
        shown = (await it.ask("GET", f"/v1/job-schedules/{made['id']}")).json()
        assert (shown["runs"], shown["next_window"]["start"]) == (4, "2026-01-01T04:00:00Z")
        jobs = (await it.ask("GET", "/v1/jobs")).json()["jobs"]
        assert max(item["federation"]["window"]["end"] for item in jobs) == "2026-01-01T04:00:00Z"
        assert not any("schedule" in item["federation"] for item in jobs)
        listed = (await it.ask("GET", "/v1/job-schedules")).json()["job_schedules"]
        assert [(item["id"], item["runs"]) for item in listed] == [(made["id"], 4)]


async def test_replicas_submit_each_period_once(house: Houses, database_url: str) -> None:
    clock = ManualClock()
    async with house(0, database_url, clock=clock) as it:
        made = await begin(it)
        async with it.replica() as (one, _), it.replica() as (other, _):
            clock.advance(5 * HOUR)
            schedulers = [part_of(app, Jobs).scheduler for app in (it.app, one, other)]
            await asyncio.gather(*(each.submit_due() for each in schedulers))
            assert len(await starts(it, made["id"], 5)) == 5
            await still(it, made["id"], 5)


async def test_what_was_missed_is_caught_up_in_strides(
    house: Houses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedules, "MAX_UNFINISHED", 2)
    clock = ManualClock()
    clock.advance(5 * HOUR)
    async with house(0, clock=clock) as it:
        made = await begin(it)
        assert await starts(it, made["id"], 2) == ["00:00", "01:00"]
        await still(it, made["id"], 2)
        clock.advance(timedelta(seconds=60))  # their collections close, with too few reports
        assert len(await starts(it, made["id"], 4)) == 4
        await still(it, made["id"], 4)


async def test_a_schedule_that_is_stopped_asks_for_nothing_more(house: Houses) -> None:
    clock = ManualClock()
    async with house(0, clock=clock) as it:
        made = await begin(it)
        clock.advance(HOUR)
        await starts(it, made["id"], 1)
        path = f"/v1/job-schedules/{made['id']}"
        stopped = (await it.ask("DELETE", path)).json()
        assert (stopped["state"], stopped["stopped"]) == ("stopped", "2026-01-01T01:00:00Z")
        assert (stopped["runs"], stopped["next_window"]) == (1, None)
        clock.advance(HOUR)
        await still(it, made["id"], 1)
        again = await it.ask("DELETE", path)
        assert (again.status_code, again.json()) == (200, stopped)
        await it.restart()
        await still(it, made["id"], 1)
        job: dict[str, Any] = {"state": "running"}
        async with asyncio.timeout(60):
            while job["state"] == "running":
                (job,) = (await it.ask("GET", "/v1/jobs")).json()["jobs"]
                await asyncio.sleep(0.02)
        assert job["state"] == "failed"  # nobody reported: the job itself went on to its end
        for method in ("GET", "DELETE"):
            answer = await it.ask(method, "/v1/job-schedules/nobody")
            assert problem(answer) == (404, "unknown_schedule")


async def test_what_a_year_costs_is_said_before(house: Houses) -> None:
    """A quarter each hour: 6 a day, 180 a month, 2,190 a year of one curator's data."""
    async with house(0, clock=ManualClock()) as it:
        answer = await it.ask("POST", "/v1/job-schedules/preview", HOURLY)
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert found["preview"]["charged"]["epsilon"] == "0.25"
        assert found["preview"]["subject"]["id"] == "preview"
        assert found["forecast"]["composition"] == "basic"
        assert found["forecast"]["privacy_unit_of_a_run"] == "reading"
        rows = {row["horizon"]: row for row in found["forecast"]["horizons"]}
        assert {name: row["runs"] for name, row in rows.items()} == {
            "day": 24,
            "month": 720,
            "year": 8760,
        }
        assert {row["record"]["epsilon"] for row in rows.values()} == {"0.25"}
        assert [row["curator"] for row in rows.values()] == [
            {"epsilon": "6", "delta": "0"},
            {"epsilon": "180", "delta": "0"},
            {"epsilon": "2190", "delta": "0"},
        ]
        paper = (
            await it.ask("POST", "/v1/job-schedules/preview", {**HOURLY, "stance": "paper"})
        ).json()
        for row in paper["forecast"]["horizons"]:
            assert row["curator"] == row["record"] == {"epsilon": "inf", "delta": "1"}
        assert (await it.ask("GET", "/v1/job-schedules")).json() == {"job_schedules": []}
        made = await begin(it)
        assert (made["forecast"], made["preview"]) == (found["forecast"], found["preview"])


async def test_a_schedule_of_rounds_is_priced_under_its_own_assumption(house: Houses) -> None:
    rounds = {
        "algorithm": "kmeans",
        "params": {"k": 2, "epsilon": "1", "bounds": [[0, 5]], "n_hint": 10},
        "federation": {**FEDERATION, "collect": "rounds", "deadline": 3600},
    }
    async with house(3, clock=ManualClock()) as it:
        found = (await it.ask("POST", "/v1/job-schedules/preview", rounds)).json()
        assert found["forecast"]["horizons"][0]["curator"] == {"epsilon": "24", "delta": "0"}


TABLE = {"columns": ["kwh"]}
LATE = {"period_s": 3600, "first_start": "9899-12-31T23:30:00Z"}
BAD: list[tuple[dict[str, Any], str]] = [
    (hourly(**TABLE), "/federation/schedule"),
    (hourly(schedule=None), "/federation"),
    (hourly(schedule={"period_s": 59, "first_start": START}), "/federation/schedule/period_s"),
    (hourly(schedule=LATE), "/federation/schedule/first_start"),
    (hourly(collect="rounds"), "/federation/collect"),
    ({**HOURLY, "params": {**HOURLY["params"], "epsilon": "0"}}, "/params/epsilon"),
    (examples.JOB, "/federation"),
]


async def test_what_no_run_could_do_is_refused_before_the_first(house: Houses) -> None:
    async with house(0, clock=ManualClock()) as it:
        for body, pointer in BAD:
            for path in ("/v1/job-schedules", "/v1/job-schedules/preview"):
                answer = await it.ask("POST", path, body)
                assert answer.status_code == 422, (body, answer.text)
                assert pointers(answer) == [pointer], answer.text
        assert (await it.ask("GET", "/v1/job-schedules")).json() == {"job_schedules": []}
        answer = await it.ask("POST", "/v1/jobs", HOURLY)  # a single job has none
        assert (problem(answer)[0], pointers(answer)) == (422, ["/federation/schedule"])
        assert "/v1/job-schedules" in answer.text


async def test_a_period_that_cannot_be_asked_for_waits_and_says_why(house: Houses) -> None:
    """What was accepted once may be refused later, by a newer version: here, a task for which the
    algorithm's name has gone. Others go on."""
    clock = ManualClock()
    async with house(0, clock=clock) as it:
        request = JobRequest.model_validate_json(json.dumps(HOURLY))
        gone = request.model_copy(update={"algorithm": "alchemy"})
        row = JobScheduleRow(
            str(uuid7(clock)),
            gone.model_dump_json(exclude_none=True),
            "{}",
            0,
            None,
            datetime(2026, 1, 1, tzinfo=UTC),
            None,
        )
        async with part_of(it.app, Database).begin() as transaction:
            await store.add_schedule(transaction, row)
        made = await begin(it)
        clock.advance(2 * HOUR)
        assert len(await starts(it, made["id"], 2)) == 2
        await still(it, row.id, 0)
        listed = (await it.ask("GET", "/v1/job-schedules")).json()["job_schedules"]
        waits = {item["id"]: item["waits_for"] for item in listed}
        assert waits[made["id"]] is None
        assert waits[row.id]["type"] == "urn:tacit:problem:unknown_algorithm"


async def test_a_restored_coordinator_asks_for_no_period_a_second_time(house: Houses) -> None:
    """Which periods were asked for since the copy was made is not known: they are left out."""
    clock = ManualClock()
    async with house(0, clock=clock) as it:
        made = await begin(it)
        clock.advance(HOUR)
        assert await starts(it, made["id"], 1) == ["00:00"]
        await it.stop()
        clock.advance(3 * HOUR)
        (it.settings.data_dir / MARKER).touch()
        await it.start()
        await still(it, made["id"], 1)
        clock.advance(HOUR)
        assert await starts(it, made["id"], 2) == ["00:00", "04:00"]
