"""Old rounds: what they said goes, what they cost and whom they summed stays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import generate_latest
from sqlalchemy import func, insert, select, update

from common.runtime.clock import ManualClock
from common.runtime.telemetry import ServiceMetrics
from common.store.columns import packs
from common.store.transactions import Database
from common.web.dependencies import part_of
from coordinator.budget.ledger import Ledger
from coordinator.models.job import JobState
from coordinator.rounds import scheduling
from coordinator.rounds.scheduling import Expiry
from coordinator.store import jobs as job_store
from coordinator.store import round_details as store
from coordinator.store import rounds as round_store
from coordinator.store.round_details import FROZEN
from coordinator.store.tables import (
    frozen_sets,
    job_steps,
    jobs,
    ledger_checkpoints,
    queries,
    refusals,
    rounds,
)
from tacit.protocol.round.state import RoundState
from tests.coordinator.conftest import Houses
from tests.coordinator.double import NOISY, House, problem, query
from tests.coordinator.jobs.office import job_row
from tests.coordinator.rounds.test_differencing import finish, hours
from tests.coordinator.rounds.test_lists import copies

ASKED = query(mechanism="distributed", epsilon="0.5")
LATER = datetime(2100, 1, 1, tzinfo=UTC)
UNKNOWN = "00000000-0000-7000-8000-000000000000"
READ = ("", "/descriptor", "/result", "/report", "/transcript", "/refusals")
CHANGED = ("/close", "/abort")


async def expire(it: House, *, spared: int = 0, limit: int = 1000) -> int:
    async with part_of(it.app, Database).begin() as transaction:
        return await store.expire(transaction, LATER, LATER, spared=spared, limit=limit)


async def rows(it: House) -> dict[str, Any]:
    async with part_of(it.app, Database).reading() as transaction:
        return {row.id: row for row in await transaction.execute(select(rounds))}


async def budget(it: House, names: list[str]) -> dict[str, Any]:
    """What the ledger shows of a deployment and of each of some rounds."""
    paths = ["/v1/budget", "/v1/budget/events", *(f"/v1/budget/rounds/{name}" for name in names)]
    answers = {path: await it.ask("GET", path) for path in paths}
    return {path: (answer.status_code, answer.text) for path, answer in answers.items()}


async def documents(it: House, name: str) -> list[bytes]:
    answers = [await it.ask("GET", f"/v1/rounds/{name}{ending}") for ending in READ]
    assert {answer.status_code for answer in answers} == {200}
    return [answer.content for answer in answers]


async def test_what_it_said_is_gone_and_what_it_cost_stays(house: Houses) -> None:
    async with house(3) as it:
        host = await it.host("gateway", 3)
        names = [(await it.released(host, ASKED)).id for _ in range(2)]
        ended = await it.open(ASKED)
        names.append((await it.finish(ended, by="abort"))["id"])
        unfinished = await it.open({**ASKED, "name": "unfinished"})
        before = await budget(it, names)
        assert {status for status, _ in before.values()} == {200}
        assert await expire(it) == 3
        assert await expire(it) == 0
        kept = await rows(it)
        assert kept.pop(unfinished.id).expired is None
        for name, row in kept.items():
            assert (row.descriptor, row.summary, row.commitments or "") == ("", "", "")
            texts = ("accepted", "manifest", "result", "report", "transcript", "aborts", "reason")
            assert [row._mapping[text] for text in texts] == [None] * len(texts), name
        async with part_of(it.app, Database).reading() as transaction:
            told = (await transaction.execute(select(func.count()).select_from(refusals))).scalar()
        assert told == 0
        for name, state in zip(names, ("released", "released", "aborted"), strict=True):
            asked = [("GET", ending, None) for ending in READ]
            asked += [("POST", ending, None) for ending in CHANGED]
            for method, ending, body in asked:
                answer = await it.ask(method, f"/v1/rounds/{name}{ending}", body)
                assert problem(answer) == (410, "round_expired"), (ending, answer.text)
                assert answer.json()["state"] == state
                assert answer.json()["expired"] == "2100-01-01T00:00:00Z"
                never = await it.ask(method, f"/v1/rounds/{UNKNOWN}{ending}", body)
                assert problem(never) == (404, "unknown_round")
        asked_of = {"rounds": [*names, UNKNOWN]}
        states = (await it.ask("POST", "/v1/rounds/states", asked_of)).json()["rounds"]
        assert {each["id"]: each["state"] for each in states} == dict(
            zip(names, ("released", "released", "aborted"), strict=True)
        )
        assert {each["expired"] for each in states} == {"2100-01-01T00:00:00Z"}
        for path in ("/v1/rounds?state=released", "/v1/rounds?state=aborted"):
            assert (await it.ask("GET", path)).json() == {"rounds": []}
        assert await budget(it, names) == before
        # The chain folds to the same with and without its checkpoint, in another process.
        await it.restart()
        assert await budget(it, names) == before
        async with part_of(it.app, Database).begin() as transaction:
            await transaction.execute(ledger_checkpoints.delete())
        await it.restart()
        assert await budget(it, names) == before
        assert part_of(it.app, Ledger).broken is None
        assert (await it.client.get("/readyz")).status_code == 200
        await it.released(host, ASKED)


async def test_a_sum_that_differs_from_an_expired_one_in_few_is_refused(house: Houses) -> None:
    family = {"family": "net", "family_minimum": 3, **NOISY}
    async with house(3) as it:
        host = await it.host("gateway", 10)
        first = await it.open(query(**family))
        assert (await finish(it, first, host))["state"] == "released"
        await expire(it)
        second = await it.open(query(name="other", **family))
        found = await finish(it, second, host, 3)
        assert found["state"] == "aborted"
        assert first.id in found["reason"]


async def test_the_set_of_an_aborted_round_counts_as_before(house: Houses) -> None:
    """With commitments its sum may yet be opened; without any it cannot."""
    async with house(3) as it:
        host = await it.host("gateway", 10)
        names = []
        for number in range(2):
            opened = await it.open(
                query(family="net", family_minimum=3, **NOISY), window=hours(number)
            )
            assert (await finish(it, opened, host))["state"] == "released"
            names.append(opened.id)
        aborted = update(rounds).values(state=RoundState.ABORTED.value)
        async with part_of(it.app, Database).begin() as transaction:
            await transaction.execute(aborted)
            await transaction.execute(
                update(rounds).where(rounds.c.id == names[1]).values(commitments=None)
            )
        await expire(it)
        async with part_of(it.app, Database).reading() as transaction:
            kept = await transaction.execute(
                select(frozen_sets.c.round_id)
                .join(rounds, rounds.c.id == frozen_sets.c.round_id)
                .where(*FROZEN.counted)
            )
        assert set(kept.scalars()) == {names[0]}


async def test_texts_that_others_are_packed_against_stay_as_long_as_these(house: Houses) -> None:
    async with house(3) as it:
        host = await it.host("gateway", 3)
        names = [(await it.released(host, ASKED)).id for _ in range(3)]
        assert packs(part_of(it.app, Database).dialect)
        before = {name: await documents(it, name) for name in names}
        for number, name in enumerate(names[:2]):
            assert await expire(it, limit=1) == 1
            round_store._samples.clear()  # as in a new process
            assert (await it.ask("GET", f"/v1/rounds/{name}/report")).status_code == 410
            for other in names[number + 1 :]:
                assert await documents(it, other) == before[other]
            found = await rows(it)
            assert found[names[0]].descriptor != ""
            assert found[names[0]].transcript is None
        names.append((await it.released(host, ASKED)).id)
        assert (await rows(it))[names[3]].sample == names[0]
        round_store._samples.clear()
        await expire(it)
        found = await rows(it)
        assert {(row.descriptor, row.report) for row in found.values()} == {("", None)}
        async with part_of(it.app, Database).reading() as transaction:
            assert (await transaction.execute(select(queries.c.sample))).scalar_one() is None
        names += [(await it.released(host, ASKED)).id for _ in range(2)]
        found = await rows(it)
        assert [found[name].sample for name in names[4:]] == [None, names[4]]
        round_store._samples.clear()
        for name in names[4:]:
            await documents(it, name)


async def test_a_step_that_does_not_end_changes_nothing(house: Houses) -> None:
    async with house(3) as it:
        host = await it.host("gateway", 3)
        names = [(await it.released(host, ASKED)).id for _ in range(2)]
        before, kept = {name: await documents(it, name) for name in names}, await rows(it)
        with pytest.raises(ZeroDivisionError):
            await _interrupted(it)
        assert await rows(it) == kept
        assert {name: await documents(it, name) for name in names} == before


async def _interrupted(it: House) -> None:
    async with part_of(it.app, Database).begin() as transaction:
        assert await store.expire(transaction, LATER, LATER, spared=0, limit=9) == 2
        raise ZeroDivisionError


async def test_rounds_of_a_job_under_way_and_the_newest_stay(
    house: Houses, database_url: str
) -> None:
    async with house(3, database_url) as it:
        names = await copies(it, 4)
        database = part_of(it.app, Database)
        async with database.begin() as transaction:
            await transaction.execute(update(rounds).values(finished=datetime.now(UTC)))
            await job_store.add(transaction, job_row(id="job", state=JobState.RUNNING))
            await transaction.execute(
                insert(job_steps).values(
                    job_id="job", number=1, document="{}", round_id=names[0], opened=LATER
                )
            )
        assert await expire(it, spared=2) == 2  # the one that `copies` aborted, and one of four
        kept = {name for name, row in (await rows(it)).items() if row.expired is None}
        assert kept == {names[0], *names[2:]}
        async with database.begin() as transaction:
            await transaction.execute(update(jobs).values(state=JobState.SUCCEEDED.value))
        assert await expire(it, spared=2) == 1
        shown = (await it.ask("GET", "/v1/rounds?limit=1")).json()
        assert [item["id"] for item in shown["rounds"]] == [names[2]]
        assert shown["newest"] == names[3]


async def test_the_service_expires_in_steps_what_is_older_than_its_setting(
    house: Houses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduling, "HEADS_LOOKED_AT", 1)
    monkeypatch.setattr(scheduling, "AT_ONCE", 2)
    async with house(3) as it:
        names = await copies(it, 6)
        database, now = part_of(it.app, Database), datetime.now(UTC)
        async with database.begin() as transaction:
            await transaction.execute(update(rounds).values(finished=now))
        assert it.settings.retention_s is None
        await part_of(it.app, Expiry).look()
        assert {row.expired for row in (await rows(it)).values()} == {None}
        for age_s, expired in ((3600, 0), (3601, 6)):
            metrics = ServiceMetrics("coordinator")
            clock = ManualClock(now + timedelta(seconds=age_s))
            await Expiry(database, clock, 3600, metrics).look()
            line = f"tacit_coordinator_rounds_expired_total {float(expired)}"
            assert line in generate_latest(metrics.registry).decode()
        kept = [name for name, row in (await rows(it)).items() if row.expired is None]
        assert kept == [names[-1]]
