"""Files that arrive in pieces of any size are read as they are in one, and recognised."""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import cbor2
import pytest

from curator.errors import BadImport
from curator.files.importer import READERS
from curator.files.metered import MeterMap
from curator.files.recognise import recognise
from curator.files.upload import plain_chunks
from tests.curator.files.devices.test_dsmr import STREAM
from tests.curator.files.devices.test_iec62056 import checked, profile, readout
from tests.curator.files.devices.test_sensor_files import LINES, PACK, hour
from tests.curator.files.market.test_market_files import MSCONS, NEM13

FILES: list[tuple[str, bytes]] = [
    ("dsmr", b"".join(STREAM)),
    ("iec62056", checked(readout()) + checked(readout("012346.178", "121515"))),
    ("iec62056", profile(["0.250", "0.375"])),
    ("mscons", b"UNA:+.? '\r\n" + MSCONS),
    ("nem13", NEM13),
    ("senml", json.dumps(PACK, indent=1).encode()),
    ("senml", cbor2.dumps(PACK)),
    ("influx", LINES.encode()),
    ("home-assistant", json.dumps({"result": {"sensor.a": [hour(0, change=1)]}}).encode()),
]
GIVEN = MeterMap.model_validate_json(
    json.dumps({"unit": "kWh", "timezone": "Europe/Zurich", "stamp": "end"})
)


def read(form: str, body: bytes, size: int) -> Any:
    reader = READERS[form](GIVEN)
    for begin in range(0, len(body), size):
        reader.feed(body[begin : begin + size])
    reader.end()
    found, faults = reader.found.take()
    readings = [
        (series.device, series.register, list(rows.lines), list(rows.times), rows.values)
        for series, rows in found.items()
    ]
    return readings, faults


@pytest.mark.parametrize(("form", "body"), FILES)
def test_pieces(form: str, body: bytes) -> None:
    whole = read(form, body, len(body))
    assert whole[0]
    for size in (1, 2, 7, 64, 1000):
        assert read(form, body, size) == whole, size


@pytest.mark.parametrize(("form", "body"), FILES)
def test_each_is_recognised(form: str, body: bytes) -> None:
    assert recognise(body, {}).form == form
    for other, another in FILES:
        if other != form:
            words = recognise(another, {"form": form}).words
            assert "as given; but it looks like" in words


@pytest.mark.parametrize(
    "text",
    [
        "time,value\n2025-12-31T12:00:00Z,1\n",
        "meter a,b=1 c\nx,y\n",
        "date;00:00;01:00\n2025-11-03;1;2\n",
        "1.8.0;1.8.1\n5;6\n",
        "[note]\ntime,value\n",
        '{"a": 1}\n',
        "/path,value\n1,2\n",
        "",
    ],
)
def test_csv_stays_csv(text: str) -> None:
    assert recognise(text.encode(), {}).form == "csv"


def endless() -> list[bytes]:
    """What a careless pattern would search for ages, or hold in a thousand copies."""
    telegram = b"/XXX5\n!0000\n"
    return [
        b"\n" * 200_000 + b"x",
        b"\n \n" * 50_000 + b"x",
        b"1.8." + b"8" * 200_000,
        b"a" + b",a=b" * 60_000,
        b"a" + b"\\\\" * 100_000,
        b"/XXX" + b"\n1.8.0" * 30_000,
        telegram * 20_000 + b"/XXX5" + b"x" * 60_000 + b"\n!0000\n" + telegram * 20_000,
        b"kWh a=" + b'"' * 200_000,
        b"(" * 200_000,
    ]


@pytest.mark.parametrize("body", endless(), ids=range(len(endless())))
def test_no_file_takes_for_ever(body: bytes) -> None:
    recognise(body, {})
    for form in READERS:
        with contextlib.suppress(BadImport):
            read(form, body, 1 << 20)


@pytest.mark.parametrize("given", [{}, {"decimal": ","}])
def test_a_decimal_comma_is_no_delimiter(given: dict[str, str]) -> None:
    """Whole numbers and the header have none: by semicolons more lines are alike."""
    rows = [f"31.03.2025 {hour:02d}:00;{hour // 4},5;G" for hour in range(20)]
    body = "\r\n".join(["Zeit;Verbrauch;Status", *rows, "31.03.2025 20:00;5;G", "Summe;50,5;"])
    found = recognise(body.encode(), given)
    assert found.parameters["delimiter"] == ";"
    assert found.parameters.get("header_line", 1) == 1


def test_json_inside_json_is_refused_before_it_is_deep() -> None:
    reader = READERS["home-assistant"](GIVEN)
    with pytest.raises(BadImport, match="nested too deeply"):
        reader.feed(b'{"result":' * 1000)


async def test_endless_empty_lines_of_a_compressed_file_are_refused() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield gzip.compress(b"time,value\n" + b"\n" * (8 << 20))

    with pytest.raises(BadImport, match="empty lines in a row"):
        async for _ in plain_chunks(chunks(), 1 << 30, 10_000):
            pass
