"""CSV as programs export it: 24:00, thousands, US dates, qualities, a preamble and a footer."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from urllib.parse import urlencode

import pytest

from cli.meter_file import MeterFile
from curator.files.tables.columns import ColumnMap, numbers_of
from tests.curator.conftest import Site
from tests.curator.files.tables.test_csv_import import upload
from tests.curator.stored import rows

EXPORT = (
    'Account;4711\n"Exported; by";11/10/2025\nDate;Hour ending;Usage;Quality\n'
    '11/07/2025;23:00;"1,234.5";A\n'
    '11/07/2025;24:00;"2,000.0";E\n'
    '11/08/2025;01:00;"9,999.9";missing\n'
    "11/08/2025;02:00;17.25;A\n"
    'Total;;"13,251.65";\n\n'
)
MAP = {
    "delimiter": ";",
    "thousands": ",",
    "header_line": 3,
    "footer_lines": 1,
    "unit": "Wh",
    "curator": "g-1",
    "date_column": "Date",
    "time_column": "Hour ending",
    "value_column": "Usage",
    "quality_column": "Quality",
    "accept": "A,E",
    "time_format": "%m/%d/%Y %H:%M",
    "timezone": "America/New_York",
    "stamp": "end",
    "step_s": 3600,
}


def independent_sum(text: str) -> Decimal:
    table = list(csv.DictReader(io.StringIO(text.split("\n", 2)[2]), delimiter=";"))[:-1]
    taken = [row["Usage"] for row in table if row["Quality"] in ("A", "E")]
    return sum((Decimal(usage.replace(",", "")) for usage in taken), Decimal())


async def test_all_of_it_in_one_file(s: Site) -> None:
    await s.enrol("g-1")
    found = await upload(s, urlencode(MAP), EXPORT.encode())
    assert (found["accepted"], found["rejected"], found["lines"]) == (3, 1, 9)
    [error] = found["errors"]
    assert (error["line"], error["column"]) == (6, 4)
    stored = await rows(s)
    assert [at for _, at, _ in stored] == [
        datetime(2025, 11, 8, hour, tzinfo=UTC) for hour in (3, 4, 6)
    ]
    assert Decimal(sum(q for *_, q in stored)) / 10**9 == independent_sum(EXPORT)


@pytest.mark.parametrize(
    ("stamp", "zone", "form", "text", "expected"),
    [
        ("end", "Europe/Zurich", None, "2025-11-03 24:00", "2025-11-03T22:45"),
        ("end", "Europe/Zurich", None, "2025-11-03T24:00:00", "2025-11-03T22:45"),
        ("end", None, None, "2025-11-03T24:00:00Z", "2025-11-03T23:45"),
        ("end", "Europe/Zurich", "%d.%m.%Y %H%M", "31.10.2025 2400", "2025-10-31T22:45"),
        ("end", "Europe/Zurich", None, "2025-11-03 24:15", "is an RFC 3339 time"),
        ("end", "Europe/Zurich", "%d.%m.%Y %H:%M", "3.11.2025 24:01", "is not of the form"),
        ("start", "Europe/Zurich", None, "2025-11-03 24:00", 'only where stamp = "end"'),
    ],
)
async def test_the_end_of_a_day(
    s: Site, stamp: str, zone: str | None, form: str | None, text: str, expected: str
) -> None:
    given = {"unit": "kWh", "stamp": stamp, "step_s": 900, "timezone": zone, "time_format": form}
    mapping = urlencode({name: value for name, value in given.items() if value is not None})
    await s.enrol("g-1")
    found = await upload(s, mapping, f"time,value\n{text},1\n".encode())
    if found["rejected"]:
        assert expected in found["errors"][0]["detail"]
    else:
        [(_, at, _)] = await rows(s)
        assert at == datetime.fromisoformat(expected).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("thousands", "decimal", "cell", "expected"),
    [
        (".", ",", "1.234,5", "1234.5"),
        (".", ",", "-1.234.567", "-1234567"),
        (".", ",", "12,5", "12.5"),
        (".", ",", "1.23", "?"),
        (".", ",", "1.2345", "?"),
        (".", ",", "1234.567", "?"),
        (".", ",", "1,234.5", "?"),
        (",", ".", "1,234.5", "1234.5"),
        (",", ".", "1,5", "?"),
        ("'", ".", "1'234.5", "1234.5"),
        (" ", ",", "1 234,5", "1234.5"),
        (" ", ",", "1\u202f234,5", "1234.5"),
        (" ", ",", "1 23", "?"),
    ],
)
def test_thousands(thousands: str, decimal: str, cell: str, expected: str) -> None:
    mapping = ColumnMap.model_validate(
        {"unit": "kWh", "delimiter": ";", "thousands": thousands, "decimal": decimal}
    )
    assert list(numbers_of([cell.encode()], mapping)) == [expected.encode()]


async def test_thousands_of_counters_and_of_days(s: Site) -> None:
    marks = {"thousands": ".", "decimal": ",", "delimiter": ";"}
    counter = {"unit": "kWh", "kind": "total_increasing"} | marks
    day = {"unit": "kWh", "layout": "day", "timezone": "UTC", "quality_column": "q", "accept": "A"}
    header = ";".join(f"{hour:02d}:00" for hour in range(24))
    await s.enrol("g-1")
    body = "time;value\n2025-11-03T00:00:00Z;1.000,5\n2025-11-03T01:00:00Z;1.001,75\n"
    assert (await upload(s, urlencode(counter), body.encode()))["accepted"] == 2
    body = f"date;q;{header}\n2025-11-04;A{';1.000,5' * 24}\n2025-11-05;F{';1' * 24}\n"
    found = await upload(s, urlencode(day | marks), body.encode())
    assert (found["accepted"], found["rejected"]) == (24, 1)
    assert sum(q for _, at, q in await rows(s) if at.day == 4) == 24_012 * 10**12


def test_what_a_map_refuses() -> None:
    for given in (
        {"thousands": "."},
        {"thousands": "x"},
        {"quality_column": "q"},
        {"accept": "A"},
        {"layout": "pivot", "quality_column": "q", "accept": "A"},
        {"footer_lines": -1},
    ):
        with pytest.raises(ValueError):
            ColumnMap.model_validate({"unit": "kWh", **given})


def test_a_list_of_the_command_s_map(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text("time,value\n")
    columns = {"accept": ["A", "E"], "curator": "a"}
    file = MeterFile(path, None, 900, "kWh", "energy_import", columns)
    assert file.parameters()["accept"] == "A,E"
