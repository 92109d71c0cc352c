"""NEM13 and MSCONS: sums, and damaged files."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from tests.curator.conftest import Site
from tests.curator.files.tables.test_csv_import import upload
from tests.curator.stored import rows


def accumulated(before: str, after: str, quantity: str, day: int = 1, **changes: str) -> str:
    cells = ["250", "NEM1201009", "11", "1", "11", "11", "S01009", changes.get("way", "E")]
    cells += [before, f"202511{day:02d}103000", "A", "", ""]
    cells += [after, f"202511{day + 1:02d}103000", changes.get("quality", "A"), "", ""]
    return ",".join([*cells, quantity, changes.get("unit", "kWh"), "20260101", "20251130120000"])


def nem13(*records: str) -> bytes:
    head = "100,NEM13,202511300900,MDP1,RETAILER"
    return "\r\n".join([head, *records, "550,N,,A,", "900", ""]).encode()


NEM13 = nem13(
    accumulated("000100.5", "000112.25", "11.75"),
    accumulated("112.25", "120", "7.75", 2),
    accumulated("5", "6.125", "1.125", way="I"),
)


async def test_nem13(s: Site) -> None:
    await s.enrol("house")
    found = await upload(s, "", NEM13)
    assert found["taken_for"] == "NEM13: it begins with 100,NEM13"
    assert (found["accepted"], found["duplicates"], found["rejected"]) == (5, 1, 0)
    used = sum(
        Decimal(cells[18])
        for line in NEM13.decode().splitlines()
        if (cells := line.split(","))[0] == "250" and cells[7] == "E"
    )
    stored = await rows(s)
    assert sum(q for *_, q in stored) == used * 10**12
    assert stored[0][:2] == ("NEM1201009:S01009:1", datetime(2025, 11, 1, 0, 30, tzinfo=UTC))
    assert sum(q for *_, q in await rows(s, "energy_export")) == 1125 * 10**9


@pytest.mark.parametrize(
    ("record", "column", "detail"),
    [
        (accumulated("1", "2", "3"), 19, "not the difference"),
        (accumulated("1", "x", "3"), 14, "not a decimal number"),
        (accumulated("1", "2", "1", way="N"), 8, "the direction"),
        (accumulated("1", "2", "1", unit="kW"), 20, "the unit"),
        (accumulated("1", "2", "1", quality="N"), 16, "the quality"),
        (accumulated("1", "2", "1").replace("20251102103000", "202511021030"), 15, "YYYYMMDDhhmm"),
        (accumulated("1", "2", "1", 98), 15, "YYYYMMDDhhmm"),
    ],
)
async def test_a_bad_reading_of_nem13(s: Site, record: str, column: int, detail: str) -> None:
    await s.enrol("house")
    found = await upload(s, "", nem13(record))
    assert (found["errors"][0]["line"], found["errors"][0]["element"])[0] == 2
    assert any(
        e["element"] == f"column {column}" and detail in e["detail"] for e in found["errors"]
    ), found["errors"]


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (NEM13[:-5], "cut off: it has no 900"),
        (NEM13 + b"250,x\r\n", "continues after its 900"),
        (nem13("300,20251103,1"), "line 2, column 1: the row is no record of NEM13"),
    ],
)
async def test_a_damaged_nem13_file_stores_nothing(s: Site, body: bytes, detail: str) -> None:
    await s.enrol("house")
    assert detail in (await upload(s, "", body, 422))["detail"]
    assert await rows(s) == []


# --- MSCONS --------------------------------------------------------------------------------------

LOCATION = "DE00056266802AO6G56M11SN51G21M24S"


def quarter(place: datetime, value: str, qualifier: str = "220", unit: str = ":KWH") -> list[str]:
    end = place + timedelta(minutes=15)
    return [
        f"QTY+{qualifier}:{value}{unit}",
        f"DTM+163:{place:%Y%m%d%H%M}?+00:303",
        f"DTM+164:{end:%Y%m%d%H%M}?+00:303",
    ]


def message(*body: str, kind: str = "MSCONS:D:04B:UN:2.4c") -> list[str]:
    segments = [f"UNH+1+{kind}", "BGM+7+A?'B+9", "DTM+137:202601010900?+00:303", "UNS+D", "NAD+DP"]
    segments += [f"LOC+172+{LOCATION}", *body]
    return [*segments, f"UNT+{len(segments) + 1}+1"]


def interchange(segments: list[str], between: str = "") -> bytes:
    segments = ["UNB+UNOC:3+9900000000001:500+9900000000002:500+260101:0900+1", *segments]
    return "".join(f"{each}'{between}" for each in [*segments, "UNZ+1+1"]).encode()


BEGIN = datetime(2025, 10, 26, 0, tzinfo=UTC)
PROFILE = [
    "LIN+1",
    "PIA+5+1-1?:1.29.0:SRW",
    *(
        part
        for k in range(8)
        for part in quarter(
            BEGIN + timedelta(minutes=15 * k), f"0.{k}25", "67" if k == 3 else "220"
        )
    ),
    "STS+Z32++Z92",
    "LIN+2",
    "PIA+5+1-1?:2.29.0:SRW",
    *quarter(BEGIN, "1.5", unit=""),
]
MSCONS = interchange(message(*PROFILE))


async def test_a_load_profile(s: Site) -> None:
    await s.enrol("house")
    found = await upload(s, "", MSCONS)
    assert (found["accepted"], found["rejected"]) == (9, 0), found
    independent = sum(map(Decimal, re.findall(r"QTY\+\d+:([\d.]+):KWH", MSCONS.decode())))
    stored = await rows(s)
    assert sum(q for *_, q in stored) == independent * 10**12
    assert [at for _, at, _ in stored] == [BEGIN + timedelta(minutes=15 * k) for k in range(8)]
    assert {device for device, *_ in stored} == {LOCATION}
    assert [q for *_, q in await rows(s, "energy_export")] == [1500 * 10**9]
    others = [
        b"UNA:+.? '\r\n" + interchange(message(*PROFILE), "\r\n"),
        b"UNA:+,? '" + MSCONS.replace(b":0.", b":0,").replace(b":1.5'", b":1,5'"),
        b"UNA|*.!#~"
        + MSCONS.replace(b"?+", b"!@")
        .replace(b"?:", b"!#")
        .replace(b"A?'B", b"A!~B")
        .translate(bytes.maketrans(b":+'@", b"|*~+"))
        .replace(b"!#", b":"),
    ]
    for body in others:
        again = await upload(s, "", body)
        assert (again["duplicates"], again["rejected"]) == (9, 0), (body[:400], again)
    assert (await upload(s, "accept=220", MSCONS))["rejected"] == 1


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (MSCONS[:-12], "it has no UNZ"),
        (MSCONS[:-60], "it has no UNZ"),
        (MSCONS.replace(b"STS+Z32++Z92'", b""), "UNT counts other than 38 segments"),
        (MSCONS.replace(b"UNZ+1", b"UNZ+2"), "UNZ counts other than 1 messages"),
        (MSCONS + b"UNB+x'", "continues after its UNZ"),
        (interchange(message(kind="UTILTS:D:04B:UN:1")), "UTILTS is not read: MSCONS:D:04B is"),
        (b"UNA''''''" + MSCONS, "UNA does not name different signs"),
    ],
)
async def test_a_damaged_message_stores_nothing(s: Site, body: bytes, detail: str) -> None:
    await s.enrol("house")
    assert detail in (await upload(s, "", body, 422))["detail"]
    assert await rows(s) == []


@pytest.mark.parametrize(
    ("part", "detail"),
    [
        (quarter(BEGIN, "1", "20"), "the qualifier"),
        (quarter(BEGIN, "1", unit=":KWT"), "the unit"),
        (quarter(BEGIN, "x"), "not a decimal number"),
        (["QTY+220:1:KWH", "DTM+163:202510260000:203", "DTM+164:202510260015:203"], "form 303"),
        (["QTY+220:1:KWH", "DTM+163:202510260000?+00:303"], "no interval"),
        (["QTY+220:1:KWH", *reversed(quarter(BEGIN, "1")[1:])], "no interval"),
        (["PIA+5+1-1?:3.29.0:SRW", *quarter(BEGIN, "1")], "not of energy of intervals"),
    ],
)
async def test_what_is_no_interval_is_reported(s: Site, part: list[str], detail: str) -> None:
    body = interchange(message("LIN+1", "PIA+5+1-1?:1.29.0:SRW", *part))
    await s.enrol("house")
    found = await upload(s, "", body)
    assert (found["accepted"], found["rejected"]) == (0, 1)
    assert detail in found["errors"][0]["detail"]
