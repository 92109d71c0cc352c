"""The list of what needs an operator: one list for the first page, the metric and the command."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from cli.services.config import prepare
from common.runtime.clock import ManualClock
from common.runtime.settings import LAST_BACKUP
from common.runtime.tls import expiry, trust
from common.web.dependencies import part_of
from coordinator.alerts.conditions import (
    HEADINGS,
    RUNBOOK,
    ConditionKind,
    certificate_end,
    participation_falls,
)
from coordinator.registry.aggregators import Attendance
from coordinator.store.rounds import Participation
from tests.coordinator.budget.test_routes import limited
from tests.coordinator.conftest import Houses
from tests.coordinator.console.test_budget import SCHEDULE
from tests.coordinator.console.test_rounds import signed_in
from tests.coordinator.double import NOISY, House, query
from tests.docs.test_links import anchors
from tests.e2e.test_tls import serving

ROOT = Path(__file__).parents[3]


async def kinds(it: House) -> list[str]:
    answer = await it.ask("GET", "/v1/conditions")
    return [each["condition"] for each in answer.json()["conditions"]]


async def gauges(it: House) -> dict[str, float]:
    text = (await it.client.get("/metrics")).text
    lines = [line for line in text.splitlines() if line.startswith("tacit_coordinator_conditions{")]
    return {line.split('"')[1]: float(line.split()[1]) for line in lines}


async def test_page_metric_and_route_have_the_same_list(house: Houses) -> None:
    clock = ManualClock()
    async with house(2, console=True, clock=clock) as it:
        assert await kinds(it) == []
        assert await gauges(it) == {kind.value: 0 for kind in ConditionKind}
        asked = {**query(**NOISY), "schedule": SCHEDULE, "name": "daily", "aggregators": 2,
                 "collusion": {"curators": 0, "aggregators": 1}}  # fmt: skip
        assert (await it.ask("POST", "/v1/queries", asked)).status_code == 201
        await limited(it, {"epsilon": "4"})
        it.wires[1].down = True
        attendance = part_of(it.app, Attendance)
        await attendance.look()
        clock.advance(timedelta(days=9))
        await attendance.look()
        await it.ask("POST", "/v1/tokens", {"scope": "analyst", "valid_s": 8 * 86_400})
        await it.ask("POST", "/v1/tokens", {"scope": "analyst", "valid_s": 6 * 86_400})
        clock.advance(timedelta(days=5, minutes=1))
        found = await kinds(it)
        assert found == [
            "aggregator_away",
            "schedule_stopped",
            "budget_ends",
            "tokens_end",
            "backup_old",
        ]
        assert {kind for kind, count in (await gauges(it)).items() if count} == set(found)
        listed = (await it.ask("GET", "/v1/conditions")).json()["conditions"]
        browser = await signed_in(it)
        await browser.get("/console")
        words = browser.words()
        assert "Needs you (5)" in words
        for each in listed:
            text = each["sentence"].split(" is used up on")[0]
            assert text in words
        assert listed[3]["sentence"] == "1 token of the coordinator will end within 3 days"
        assert listed[4]["sentence"] == "The coordinator was not backed up for 14 days"

        marker = it.settings.data_dir / LAST_BACKUP
        marker.touch()
        os.utime(marker, (0, clock.now().timestamp() - 7.9 * 86_400))
        assert "backup_old" not in await kinds(it)
        clock.advance(timedelta(hours=3))
        assert "backup_old" in await kinds(it)


async def test_a_disk_that_is_nearly_full(house: Houses, monkeypatch: pytest.MonkeyPatch) -> None:
    async with house(0) as it:
        for free, expected in ((10, []), (9, ["disk_full"])):
            usage = SimpleNamespace(total=100, free=free)
            monkeypatch.setattr(shutil, "disk_usage", lambda _, usage=usage: usage)
            assert await kinds(it) == expected


@pytest.mark.parametrize(
    ("ahead_s", "expected"), [(29, []), (-31, ["clock_skew"]), (45, ["clock_skew"])]
)
async def test_a_clock_that_differs(house: Houses, ahead_s: int, expected: list[str]) -> None:
    clock = ManualClock()
    async with house(1, clock=clock) as it:
        served = it.wires[0].handle_async_request

        async def dated(request: httpx.Request) -> httpx.Response:
            answer = await served(request)
            answer.headers["Date"] = format_datetime(
                clock.now() + timedelta(seconds=ahead_s), usegmt=True
            )
            return answer

        it.wires[0].handle_async_request = dated  # type: ignore[method-assign]
        clock.advance(timedelta(seconds=11))
        await part_of(it.app, Attendance).look()
        assert await kinds(it) == expected
        [seen] = (await it.ask("GET", "/v1/aggregators?health=true")).json()["aggregators"]
        assert seen["ahead_s"] == ahead_s


def releases(counts: list[int], each: timedelta) -> list[Participation]:
    begun = datetime(2026, 1, 1, tzinfo=UTC)
    return [
        Participation(str(place), "q", begun + place * each, count)
        for place, count in enumerate(counts)
    ]


def test_participation_is_compared_with_the_same_hour_of_three_days() -> None:
    day, hour = timedelta(days=1), timedelta(hours=1)
    assert participation_falls(releases([1000, 1000, 700], day)) == []  # only two days
    assert participation_falls(releases([1000, 1000, 1000, 700], day)) == []
    [(newest, usual)] = participation_falls(releases([900, 1000, 1100, 699], day))
    assert (newest.participants, usual) == (699, 1000)
    # At night fewer take part each day: the hour before has more, and nothing falls.
    daily = [1000] * 23 + [100]
    assert participation_falls(releases(daily * 4, hour)) == []
    assert len(participation_falls(releases([*daily * 3, *daily[:-1], 60], hour))) == 1


async def test_the_end_of_the_certificate_that_an_aggregator_shows(tmp_path: Path) -> None:
    [certificate] = prepare(tmp_path, [["127.0.0.1"]], 10)
    shown = trust(tmp_path / "authority.pem")
    async with serving(tmp_path, "127.0.0.1") as port:
        url = f"https://127.0.0.1:{port}"
        assert await certificate_end(url, shown) == expiry(certificate)
        assert await certificate_end(url, trust()) is None  # of an authority that is not trusted
    assert await certificate_end(url, shown) is None


def test_each_condition_has_a_section_of_the_page_of_troubles() -> None:
    assert set(HEADINGS) == set(ConditionKind)
    assert set(HEADINGS.values()) <= anchors(ROOT / RUNBOOK)
