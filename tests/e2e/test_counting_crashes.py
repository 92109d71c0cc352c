"""Kill -9 any one service inside a counting job: one debit, and every record spends once.

Spec: federated-counting, section 13, checks 9 and 11. Real processes, a proxy before each.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e.world import World, world

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

CURATORS = [f"clinic-{number}" for number in range(8)]
VISITS = [["home", "news", "sports"], ["news", "home"], ["home"]]
PLACES = [f"place-{number}" for number in range(300)]
WAYS = list(zip(PLACES[::2], PLACES[1::2], strict=True))
"""Each place is reached, so that the pairs of all are asked: two parts of a question."""
EPSILON = "99"


def params(items: Sequence[str]) -> dict[str, Any]:
    return {"universe": list(items), "l_max": 2, "n_max": 2, "epsilon": EPSILON}


PARAMS = {
    "visits": params(("home", "news", "sports")),
    "ways": {**params(PLACES), "max_cells": 100_000},
}
VICTIMS = ("coordinator", "aggregator-1", "curator")


@dataclass(frozen=True)
class Undisturbed:
    """What a job gives when nobody is killed: its patterns, the rounds that it asked, and what each
    record spends."""

    summary: dict[str, Any]
    rounds: int
    spent: list[Fraction]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with world(tmp_path_factory.mktemp("counting")) as it:
        await it.enrol("gateway", CURATORS)

        def give() -> None:
            with it.real.curator.client() as client:
                for (table, rows), name in product(
                    {"visits": VISITS, "ways": WAYS}.items(), CURATORS
                ):
                    client.request(
                        "POST",
                        "/v1/sequences",
                        content="\n".join(map(" ".join, rows)).encode(),
                        media_type="text/plain",
                        params={"curator": name, "name": table},
                    )
                policy = {"algorithms": ["sequential-ngram"], "min_participants": 2}
                limits = {"record": {"period": {"epsilon": "9000"}}}
                client.request("PUT", "/v1/policy", {**policy, **limits})

        await it.call(give)
        yield it


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def undisturbed(running: World) -> Undisturbed:
    return await let_run(running, "visits")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def undisturbed_in_parts(running: World) -> Undisturbed:
    return await let_run(running, "ways")


async def let_run(running: World, table: str) -> Undisturbed:
    before = len(await running.call(rounds_so_far, running))
    job = await running.call(begin, running, table)
    assert (await ended(running, job))["state"] == "succeeded"
    found = await running.call(result, running, job)
    assert not found["summary"]["truncated"]
    return Undisturbed(
        found["summary"],
        len(await running.call(rounds_so_far, running)) - before,
        spends(running, job),
    )


def begin(it: World, table: str) -> str:
    """A job of two questions over a table, with noise of scale 4/99 in them; its id."""
    federation = {
        "collect": "rounds",
        "columns": [{"sequences": table}],
        "min_participants": 6,
        "n_max": 20,
        "deadline": 8,
        "collusion": {"curators": 0, "aggregators": 2},
    }
    asked = {"algorithm": "sequential-ngram", "params": PARAMS[table], "federation": federation}
    with it.real.coordinator.client() as client:
        made: str = client.request("POST", "/v1/jobs", asked).json()["id"]
        return made


def result(it: World, job: str) -> dict[str, Any]:
    with it.real.coordinator.client() as client:
        found: dict[str, Any] = client.request("GET", f"/v1/jobs/{job}/result").json()
        return found


def rounds_so_far(it: World) -> set[str]:
    with it.real.coordinator.client() as client:
        return {
            each["id"] for each in client.request("GET", "/v1/rounds?limit=200").json()["rounds"]
        }


def debits(it: World) -> list[tuple[str, bool]]:
    """Of one curator: each epsilon, and whether it was credited."""
    with it.real.curator.client() as client:
        found = client.request("GET", f"/v1/curators/{CURATORS[0]}/budget").json()
    return [(each["epsilon"], each["credited"]) for each in found["units"]["record"]["debits"]]


async def ended(it: World, job: str) -> dict[str, Any]:
    """The job at its end, however often the coordinator is restarted."""

    def work() -> dict[str, Any]:
        with it.real.coordinator.client() as client:
            found: dict[str, Any] = client.request("GET", f"/v1/jobs/{job}").json()
            return found

    async with asyncio.timeout(300):
        while True:
            try:
                found = await it.call(work)
            except Exception:
                found = {"state": "unknown"}
            if found["state"] in ("succeeded", "failed"):
                return found
            await asyncio.sleep(0.2)


def spends(it: World, job: str) -> list[Fraction]:
    """S of every record, as the curators' store has it."""
    (path,) = (it.real.directory / it.real.curator.id).rglob("*.db")
    with sqlite3.connect(path) as store:
        rows = store.execute(
            "SELECT records, denominator, numerators FROM job_spend WHERE job = ?", (job,)
        ).fetchall()
    found = []
    for records, denominator, numerators in rows:
        width = len(numerators) // records
        found += [
            Fraction(int.from_bytes(numerators[at : at + width], "little"), int(denominator))
            for at in range(0, len(numerators), width)
        ]
    return found


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("moment", ["request", "response"])
@pytest.mark.parametrize("victim", VICTIMS)
async def test_a_killed_service_spends_nothing_twice(
    running: World, undisturbed: Undisturbed, victim: str, moment: str, number: int
) -> None:
    """It dies when the answer to this question is on its way to an aggregator, or has arrived."""
    await killed_inside(running, undisturbed, "visits", victim, moment, number)


@pytest.mark.parametrize("victim", VICTIMS)
async def test_a_service_killed_with_parts_open_spends_nothing_twice(
    running: World, undisturbed_in_parts: Undisturbed, victim: str
) -> None:
    """It dies when the answer to one of two parts has arrived; both are open."""
    assert undisturbed_in_parts.rounds == 3
    await killed_inside(running, undisturbed_in_parts, "ways", victim, "response", 2)


async def killed_inside(
    running: World, undisturbed: Undisturbed, table: str, victim: str, moment: str, number: int
) -> None:
    killed, rounds = asyncio.Event(), set[str]()

    async def watch(seen: str, method: str, path: str) -> None:
        if seen != moment or method != "POST" or not path.endswith("/batches") or killed.is_set():
            return
        if earlier.intersection(path.split("/")):  # what an earlier victim still had to deliver
            return
        rounds.add(path)
        if len(rounds) == number:
            killed.set()
            await running.call(running.kill, victim)

    before = len(await running.call(debits, running))
    earlier = await running.call(rounds_so_far, running)
    proxy = running.proxies["aggregator-1"]
    proxy.watch = watch
    job = await running.call(begin, running, table)
    try:
        await asyncio.wait_for(killed.wait(), 150)
    finally:
        proxy.watch = None
        if killed.is_set():
            await running.call(running.running.processes[victim].wait)
            await running.restart(victim)
    found = await ended(running, job)
    paid = (await running.call(debits, running))[before:]
    assert [epsilon for epsilon, credited in paid if not credited and epsilon != "0"] in (
        [EPSILON],
        [],
    )
    spent = spends(running, job)
    assert len(spent) == len(undisturbed.spent)
    assert all(a <= b for a, b in zip(spent, undisturbed.spent, strict=True))
    if found["state"] == "succeeded":
        summary = (await running.call(result, running, job))["summary"]
        if not summary["truncated"]:
            assert summary["patterns"] == undisturbed.summary["patterns"]
            assert spent == undisturbed.spent
