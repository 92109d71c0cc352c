"""Which days of a device are complete, and how many readings are missing on the others."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from common.runtime.clock import epoch_microseconds
from curator.owner.calendar import begin_of, missing, step_of
from tests.curator.conftest import NOISY, OPEN, OPERATOR, START, OpenSite, Site, query
from tests.curator.console.test_pages import owner

ZURICH = ZoneInfo("Europe/Zurich")
QUARTER = 15 * 60 * 10**6


@pytest.mark.parametrize("first", [date(2025, 3, 26), date(2025, 10, 22)])
@pytest.mark.parametrize("jitter_us", [0, 30_000_000])
def test_missing_readings_are_counted_on_their_days(first: date, jitter_us: int) -> None:
    """A grid of quarters over a change of the clocks, of which half of some hours is removed."""
    chance = np.random.default_rng(4)
    bounds = [begin_of(first + timedelta(days=k), ZURICH) for k in range(9)]
    assert sum(end - begin != 86_400 * 10**6 for begin, end in pairwise(bounds)) == 1
    grid = np.arange(bounds[0], bounds[-1], QUARTER)
    gone = (grid // (6 * QUARTER) % 5 == 2) & (chance.random(grid.size) < 0.5)
    gone |= (grid >= bounds[3] - 7 * QUARTER) & (grid < bounds[5] + 2 * QUARTER)
    gone[:3] = gone[-2:] = True
    times = grid[~gone] + chance.integers(0, jitter_us + 1, int((~gone).sum()))
    step = step_of(times)
    assert step is not None
    assert abs(step - QUARTER) <= jitter_us
    expected = [
        int((gone & (grid >= begin) & (grid < end)).sum()) for begin, end in pairwise(bounds)
    ]
    assert 90 < expected[3] < 101  # a day without any
    found = missing(times, QUARTER, np.array(bounds))
    if jitter_us:  # what is missing at midnight may be of either day
        assert abs(found - expected).max() <= 1
    else:
        assert found.tolist() == expected


def test_one_reading_has_no_step() -> None:
    assert step_of(np.array([5])) is None
    assert step_of(np.array([5, 9])) == 4


def test_readings_of_every_microsecond_do_not_overflow() -> None:
    times, far = np.array([0, 1, 2]), 400 * 86_400 * 10**6
    assert missing(times, 1, np.array([0, far // 2, far])).tolist() == [far // 2 - 3, far // 2]


async def days(s: Site, token: str = OPERATOR, status: int = 200, **asked: str) -> Any:
    answer = await s.client.get(
        "/v1/curators/house-1/calendar", params=asked, headers={"Authorization": f"Bearer {token}"}
    )
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_a_calendar_of_a_curator_by_the_zone_of_its_days(site: OpenSite) -> None:
    async with site(calendar_timezone="Europe/Zurich") as s:
        await s.enrol("house-1")
        await s.enrol("house-2")
        assert (await days(s))["devices"] == []
        begin = datetime(2025, 10, 24, 22, tzinfo=UTC)  # Saturday in Zurich; the clocks change next
        readings = [
            {
                "curator": "house-1",
                "device": "pump",
                "time": (begin + timedelta(minutes=15 * k)).isoformat(),
                "value": "0.5",
                "unit": "kWh",
            }
            for k in range(96 + 100 + 96)
            if k not in range(240, 244)
        ]
        await s.send(readings)
        await s.send(readings[:3])  # again
        await s.send([{**readings[5], "value": "0.75", "correction": True}])
        # A counter of its own register; the second total replaces the first.
        total = {"curator": "house-1", "register": "energy_export", "kind": "total_increasing"}
        total |= {"time": begin.isoformat(), "unit": "kWh"}
        await s.send([{**total, "value": "7"}])
        await s.send([{**total, "value": "8", "correction": True}])
        shown = await days(s, to="2025-10-28")
        assert shown["registers"] == ["energy_import", "energy_export"]
        assert (shown["from"], shown["to"]) == ("2025-09-24", "2025-10-28")
        [pump] = shown["devices"]
        assert pump["step_s"] == 900
        counts = {name: pump[name] for name in ("duplicates", "corrections", "late")}
        assert counts == {"duplicates": 3, "corrections": 1, "late": 0}
        assert datetime.fromisoformat(pump["last"]) == begin + timedelta(minutes=15 * 291)
        states = [(d["state"], d["readings"], d["missing"]) for d in pump["days"][-5:]]
        assert states == [
            ("open", 0, 0),  # before its first reading
            ("complete", 96, 0),
            ("complete", 100, 0),
            ("partial", 92, 4),
            ("missing", 0, 96),
        ]
        [counter] = (await days(s, register="energy_export"))["devices"]
        assert (counter["duplicates"], counter["corrections"]) == (0, 1)
        [other] = (await days(s, to="2025-10-27", timezone="UTC"))["devices"]
        assert [d["readings"] for d in other["days"][-4:]] == [8, 96, 96, 88]
        today = (await days(s))["devices"][0]["days"][-1]
        assert today["state"] == "open"  # it is not over
        await days(s, register="gas", status=404)
        problem = await days(s, timezone="Mars/Olympus", status=422)
        assert "/timezone" in str(problem)
        await days(s, to="tomorrow", status=422)
        own = await owner(s, "house-1")
        assert (await days(s, own))["curator"] == "house-1"
        await days(s, await owner(s, "house-2"), status=403)
        await days(s, "no-token", status=401)


async def test_readings_of_a_window_that_was_used_are_late(s: Site) -> None:
    await s.policy(**OPEN)
    await s.enrol("house-1")
    await s.reading("house-1", "1")
    s.open(query(NOISY))
    await s.take_part()
    await s.reading("house-1", "2", 30)  # of that hour
    await s.reading("house-1", "2", 90)
    shown = await days(s, to=START.date().isoformat())
    assert [each["late"] for each in shown["devices"]] == [1]


def test_days_that_a_zone_skips_have_no_hours() -> None:
    apia = ZoneInfo("Pacific/Apia")  # it had no 30 December 2011
    begins = [begin_of(date(2011, 12, day), apia) for day in (29, 30, 31)]
    assert np.diff(begins).tolist() == [86_400 * 10**6, 0]
    assert epoch_microseconds(datetime(2011, 12, 30, 10, tzinfo=UTC)) == begins[1]
