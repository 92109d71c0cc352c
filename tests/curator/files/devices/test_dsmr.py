"""DSMR telegrams: a stream with its sums, the hour that comes twice, and damaged telegrams."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from cli.meter_file import MeterFile
from curator.files.devices.dsmr import checksums
from tests.curator.conftest import Site
from tests.curator.files.tables.test_csv_import import upload
from tests.curator.stored import rows

BODY = """/XMX5LGBBFG1009000001

1-3:0.2.8({version})
0-0:1.0.0({time})
0-0:96.1.1(4530303030303030303030303030303031)
1-0:1.8.1({low}*kWh)
1-0:1.8.2({high}*kWh)
1-0:2.8.1(000000.000*kWh)
1-0:2.8.2(000001.250*kWh)
0-0:96.14.0(0002)
1-0:1.7.0(00.193*kW)
1-0:2.7.0(00.000*kW)
0-0:96.7.21(00004)
1-0:99.97.0(2)(0-0:96.7.19)(101208152415W)(0000000240*s)(101208151004W)(0000000301*s)
1-0:32.7.0(220.1*V)
1-0:31.7.0(001*A)
0-0:96.13.0()
0-1:24.1.0(003)
0-1:96.1.0(3232323241424344313233343536373839)
0-1:24.2.1({gas_time})({gas}*m3)
!"""


def crc16(text: bytes) -> int:
    """Bit by bit, as the standard describes it."""
    crc = 0
    for byte in text:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ 0xA001 if crc & 1 else crc >> 1
    return crc


def telegram(
    time: str,
    low: str = "123456.789",
    high: str = "000100.001",
    gas: tuple[str, str] = ("251231120000W", "12785.123"),
    version: int = 50,
) -> bytes:
    text = BODY.format(time=time, low=low, high=high, gas_time=gas[0], gas=gas[1], version=version)
    body = text.replace("\n", "\r\n").encode()
    return body + f"{crc16(body):04X}\r\n".encode()


STREAM = [
    telegram("251231120000W", "000100.000", "000200.000", ("251231110000W", "00010.000"), 42),
    telegram("251231120010W", "000100.000", "000200.125", ("251231110000W", "00010.000")),
    telegram("251231120020W", "000100.250", "000200.125", ("251231120000W", "00010.500")),
]
REGISTERS = ("energy_import", "energy_export", "1-0:1.8.1", "1-0:1.8.2", "power_import", "gas")


def test_the_checksum_is_the_standards() -> None:
    assert checksums([b"123456789", b"", b"!", STREAM[0][:-6]])[0] == 0xBB3D  # CRC-16/ARC
    assert checksums([b"123456789", b"", b"!"]) == [crc16(b"123456789"), 0, crc16(b"!")]


async def test_a_stream(s: Site) -> None:
    body = b"".join(STREAM)
    await s.enrol("house")
    found = await upload(s, "", body)
    assert found["taken_for"] == "DSMR telegrams: from / to ! and a CRC16"
    assert (found["accepted"], found["rejected"]) == (3 * 10 + 2, 0)
    quantities = {name: [(d, t, q) for d, t, q in await rows(s, name)] for name in REGISTERS}
    # Independent: differences of the totals in the text.
    low, high = (
        [Decimal(value.decode()) for value in re.findall(code, body)]
        for code in (rb"1-0:1.8.1\((.*)\*kWh", rb"1-0:1.8.2\((.*)\*kWh")
    )
    used = low[-1] - low[0] + high[-1] - high[0]
    assert sum(q for *_, q in quantities["energy_import"]) == used * 10**12
    assert sum(q for *_, q in quantities["1-0:1.8.2"]) == Decimal("0.125") * 10**12
    assert sum(q for *_, q in quantities["energy_export"]) == 0
    begin = datetime(2025, 12, 31, 11, tzinfo=UTC)
    assert [t for _, t, _ in quantities["power_import"]] == [
        begin + timedelta(seconds=10 * k) for k in range(3)
    ]
    assert {d for d, *_ in quantities["power_import"]} == {"E0000000000000001"}
    assert quantities["gas"] == [("2222ABCD123456789", begin - timedelta(hours=1), 500_000_000)]
    assert (await upload(s, "", body))["accepted"] == 0
    assert (await upload(s, "", body.replace(b"\r\n", b"\n")))["accepted"] == 0


async def test_the_hour_that_comes_twice(s: Site) -> None:
    body = telegram("251026023000S", gas=("251026020000S", "1.0"))
    body += telegram("251026023000W", gas=("251026020000W", "2.0"))
    await s.enrol("house")
    await upload(s, "", body)
    times = [at for _, at, _ in await rows(s, "power_import")]
    assert times == [datetime(2025, 10, 26, hour, 30, tzinfo=UTC) for hour in (0, 1)]
    assert (await upload(s, "timezone=Europe/Amsterdam", body))["accepted"] == 0
    found = await upload(s, "timezone=Europe/Athens", body)
    assert {e["element"] for e in found["errors"]} == {"0-0:1.0.0"}
    assert "does not have then" in found["errors"][0]["detail"]


BAD = [
    (STREAM[0].replace(b"00.193", b"00.194"), 21, "!", "the CRC16 is not that of the telegram"),
    (STREAM[0][:-6] + b"\r\n", 21, "!", "no CRC16 behind its !"),
    (STREAM[0][:200], 1, None, "the telegram is cut off"),
    (b"1-0:1.7.0(00.1*kW)\r\n!ABCD\r\n", 2, None, "a telegram that did not begin"),
    (telegram("251331120000W"), 1, "0-0:1.0.0", "the time is no time that exists"),
    (telegram("991231120000W"), 1, "1-0:1.8.1", "in the future"),
    (telegram("251231120000"), 1, "0-0:1.0.0", "the telegram has no time"),
    (telegram("251231120000W", low="x"), 1, "1-0:1.8.1", "not of the form (number*Wh)"),
    (telegram("251231120000W", gas=("", "1")), 1, "0-1:24.2.1", "not of the form (YYMMDDhhmmssX)"),
]


@pytest.mark.parametrize(("bad", "line", "element", "detail"), BAD)
async def test_a_bad_telegram_spoils_no_other(
    s: Site, bad: bytes, line: int, element: str | None, detail: str
) -> None:
    good = telegram("251231120030W", "100.0", "200.0", ("251231120000W", "1.0"))
    before = good.count(b"\n")
    await s.enrol("house")
    found = await upload(s, "form=dsmr", good + bad + STREAM[1])
    assert any(
        (e["line"], e.get("element")) == (before + line, element) and detail in e["detail"]
        for e in found["errors"]
    ), found["errors"]
    states = [q for *_, q in await rows(s, "power_import")]
    assert states.count(193 * 10**9) >= 2
    assert not set(states) - {193 * 10**9}
    if element == "1-0:1.8.1" and "form" in detail:  # no sum of some tariffs only
        assert len(await rows(s, "1-0:1.8.2")) - len(await rows(s, "energy_import")) == 1


async def test_what_has_no_telegram_is_refused(s: Site) -> None:
    await s.enrol("house")
    found = await upload(s, "form=dsmr", b"100,NEM12,2025,A,B\r\n", 422)
    assert "there is no telegram" in found["detail"]
    assert found["import"]["taken_for"] == (
        "DSMR telegrams, as given; but it looks like NEM12: it begins with 100,NEM12"
    )


async def test_a_table_names_the_curator(s: Site) -> None:
    await s.enrol("gw", ["g-1", "g-2"])
    found = await upload(s, "", STREAM[0])
    assert (found["accepted"], found["rejected"]) == (0, 11)
    points = "usage_points=%7B%22E0000000000000001%22%3A%22g-2%22%7D"
    assert (await upload(s, points, STREAM[0]))["accepted"] == 11


def test_a_dry_run(tmp_path: Path) -> None:
    path = tmp_path / "p1.txt"
    path.write_bytes(b"".join(STREAM))
    run = MeterFile(path, None, 900, "kWh", "energy_import", {"curator": "house"}).dry_run()
    totals = {(each.register, each.total) for each in run.sums}
    assert ("energy_import", "300.375") in totals
    assert run.first[0][0] == "2025-12-31T10:00:00+00:00"
