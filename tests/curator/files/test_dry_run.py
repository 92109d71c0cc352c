"""What a file is taken for, and what a dry run of it shows."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from cli.meter_file import MeterFile
from curator.errors import BadImport
from curator.files.recognise import recognise
from tests.curator.files.market.green_button_files import FeedFile, Meter

CLOCK = ",".join(f"{hour:02d}:00" for hour in range(24))
DAYS = f"Meter,Date,{CLOCK}\nm-1,2025-11-03{',0.5' * 24}\nm-2,2025-11-03{',0.25' * 24}\n"
FILES: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    (
        "time,value\n2025-11-03T00:00:00Z,1\n",
        {},
        {},
        "a reading a row (columns 'time' and 'value')",
    ),
    (
        "Exported by us\n\nCurator;Timestamp;Value\na;2025-11-03;1\nb;2025-11-03;1\n",
        {},
        {
            "delimiter": ";",
            "header_line": 3,
            "curator_column": "Curator",
            "time_column": "Timestamp",
            "value_column": "Value",
        },
        "semicolon, header in line 3",
    ),
    (
        DAYS,
        {},
        {"layout": "day", "date_column": "Date", "device_column": "Meter"},
        "a day a row (dates in 'Date', 24 intervals 00:00 to 23:00)",
    ),
    (
        DAYS.replace(",", "\t"),
        {"curator": "a"},
        {"layout": "day", "delimiter": "tab", "date_column": "Date", "device_column": "Meter"},
        "tab",
    ),
    (DAYS, {"layout": "wide"}, {}, "layout wide as given"),
    (
        "time,a,b\n2025-11-03T00:00:00Z,1,2\n",
        {},
        {},
        "if each column is a meter, give layout pivot",
    ),
    ("when,much\nx,y\n", {"time_column": "when"}, {}, "unless the map says more"),
    ("time,value\n", {"header_line": 9}, {}, "no line looks like a header"),
    ('a,"b\nc\n', {}, {}, "no line looks like a header"),
    ("", {}, {}, "no line looks like a header"),
]


@pytest.mark.parametrize(("text", "given", "parameters", "words"), FILES)
def test_what_a_file_is_taken_for(
    text: str, given: dict[str, Any], parameters: dict[str, Any], words: str
) -> None:
    found = recognise(text.encode(), given)
    assert words in found.words
    assert found.parameters == parameters


def run(path: Path, body: bytes, **given: Any) -> Any:
    path.write_bytes(body)
    return MeterFile(path, None, 900, "kWh", "energy_import", given).dry_run()


def test_the_meters_of_one_curator_are_devices_of_their_own(tmp_path: Path) -> None:
    found = run(tmp_path / "days.csv", DAYS.encode(), timezone="Europe/Zurich", curator="house")
    assert (found.counts.accepted, found.counts.conflicts) == (48, 0)


def test_a_dry_run_sums_what_an_independent_script_sums(tmp_path: Path) -> None:
    zone = ZoneInfo("Europe/Zurich")
    found = run(tmp_path / "days.csv", DAYS.encode(), timezone="Europe/Zurich")
    assert (found.counts.accepted, found.counts.rejected) == (48, 0)
    sums = {row[0]: sum(map(Decimal, row[2:])) for row in list(csv.reader(io.StringIO(DAYS)))[1:]}
    assert {each.meter: Decimal(each.total) for each in found.sums} == sums
    assert {(each.day, each.readings) for each in found.sums} == {("2025-11-03", 24)}
    first = datetime(2025, 11, 3, tzinfo=zone).astimezone(UTC).isoformat()
    assert found.first[0] == (first, "m-1", "0.5 kWh")
    assert len(found.first) == 10


def test_a_dry_run_counts_what_comes_twice_and_what_is_wrong(tmp_path: Path) -> None:
    body = (
        b"curator,device,time,value\n"
        b"a,x,2025-11-03T00:00:00Z,1\na,x,2025-11-03T00:00:00Z,1\na,x,2025-11-03T00:00:00Z,2\n"
        b"a,x,yesterday,1\nb,b,2025-11-03T00:00:00Z,0.1\n"
    )
    found = run(tmp_path / "long.csv", body)
    counts = found.counts
    assert (counts.accepted, counts.duplicates, counts.conflicts, counts.rejected) == (2, 1, 1, 1)
    assert [(each.meter, each.total) for each in found.sums] == [("a x", "1"), ("b", "0.1")]
    counters = run(
        tmp_path / "counters.csv",
        b"curator,device,time,value\n"
        b"a,a,2025-11-03T00:00:00Z,10\na,a,2025-11-03T01:00:00Z,12.5\na,a,2025-11-03T02:00:00Z,x\n",
        kind="total_increasing",
    )
    assert [(each.total, each.readings) for each in counters.sums] == [("12.5", 2)]
    assert counters.counts.rejected == 1
    with pytest.raises(ValueError, match="layout day needs the timezone"):
        run(tmp_path / "days.csv", DAYS.encode())
    with pytest.raises(BadImport, match="the header has no column"):
        run(tmp_path / "other.csv", b"a,b\n1,2\n")


def test_a_dry_run_of_green_button(tmp_path: Path) -> None:
    body = FeedFile([Meter("p-1", [500, 250], datetime(2025, 11, 3, tzinfo=UTC))]).text().encode()
    for name in ("feed.xml", "feed.txt"):
        found = run(tmp_path / name, body)
        assert found.counts.accepted == sum(each.readings for each in found.sums) > 0
