"""Importing by HTTP: what a file is taken for, dry runs, and large damaged files."""

from __future__ import annotations

from typing import Any

from tests.curator.conftest import Site
from tests.curator.files.tables.test_csv_import import upload
from tests.curator.stored import rows


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
