"""What a round costs where rounds are small: one, many at once, lone curators, and no round at all.

    python -m bench.rounds [--cases small,many,lone,idle] [--rounds 5] [--groups 300] [--lone 60]
        [--against CHECKOUT]
    python -m bench.rounds --cases history [--events 1000000] [--against CHECKOUT]

Real processes with durable storage on loopback: a coordinator, five aggregators, one gateway;
mechanism `two-layer` with both probabilities 1, no TLS. CPU is that of all seven processes from the
request that opens a round to its release; requests, transactions, statements and signature checks
are those that the services count in the same time.

    small    a round of 1,000 hosted curators
    many     `--groups` rounds at once, each over a group of 100 hosted curators: all are opened,
             each by a request of its own, then their list is read until all sums are there; figures
             per round
    lone     a round of `--lone` curators that send for themselves; figures per curator
    idle     seven processes that have nothing to do; CPU milliseconds a second
    history  a coordinator whose ledger has `--events` events, nearly all of them debits and
             releases of rounds over 300 groups of 100 curators, hour after hour, where one round in
             ten lacks a curator: chained and written to its database directly. Seconds from the
             start of its process until it is ready, first without a checkpoint, then with one, and
             its peak of memory; milliseconds of `GET /v1/budget`, read again and again while the
             rows are verified, and after a round each; bytes of the pages that a real round over
             such a group adds to the databases

`--against` runs the same file with the interpreter (`.venv`) and the packages of another checkout
first, and prints the ratio old / new for each figure. At the end the goals stand beside what was
measured.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import re
import secrets
import sqlite3
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count, islice
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

import asyncpg
import httpx
import numpy as np

from bench.shares import END, QUERY, SETTINGS, START, cpu_s
from cli.services.deployment import Deployment, Running, ServiceAddress, join_token, pair
from common.runtime.clock import epoch_microseconds
from common.store.database import open_database
from coordinator.budget.round_charges import Price
from coordinator.models.budget_ledger import Draft, Kind, MemberSet, chain
from coordinator.store import ledger as ledger_store
from tacit.accounting.amounts import Amount
from tacit.accounting.scenarios import Scenario
from tacit.protocol.enrolment import PartyKind
from tacit.query.terms import PrivacyUnit

AGGREGATORS: Final = 5
PATIENCE_S: Final = 900.0
GROUP: Final = 100
HISTORY_GROUPS: Final = 300
NOON: Final = datetime(2020, 1, 1, 12, tzinfo=UTC)
IDLE_S: Final = 20
COUNTED: Final = {
    "requests": re.compile(r"^tacit_\w+?_http_requests_total\{.*\} (\S+)$", re.M),
    "transactions": re.compile(r"^tacit_\w+?_store_transactions_total(?:\{.*\})? (\S+)$", re.M),
    "statements": re.compile(r"^tacit_\w+?_store_statements_total (\S+)$", re.M),
    "checks": re.compile(r"^tacit_\w+?_signature_checks_total (\S+)$", re.M),
}


@dataclass(frozen=True)
class Options:
    """Sizes."""

    rounds: int
    groups: int
    lone: int
    events: int = 0


class Measured:
    """A deployment whose services' CPU and counts are read before and after a piece of work.
    `postgresql`: the address of a server on which each service gets a database, instead of SQLite.
    """

    def __init__(self, directory: Path, postgresql: str | None = None) -> None:
        self.deployment = Deployment.plan(directory, AGGREGATORS)
        self.running = Running(self.deployment, SETTINGS)
        for service in self.deployment.services if postgresql is not None else ():
            url = asyncio.run(_database(postgresql or ""))
            self.running.more[service.id] = {"TACIT_DATABASE_URL": url}

    def __enter__(self) -> Measured:
        self.running.start()
        pair(self.deployment)
        return self

    def __exit__(self, *_: object) -> None:
        self.running.stop()

    def counts(self) -> dict[str, float]:
        """What all services have counted so far."""
        found = dict.fromkeys(COUNTED, 0.0)
        for service in self.deployment.services:
            with service.client() as client:
                text = client.request("GET", "/metrics").text
            for name, pattern in COUNTED.items():
                found[name] += sum(map(float, pattern.findall(text)))
        return found

    def of(self, work: Callable[[], None], parts: int = 1) -> dict[str, float]:
        """Milliseconds and counts of `work`, divided by `parts`."""
        time.sleep(0.5)
        counts = self.counts()
        spent, started = cpu_s(self.running), time.perf_counter()
        work()
        wall = time.perf_counter() - started
        after = cpu_s(self.running)
        cpu = {role: after[role] - spent[role] for role in after}
        found = {"wall_ms": 1000 * wall / parts, "cpu_ms": 1000 * sum(cpu.values()) / parts}
        found |= {f"cpu_ms {role}": 1000 * seconds / parts for role, seconds in cpu.items()}
        return found | {
            name: (value - counts[name]) / parts for name, value in self.counts().items()
        }

    def enrol(self, party: str, kind: PartyKind, names: list[str]) -> None:
        """Enrol a party, and give each of its curators a reading."""
        token = join_token(self.deployment, party, kind, len(names), 3600)
        named = {"curators": names} if kind is PartyKind.HOST else {}
        lines = ["curator,time,value", *(f"{name},{START},1.5" for name in names)]
        with self.deployment.curator.client(timeout_s=PATIENCE_S) as client:
            client.post("/v1/enrolments", {"token": token.to_text(), **named})
            client.request(
                "POST",
                "/v1/readings/import",
                content="\n".join(lines).encode(),
                media_type="text/csv",
                params={"unit": "kWh", "kind": "delta", "curator_column": "curator"},
            )
            policy = client.get("/v1/policy")
            client.request("PUT", "/v1/policy", {**policy, "allow_repeats": True})

    def query(self, name: str, count: int, **changes: Any) -> str:
        """A query whose rounds need all of this many curators."""
        sizes = {"n_max": count, "min_participants": count, "deadline_s": 3600}
        with self.deployment.coordinator.client() as client:
            made = client.queries.create(
                {**QUERY, "sharing": "additive", **sizes, "name": name, **changes}
            )
            return str(made["id"])

    def opened(self, query: str) -> str:
        """Open a round; its id."""
        with self.deployment.coordinator.client(timeout_s=PATIENCE_S) as client:
            return str(client.rounds.open(query, window={"start": START, "end": END})["id"])

    def ended(self, opened: list[str], count: int) -> None:
        """Wait for the sums of many rounds, as a console does: by their list."""
        left = set(opened)
        with self.deployment.coordinator.client(timeout_s=PATIENCE_S) as client:
            while left:
                time.sleep(1)
                newest = islice(
                    client.rounds.list(state="released", newest_first=True), len(opened)
                )
                found = [item for item in newest if item["id"] in left]
                assert all(item["participants"] == count for item in found), found
                left -= {item["id"] for item in found}

    def round_of(self, query: str, count: int) -> None:
        """Open a round and wait for its sum."""
        with self.deployment.coordinator.client(timeout_s=PATIENCE_S) as client:
            opened = client.rounds.open(query, window={"start": START, "end": END})
            found = client.rounds.wait(opened["id"], PATIENCE_S)
        assert found["participants"] == count, found


async def _database(server: str) -> str:
    """The URL of a new database on a server, which stays there."""
    name = f"tacit_bench_{secrets.token_hex(6)}"
    connection = await asyncpg.connect(server)
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    return urlunsplit(urlsplit(server)._replace(scheme="postgresql+asyncpg", path=f"/{name}"))


def _median(several: list[dict[str, float]]) -> dict[str, float]:
    """Figure by figure, of all but the first, which warmed keys and tables."""
    return {name: statistics.median(each[name] for each in several[1:]) for name in several[0]}


def small(directory: Path, options: Options) -> dict[str, float]:
    """Rounds of 1,000 hosted curators."""
    with Measured(directory) as it:
        it.enrol("gateway", PartyKind.HOST, [f"meter-{number:04d}" for number in range(1000)])
        query = it.query("small", 1000)
        return _median([it.of(lambda: it.round_of(query, 1000)) for _ in range(options.rounds + 1)])


def many(directory: Path, options: Options) -> dict[str, float]:
    """Rounds over groups, all opened together; the second time counts."""
    names = [f"meter-{number:06d}" for number in range(GROUP * options.groups)]
    with Measured(directory) as it:
        it.enrol("gateway", PartyKind.HOST, names)
        queries = []
        with it.deployment.coordinator.client() as client:
            for number in range(options.groups):
                group = f"feeder-{number:05d}"
                client.groups.create(group, names[GROUP * number : GROUP * (number + 1)])
                queries.append(it.query(group, GROUP, group=group))

        def together() -> None:
            with ThreadPoolExecutor(32) as threads:
                opened = list(threads.map(it.opened, queries))
            it.ended(opened, GROUP)

        return _median([it.of(together, options.groups) for _ in range(2)])


def lone(directory: Path, options: Options) -> dict[str, float]:
    """Rounds of curators that are parties of their own."""
    with Measured(directory) as it:
        for number in range(options.lone):
            it.enrol(f"lone-{number}", PartyKind.CURATOR, [f"lone-{number}"])
        query = it.query("lone", options.lone)
        work = [
            it.of(lambda: it.round_of(query, options.lone), options.lone)
            for _ in range(options.rounds + 1)
        ]
        return _median(work)


def idle(directory: Path, _: Options) -> dict[str, float]:
    """Nothing, for a while."""
    with Measured(directory) as it:
        it.enrol("gateway", PartyKind.HOST, [f"meter-{number:04d}" for number in range(1000)])
        time.sleep(5)
        return it.of(lambda: time.sleep(IDLE_S), IDLE_S)


# --- a long history ------------------------------------------------------------------------------


def history(directory: Path, options: Options) -> dict[str, float]:
    """A coordinator with a long ledger."""
    names = [f"meter-{number:06d}" for number in range(GROUP * HISTORY_GROUPS)]
    with Measured(directory) as it:
        it.enrol("gateway", PartyKind.HOST, names)
        queries = []
        with it.deployment.coordinator.client() as client:
            for number in range(options.rounds):
                group = f"feeder-{number:05d}"
                client.groups.create(group, names[GROUP * number : GROUP * (number + 1)])
                queries.append(it.query(group, GROUP, group=group))
        for query in queries:  # the first of every query warms keys and tables
            it.round_of(query, GROUP)
        before = _bytes_used(it.deployment)
        for query in queries * 4:
            it.round_of(query, GROUP)
        after = _bytes_used(it.deployment)
        found = {
            f"bytes a round {role}": (after[role] - before[role]) / (4 * len(queries))
            for role in after
        }
        service = it.deployment.coordinator
        _end(it, service)
        expired = asyncio.run(_expire(Path(service.directory) / "coordinator.db"))
        dropped = after["coordinator"] - _bytes_used(it.deployment)["coordinator"]
        found["bytes a round that expiry drops"] = dropped / expired
        asyncio.run(_lengthen(Path(service.directory) / "coordinator.db", options.events))
        found["seconds to ready, no checkpoint"] = _start(it, service)
        time.sleep(20)  # the checkpoint is written
        _end(it, service)
        found["seconds to ready"] = _start(it, service)
        found["peak MB when ready"] = _peak_mb(it, service)
        found["p95 ms of budget"] = _p95([_budget_ms(service) for _ in range(200)])
        times = []
        for query in queries * 4:
            it.round_of(query, GROUP)
            times.append(_budget_ms(service))
        found["p95 ms of budget after a round"] = _p95(times)
        verified = re.compile(r"_ledger_verified_events (\d\S*)$", re.M)
        with service.client() as client:
            while (text := client.request("GET", "/metrics").text) and (
                (known := verified.search(text)) and float(known[1]) < options.events
            ):
                time.sleep(1)
        found["peak MB when verified"] = _peak_mb(it, service)
        return found


def _end(it: Measured, service: ServiceAddress) -> None:
    process = it.running.processes[service.id]
    process.terminate()
    process.wait()


def _start(it: Measured, service: ServiceAddress) -> float:
    """Seconds until a service is ready."""
    began = time.perf_counter()
    it.running.start_one(service)
    with httpx.Client() as client:
        while True:
            assert it.running.processes[service.id].poll() is None, "the service ended"
            with contextlib.suppress(httpx.TransportError):
                if client.get(f"{service.url}/readyz").status_code == 200:
                    return time.perf_counter() - began
            time.sleep(0.02)


def _budget_ms(service: ServiceAddress) -> float:
    with service.client(timeout_s=PATIENCE_S) as client:
        client.get("/v1/budget/limits")
        began = time.perf_counter()
        client.get("/v1/budget")
        return 1000 * (time.perf_counter() - began)


def _p95(values: list[float]) -> float:
    return sorted(values)[int(0.95 * len(values))]


def _peak_mb(it: Measured, service: ServiceAddress) -> float:
    status = Path(f"/proc/{it.running.processes[service.id].pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1024


def _bytes_used(deployment: Deployment) -> dict[str, float]:
    """Bytes of the pages in use in the databases: of a coordinator, of one aggregator, of the
    gateway."""
    services = (deployment.coordinator, deployment.aggregators[0], deployment.curator)
    found = {}
    for service in services:
        path = Path(service.directory) / f"{service.kind}.db"
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            pages, free, size = (
                database.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
        found[service.kind] = float((pages - free) * size)
    return found


async def _expire(path: Path) -> int:
    """Expire all rounds of a coordinator that does not run; how many."""
    from coordinator.store import round_details

    database, expired = open_database(f"sqlite:///{path}"), 0
    now = datetime.now(UTC)
    while True:
        async with database.begin() as transaction:
            some = await round_details.expire(transaction, now, now, spared=0, limit=50)
        expired += some
        if not some:
            break
    await database.dispose()
    return expired


async def _lengthen(path: Path, events: int) -> None:
    """Append events to the ledger of a coordinator that does not run."""
    database = open_database(f"sqlite:///{path}")
    async with database.reading() as transaction:
        seq, head = await ledger_store.head(transaction)
    drafts = _drafts()
    while seq < events:
        batch = list(chain(islice(drafts, min(5000, events - seq)), seq, head, NOON))
        async with database.begin(large=True) as transaction:
            await ledger_store.add(transaction, batch)
        seq, head = batch[-1].seq, batch[-1].hash
    await database.dispose()


def _drafts() -> Iterator[Draft]:
    """Hour after hour a round over each group."""
    chance, size = random.Random(1), GROUP * HISTORY_GROUPS
    hour_us, noon_us = 3_600_000_000, epoch_microseconds(NOON)
    price = Price.of(
        {
            (unit, scenario): None if scenario is Scenario.EVERYONE else Amount(1000, 1, 500, 1)
            for unit in PrivacyUnit
            for scenario in Scenario
        }
    ).to_payload()
    for hour in count():
        for group in range(HISTORY_GROUPS):
            name = str(UUID(int=chance.getrandbits(128), version=4))
            members = np.zeros(size, np.bool_)
            members[GROUP * group : GROUP * (group + 1)] = True
            invited = MemberSet.of(members).text
            start = noon_us + hour * hour_us
            yield Draft(
                Kind.ROUND_DEBITED,
                "system",
                {
                    "round": name,
                    "query": f"feeder-{group}",
                    "made": start + hour_us,
                    "window": [start, start + hour_us],
                    "price": price,
                    "members": invited,
                    "size": size,
                    "operators": ["a", "b", "c", "d", "e"],
                },
            )
            came = invited
            if chance.random() < 0.1:
                members[GROUP * group + chance.randrange(GROUP)] = False
                came = MemberSet.of(members).text
            yield Draft(
                Kind.ROUND_RELEASED, "system", {"round": name, "members": came, "size": size}
            )


@dataclass(frozen=True)
class Goal:
    """What a figure must not pass, and what is aimed at."""

    what: str
    figure: str
    must: float
    aim: float


GOALS: Final[dict[str, tuple[Goal, ...]]] = {
    "small": (Goal("a round of 1,000 hosted curators, CPU ms", "cpu_ms", 160, 120),),
    "many": (Goal("each of many rounds at once, CPU ms", "cpu_ms", 60, 30),),
    "lone": (Goal("a lone curator, all servers, CPU ms", "cpu_ms", 15, 8),),
    "idle": (Goal("seven idle processes, CPU ms a second", "cpu_ms", 15, 10),),
    "history": (
        Goal("start with a long ledger, s", "seconds to ready", 10, 3),
        Goal("its peak memory, MB", "peak MB when ready", 300, 200),
        Goal("`GET /v1/budget` there, p95 ms", "p95 ms of budget", 200, 50),
        Goal("coordinator's bytes a round", "bytes a round coordinator", 8000, 4000),
    ),
}
COUNTS: Final = ("requests", "transactions", "statements", "checks")


def table(found: dict[str, dict[str, float]]) -> str:
    """The goals beside what was measured, in Markdown."""
    lines = [
        "| | measured | must | aim | requests, transactions, statements, signature checks |",
        "|---|---|---|---|---|",
    ]
    for name, figures in found.items():
        counts = ", ".join(f"{figures[each]:.1f}" for each in COUNTS if each in figures)
        lines += [
            f"| {goal.what} | {figures[goal.figure]:,.1f} | {goal.must:g} | {goal.aim:g} "
            f"| {counts} |"
            for goal in GOALS[name]
        ]
    return "\n".join(lines)


CASES: Final = {"small": small, "many": many, "lone": lone, "idle": idle, "history": history}


def measure(names: list[str], options: Options) -> dict[str, dict[str, float]]:
    """The figures of some cases, each in a deployment of its own."""
    found = {}
    for name in names:
        with tempfile.TemporaryDirectory() as directory:
            found[name] = CASES[name](Path(directory), options)
    return found


def measure_in(checkout: Path, arguments: list[str]) -> dict[str, dict[str, float]]:
    """The same with another checkout's interpreter and packages."""
    python = checkout.resolve() / ".venv" / "bin" / "python"
    done = subprocess.run(
        [str(python), str(Path(__file__).resolve()), "--json", *arguments],
        cwd=checkout,
        env={"PYTHONPATH": str(checkout.resolve()), "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, dict[str, float]] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print the figures, and the ratios if there is something to compare with."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Raw)
    parser.add_argument("--cases", default="small,many,lone,idle")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--groups", type=int, default=300)
    parser.add_argument("--lone", type=int, default=60)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--json", action="store_true", help="the figures as one JSON object")
    asked = parser.parse_args()
    names = asked.cases.split(",")
    options = Options(asked.rounds, asked.groups, asked.lone, asked.events)
    if asked.json:
        print(json.dumps(measure(names, options)))
        return
    sizes = [f"--{name}={getattr(asked, name)}" for name in ("rounds", "groups", "lone", "events")]
    found = {}
    for name in names:
        old = measure_in(asked.against, [f"--cases={name}", *sizes])[name] if asked.against else {}
        new = found[name] = measure([name], options)[name]
        print(f"{name}:", flush=True)
        for figure, value in new.items():
            line = f"  {figure:32} {value:9.1f}"
            if old.get(figure):
                ratio = f"{old[figure] / value:.2f}" if value else "-"
                line += f"   old {old[figure]:9.1f}   old / new {ratio}"
            print(line, flush=True)
    print(table(found))


class _Raw(argparse.RawDescriptionHelpFormatter):
    pass


if __name__ == "__main__":
    main()
