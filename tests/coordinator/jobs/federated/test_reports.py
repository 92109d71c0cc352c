"""Reports of curators: taken once, each answered for itself, until the deadline (spec: jobs)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import httpx
import pytest

from common.runtime.clock import ManualClock
from common.web.dependencies import part_of
from coordinator.rounds.context import Conduct
from tacit.crypto.signing import Signed, verify
from tacit.protocol.federation import DESCRIPTOR_LABEL, Descriptor
from tacit.wire import encode_binary
from tests.conftest import postgres_database, postgres_server
from tests.coordinator.conftest import Houses
from tests.coordinator.double import House, problem

TASK: dict[str, Any] = {
    "algorithm": "crowd-tasking",
    "params": {
        "sensor": {
            "name": "heart",
            "coordinates": [{"name": "rate", "lower": 0, "upper": 200}],
            "steps": 1000,
        },
        "n": 3,
        "report": "laplace",
        "epsilon": "1",
        "T": 2,
    },
    "federation": {
        "collect": "reports",
        "columns": ["rate"],
        "min_participants": 2,
        "n_max": 2,
        "deadline": 60,
    },
}
Opened = Callable[..., AbstractAsyncContextManager[tuple[House, str]]]


@pytest.fixture
def house(house: Houses) -> Opened:
    """A coordinator without aggregators, and the token of a host of three curators."""

    @asynccontextmanager
    async def run(database_url: str | None = None) -> Any:
        async with house(0, database_url, clock=ManualClock()) as it:
            yield it, await it.enrolled(it.federation.sender("host", ["a", "b", "c"]))

    return run


async def begin(it: House, token: str, **changes: Any) -> tuple[str, Descriptor]:
    """A job that collects, as a curator sees it."""
    asked = await it.ask("POST", "/v1/jobs", {**TASK, **changes})
    assert asked.status_code == 202, asked.text
    listed = (await it.ask("GET", "/v1/jobs?collecting=true", token=token)).json()["jobs"]
    (item,) = [each for each in listed if each["id"] == asked.json()["id"]]
    signed = Signed[Descriptor].model_validate_json(json.dumps(item["descriptor"]))
    descriptor = verify(DESCRIPTOR_LABEL, signed, part_of(it.app, Conduct).own.current.public_key)
    assert item["hash"] == descriptor.digest().hex()
    return item["id"], descriptor


def report(curator: str, number: int, value: int, **more: Any) -> dict[str, Any]:
    """One report."""
    return {"curator": curator, "round": number, "values": [value], **more}


async def send(it: House, token: str, job: str, digest: bytes, *reports: Any) -> Any:
    """Statuses of a bulk, or the problem."""
    body = {"descriptor": encode_binary(digest), "reports": list(reports)}
    answer = await it.ask("POST", f"/v1/jobs/{job}/reports", body, token=token)
    if answer.status_code != 200:
        return problem(answer)
    return [item["status"] for item in answer.json()["reports"]]


async def finished(it: House, job: str) -> httpx.Response:
    """A job that is over."""
    tag = ""
    while True:
        answer = await it.ask("GET", f"/v1/jobs/{job}?wait_s=5", headers={"If-None-Match": tag})
        tag = answer.headers.get("etag", tag)
        if answer.status_code == 200 and answer.json()["state"] != "running":
            return answer


@pytest.mark.slow
@pytest.mark.postgres
async def test_a_store_that_is_full_for_a_while_fails_no_job(house: Opened) -> None:
    server = await postgres_server()
    if server is None:
        pytest.skip("no PostgreSQL server")
    async with postgres_database(server) as url, house(url) as (it, token):
        job, descriptor = await begin(it, token)
        sent = [report(name, number, 500) for name in "ab" for number in (1, 2)]
        assert await send(it, token, job, descriptor.digest(), *sent) == [201] * 4
        connection = await asyncpg.connect(url.replace("+asyncpg", ""))
        await connection.execute(
            "CREATE SEQUENCE failures; "
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "IF nextval('failures') < 2 THEN RAISE EXCEPTION 'x' USING ERRCODE = '53100'; END IF; "
            "RETURN NEW; END $$; "
            "CREATE TRIGGER fail BEFORE UPDATE ON job FOR EACH ROW "
            "WHEN (NEW.state = 'succeeded') EXECUTE FUNCTION fail()"
        )
        it.clock.advance(timedelta(seconds=60))
        answer = await finished(it, job)
        assert answer.json()["state"] == "succeeded", answer.text
        assert await connection.fetchval("SELECT last_value FROM failures") == 2
        await connection.close()


async def test_each_report_is_answered_for_itself(house: Opened) -> None:
    async with house() as (it, token):
        job, descriptor = await begin(it, token)
        digest = descriptor.digest()
        first, second = report("a", 1, 1200), report("a", 2, -40)
        assert await send(it, token, job, digest, first, second) == [201, 201]
        # The same again, another number, nobody's curator, no such round, too many numbers, too
        # far out, a third curator of two.
        bad = [
            first,
            report("a", 1, 1201),
            report("z", 1, 5),
            report("b", 3, 5),
            {"curator": "b", "round": 1, "values": [1, 2]},
            report("b", 1, 10**7),
            report("b", 1, 5),
            report("b", 1, 5),
            report("c", 1, 5),
        ]
        expected = [200, 409, 403, 422, 422, 422, 201, 200, 409]
        assert await send(it, token, job, digest, *bad) == expected
        assert await send(it, token, job, bytes(32), first) == (409, "descriptor_unknown")
        assert (await send(it, await it.token("analyst"), job, digest, first))[0] == 403


async def test_who_waits_for_collections_hears_of_the_next(house: Opened) -> None:
    async with house() as (it, token):
        path = "/v1/jobs?collecting=true&wait_s=30"
        waiting = asyncio.create_task(it.ask("GET", path, token=token))
        await asyncio.sleep(0.1)
        job, _ = await begin(it, token)
        first = await waiting
        assert [each["id"] for each in first.json()["jobs"]] == [job]
        known = {"If-None-Match": first.headers["etag"]}
        again = await it.ask("GET", path.replace("30", "0.1"), token=token, headers=known)
        assert again.status_code == 304
        polls = [it.ask("GET", path, token=token, headers=known) for _ in range(3)]
        others = asyncio.gather(*polls)
        await asyncio.sleep(0.1)
        second, _ = await begin(it, token)
        for answer in await others:
            assert {each["id"] for each in answer.json()["jobs"]} == {job, second}


async def test_the_deadline_closes_a_collection_and_its_result_follows(house: Opened) -> None:
    async with house() as (it, token):
        job, descriptor = await begin(it, token)
        digest = descriptor.digest()
        sent = [report(name, number, 500) for name in "ab" for number in (1, 2)]
        assert await send(it, token, job, digest, *sent) == [201] * 4
        await it.restart()
        it.clock.advance(timedelta(seconds=60))
        assert await send(it, token, job, digest, report("a", 1, 500)) == (410, "collection_over")
        answer = await finished(it, job)
        assert answer.json()["state"] == "succeeded", answer.text
        found = (await it.ask("GET", f"/v1/jobs/{job}/result")).json()
        assert found["summary"]["average"]["rate"]["estimate"] == pytest.approx(100)
        assert found["summary"]["users"] == {"offered": 3, "joined": 2}
        assert (await it.ask("GET", "/v1/jobs?collecting=true", token=token)).json() == {"jobs": []}
        # A curator sees what is asked of it, and no list of jobs.
        assert (await it.ask("GET", "/v1/jobs", token=token)).status_code == 403


CLASSIFIER: dict[str, Any] = {
    **TASK["params"],
    "aggregate": "CLS",
    "classes": [0, 1],
    "labels_are_public": True,
}
DAILY = {"period_s": 86400, "first_start": "2026-01-01T00:00:00Z"}
BAD: list[tuple[dict[str, Any], str]] = [
    ({"params": {**TASK["params"], "components": ["G"]}}, "/params/components"),
    ({"federation": {**TASK["federation"], "columns": ["a", "b"]}}, "/federation/columns"),
    ({"federation": {**TASK["federation"], "label": "group"}}, "/federation/label"),
    ({"params": CLASSIFIER}, "/federation/label"),
    ({"federation": {**TASK["federation"], "schedule": DAILY}}, "/federation/schedule"),
    ({"federation": {**TASK["federation"], "collect": "rounds"}}, "/federation/collect"),
]


async def test_what_no_curator_could_answer_is_refused(house: Opened) -> None:
    async with house() as (it, _):
        for change, pointer in BAD:
            answer = await it.ask("POST", "/v1/jobs", {**TASK, **change})
            assert answer.status_code == 422, answer.text
            assert [item["pointer"] for item in answer.json()["errors"]] == [pointer]
