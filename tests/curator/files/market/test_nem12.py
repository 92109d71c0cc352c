"""NEM12: several NMIs, minutes and units, qualities by day and by interval, and damaged files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from cli.meter_file import MeterFile
from curator.files.recognise import recognise
from tests.curator.conftest import Site
from tests.curator.files.tables.test_csv_import import upload
from tests.curator.stored import rows

HEAD = "100,NEM12,202511050900,MDP1,RETAILER"
POINTS = '{"NEM1201009":"g-1","NEM1201010":"g-2","NEM1201011":"g-2"}'
MAP = f"form=nem12&usage_points={quote(POINTS)}"


def nmi(name: str, suffix: str, unit: str, minutes: int) -> str:
    return f"200,{name},E1B1Q1,1,{suffix},N1,01009,{unit},{minutes},20260101"


def day(date: str, minutes: int, quality: str, value: str = "{k}.125") -> str:
    values = ",".join(value.format(k=k) for k in range(1440 // minutes))
    return f"300,{date},{values},{quality},,,20251104120000,20251105010000"


def text(*records: str, end: str = "\r\n") -> bytes:
    return end.join([HEAD, *records, "900", ""]).encode()


SAMPLE = text(
    nmi("NEM1201009", "E1", "kWh", 30),
    day("20251103", 30, "A"),
    "500,O,S01009,20251104120000,1.2",
    day("20251104", 30, "V"),
    "400,1,20,A,,",
    "400,21,24,N,,",
    "400,25,48,S14,51,",
    nmi("NEM1201009", "B1", "KWH", 30),
    day("20251103", 30, "E52", "0.5"),
    nmi("NEM1201010", "E1", "WH", 15),
    day("20251103", 15, "F14", "1{k}"),
    nmi("NEM1201011", "E2", "MWh", 5),
    day("20251103", 5, "S14", "0.00{k}"),
    day("20251104", 5, "N14", "0"),
)


def independent_sums(body: bytes) -> dict[str, Decimal]:
    """kWh by NMI and suffix: all days but null intervals."""
    sums: dict[str, Decimal] = {}
    for record in body.decode().split("\r\n"):
        cells = record.split(",")
        if cells[0] == "200":
            name, count = f"{cells[1]}:{cells[4]}", 1440 // int(cells[8])
            factor = {"W": Decimal("0.001"), "K": Decimal(1), "M": Decimal(1000)}[
                cells[7].upper()[0]
            ]
        elif cells[0] == "300" and cells[2 + count][0] != "N":
            null = range(20, 24) if cells[2 + count] == "V" else ()
            values = [Decimal(v) for k, v in enumerate(cells[2 : 2 + count]) if k not in null]
            sums[name] = sums.get(name, Decimal()) + sum(values) * factor
    return sums


@pytest.mark.parametrize("end", ["\r\n", "\n"])
async def test_a_file(s: Site, end: str) -> None:
    await s.enrol("gw", ["g-1", "g-2"])
    found = await upload(s, MAP, SAMPLE.replace(b"\r\n", end.encode()))
    assert (found["accepted"], found["rejected"]) == (48 + 44 + 48 + 96 + 288, 4 + 288)
    assert {e["detail"] for e in found["errors"]} == {"the quality is N: there is no value"}
    assert [(e["line"], e["column"]) for e in found["errors"]][:4] == [
        (5, column) for column in range(23, 27)
    ]
    sums: dict[str, int] = {}
    for register in ("energy_import", "energy_export"):
        stored = await rows(s, register)
        for device, _, quantity in stored:
            sums[device] = sums.get(device, 0) + quantity
    kwh = {device: Decimal(total) / 10**12 for device, total in sums.items()}
    assert kwh == independent_sums(SAMPLE)
    begin = datetime(2025, 11, 2, 14, tzinfo=UTC)  # midnight in eastern standard time
    times = [at for device, at, _ in await rows(s) if device == "NEM1201010:E1"]
    assert times == [begin + timedelta(minutes=15 * k) for k in range(96)]
    again = await upload(s, MAP, SAMPLE)
    assert again["accepted"] == 0


async def test_qualities_that_are_taken(s: Site) -> None:
    await s.enrol("gw", ["g-1", "g-2"])
    found = await upload(s, MAP + "&accept=A,N", SAMPLE)
    assert found["accepted"] == 48 + 20


BAD_ROWS: list[tuple[list[str], list[tuple[int, int | None, str]], int]] = [
    ([day("20251103", 30, "A").replace(",0.125,", ",")], [(3, 51, "48 values and then")], 0),
    ([day("20251103", 15, "A")], [(3, 51, "48 values and then")], 0),
    ([day("20251103", 30, "X")], [(3, 51, "48 values and then")], 0),
    ([day("2025-11-03", 30, "A")], [(3, 2, "YYYYMMDD")], 0),
    ([day("20251131", 30, "A")], [(3, 2, "YYYYMMDD")], 0),
    ([day("20251103", 30, "A").replace(",7.125,", ",x,")], [(3, 10, "not a decimal number")], 47),
    ([day("20991103", 30, "A")], [(3, 3, "in the future")], 0),
    ([day("20251103", 30, "V"), "400,1,47,A"], [(3, 50, "no 400 record")], 47),
    ([day("20251103", 30, "V"), "400,1,49,A"], [(4, 2, "not from 1 to 48")], 0),
    ([day("20251103", 30, "V"), "400,1,48,V"], [(4, 4, "quality flag")], 0),
    (
        [day("20251103", 30, "V"), "400,1,48,A", "400,2,2,E"],
        [(5, 2, "two qualities"), (3, 4, "two qualities")],
        47,
    ),
]


@pytest.mark.parametrize(("records", "places", "accepted"), BAD_ROWS)
async def test_a_bad_record_has_its_place(
    s: Site, records: list[str], places: list[tuple[int, int, str]], accepted: int
) -> None:
    body = text(nmi("NEM1201009", "E1", "kWh", 30), *records)
    await s.enrol("gw", ["g-1", "g-2"])
    found = await upload(s, MAP, body)
    assert found["accepted"] == accepted
    listed = [(e["line"], e["column"], e["detail"]) for e in found["errors"]]
    for line, column, detail in places:
        assert any(e[:2] == (line, column) and detail in e[2] for e in listed), listed


@pytest.mark.parametrize(
    ("stream", "column"),
    [
        (nmi("NEM", "E1", "kWh", 30), 2),
        (nmi("NEM1201009", "E", "kWh", 30), 5),
        (nmi("NEM1201009", "Q1", "kVArh", 30), 5),
        (nmi("NEM1201009", "E1", "kW", 30), 8),
        (nmi("NEM1201009", "E1", "kWh", 10), 9),
        (nmi("NEM1299999", "E1", "kWh", 30), 2),
    ],
)
async def test_a_stream_that_is_not_taken(s: Site, stream: str, column: int) -> None:
    body = text(stream, day("20251103", 30, "A"), "400,1,48,A")
    await s.enrol("gw", ["g-1", "g-2"])
    found = await upload(s, MAP, body)
    assert (found["accepted"], found["rejected"] > 0) == (0, True)
    assert (found["errors"][0]["line"], found["errors"][0]["column"]) == (2, column)


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (SAMPLE[:-5], "the file is cut off: it has no 900 record"),
        (SAMPLE + b"200,x\r\n", "continues after its 900 record"),
        (SAMPLE.replace(b"NEM12,", b"NEM13,", 1), "line 1: a NEM12 file begins with 100,NEM12"),
        (text(day("20251103", 30, "A")), "line 2, column 1: a 300 record before any 200"),
        (text("250,x"), "line 2, column 1: the row is no record of NEM12"),
        (SAMPLE.replace(b"RETAILER", b'RET"AIL'), "line 1: a quote in a cell"),
        (b"", "the file is cut off"),
    ],
)
async def test_a_damaged_file_stores_nothing(s: Site, body: bytes, detail: str) -> None:
    await s.enrol("gw", ["g-1", "g-2"])
    found = await upload(s, MAP, body, 422)
    assert detail in found["detail"]
    assert await rows(s) == []


def test_the_command_finds_the_format(tmp_path: Path) -> None:
    assert recognise(SAMPLE, {}).form == "nem12"
    path = tmp_path / "nem.csv"
    path.write_bytes(SAMPLE)
    points: dict[str, Any] = {"usage_points": {"NEM1201009": "g-1"}, "curator": "g-2"}
    found = MeterFile(path, None, 900, "kWh", "energy_import", points).dry_run()
    assert found.counts.accepted == 48 + 44 + 48 + 96 + 288
    assert found.first[0][0] == "2025-11-02T14:00:00+00:00"
