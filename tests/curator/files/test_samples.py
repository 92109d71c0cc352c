"""Samples in the shape of public files: each sums to what an independent script sums,
with a map of at most five lines; and nothing is stored of one that is damaged at its end."""

from __future__ import annotations

import gzip
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from sqlalchemy import text

from cli.meter_file import MeterFile, column_map
from common.store.transactions import Database
from common.web.dependencies import part_of
from curator.files import metered, storing
from curator.files.tables import csv_import
from tests.curator.conftest import Site
from tests.curator.files.devices.test_dsmr import crc16
from tests.curator.files.devices.test_iec62056 import checked
from tests.curator.files.market.green_button_files import FeedFile, Meter
from tests.curator.files.tables.test_csv_import import upload
from tests.curator.stored import rows

DAY = datetime(2025, 11, 3, tzinfo=UTC)
STEP = timedelta(minutes=15)
VALUES = [f"{(37 * k) % 101 / 100:.2f}" for k in range(96)]
TIMES = [DAY + STEP * k for k in range(96)]


def between(body: str, pattern: str, places: str = "0") -> Decimal:
    """The sum of the numbers that a pattern finds, with further zeros behind."""
    return sum(map(Decimal, re.findall(pattern, body, re.M)), Decimal(places))


@dataclass(frozen=True)
class Sample:
    """`script`: what the file's energy_import sums to, in kWh. `ends`: whether the file itself says
    where it ends, so that one that is cut off is known."""

    body: bytes
    mapping: str
    script: Callable[[str], Decimal]
    ends: bool = True


def lines(*parts: str, ending: str = "\n") -> bytes:
    return "".join(part + ending for part in parts).encode()


def csv_long() -> Sample:
    body = lines(
        "time,value", *(f"{t:%Y-%m-%dT%H:%MZ},{v}" for t, v in zip(TIMES, VALUES, strict=True))
    )
    return Sample(body, 'unit = "kWh"', lambda s: between(s, r"Z,([\d.]+)$"), ends=False)


def csv_wide() -> Sample:
    body = lines("meter," + ",".join(f"q{k}" for k in range(96)), "house," + ",".join(VALUES))
    mapping = 'layout = "wide"\nunit = "kWh"\nstart = "2025-11-03T00:00:00Z"\nstep_s = 900'
    return Sample(body, mapping, lambda s: between(s.split("house,")[1], r"[\d.]+"), ends=False)


def csv_day() -> Sample:
    clock = ";".join(f"{k // 4:02d}:{k % 4 * 15:02d}" for k in range(96))
    body = lines(
        f"Datum;{clock}", "03.11.2025;" + ";".join(VALUES).replace(".", ","), ending="\r\n"
    )
    mapping = 'unit = "kWh"\ntimezone = "UTC"\ntime_format = "%d.%m.%Y"\ndecimal = ","'
    return Sample(
        b"\xef\xbb\xbf" + body,
        mapping,
        lambda s: between(s.split("2025;")[1].replace(",", "."), r"[\d.]+"),
        ends=False,
    )


def csv_pivot() -> Sample:
    pairs = zip(TIMES, VALUES, VALUES[::-1], strict=True)
    body = lines("time,house.a,house.b", *(f"{t:%Y-%m-%dT%H:%MZ},{v},{w}" for t, v, w in pairs))
    mapping = 'layout = "pivot"\nunit = "kWh"\ncurator = "house"'
    return Sample(body, mapping, lambda s: between(s, r"(?<=,)[\d.]+(?=,|$)"), ends=False)


def green_button() -> Sample:
    feed = FeedFile([Meter("house", [int(100 * Decimal(v)) for v in VALUES], DAY, power="1")])
    return Sample(feed.text().encode(), "", lambda s: between(s, r"<value>(\d+)</value>") / 100)


def nem12() -> Sample:
    """Two NMIs, several suffixes and minutes, qualities by 400 records, an event record."""
    quarters, halves = ",".join(VALUES), ",".join(["1.125"] * 48)
    fives = ",".join(["0.0625"] * 288)
    body = lines(
        "100,NEM12,202511040900,MDA1,Ret1",
        "200,VBCD000022,E1B1Q1,1,E1,N1,METSER223,kWh,15,20260101",
        f"300,20251103,{quarters},V,,,20251104125727,20251105025521",
        "400,1,20,F14,76,",
        "400,21,95,A,,",
        "400,96,96,N,,",
        "500,O,S01009,20251103000000,1234.5",
        "200,VBCD000022,E1B1Q1,1,B1,,METSER223,kWh,15,",
        f"300,20251103,{quarters},A,,,20251104125727,",
        "200,VBCD000022,E1B1Q1,2,Q1,,METSER223,kVArh,30,",
        f"300,20251103,{halves},F14,32,,20251104125727,",
        "200,CCCC123456,E2,001,E2,,METSER123,WH,30,",
        f"300,20251103,{halves},S52,1,Reason with words,20251104125727,",
        "200,CCCC123457,E1,001,E1,N1,METSER123,MWh,5,",
        f"300,20251103,{fives},E,,,20251104125727,20251105025521",
        "900",
        ending="\r\n",
    )
    first = sum(map(Decimal, VALUES[:95]))
    return Sample(
        body,
        'curator = "house"',
        lambda s: (
            first
            + 48 * Decimal(re.findall(r",WH,30,\s+300,\d+,([\d.]+)", s)[0]) / 1000
            + 288 * Decimal(re.findall(r",MWh,5,\s+300,\d+,([\d.]+)", s)[0]) * 1000
        ),
    )


def p1(*rows_of: str) -> bytes:
    body = "".join(f"{row}\r\n" for row in rows_of[:-1]).encode() + rows_of[-1].encode()
    return body + f"{crc16(body):04X}\r\n".encode()


def dsmr() -> Sample:
    """A Belgian, a Luxembourg and a Dutch meter, two telegrams of each."""
    parts = []
    for place, total in enumerate(("000100.000", "000100.125")):
        at = f"25110312{place * 5:02d}00W"
        low = f"00020{place}.000"
        parts += [
            p1(
                "/FLU5\\253769484_A", "", "0-0:96.1.4(50217)", "0-0:96.1.1(3153414733313030303030)",
                f"0-0:1.0.0({at})", f"1-0:1.8.1({total}*kWh)", f"1-0:1.8.2({low}*kWh)",
                "1-0:1.4.0(02.351*kW)", "1-0:1.6.0(251102134500W)(03.695*kW)",
                "1-0:1.7.0(00.193*kW)", "1-0:31.7.0(000.52*A)", "0-1:24.1.0(003)",
                "0-1:96.1.1(37464C4F32313139303333373333)",
                f"0-1:24.2.3(25110311{place * 5:02d}00W)(00112.384*m3)",
                "!",
            ),
            p1(
                "/Lux5\\253663629_D", "", "1-3:0.2.8(42)", f"0-0:1.0.0({at})",
                "0-0:42.0.0(53414731303330373030303635313638)", f"1-0:1.8.0({total}*kWh)",
                "1-0:2.8.0(000000.000*kWh)", "1-0:3.8.0(000002.091*kvarh)",
                "1-0:1.7.0(00.193*kW)", "1-0:3.7.0(00.000*kvar)", "!",
            ),
            p1(
                "/XMX5LGBBFG1009000001", "", "1-3:0.2.8(50)", f"0-0:1.0.0({at})",
                "0-0:96.1.1(4530303030)", f"1-0:1.8.1({total}*kWh)", "1-0:1.8.2(000200.000*kWh)",
                "0-1:24.1.0(012)", "0-1:96.1.0(3030)", f"0-1:24.2.1({at})(00001.{place}00*GJ)", "!",
            ),
        ]  # fmt: skip
    return Sample(
        b"".join(parts),
        'curator = "house"',
        lambda s: sum(
            Decimal(found[-1]) - Decimal(found[0])
            for name in ("/FLU5", "/Lux5", "/XMX5")
            for code in ("1.8.0", "1.8.1", "1.8.2")
            if (found := re.findall(rf"{name}[^!]*1-0:{code}\(([\d.]+)", s))
        ),
        ends=False,  # a stream begins and ends anywhere
    )


def iec_list() -> Sample:
    body = b"".join(
        checked(
            f"1-0:0.0.0*255(12345678)\r\n1-0:0.9.1*255({hour}0000)\r\n1-0:0.9.2*255(251103)\r\n"
            f"1-0:1.8.0*255({total}*kWh)\r\n1-0:1.8.0*01(000090.000*kWh)\r\n1-0:32.7.0*255(230*V)\r\n"
        )
        for hour, total in ((10, "000100.250"), (11, "000101.000"), (12, "000103.875"))
    )
    mapping = 'timezone = "Europe/Berlin"\ncurator = "house"'

    def script(body: str) -> Decimal:
        totals = [Decimal(each) for each in re.findall(r"1\.8\.0\*255\(([\d.]+)", body)]
        return totals[-1] - totals[0]

    return Sample(body, mapping, script)


def iec_profile() -> Sample:
    """Codes of two groups, mean power of a quarter, several columns; a gap, and a second head."""
    heads = [
        f"P.01(0251103{clock}00)(00000000)(15)(03)(1.5)(kW)(2.5)(kW)(5.5)(kvar)"
        for clock in ("0015", "1245")
    ]
    row = [f"({v})(0.00000)(0.00006)" for v in VALUES]
    parts = [
        "/EMH4@01LZQJL0013F",
        "0.0.0(06205102)",
        heads[0],
        *row[:48],
        heads[1],
        *row[48:90],
        "!",
    ]
    return Sample(
        lines(*parts, ending="\r\n"),
        'stamp = "end"\ntimezone = "Europe/Berlin"\ncurator = "house"',
        lambda s: between(s, r"^\(([\d.]+)\)\(0\.0") / 4,
    )


def mscons() -> Sample:
    """Other signs than usual, two locations, both time forms, and a column that is not taken."""
    segments = ["UNH+1+MSCONS:D:04B:UN:2.4c", "BGM+Z48+MS1+9", "DTM+137:202511040900?+00:303"]
    segments += ["RFF+Z13:13025", "NAD+MS+9900000000001::293", "UNS+D", "NAD+DP"]
    for location, code in (("DE00056266802AO6G56M11SN51G21M24S", "1-1"), ("50375312838", "1-0")):
        segments += [f"LOC+172+{location}", "LIN+1", f"PIA+5+{code}?:1.29.0:SRW"]
        for place, (at, value) in enumerate(zip(TIMES, VALUES, strict=True)):
            segments.append(f"QTY+{'67' if place % 7 == 0 else '220'}:{value.replace('.', ',')}")
            for name, moment in ((163, at), (164, at + STEP)):
                local = moment + timedelta(hours=1)
                forms = (f"{local:%Y%m%d%H%M}?+01:303", f"{local:%Y%m%d%H%M}:203")
                segments.append(f"DTM+{name}:{forms[place % 2]}")
        segments += ["STS+Z32++Z92", "LIN+2", "PIA+5+1-1?:3.29.0:SRW"]
    body = "".join(f"{each}'" for each in [*segments, f"UNT+{len(segments) + 1}+1", "UNZ+1+1"])
    body = "UNB+UNOC:3+9900000000001:500+9900000000002:500+251104:0900+1'" + body
    signs = str.maketrans(":+?'", "|^!~")
    return Sample(
        (
            "UNA|^,! ~\r\n"
            + body.translate(signs).replace("!|", ":").replace("!^", "+").replace("~", "~\r\n")
        ).encode(),
        'curator = "house"\ntimezone = "Europe/Berlin"',
        lambda s: between(s.replace(",", "."), r"^QTY\^\d+\|([\d.]+)~"),
    )


def influx() -> Sample:
    points = [
        f"kWh,entity=main\\ meter\\,1 value={v},other=3i {int(t.timestamp())}"
        for t, v in zip(TIMES, VALUES, strict=True)
    ]
    points += ["# a comment", "", 'kWh,entity=b state="on, off=1 \\" now",value=2i 1762128000']
    points += ["W,entity=b value=500 1762128000", "kWh,entity=b value=3u 1762128900"]
    mapping = 'measurement = "kWh"\nprecision = "s"\ncurator = "house"\nunit = "kWh"'
    mapping += '\ndevice_column = "entity"'
    return Sample(
        lines(*points), mapping, lambda s: between(s, r"^kWh.*value=([\d.]+)"), ends=False
    )  # fmt: skip


MADE = (csv_long, csv_wide, csv_day, csv_pivot, green_button, nem12, dsmr, iec_list)
MADE += (iec_profile, mscons, influx)
SAMPLES = {make.__name__: make() for make in MADE}


async def taken(s: Site, folder: Path, sample: Sample, body: bytes, status: int) -> dict[str, Any]:
    """Import a file as `tacit readings import FILE --map MAP` sends it."""
    path, mapping = folder / "readings.dat", folder / "map.toml"
    path.write_bytes(body)
    mapping.write_text(sample.mapping)
    assert sample.mapping.count("\n") < 5
    file = MeterFile(path, None, 900, "kWh", "energy_import", column_map(mapping))
    content, parameters = file.content()
    return await upload(s, urlencode(parameters), content, status)


@pytest.mark.parametrize("name", SAMPLES)
async def test_a_sample_sums_to_what_a_script_sums(s: Site, tmp_path: Path, name: str) -> None:
    sample = SAMPLES[name]
    await s.enrol("house")
    found = await taken(s, tmp_path, sample, sample.body, 200)
    assert found["duplicates"] == found["conflicts"] == 0, found
    assert (found["rejected"] > 0) == (name in ("nem12", "mscons")), found["errors"]
    expected = sample.script(sample.body.decode("latin-1"))
    assert sum(q for *_, q in await rows(s)) == expected * 10**12
    assert expected > 0


@pytest.fixture
def small_lots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readings are stored some at a time, so that much is stored before a file's end."""
    monkeypatch.setattr(metered, "FLUSH", 10)
    monkeypatch.setattr(storing, "TOGETHER", 10)
    monkeypatch.setattr(storing, "LOT", 5)
    monkeypatch.setattr(csv_import, "HELD", 100)
    monkeypatch.setattr(metered, "PIECE", 100)


@pytest.mark.usefixtures("small_lots")
async def test_nothing_is_stored_of_a_sample_that_is_damaged_at_its_end(
    s: Site, tmp_path: Path
) -> None:
    await s.enrol("house")
    for name, sample in SAMPLES.items():
        packed = gzip.compress(sample.body, mtime=0)
        damaged = [packed[:-9], packed[:-6] + b"\0" + packed[-5:]]
        if sample.ends:
            whole = sample.body.rstrip()
            damaged += [whole[: len(whole) // 2 + 9], whole[:-2]]
        if name.startswith("csv"):
            damaged.append(sample.body + b'"2025-11-04T00:00:00Z,1\n')
        for body in damaged:
            try:
                answer = await taken(s, tmp_path, sample, body, 422)
            except ValueError as error:  # the command sees it before it sends anything
                assert "the compressed file is damaged" in str(error)  # noqa: PT017
                answer = await upload(s, urlencode(tomllib.loads(sample.mapping)), body, 422)
            assert answer["import"]["accepted"] == 0, (name, answer)
        async with part_of(s.app, Database).reading() as transaction:
            for table in ("reading", "counter", "device", "newest_reading"):
                count = await transaction.execute(text(f"SELECT count(*) FROM {table}"))
                assert count.scalar_one() == 0, (name, table)
    for name in ("csv_long", "mscons"):  # the control: whole, in the same small lots
        found = await taken(s, tmp_path, SAMPLES[name], SAMPLES[name].body, 200)
        assert found["accepted"] >= 96
