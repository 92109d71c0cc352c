"""Files with many meters at one instant: stored in blocks, and answered as single readings are."""

from __future__ import annotations

import asyncio
import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from sqlalchemy import text

from common.store.transactions import Database
from common.web.parts import part_of
from tests.curator.conftest import OPEN, OPERATOR, PLAIN, START, OpenSite, Site, query
from tests.curator.double import FakeWorld
from tests.curator.files.test_csv_import import LONG, WIDE, upload
from tests.curator.mqtt.process import Process

METERS = [f"g-{number:03d}" for number in range(300)]
HEADER = "house,meter,at,value\n"
NOON, LATER = START.isoformat(), (START + timedelta(minutes=15)).isoformat()


def table(
    meters: list[str], value: str = "0.001", instants: tuple[str, ...] = (NOON, LATER)
) -> bytes:
    lines = [f"{meter},{meter},{at},{value}\n" for at in instants for meter in meters]
    return (HEADER + "".join(lines)).encode()


async def stored(s: Site) -> tuple[int, int]:
    """Readings in blocks, and in rows."""
    async with part_of(s.app, Database).reading() as transaction:
        found = [
            (await transaction.execute(text(f"SELECT {what}"))).scalar_one() or 0
            for what in ("SUM(readings) FROM reading_block", "COUNT(*) FROM reading")
        ]
    return int(found[0]), int(found[1])


async def test_a_file_of_many_meters(site: OpenSite, world: FakeWorld) -> None:
    async with site() as s:
        await s.policy(**OPEN)
        await s.enrol("gw", METERS)
        await s.reading("g-007", "0.001", device="g-007")
        await s.reading("g-008", "2", device="g-008")
        found = await upload(s, LONG, table(METERS))
        assert (found["accepted"], found["duplicates"], found["conflicts"]) == (598, 1, 1)
        assert await stored(s) == (598, 2)
        again = await upload(s, LONG, table(METERS))
        assert (again["accepted"], again["duplicates"], again["conflicts"]) == (0, 599, 1)
        other = await upload(s, LONG, table(METERS[:150], "0.002"))
        assert (other["duplicates"], other["conflicts"]) == (0, 300)
        twice = await upload(s, LONG, table(METERS[:1] * 200, instants=("2025-12-31T12:30:00Z",)))
        assert (twice["accepted"], twice["duplicates"]) == (1, 199)
        assert await stored(s) == (598, 3)
        item = {"curator": "g-100", "device": "g-100", "time": NOON, "unit": "kWh"}
        sent = [
            {**item, "value": "0.001"},
            {**item, "value": "0.5"},
            {**item, "value": "0.5", "correction": True},
            {**item, "value": "0.5"},
        ]
        answers = await s.send(sent)
        # As for rows, what is in one batch is compared with what was there before it.
        wanted = ["duplicate", "conflict", "accepted", "conflict"]
        assert [each["status"] for each in answers] == wanted
        assert (await s.send([{**item, "value": "0.5"}]))[0]["status"] == "duplicate"
        assert await stored(s) == (597, 4)
        counts = await s.get("/v1/curators/g-200/readings")
        assert (counts["accepted"], counts["duplicates"], counts["conflicts"]) == (2, 2, 0)
        full = await s.get(
            "/v1/completeness?register=energy_import&period_s=900&from=2025-12-31T12:00:00Z"
            "&to=2025-12-31T13:00:00Z"
        )
        assert [each["devices"] for each in full["periods"]] == [300, 300, 1, 0]
        descriptor = s.open(query(PLAIN))
        await s.take_part()
        # 300 at two instants and one later, one of 2 and one of 0.5 in place of 0.001.
        assert world.result(descriptor) == {"sum": "3.099"}
        late = await upload(s, LONG, table(METERS[:200], instants=("2025-12-31T12:45:00Z",)))
        assert late["accepted"] == 200
        assert (await s.get("/v1/curators/g-000/readings"))["refreshed_after_contribution"] == 1


async def test_counters_and_blocks_of_one_register(site: OpenSite, world: FakeWorld) -> None:
    """The amount that follows from totals takes the place of one that a file gave, as in rows."""
    async with site() as s:
        await s.policy(**OPEN)
        await s.enrol("gw", METERS)
        await upload(s, LONG, table(METERS, instants=(NOON,)))
        for at, total in ((NOON, "10"), (LATER, "11")):
            await s.send(
                [
                    {
                        "curator": "g-000",
                        "device": "g-000",
                        "time": at,
                        "unit": "kWh",
                        "kind": "total_increasing",
                        "value": total,
                    }
                ]
            )
        descriptor = s.open(query(PLAIN))
        await s.take_part()
        assert world.result(descriptor) == {"sum": "1.299"}
        assert await stored(s) == (299, 1)


def whole(path: Path) -> list[int]:
    """How many readings each instant has in blocks."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as store:
        found = store.execute("SELECT SUM(readings) FROM reading_block GROUP BY time").fetchall()
    return [int(row[0]) for row in found]


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_a_killed_import_leaves_whole_blocks_and_may_be_repeated(
    site: OpenSite, tmp_path: Path, database_url: str
) -> None:
    """1.2 million readings; the process is killed once some are stored."""
    meters, instants = [f"g-{number:03d}" for number in range(570)], 2100
    path = tmp_path / "test.db"
    async with site() as s:
        await s.enrol("gw", meters)
    header = "meter," + ",".join(f"q{number}" for number in range(instants)) + "\n"
    row = ",".join(["1"] * instants)
    body = (header + "".join(f"{meter},{row}\n" for meter in meters)).encode()
    mapping = WIDE.replace("2025-12-31T12:00:00Z", "2025-12-01T00:00:00Z")
    process = Process(tmp_path / "curator", database_url, None)

    def send() -> dict[str, Any]:
        answer = httpx.post(
            f"http://127.0.0.1:{process.port}/v1/readings/import?{mapping}",
            content=body,
            headers={"Content-Type": "text/csv", "Authorization": f"Bearer {OPERATOR}"},
            timeout=300,
        )
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    try:
        await asyncio.to_thread(process.start)
        sending = asyncio.create_task(asyncio.to_thread(send))
        async with asyncio.timeout(200):
            while not whole(path):
                await asyncio.sleep(0.002)
        process.kill()
        with pytest.raises(httpx.TransportError):
            await sending
        left = whole(path)
        assert len(left) == instants
        assert 0 < left[0] < len(meters)
        assert set(left) == {left[0]}
        await asyncio.to_thread(process.start)
        found = await asyncio.to_thread(send)
    finally:
        process.stop()
    assert found["duplicates"] == left[0] * instants
    assert found["accepted"] == (len(meters) - left[0]) * instants
    assert found["conflicts"] == found["rejected"] == 0
    with sqlite3.connect(path) as store:
        values = [
            np.frombuffer(column, "<i8")
            for (column,) in store.execute("SELECT quantities FROM reading_block")
        ]
        rows = store.execute("SELECT COUNT(*) FROM reading").fetchone()[0]
    assert sum(each.size for each in values) + rows == len(meters) * instants
    assert all((each == 10**12).all() for each in values)
