"""Imports of files: readings a second and peak memory, of each format.

    python -m bench.imports [--readings 1000000] [--only csv-long,dsmr]

Each format is imported in a process of its own, from a file on disk into a new SQLite store, with
everything that a service does but HTTP. CPU seconds are those of all
threads; the machine should be quiet. Readings are made up; of DSMR, whose telegrams have 20
readings, the number is rounded.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import cbor2

from common.principals import Principal, Scope
from common.runtime.clock import SystemClock
from common.store.database import open_database
from curator.files.devices.dsmr import checksums
from curator.files.importer import Importer
from curator.files.options import ImportOptions
from curator.files.upload import Imports
from curator.intake.intake import Intake
from curator.settings import CuratorSettings
from curator.store import parties
from curator.store.parties import Anchor, PartyRow
from curator.store.tables import metadata
from tacit.protocol.enrolment import PartyKind
from tacit.protocol.identities import Pin

START: Final = datetime(2024, 1, 1, tzinfo=UTC)
METERS: Final = 100
QUARTER: Final = timedelta(minutes=15)


def _times(count: int) -> Iterator[tuple[int, datetime]]:
    """A number and a time for each reading of a meter."""
    return ((k, START + QUARTER * k) for k in range(count))


def csv_long(count: int) -> Iterator[bytes]:
    """A reading a row."""
    yield b"device,time,value\n"
    for k, at in _times(count // METERS):
        stamp = at.strftime("%Y-%m-%dT%H:%M:%SZ")
        yield "".join(f"m-{m},{stamp},{(k + m) % 97 / 100}\n" for m in range(METERS)).encode()


def csv_wide(count: int) -> Iterator[bytes]:
    """A meter a row."""
    size = count // METERS
    yield ("meter," + ",".join(f"q{k}" for k in range(size)) + "\n").encode()
    for m in range(METERS):
        yield (f"m-{m}," + ",".join(f"0.{(k + m) % 97:02d}" for k in range(size)) + "\n").encode()


def csv_day(count: int) -> Iterator[bytes]:
    """A day a row."""
    clock = ",".join(f"{k // 4:02d}:{k % 4 * 15:02d}" for k in range(96))
    yield f"meter,date,{clock}\n".encode()
    for day in range(count // METERS // 96):
        date = (START + timedelta(days=day)).date()
        for m in range(METERS):
            values = ",".join(f"0.{(k + m) % 97:02d}" for k in range(96))
            yield f"m-{m},{date},{values}\n".encode()


def csv_pivot(count: int) -> Iterator[bytes]:
    """A meter a column."""
    yield ("time," + ",".join(f"m-{m}" for m in range(METERS)) + "\n").encode()
    for k, at in _times(count // METERS):
        values = ",".join(f"0.{(k + m) % 97:02d}" for m in range(METERS))
        yield f"{at:%Y-%m-%dT%H:%M:%SZ},{values}\n".encode()


def csv_counters(count: int) -> Iterator[bytes]:
    """Totals, a reading a row."""
    yield b"device,time,value\n"
    for k, at in _times(count // METERS):
        stamp = at.strftime("%Y-%m-%dT%H:%M:%SZ")
        yield "".join(f"m-{m},{stamp},{k / 4}\n" for m in range(METERS)).encode()


def green_button(count: int) -> Iterator[bytes]:
    """One usage point."""
    espi = 'xmlns="http://naesb.org/espi"'
    yield (
        '<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>1</id>'
        '<link rel="self" href="R/1"/><content>'
        f"<ReadingType {espi}><accumulationBehaviour>4</accumulationBehaviour><uom>72</uom>"
        f"</ReadingType></content></entry><entry><id>2</id><content><IntervalBlock {espi}>\n"
    ).encode()
    begin = int(START.timestamp()) - count * 60
    for k in range(count):
        yield (
            f"<IntervalReading><timePeriod><duration>60</duration><start>{begin + 60 * k}</start>"
            f"</timePeriod><value>{k % 97}</value></IntervalReading>\n"
        ).encode()
    yield b"</IntervalBlock></content></entry></feed>"


def nem12(count: int) -> Iterator[bytes]:
    """Days of a quarter of an hour."""
    yield b"100,NEM12,202401010900,MDP,RETAILER\r\n"
    days = count // METERS // 96
    for m in range(METERS):
        yield f"200,NEM12{m:05d},E1,1,E1,N1,01009,kWh,15,\r\n".encode()
        for day in range(days):
            date = (START + timedelta(days=day)).strftime("%Y%m%d")
            values = ",".join(f"0.{(k + m) % 97:02d}" for k in range(96))
            yield f"300,{date},{values},A,,,20251105120000,\r\n".encode()
    yield b"900\r\n"


def nem13(count: int) -> Iterator[bytes]:
    """Two readings a record."""
    yield b"100,NEM13,202401010900,MDP,RETAILER\r\n"
    for k in range(count // METERS // 2):
        first, last = (START + QUARTER * (2 * k + end) for end in (0, 1))
        for m in range(METERS):
            yield (
                f"250,NEM13{m:05d},11,1,11,11,S{m},E,{k},{first:%Y%m%d%H%M%S},A,,,"
                f"{k + 1},{last:%Y%m%d%H%M%S},A,,,1,kWh,,20251105120000,\r\n"
            ).encode()
    yield b"550,N,,A,\r\n900\r\n"


def dsmr(count: int) -> Iterator[bytes]:
    """Telegrams of three phases: 20 readings each."""
    codes = [("21.7.0", "00.1*kW"), ("41.7.0", "00.2*kW"), ("61.7.0", "00.3*kW")]
    codes += [(f"{22 + 20 * k}.7.0", "00.0*kW") for k in range(3)]
    codes += [(f"{32 + 20 * k}.7.0", "230.1*V") for k in range(3)]
    codes += [(f"{31 + 20 * k}.7.0", "001*A") for k in range(3)]
    states = "".join(f"1-0:{code}({value})\r\n" for code, value in codes)
    texts = []
    for k in range(count // 20):
        at = START + timedelta(minutes=k)
        stamp = f"{at + timedelta(hours=1):%y%m%d%H%M%S}W"
        texts.append(
            (
                f"/XMX5LGBBFG1009000001\r\n\r\n1-3:0.2.8(50)\r\n0-0:1.0.0({stamp})\r\n"
                "0-0:96.1.1(45303030)\r\n"
                f"1-0:1.8.1({k / 1000:010.3f}*kWh)\r\n1-0:1.8.2(000001.000*kWh)\r\n"
                f"1-0:2.8.1(000000.000*kWh)\r\n1-0:2.8.2(000000.000*kWh)\r\n"
                f"1-0:1.7.0(00.600*kW)\r\n1-0:2.7.0(00.000*kW)\r\n{states}!"
            ).encode()
        )
        if len(texts) == 1000 or k == count // 20 - 1:
            for text, checksum in zip(texts, checksums(texts), strict=True):
                yield text + f"{checksum:04X}\r\n".encode()
            texts = []


def iec62056(count: int) -> Iterator[bytes]:
    """Load profiles of a day."""
    for day in range(count // 96):
        at = START + timedelta(days=day % 600)
        head = f"P.01(2{at:%y%m%d}0000)(00)(15)(1)(1.29.0)(kWh)\r\n"
        values = "".join(f"(0.{k:03d})\r\n" for k in range(96))
        yield f"/ISk5M\r\n0.0.0(m{day // 600})\r\n{head}{values}!\r\n".encode()


def mscons(count: int) -> Iterator[bytes]:
    """A message a meter."""
    yield b"UNA:+.? '\r\nUNB+UNOC:3+A:500+B:500+240101:0900+1'"
    for m in range(METERS):
        segments = ["UNH+1+MSCONS:D:04B:UN:2.4c", "BGM+7+1+9", "UNS+D", "NAD+DP"]
        segments += [f"LOC+172+m-{m}", "LIN+1", "PIA+5+1-1?:1.29.0:SRW"]
        for k, at in _times(count // METERS):
            segments += [
                f"QTY+220:0.{(k + m) % 97:02d}",
                f"DTM+163:{at:%Y%m%d%H%M}?+00:303",
                f"DTM+164:{at + QUARTER:%Y%m%d%H%M}?+00:303",
            ]
        yield "".join(f"{s}'" for s in [*segments, f"UNT+{len(segments) + 1}+1"]).encode()
    yield f"UNZ+{METERS}+1'".encode()


def _records(count: int) -> Iterator[str]:
    base = int(START.timestamp())
    for k in range(count // METERS):
        for m in range(METERS):
            yield (
                f'{{"n":"m-{m}/energy_import","u":"kWh","t":{base + 900 * k},'
                f'"v":0.{(k + m) % 97:02d}}}'
            )


def senml_json(count: int) -> Iterator[bytes]:
    """A record a reading."""
    for number, record in enumerate(_records(count)):
        yield f"{',' if number else '['}{record}\n".encode()
    yield b"]"


def senml_cbor(count: int) -> Iterator[bytes]:
    """A record a reading."""
    yield b"\x9a" + (count // METERS * METERS).to_bytes(4, "big")
    base = int(START.timestamp())
    for k in range(count // METERS):
        for m in range(METERS):
            record = {0: f"m-{m}/energy_import", 1: "kWh", 6: base + 900 * k, 2: (k + m) % 97 / 100}
            yield cbor2.dumps(record)


def influx(count: int) -> Iterator[bytes]:
    """A point a reading."""
    base = int(START.timestamp())
    for k in range(count // METERS):
        for m in range(METERS):
            time_ns = (base + 900 * k) * 10**9
            yield f"kWh,device=m-{m} value=0.{(k + m) % 97:02d} {time_ns}\n".encode()


def home_assistant(count: int) -> Iterator[bytes]:
    """An hour a row."""
    yield b'{"result":{'
    base = int(START.timestamp()) * 1000
    for m in range(METERS):
        rows = ",".join(
            f'{{"start":{base + 900_000 * k},"end":{base + 900_000 * (k + 1)},'
            f'"change":0.{k % 97:02d}}}'
            for k in range(count // METERS)
        )
        yield f'{"," if m else ""}"sensor.m_{m}":[{rows}]'.encode()
    yield b"}}"


FORMATS: Final[dict[str, tuple[Callable[[int], Iterator[bytes]], dict[str, str]]]] = {
    "csv-long": (csv_long, {"unit": "kWh", "curator": "house"}),
    "csv-wide": (
        csv_wide,
        {
            **{"unit": "kWh", "layout": "wide", "start": "2022-01-01T00:00:00Z", "step_s": "900"},
            "curator": "house",
        },
    ),
    "csv-day": (csv_day, {"unit": "kWh", "timezone": "UTC", "curator": "house"}),
    "csv-pivot": (csv_pivot, {"unit": "kWh", "layout": "pivot", "curator": "house"}),
    "csv-counters": (csv_counters, {"unit": "kWh", "kind": "total_increasing", "curator": "house"}),
    "green-button": (green_button, {}),
    "nem12": (nem12, {}),
    "nem13": (nem13, {}),
    "dsmr": (dsmr, {}),
    "iec62056": (iec62056, {"stamp": "start"}),
    "mscons": (mscons, {}),
    "senml-json": (senml_json, {}),
    "senml-cbor": (senml_cbor, {}),
    "influx": (influx, {"unit": "kWh", "device_column": "device"}),
    "home-assistant": (home_assistant, {"unit": "kWh"}),
}


def _party() -> PartyRow:
    return PartyRow(
        id="house",
        kind=PartyKind.CURATOR,
        state=parties.ACTIVE,
        deployment="bench",
        identity=bytes(32),
        coordinator_url="https://coordinator.test",
        coordinator_key=None,
        coordinator_token=None,
        first=0,
        first_key=0,
        curators=1,
        join_token=None,
        created=START,
        enrolled=START,
        anchors=(Anchor("a", "https://a.test", Pin(fingerprint=bytes(32)), None),),
    )


async def _import(name: str, file: Path) -> None:
    settings = CuratorSettings.model_construct(data_dir=file.parent)
    database = open_database(f"sqlite:///{file.parent / 'store.db'}")
    async with database.begin() as transaction:
        await transaction.run_sync(metadata.create_all)
        await parties.add_party(transaction, _party(), ["house"])
        intake = Intake(database, SystemClock(), settings)
        await intake.hosted.load(transaction)
    importer = Importer(intake, settings, Imports(SystemClock(), 10))

    async def chunks() -> AsyncIterator[bytes]:
        with file.open("rb") as stream:
            while data := stream.read(1 << 18):
                yield data

    options = ImportOptions.model_validate(FORMATS[name][1])
    caller = Principal("bench", frozenset({Scope.OPERATOR}))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    wall, cpu = time.perf_counter(), time.process_time()
    progress = await importer.take(chunks(), options, caller, xml=False)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    count = progress.accepted + progress.duplicates
    if progress.rejected or not count:
        raise SystemExit(f"{name}: {progress.answer()}")
    await database.dispose()
    print(f"{count} {wall} {cpu} {before} {peak}")


def main() -> None:
    """Print a line for each format."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readings", type=int, default=1_000_000)
    parser.add_argument("--only", default=",".join(FORMATS))
    parser.add_argument("--run", nargs=2, metavar=("FORMAT", "FILE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run is not None:
        asyncio.run(_import(given.run[0], Path(given.run[1])))
        return
    print(f"{'format':15} {'MB':>6} {'readings':>9} {'a second':>9} {'a CPU s':>9} {'peak MB':>8}")
    for name in given.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "readings"
            with file.open("wb") as stream:
                stream.writelines(FORMATS[name][0](given.readings))
            command = [sys.executable, "-m", "bench.imports", "--run", name, str(file)]
            run = subprocess.run(command, capture_output=True, text=True)
            if run.returncode:
                print(f"{name}: {run.stderr[-300:]}")
                continue
            count, wall, cpu, before, peak = map(float, run.stdout.split())
            size = file.stat().st_size / 1e6
            speeds = f"{count / wall:9,.0f} {count / cpu:9,.0f}"
            print(
                f"{name:15} {size:6.0f} {count:9,.0f} {speeds} {peak:8.0f}  (before: {before:.0f})"
            )


if __name__ == "__main__":
    main()
