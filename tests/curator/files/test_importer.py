"""Importing by HTTP: what a file is taken for, dry runs, and large damaged files."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from curator.files import metered, storing
from curator.files.tables import csv_import
from tests.curator.conftest import START, Site
from tests.curator.files.devices.test_dsmr import telegram
from tests.curator.files.tables.test_csv_import import upload
from tests.curator.stored import rows


def table(count: int) -> bytes:
    lines = (f"{(START + timedelta(seconds=k)).isoformat()},0.5\n" for k in range(count))
    return ("time,value\n" + "".join(lines)).encode()


@pytest.fixture
def small_lots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readings are stored some at a time, so that much is stored before a file's end."""
    monkeypatch.setattr(metered, "FLUSH", 50)
    monkeypatch.setattr(storing, "TOGETHER", 50)
    monkeypatch.setattr(storing, "LOT", 20)
    monkeypatch.setattr(csv_import, "HELD", 1000)
    monkeypatch.setattr(metered, "PIECE", 1000)


@pytest.mark.usefixtures("small_lots")
async def test_of_a_large_damaged_file_of_counters_nothing_is_stored(s: Site) -> None:
    """Of all formats: `test_samples`."""
    body = table(500) + b'"2025-12-31T13:00:00Z,1\n'
    await s.enrol("house")
    found = await upload(s, "unit=kWh&kind=total_increasing", body, 422)
    assert found["import"]["accepted"] == 0
    assert await rows(s) == []
    assert (await s.get("/v1/curators/house/readings"))["accepted"] == 0


@pytest.mark.usefixtures("small_lots")
async def test_a_large_whole_file_is_stored_once(s: Site) -> None:
    """The control: with the same small lots."""
    await s.enrol("house")
    found = await upload(s, "unit=kWh", table(500) + b"never,1\n")
    assert (found["accepted"], found["rejected"]) == (500, 1)
    assert len(found["errors"]) == 1
    assert len(await rows(s)) == 500
    p1 = b"".join(telegram(f"25123112{k // 60:02d}{k % 60:02d}W") for k in range(300))
    found = await upload(s, "", p1)
    assert (found["accepted"], found["rejected"]) == (300 * 10 + 1, 0)


async def test_the_answer_says_what_the_file_is_taken_for(s: Site) -> None:
    days = ",".join(f"{hour:02d}:00" for hour in range(24))
    files: list[tuple[str, str, str]] = [
        ("Time;Value\n2025-12-31T12:00:00Z;1\n", "unit=kWh", "CSV, a reading a row"),
        (f"date,{days}\n2025-12-30{',1' * 24}\n", "unit=kWh&timezone=UTC", "CSV, a day a row"),
    ]
    await s.enrol("house")
    for body, parameters, words in files:
        found = await upload(s, parameters, body.encode())
        assert found["taken_for"].startswith(words)
        assert found["accepted"] > 0
    refused = await upload(s, "unit=kWh", b"when,much\n1,2\n", 422)
    assert refused["import"]["taken_for"].startswith("CSV, a reading a row, unless")


async def test_a_dry_run_of_the_service_stores_nothing(s: Site) -> None:
    body = b"curator,time,value\n"
    body += (
        b"house,2025-12-31T12:00:00Z,1\nhouse,2025-12-31T12:15:00Z,2.5\nno,2025-12-31T12:15:00Z,2\n"
    )
    await s.enrol("house")
    found: dict[str, Any] = await upload(s, "unit=kWh&dry_run=true", body)
    assert (found["accepted"], found["rejected"], found["dry_run"]) == (2, 1, True)
    assert found["first"][0] == {
        "time": "2025-12-31T12:00:00+00:00",
        "meter": "house",
        "value": "1 kWh",
    }
    assert found["sums"] == [
        {
            "day": "2025-12-31",
            "meter": "house",
            "register": "energy_import",
            "readings": 2,
            "total": "3.5",
            "unit": "kWh",
        }
    ]
    assert found["unknown_curators"] == ["no"]
    assert await rows(s) == []
    assert (await s.get("/v1/curators/house/readings"))["rejected"] == 0
