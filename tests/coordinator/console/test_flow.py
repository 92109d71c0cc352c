"""The page of the data flow tells what the API tells an operator, and nothing to others."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from common.runtime.clock import ManualClock
from tests.coordinator.conftest import Houses
from tests.coordinator.console.test_rounds import signed_in
from tests.coordinator.double import integers, query
from tests.coordinator.rounds.test_flow import counted, flow

PAGE = "/console/flow"
NOISY = {"mechanism": "distributed", "epsilon": "1", "collusion": {"aggregators": 2}}


async def test_the_page_tells_what_the_api_tells(house: Houses, clock: ManualClock) -> None:
    async with house(3, console=True, clock=clock) as it:
        host = await it.host("gateway", 20)
        for _ in range(2):
            opened = await it.open(query(**NOISY))
            await opened.contribute(host, integers(20))
            await it.finish(opened)
        await counted(it, clock, stored=812, round_closed=6, seal_broken=4)
        browser = await signed_in(it)
        page = await browser.get(PAGE)
        assert page.status_code == 200
        assert not re.search(r"\sstyle=|\son\w+=|javascript:", page.text)
        text = browser.words()
        told = await flow(it)
        assert "2 released." in text
        assert 'class="chart bars"' in page.text
        for outcome, count in told["aggregators"][0]["lone"].items():
            shown = f"at least {count} lone pieces" if outcome == "stored" else f"{outcome} {count}"
            assert shown in text
        assert "seal_broken" not in text
        health = (await it.ask("GET", "/v1/aggregators?health=true")).json()["aggregators"]
        for each in health:
            assert each["id"] in text
        clock.advance(timedelta(days=40))
        await browser.sign_in()
        await browser.get(PAGE)
        assert "No round was opened in this time" in browser.words()


async def test_an_aggregator_that_is_away_or_another_is_shown(
    house: Houses, clock: ManualClock
) -> None:
    async with house(3, console=True, clock=clock) as it:
        browser = await signed_in(it)
        it.wires[0].down = True
        it.wires[2].lie = _another
        await browser.get(PAGE)
        text = browser.words()
        assert "aggregator-0 ✗ away" in text
        assert "aggregator-1 ✓ reachable" in text
        assert "it shows another identity than the paired one" in text


def _another(path: str, told: Any) -> Any:
    """The answer of somebody else at the address."""
    if path != "/.well-known/tacit-aggregator":
        return told
    return {**told, "identity_key": "A" * 43}


async def test_names_from_an_aggregator_are_text(house: Houses, clock: ManualClock) -> None:
    """A hostile aggregator names its problem."""
    async with house(1, console=True, clock=clock) as it:
        browser = await signed_in(it)
        evil = "<script>alert(1)</script>"

        def lie(path: str, told: Any) -> Any:
            hour = {"hour": "2026-01-01T00:00:00Z", "form": "lone", "outcomes": {evil: 9}}
            return {**told, "hours": [hour]} if path == "/v1/flow" else told

        it.wires[0].lie = lie
        page = await browser.get(PAGE)
        assert page.status_code == 200
        assert evil not in page.text
        assert "It told no counts" in browser.words()


async def test_an_analyst_has_no_such_page(house: Houses) -> None:
    async with house(1, console=True) as it:
        analyst = await signed_in(it, "analyst")
        assert (await analyst.get(PAGE)).status_code == 404
        await analyst.get("/console")
        assert PAGE not in analyst.page.text


async def test_a_bad_span_is_a_page_with_its_field(house: Houses) -> None:
    async with house(1, console=True) as it:
        browser = await signed_in(it)
        page = await browser.get(f"{PAGE}?from=0001-01-01T00:00:00Z")
        assert page.status_code == 422
        assert "/from" in browser.words()
