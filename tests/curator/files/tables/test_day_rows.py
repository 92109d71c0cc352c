"""A day a row: every value at its time or refused, also on the days when the clocks change."""

from __future__ import annotations

import csv
import io
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from curator.files.tables.day_rows import NoDays, day_columns, is_date
from tests.curator.conftest import OpenSite, Site
from tests.curator.files.tables.test_csv_import import LONG, WIDE, upload
from tests.curator.stored import rows

ZURICH = ZoneInfo("Europe/Zurich")
DAY = "layout=day&unit=kWh&timezone=Europe/Zurich&device_column=meter"
SPRING, AUTUMN, PLAIN = date(2024, 3, 31), date(2024, 10, 27), date(2025, 11, 3)


def clock(step: int) -> list[str]:
    return [f"{minute // 60:02d}:{minute % 60:02d}" for minute in range(0, 1440, step)]


def table(header: list[str], lines: list[list[str]]) -> bytes:
    return "".join(",".join(line) + "\n" for line in [header, *lines]).encode()


def independent_sum(body: bytes) -> Decimal:
    cells = [row[2:] for row in csv.reader(io.StringIO(body.decode()))][1:]
    return sum((Decimal(cell) for row in cells for cell in row if cell), Decimal())


def intervals(day: date, step: int) -> list[datetime]:
    """The intervals of a local day, found by walking through UTC."""
    moment, found = datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(hours=3), []
    while (here := moment.astimezone(ZURICH).date()) <= day:
        found += [moment] * (here == day)
        moment += timedelta(minutes=step)
    return found


@pytest.mark.parametrize("step", [15, 30, 60])
async def test_counted_steps(site: OpenSite, step: int) -> None:
    """46, 48 and 50 half hours in columns that are numbered, and so with the other steps."""
    most = 25 * 60 // step
    lines, expected = [], []
    for number, day in enumerate((SPRING, AUTUMN, PLAIN)):
        begins = intervals(day, step)
        values = [f"{number}.{k:03d}" for k in range(len(begins))]
        lines.append(["g-1", str(day), *values, *[""] * (most - len(values))])
        expected += list(zip(begins, values, strict=True))
    assert [len(intervals(day, step)) * step // 60 for day in (SPRING, AUTUMN)] == [23, 25]
    body = table(["meter", "date", *(f"q{k}" for k in range(most))], lines)
    async with site() as s:
        await s.enrol("g-1")
        found = await upload(s, DAY, body)
        assert (found["accepted"], found["rejected"]) == (len(expected), 0)
        stored = await rows(s)
        assert [(at, Decimal(q) / 10**12) for _, at, q in stored] == sorted(
            (at, Decimal(value)) for at, value in expected
        )
        assert Decimal(sum(q for *_, q in stored)) / 10**12 == independent_sum(body)


@pytest.mark.parametrize("labels", ["starts", "ends", "to midnight", "ranges", "HHMM"])
async def test_times_in_the_header(s: Site, labels: str) -> None:
    starts = clock(30)
    ends = [*starts[1:], "24:00"]
    header, more = {
        "starts": (starts, ""),
        "ends": (ends, ""),
        "to midnight": ([*starts[1:], "00:00"], "&stamp=end&step_s=1800"),
        "ranges": ([f"{a} - {b}" for a, b in zip(starts, ends, strict=True)], ""),
        "HHMM": ([name.replace(":", "") for name in starts], ""),
    }[labels]
    lines = [
        [meter, "03.11.2025", *(f"{meter[-1]}.{k:02d}" for k in range(48))]
        for meter in ("g-1", "g-2")
    ]
    body = table(["meter", "date", *header], lines)
    await s.enrol("gw", ["g-1", "g-2"])
    found = await upload(s, DAY + "&time_format=%25d.%25m.%25Y" + more, body)
    assert (found["accepted"], found["rejected"]) == (96, 0)
    stored = [(at, q) for device, at, q in await rows(s) if device == "g-2"]
    begins = [datetime(2025, 11, 2, 23, tzinfo=UTC) + timedelta(minutes=30 * k) for k in range(48)]
    assert [at for at, _ in stored] == begins
    assert [q // 10**10 for _, q in stored] == [200 + k for k in range(48)]


async def test_times_in_the_header_when_the_clocks_change(s: Site) -> None:
    """The skipped hour is empty, and the one that comes twice is not guessed."""
    plain = clock(60)
    spring = ["g-1", str(SPRING), *("1" if k != 2 else "" for k in range(24))]
    autumn = ["g-1", str(AUTUMN), *["1"] * 24]
    await s.enrol("g-1")
    found = await upload(s, DAY, table(["meter", "date", *plain], [spring, autumn]))
    assert (found["accepted"], found["rejected"]) == (23 + 23, 1)
    [error] = found["errors"]
    assert (error["line"], error["column"]) == (3, 5)
    assert "occurs twice" in error["detail"]
    stored = [at for _, at, _ in await rows(s)]
    twice = [datetime(2024, 10, 27, hour, tzinfo=UTC) for hour in (0, 1)]
    assert stored == [at for at in intervals(SPRING, 60) + intervals(AUTUMN, 60) if at not in twice]
    filled = ["g-1", str(SPRING), *["1"] * 24]
    found = await upload(s, DAY, table(["meter", "date", *plain], [filled]))
    assert (found["duplicates"], found["accepted"], found["rejected"]) == (0, 0, 1)
    assert "the clocks skip it" in found["errors"][0]["detail"]
    packed = ["g-1", str(SPRING), *["1"] * 23, ""]
    found = await upload(s, DAY, table(["meter", "date", *plain], [packed]))
    assert (found["duplicates"], found["accepted"], found["rejected"]) == (0, 0, 1)
    both = table(
        ["meter", "date", *plain[:3], "02:00", *plain[3:]],
        [
            ["g-1", str(AUTUMN), *["1"] * 25],
            ["g-1", str(PLAIN), "1", "1", "1", "", *["1"] * 21],
            ["g-1", "2025-11-04", *["1"] * 25],
        ],
    )
    found = await upload(s, DAY, both)
    assert (found["accepted"], found["duplicates"], found["rejected"]) == (2 + 24, 23, 1)
    assert [(e["line"], e["column"]) for e in found["errors"]] == [(4, 6)]
    assert set(twice) < {at for _, at, _ in await rows(s)}


@pytest.mark.parametrize(("ambiguous", "hour"), [("earlier", 0), ("later", 1)])
async def test_the_hour_that_comes_twice_as_the_map_says(
    s: Site, ambiguous: str, hour: int
) -> None:
    body = table(["meter", "date", *clock(60)], [["g-1", str(AUTUMN), *["1"] * 24]])
    await s.enrol("g-1")
    found = await upload(s, f"{DAY}&ambiguous={ambiguous}", body)
    assert found["accepted"] == 24
    hours = {at.hour for _, at, _ in await rows(s) if at.date() == AUTUMN}
    assert hours == set(range(23)) - {1 - hour}


async def test_bad_rows_have_their_place_and_move_nothing(s: Site) -> None:
    good = ["1"] * 48
    lines: list[tuple[list[str], int | None, str]] = [
        (["g-1", "2025-11-03", *good], None, ""),
        (["g-1", "3.11.2025", *good], 2, "is not of the form YYYY-MM-DD"),
        (["g-1", "2025-11-05T06:00", *good], 2, "is followed by a time"),
        (["g-1", "2025-11-06", *good[:46]], 49, "the row has 46 values, and its day has 48"),
        (["g-1", str(SPRING), *good], 49, "the row has 48 values, and its day has 46"),
        (["g-1", "2025-11-07", *good, "1"], 51, "the row has 49 values, and its day has 48"),
        (["g-1", "2025-11-08", *good, "", "", "1"], 53, "more cells than the header"),
        (["g-1", "2025-11-09", *good[:5], "", *good[6:]], 8, "is not a decimal number"),
        (["g-1", "2099-11-09", *good], 3, "or in the future"),
    ]
    header = ["meter", "date", *(str(k) for k in range(1, 51))]
    await s.enrol("g-1")
    found = await upload(s, DAY, table(header, [line for line, *_ in lines]))
    assert found["accepted"] == 48 + 47
    errors = sorted((e["line"], e["column"], e["detail"]) for e in found["errors"])
    expected = [(n, c, text) for n, (_, c, text) in enumerate(lines, 2) if c is not None]
    assert [error[:2] for error in errors] == [each[:2] for each in expected]
    for error, each in zip(errors, expected, strict=True):
        assert each[2] in error[2]


AS_OTHERS = [
    (WIDE, ["meter", "date", *clock(30)]),
    (WIDE, ["date", *clock(30)]),
    (WIDE, ["site", "meter", "date", *clock(30)]),
    (WIDE + "&curator=g-1", ["date", *clock(30)]),
    (WIDE + "&columns=00:00:23:30", ["meter", "date", *clock(30)]),
    (
        WIDE.replace("900", "1800") + "&columns=q0:q47",
        ["meter", "date", *(f"q{k}" for k in range(48))],
    ),
    (LONG, ["house", "meter", "date", *clock(30)]),
    (LONG.replace("=at", "=date") + "&value_column=00:00", ["house", "meter", "date", *clock(30)]),
    (
        LONG.replace("=at", "=date") + "&value_column=q0",
        ["house", "meter", "date", *(f"q{k}" for k in range(48))],
    ),
    ("layout=pivot&unit=kWh&time_column=date&curator=g-1", ["date", *clock(30)]),
    (WIDE + "&columns=00:00:24:00", ["meter", "date", *clock(30), "24:00"]),
    (
        LONG.replace("=at", "=date") + "&value_column=00:00",
        ["house", "meter", "date", *clock(60), "24:00"],
    ),
]


@pytest.mark.parametrize(("mapping", "header"), AS_OTHERS)
async def test_it_is_never_imported_as_another_layout(
    s: Site, mapping: str, header: list[str]
) -> None:
    names = {"meter": "g-1", "house": "g-1", "site": "x", "date": "2025-11-03"}
    await s.enrol("g-1")
    body = table(header, [[names.get(name, "1") for name in header]] * 2)
    found = await upload(s, mapping, body, 422)
    assert "looks like a day per row" in found["detail"]
    assert await rows(s) == []


async def test_what_is_no_day(s: Site) -> None:
    cases = [
        ("", clock(30)[1:], "/columns", "do not cover a day"),
        ("&step_s=900", clock(30), "/step_s", "are 1800 s apart"),
        ("", [*clock(30)[1:], "00:00"], "/stamp", "the columns end with 00:00"),
        ("&stamp=end", clock(30), "/stamp", "begin at 00:00"),
        ("", ["a", "b"], "/columns", "no columns of a day's intervals"),
        ("", [f"q{k}" for k in range(30)], "/step_s", "30 columns of a day: give step_s"),
        ("&step_s=60", [f"q{k}" for k in range(30)], "/step_s", "are no day"),
        ("&date_column=Tag", clock(30), "/date_column", "no column 'Tag'"),
        ("&columns=a:b", clock(30), "/columns", "has no such columns"),
        ("&columns=date:23:30", clock(30), "/step_s", "49 columns of a day"),
    ]
    await s.enrol("g-1")
    for more, names, pointer, detail in cases:
        body = table(["meter", "date", *names], [["g-1", "2025-11-03", *["1"] * len(names)]])
        found = await upload(s, DAY + more, body, 422)
        assert [each["pointer"] for each in found["errors"]] == [pointer], found["detail"]
        assert detail in found["detail"]
    found = await upload(s, "layout=day&unit=kWh", b"date\n", 422)
    assert "needs the timezone" in str(found)


def test_headers() -> None:
    assert day_columns(["m", "d", *(str(k) for k in range(1, 289))]).step_s == 300
    assert day_columns(["m", "d", *(str(k) for k in range(1, 1441))]).step_s == 60
    assert day_columns(["m", *clock(5)]).first == 1
    with pytest.raises(NoDays):
        day_columns(["m", *clock(30)[:24], "note", *clock(30)[24:]])
    assert is_date("20251103", "Datum")
    assert not is_date("20251103", "meter")
    assert is_date("11/3/2025")
    assert not is_date("0.5")


# --- a meter a column ----------------------------------------------------------------------------

PIVOT = "layout=pivot&unit=kWh"


async def test_pivot(s: Site) -> None:
    begins = [datetime(2025, 11, 3, tzinfo=UTC) + timedelta(minutes=15 * k) for k in range(8)]
    lines = [[f"{at:%Y-%m-%dT%H:%M:%SZ}", "x", f"0.{k}1", f"1.{k}2"] for k, at in enumerate(begins)]
    body = table(["time", "stranger", "g-1", "g-2"], lines)
    await s.enrol("gw", ["g-1", "g-2"])
    found = await upload(s, PIVOT, body)
    assert (found["accepted"], found["rejected"]) == (16, 1 + 8)
    assert found["unknown_curators"] == ["stranger"]
    stored = await rows(s)
    assert [at for device, at, _ in stored if device == "g-1"] == begins
    expected = independent_sum(table(["", "", "", ""], lines))
    assert Decimal(sum(q for *_, q in stored)) / 10**12 == expected
    bad = table(
        ["time", "g-1", "g-2", "note"],
        [["2025-11-04T00:00:00Z", "1", "", "1"], ["yesterday", "1", "1", ""], ["x"]],
    )
    found = await upload(s, PIVOT + "&columns=g-1:g-2", bad)
    assert (found["accepted"], found["rejected"]) == (1, 1 + 2 + 1)
    assert sorted((e["line"], e["column"]) for e in found["errors"]) == [(2, 3), (3, 1), (4, 2)]
    found = await upload(s, PIVOT, b"time\n2025-11-04T00:00:00Z\n", 422)
    assert "no columns of meters" in found["detail"]
    found = await upload(s, PIVOT + "&curator=g-1", body.replace(b"stranger", b"other"))
    assert found["rejected"] == 8
    assert {device for device, *_ in await rows(s)} == {"g-1", "g-2"}
