"""Local times on the days when the clocks change, by themselves and in files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.runtime.clock import epoch_microseconds, zone_named
from curator.errors import BadItem
from curator.files.units_and_local_time import LocalTimes, Twice, moments
from tests.curator.conftest import Site
from tests.curator.stored import rows

ZURICH = ZoneInfo("Europe/Zurich")
SPRING = datetime(2024, 3, 30, 23, tzinfo=UTC)
"""Local midnight before the day of 23 hours."""
AUTUMN = datetime(2024, 10, 26, 22, tzinfo=UTC)
"""Local midnight before the day of 25 hours."""


def wall(text: str) -> datetime:
    """A time as a clock on the wall shows it."""
    return datetime.fromisoformat(text)


def utc(time: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time)


def test_moments_of_the_two_days() -> None:
    (plain,) = moments(wall("2024-10-27 01:45"), ZURICH)
    assert utc(plain.time) == datetime(2024, 10, 26, 23, 45, tzinfo=UTC)
    first, second = moments(wall("2024-10-27 02:00"), ZURICH)
    assert utc(first.time) == datetime(2024, 10, 27, 0, tzinfo=UTC)
    assert utc(second.time) == datetime(2024, 10, 27, 1, tzinfo=UTC)
    assert {"CEST", "+0200", "+02:00", "A", "0"} == first.names
    assert {"CET", "+0100", "+01:00", "B", "1"} == second.names
    assert len(moments(wall("2024-10-27 02:59:59"), ZURICH)) == 2
    assert len(moments(wall("2024-10-27 03:00"), ZURICH)) == 1
    assert moments(wall("2024-03-31 02:00"), ZURICH) == ()
    assert moments(wall("2024-03-31 02:59:59"), ZURICH) == ()
    assert len(moments(wall("2024-03-31 03:00"), ZURICH)) == 1


@given(
    zone=st.sampled_from(
        ["Europe/Zurich", "America/St_Johns", "Australia/Lord_Howe", "UTC", "Asia/Kathmandu"]
    ),
    begin=st.datetimes(wall("2022-01-01"), wall("2026-12-31")),
    minutes=st.sampled_from([1, 5, 15, 30]),
    ends=st.booleans(),
)
def test_an_ascending_series_is_read_back(
    zone: str, begin: datetime, minutes: int, ends: bool
) -> None:
    """Whatever the zone, where a step is no longer than the time that comes twice and the series
    does not begin inside it."""
    where = zone_named(zone)
    first = begin.replace(second=0, microsecond=0, tzinfo=UTC) - timedelta(days=1)
    if len(moments(first.astimezone(where).replace(tzinfo=None), where)) != 1:
        first -= timedelta(hours=3)
    times = [first + timedelta(minutes=minutes * n) for n in range(300)]
    local = LocalTimes(where, Twice.ORDER, ends=ends)
    walls = [time.astimezone(where).replace(tzinfo=None) for time in times]
    assert [utc(local.resolve(each, "meter")) for each in walls] == times


@given(moment=st.datetimes(wall("2024-10-26"), wall("2024-10-28")))
def test_earlier_and_later(moment: datetime) -> None:
    true = moment.replace(tzinfo=UTC)
    local_time = true.astimezone(ZURICH).replace(tzinfo=None)
    early = LocalTimes(ZURICH, Twice.EARLIER).resolve(local_time)
    late = LocalTimes(ZURICH, Twice.LATER).resolve(local_time)
    assert epoch_microseconds(true) in (early, late)
    assert late - early in (0, 3600 * 10**6)


def test_rows_that_do_not_ascend_are_not_guessed() -> None:
    local = LocalTimes(ZURICH, Twice.ORDER)
    for hour, minute in ((3, 15), (3, 0)):
        local.resolve(wall(f"2024-10-27 0{hour}:{minute:02d}"), "descending")
    with pytest.raises(BadItem, match="do not ascend"):
        local.resolve(wall("2024-10-27 02:45"), "descending")
    for _ in range(2):
        local.resolve(wall("2024-10-27 02:00"), "thrice")
    with pytest.raises(BadItem, match="do not ascend"):
        local.resolve(wall("2024-10-27 02:00"), "thrice")


def test_marks() -> None:
    local = LocalTimes(ZURICH)
    local_time = wall("2024-10-27 02:30")
    for mark in ("CEST", "+02:00", "+0200", "A", "0"):
        assert utc(local.resolve(local_time, mark=mark)).hour == 0
    for mark in ("CET", "+01:00", "B", "1"):
        assert utc(local.resolve(local_time, mark=mark)).hour == 1
    with pytest.raises(BadItem, match="offset"):
        local.resolve(local_time, mark="EST")
    with pytest.raises(BadItem, match="offset"):
        local.resolve(wall("2024-07-01"), mark="CET")
    with pytest.raises(BadItem, match="twice"):
        local.resolve(local_time)


def day(begin: datetime, hours: int, minutes: int, end: bool) -> tuple[list[datetime], list[str]]:
    """Where the intervals of a local day begin, and the local stamps of their start or end."""
    step = timedelta(minutes=minutes)
    begins = [begin + step * n for n in range(hours * 60 // minutes)]
    stamps = [moment + step if end else moment for moment in begins]
    return begins, [f"{stamp.astimezone(ZURICH):%d.%m.%Y %H:%M}" for stamp in stamps]


MAP = {
    "unit": "kWh",
    "delimiter": ";",
    "decimal": ",",
    "time_format": "%d.%m.%Y %H:%M",
    "timezone": "Europe/Zurich",
    "curator_column": "Messpunkt",
    "time_column": "Zeit",
    "value_column": "Bezug",
}


async def upload(s: Site, text: str, status: int = 200, **changes: Any) -> Any:
    given_ = {**MAP, **changes}
    answer = await s.client.post(
        "/v1/readings/import",
        params={name: value for name, value in given_.items() if value is not None},
        content=text.encode(),
        headers={"Content-Type": "text/csv"},
    )
    assert answer.status_code == status, answer.text
    return answer.json()


def table(stamps: list[str], meters: tuple[str, ...] = ("house",)) -> str:
    """Rows of all meters, stamp by stamp; the n-th value is n/1000 kWh."""
    lines = [f"{m};{stamp};0,{n:03d}" for n, stamp in enumerate(stamps) for m in meters]
    return "Messpunkt;Zeit;Bezug\n" + "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("begin", "hours", "minutes", "end"), [(SPRING, 23, 60, False), (AUTUMN, 25, 15, True)]
)
async def test_days_on_which_the_clocks_change(
    s: Site, begin: datetime, hours: int, minutes: int, end: bool
) -> None:
    begins, stamps = day(begin, hours, minutes, end)
    await s.enrol("gw", ["a", "b"])
    how = {"ambiguous": "order", "stamp": "end" if end else "start", "step_s": minutes * 60}
    found = await upload(s, table(stamps, ("a", "b")), **how)
    assert (found["accepted"], found["rejected"]) == (2 * len(begins), 0)
    stored = await rows(s)
    for meter in ("a", "b"):
        assert [(t, q) for m, t, q in stored if m == meter] == [
            (moment, n * 10**9) for n, moment in enumerate(begins)
        ]
    again = await upload(s, table(stamps, ("a", "b")), **how)
    assert (again["accepted"], again["duplicates"]) == (0, 2 * len(begins))


async def test_the_hour_that_comes_twice_is_refused_unless_something_decides(s: Site) -> None:
    _, stamps = day(AUTUMN, 25, 15, end=False)
    await s.enrol("house")
    found = await upload(s, table(stamps))
    assert (found["accepted"], found["rejected"]) == (92, 8)
    assert [error["line"] for error in found["errors"]] == list(range(10, 18))
    assert {error["column"] for error in found["errors"]} == {2}
    assert "occurs twice" in found["errors"][0]["detail"]
    first = await upload(s, table(stamps), ambiguous="earlier")
    assert (first["accepted"], first["conflicts"], first["duplicates"]) == (4, 4, 92)


async def test_the_hour_that_is_left_out_is_refused(s: Site) -> None:
    stamps = [f"31.03.2024 0{h}:{m:02d}" for h in (1, 2, 3) for m in (0, 30)]
    await s.enrol("house")
    found = await upload(s, table(stamps))
    assert (found["accepted"], found["rejected"]) == (4, 2)
    assert [error["line"] for error in found["errors"]] == [4, 5]
    assert "skip" in found["errors"][0]["detail"]
    ends = await upload(s, table(["31.03.2024 02:00"]), stamp="end", step_s=900)
    assert ends["rejected"] == 0
    moments_ = [moment for _, moment, _ in await rows(s)]
    assert datetime(2024, 3, 31, 0, 45, tzinfo=UTC) in moments_


async def test_a_file_as_it_is_exported(s: Site) -> None:
    """Lines above the header, date and time apart, quotes, a meter beside its owner."""
    text = (
        "\ufeffLastgang;;\n\n"
        "Datum;Zeit;Zaehler;Wert\n"
        '27.10.2024;02:00;CH-1;"1,5"\n'
        "27.10.2024;02:00;CH-1;2,5\n"
        "27.10.2024;03:00;CH-1;1.234,5\n"
        "27.10.2024;04;CH-1;1\n"
        "27.10.2099;05:00;CH-1;1\n"
    )
    how = {
        "header_line": 3,
        "curator": "house",
        "curator_column": None,
        "device_column": "Zaehler",
        "date_column": "Datum",
        "value_column": "Wert",
        "ambiguous": "order",
    }
    await s.enrol("gw", ["house", "other"])
    found = await upload(s, text, **how)
    assert (found["accepted"], found["rejected"]) == (2, 3)
    places = {(e["line"], e["column"], e["detail"]) for e in found["errors"]}
    assert places == {
        (6, 4, "the value is not a decimal number"),
        (7, 2, "the time is not of the form in time_format"),
        (8, 2, "the time lies in the future"),
    }
    assert await rows(s) == [
        ("CH-1", datetime(2024, 10, 27, 0, tzinfo=UTC), 1500 * 10**9),
        ("CH-1", datetime(2024, 10, 27, 1, tzinfo=UTC), 2500 * 10**9),
    ]


async def test_offsets_in_the_stamps_go_before_the_zone(s: Site) -> None:
    text = "time,value\n2024-10-27T02:30:00+01:00,1\n2024-10-27 04:30,2\n1729990800000,3\n"
    how = {
        "curator_column": None,
        "delimiter": ",",
        "decimal": ".",
        "time_format": None,
        "time_column": "time",
        "value_column": "value",
    }
    await s.enrol("house")
    found = await upload(s, text, **how)
    assert (found["accepted"], found["rejected"]) == (3, 0)
    assert [moment.hour for _, moment, _ in await rows(s)] == [1, 1, 3]


async def test_counters_come_as_files(s: Site) -> None:
    text = "time,value\n2025-12-31T12:00:00Z,999.5\n2025-12-31T12:15:00Z,0.25\nx,1\n"
    text += "2025-12-31T12:30:00Z,-4\n2025-12-31T12:00:00Z,998\n2025-12-31T12:15:00Z,0.25\n"
    how = {
        "curator_column": None,
        "delimiter": ",",
        "decimal": ".",
        "timezone": None,
        "time_format": None,
        "time_column": "time",
        "value_column": "value",
        "kind": "total_increasing",
        "rollover": "1000",
    }
    await s.enrol("house")
    found = await upload(s, text, **how)
    assert (found["accepted"], found["duplicates"], found["conflicts"]) == (2, 1, 1)
    assert [(e["line"], e["column"]) for e in found["errors"]] == [(4, 1), (5, 2)]
    assert [(q) for _, _, q in await rows(s)] == [750 * 10**9]


async def test_a_wide_file_may_begin_at_a_local_time(s: Site) -> None:
    text = "meter;" + ";".join(f"q{n}" for n in range(100)) + "\nhouse" + ";0,5" * 100 + "\n"
    how = {"layout": "wide", "step_s": 900, "start": "2024-10-27T00:00"}
    await s.enrol("house")
    found = await upload(s, text, **how)
    assert found["accepted"] == 100
    times = [moment for _, moment, _ in await rows(s)]
    assert times[0] == AUTUMN
    assert times[-1] == datetime(2024, 10, 27, 22, 45, tzinfo=UTC)
    again = await upload(s, text, **{**how, "stamp": "end", "start": "2024-10-27T00:15"})
    assert again["duplicates"] == 100


NONSENSE: list[tuple[dict[str, Any], str]] = [
    ({"timezone": "Europe/Bern"}, "zone"),
    ({"timezone": "../etc/passwd"}, "zone"),
    ({"timezone": None, "ambiguous": "order"}, "timezone"),
    ({"ambiguous": "guess"}, "ambiguous"),
    ({"stamp": "end"}, "step_s"),
    ({"stamp": "end", "step_s": 900, "kind": "total_increasing"}, "counter"),
    ({"decimal": ";"}, "decimal"),
    ({"delimiter": ","}, "same"),
    ({"rollover": "5"}, "rollover"),
    ({"unit": None}, "unit"),
    ({"unit": "ohm"}, "unit"),
    ({"layout": "odd"}, "layout"),
    ({"layout": "wide"}, "step_s"),
    (
        {"layout": "wide", "step_s": 900, "start": "2024-10-01", "kind": "total_increasing"},
        "counter",
    ),
    ({"header_line": 9}, "header"),
    ({"date_column": "Datum"}, "Datum"),
    ({"layout": "wide", "step_s": 900, "start": "2024-10-27T02:30"}, "twice"),
    ({"layout": "wide", "step_s": 900, "start": "2024-03-31T02:30"}, "skip"),
    ({"layout": "wide", "step_s": 900, "start": "noon"}, "start"),
    ({"layout": "wide", "step_s": 900, "start": "2024-03-31T12:30", "timezone": None}, "timezone"),
]


async def test_a_map_that_makes_no_sense(s: Site) -> None:
    await s.enrol("house")
    for changes, words in NONSENSE:
        found = await upload(s, table(["01.10.2024 12:00"]), 422, **changes)
        assert words in str(found)
