"""Lists of OBIS codes and load profiles of a meter's optical port."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import reduce
from operator import xor

import pytest

from tests.curator.conftest import Site
from tests.curator.files.tables.test_csv_import import upload
from tests.curator.stored import rows

HEAD = "/ISk5ME382-1003\r\n\r\n"
ZURICH = "timezone=Europe/Zurich"


def readout(total: str = "012345.678", clock: str = "120015", date: str = "251130") -> str:
    return (
        f"0.0.0(00123456)\r\nF.F(00000000)\r\n0.9.1({clock})\r\n0.9.2({date})\r\n"
        f"1.8.0({total}*kWh)\r\n1.8.1(000345.000*kWh)\r\n1.8.0*01(011111.000*kWh)\r\n"
        "1.6.1(12.3*kW)(2511121530)\r\n2.8.0(000001.000*kWh)\r\n32.7.0(230.4*V)\r\n"
    )


def checked(body: str) -> bytes:
    block = f"{body}!\r\n".encode() + b"\x03"
    return HEAD.encode() + b"\x02" + block + bytes([reduce(xor, block)]) + b"\r\n"


async def test_a_list(s: Site) -> None:
    body = checked(readout()) + checked(readout("012346.178", "121515"))
    await s.enrol("house")
    found = await upload(s, ZURICH, body)
    assert (found["accepted"], found["rejected"]) == (8, 0), found
    assert found["taken_for"].startswith("IEC 62056-21")
    at = datetime(2025, 11, 30, 11, 0, 15, tzinfo=UTC)
    used = int((Decimal("012346.178") - Decimal("012345.678")) * 10**12)
    assert await rows(s) == [("00123456", at, used)]
    assert [q for *_, q in await rows(s, "1-0:32.7.0")] == [2304 * 10**8] * 2
    plain = (HEAD + readout() + "!\r\n").replace("\r\n", "\n").encode()
    for again in (plain, readout().encode() + b"!\r\n"):
        assert (await upload(s, ZURICH, again))["duplicates"] == 4


async def test_no_time_is_guessed(s: Site) -> None:
    body = b"/ISk5ME382\r\n1-0:1.8.0*255(0001.5*kWh)\r\n!\r\n"
    await s.enrol("house")
    found = await upload(s, ZURICH, body)
    assert (found["accepted"], found["rejected"]) == (0, 1)
    assert "give read_at" in found["errors"][0]["detail"]
    found = await upload(s, "read_at=2025-11-30T12:00:00Z", body)
    assert found["accepted"] == 1
    found = await upload(s, "", checked(readout()))
    assert {e["detail"] for e in found["errors"]} == {
        "the time has no offset, and no timezone is given"
    }
    twice = checked(readout(clock="023000", date="251026"))
    assert "twice" in (await upload(s, ZURICH, twice))["errors"][0]["detail"]


@pytest.mark.parametrize(
    ("stamp", "hour"),
    [
        ("0251026023000", 1),
        ("1251026023000", 0),
        ("2251026023000", 2),
        ("0250701120000", 11),
        ("251026023000W", 1),
        ("251026023000S", 0),
    ],
)
async def test_a_season_decides(s: Site, stamp: str, hour: int) -> None:
    body = f"/ISk5ME382\r\n0-0:1.0.0({stamp})\r\n32.7.0(1*V)\r\n!\r\n".encode()
    await s.enrol("house")
    await upload(s, ZURICH, body)
    assert [at.hour for _, at, _ in await rows(s, "1-0:32.7.0")] == [hour]


def profile(values: list[str], code: str = "1.29.0", unit: str = "kWh") -> bytes:
    head = f"P.01(0251130001500)(00)(15)(2)({code})({unit})(3.29.0)(kvarh)\r\n"
    rows_of = "".join(f"({value})(0.1)\r\n" for value in values)
    return f"{HEAD}0.0.0(00123456)\r\n{head}{rows_of}!\r\n".encode()


async def test_a_load_profile(s: Site) -> None:
    values = ["0.250", "0.375", "1.5"]
    begin = datetime(2025, 11, 29, 23, tzinfo=UTC)
    await s.enrol("house")
    refused = await upload(s, ZURICH, profile(values), 422)
    assert refused["errors"][0]["pointer"] == "/stamp"
    found = await upload(s, ZURICH + "&stamp=end", profile(values))
    assert (found["accepted"], found["rejected"]) == (3, 0)
    stored = await rows(s)
    assert [at for _, at, _ in stored] == [begin + timedelta(minutes=15 * k) for k in range(3)]
    assert sum(q for *_, q in stored) == sum(map(Decimal, values)) * 10**12
    power = profile(["1.0", "1.5", "6"], "1.5.0", "kW")  # a quarter of each is in kWh
    assert (await upload(s, ZURICH + "&stamp=end", power))["duplicates"] == 3


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (checked(readout()).replace(b"345.678", b"345.679"), "the block check (BCC) is not that"),
        (checked(readout())[:-4], "the block check behind the end"),
        (HEAD.encode() + readout().encode(), "the list is cut off"),
        ((HEAD + readout() + HEAD).encode(), "another list begins"),
        ((HEAD + readout() + "!1A2B\r\n").encode(), "is it a DSMR telegram"),
        ((HEAD + readout() + "1.8.0 12\r\n!\r\n").encode(), "not of the form code(value*unit)"),
        (profile(["1)(2", "1"]), "the row has 3 values, and P.01 names 2"),
    ],
)
async def test_a_damaged_list_stores_nothing(s: Site, body: bytes, detail: str) -> None:
    await s.enrol("house")
    found = await upload(s, f"form=iec62056&stamp=end&{ZURICH}", body, 422)
    assert detail in found["detail"]
    assert await rows(s) == []
