"""Readings a second of one process and of eight that write to one database on PostgreSQL.

    python -m bench.writers URL [--seconds 4] [--turns 3] [--items 1] [--writers 8]
        [--against CHECKOUT]

`URL`: a server on which databases may be made (and are removed). Each writer is a process with the
intake of a curator service, like a replica, and stores batches of `--items` readings of its own
curators, one after the other; a batch is one transaction, acknowledged when it is on the disk. In
turn: one writer, all, and all with a database each, which share no lock but only the machine and
the server: the bound. Printed are medians of transactions a second over all turns, their ratios,
and what the sessions of all that share a database wait for, sampled from `pg_stat_activity` while
they write. `--against` has another checkout's intake do the same, in turn with this one's.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import asyncpg
from sqlalchemy import insert

from bench.rounds import _database
from common.principals import Principal, Scope
from common.runtime.clock import SystemClock
from common.store.database import migrate, open_database
from curator.app import MIGRATIONS
from curator.intake.intake import Intake, Status
from curator.settings import CuratorSettings
from curator.store.parties import COUNTS
from curator.store.tables import curators, parties

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
CURATORS: Final = 1000
"""Of each writer."""
OPERATOR: Final = Principal("bench", frozenset({Scope.OPERATOR}))
ACTIVITY: Final = (
    "SELECT coalesce(wait_event_type || ' ' || wait_event, 'runs') AS event, count(*) AS sessions "
    "FROM pg_stat_activity WHERE datname = $1 AND state <> 'idle' AND pid <> pg_backend_pid() "
    "GROUP BY 1"
)


async def prepare(url: str, writers: int) -> None:
    """The tables of a curator service, and one party with the curators of all writers."""
    database = open_database(url)
    await migrate(database, MIGRATIONS)
    party = {
        "id": "gateway",
        "kind": "host",
        "state": "active",
        "deployment": "bench",
        "identity": b"",
        "coordinator_url": "http://127.0.0.1",
        "first_key": 0,
        "curators": writers * CURATORS,
        "created": datetime.now(UTC),
    }
    async with database.begin() as transaction:
        await transaction.execute(insert(parties), party)
        names = [f"meter-{number}" for number in range(writers * CURATORS)]
        await transaction.execute(
            insert(curators),
            [
                {"key": key, "id": name, "party": "gateway", **dict.fromkeys(COUNTS, 0)}
                for key, name in enumerate(names)
            ],
        )
    await database.dispose()


@dataclass
class Writer:
    """A curator service's intake on a database, and batches of readings for it."""

    intake: Intake
    names: list[str]
    first_key: int
    items: int
    number: int = 0

    @classmethod
    async def begun(cls, url: str, folder: Path, place: int, items: int) -> Writer:
        """With all devices known, and all statements prepared."""
        database = open_database(url)
        intake = Intake(database, SystemClock(), CuratorSettings(data_dir=folder))
        async with database.reading() as transaction:
            await intake.hosted.load(transaction)
        first_key = place * CURATORS
        names = [f"meter-{first_key + number}" for number in range(CURATORS)]
        await intake.make_devices(list(enumerate(names, first_key)))
        writer = cls(intake, names, first_key, items)
        for _ in range(5):
            await writer.batch()
        return writer

    async def batch(self) -> None:
        """The next readings, of one device after the other."""
        raws = []
        for number in range(self.number, self.number + self.items):
            period, owner = divmod(number, CURATORS)
            at = (START + timedelta(minutes=period)).isoformat()
            fixed = {"value": "1.5", "unit": "kWh", "kind": "delta"}
            raws.append({"curator": self.names[owner], "time": at, **fixed})
        self.number += self.items
        answers = await self.intake.take(raws, OPERATOR)
        assert all(answer.status is Status.ACCEPTED for answer in answers), answers


async def write(urls: list[str], place: int, items: int) -> None:
    """For each line that comes, a URL's place and seconds, write for as long and answer with
    batches a second."""
    with tempfile.TemporaryDirectory() as folder:
        writers = [await Writer.begun(url, Path(folder), place, items) for url in urls]
        print("ready", flush=True)
        for line in sys.stdin:
            database, seconds = line.split()
            writer = writers[int(database)]
            began, first = time.perf_counter(), writer.number
            while (elapsed := time.perf_counter() - began) < float(seconds):
                await writer.batch()
            print((writer.number - first) / items / elapsed, flush=True)


@contextmanager
def started(checkout: Path, *arguments: str) -> Iterator[Any]:
    """This file in the environment of a checkout."""
    root = checkout.resolve()
    with subprocess.Popen(
        [str(root / ".venv/bin/python"), __file__, *arguments],
        cwd=root,
        env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        yield process
        process.stdin.close()


def together(processes: list[Any], database: int, seconds: float) -> float:
    """Let these write at the same time; batches a second of all."""
    for process in processes:
        print(database, seconds, file=process.stdin, flush=True)
    return sum(float(process.stdout.readline()) for process in processes)


async def activity(server: str, url: str, seconds: float) -> Counter[str]:
    """What the sessions of a database wait for, sampled."""
    connection = await asyncpg.connect(server)
    name = url.rpartition("/")[2]
    waits: Counter[str] = Counter()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for row in await connection.fetch(ACTIVITY, name):
            waits[row["event"]] += row["sessions"]
        await asyncio.sleep(0.02)
    await connection.close()
    return waits


async def copied(server: str, urls: list[str]) -> None:
    """Make all databases but the first copies of it."""
    connection = await asyncpg.connect(server)
    first, *others = (url.rpartition("/")[2] for url in urls)
    for name in others:
        await connection.execute(f"DROP DATABASE {name}")
        await connection.execute(f"CREATE DATABASE {name} TEMPLATE {first}")
    await connection.close()


async def removed(server: str, urls: list[str]) -> None:
    """Drop the databases."""
    connection = await asyncpg.connect(server)
    for url in urls:
        await connection.execute(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)")
    await connection.close()


def begun(stack: ExitStack, checkout: Path, options: argparse.Namespace) -> tuple[list[Any], str]:
    """The writers of a checkout, and the URL of the database that they share."""
    urls = [asyncio.run(_database(options.server)) for _ in range(1 + options.writers)]
    stack.callback(lambda: asyncio.run(removed(options.server, urls)))
    with started(checkout, urls[0], "--prepare", "--writers", str(options.writers)) as preparing:
        assert preparing.wait() == 0
    asyncio.run(copied(options.server, urls))
    items = str(options.items)
    processes = [
        stack.enter_context(
            started(checkout, urls[0], urls[1 + place], "--place", str(place), "--items", items)
        )
        for place in range(options.writers)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    return processes, urls[0]


def main() -> None:
    """Print the rates."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("server")
    parser.add_argument("own", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--items", type=int, default=1)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--place", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--prepare", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.prepare:
        asyncio.run(prepare(options.server, options.writers))
        return
    if options.place is not None:
        asyncio.run(write([options.server, options.own], options.place, options.items))
        return
    checkouts = {"here": Path(__file__).parents[1]}
    if options.against is not None:
        checkouts["against"] = options.against
    with ExitStack() as stack:
        of = {name: begun(stack, checkout, options) for name, checkout in checkouts.items()}
        rates: dict[str, list[list[float]]] = {name: [] for name in of}
        waits: dict[str, Counter[str]] = {name: Counter() for name in of}
        seconds = options.seconds
        with ThreadPoolExecutor(1) as thread:
            for _ in range(options.turns):
                for name, (processes, url) in of.items():
                    one = together(processes[:1], 0, seconds)
                    sampled = thread.submit(asyncio.run, activity(options.server, url, seconds))
                    every = together(processes, 0, seconds)
                    waits[name] += sampled.result()
                    rates[name].append([one, every, together(processes, 1, seconds)])
    for name, turns in rates.items():
        one, every, apart = (statistics.median(column) for column in zip(*turns, strict=True))
        print(
            f"{name}: one {one:.0f}/s; {options.writers} on one database {every:.0f}/s, "
            f"{every / one:.2f} of one; with a database each {apart:.0f}/s, {apart / one:.2f}"
        )
        total = waits[name].total()
        for event, sessions in waits[name].most_common(6):
            print(f"    {sessions / total:.2f} {event}")


if __name__ == "__main__":
    main()
