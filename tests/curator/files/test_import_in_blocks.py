"""Files with many meters at one instant: stored in blocks, and answered as single readings are."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import text

from common.store.transactions import Database
from common.web.dependencies import part_of
from tests.curator.conftest import OPEN, PLAIN, START, Site, query
from tests.curator.double import FakeWorld
from tests.curator.files.tables.test_csv_import import LONG, upload

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


@pytest.mark.usefixtures("database_url")
async def test_a_file_of_many_meters(s: Site, world: FakeWorld) -> None:
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
