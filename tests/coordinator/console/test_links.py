"""No page of the console leads nowhere, and none outgrows what a browser takes in at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

import pytest

from common.principals import Scope
from common.runtime.clock import ManualClock
from common.store.transactions import Database, Transaction
from common.web.dependencies import part_of
from coordinator.console import rounds
from coordinator.rounds.notifications import Changes
from tests.coordinator.conftest import Houses
from tests.coordinator.console import large
from tests.coordinator.console.browser import Browser, dead_links
from tests.coordinator.console.test_queries import go
from tests.coordinator.console.test_rounds import released, signed_in
from tests.coordinator.double import NOISY, query


@pytest.mark.parametrize("scope", [Scope.OPERATOR, Scope.ANALYST])
async def test_every_link_of_every_page_leads_somewhere(house: Houses, scope: Scope) -> None:
    async with house(3, console=True) as it:
        await released(it, 3)
        await it.open(query(name="another"))
        browser = await signed_in(it)
        if scope is Scope.ANALYST:
            asked = {"scope": "analyst", "label": "an analyst"}
            made = await it.ask("POST", "/v1/tokens", asked)
            browser = Browser(it.app)
            await browser.sign_in(made.json()["token"])
        assert (await browser.get("/console")).status_code == 200
        assert await dead_links(browser) == {}


WARNING = "All 3 aggregators run on one machine, by their addresses"


async def test_aggregators_on_one_machine_are_named_on_every_page_and_in_every_report(
    house: Houses,
) -> None:
    async with house(3, console=True, one_machine=True) as it:
        opened = await released(it)
        browser = await signed_in(it)
        preview = (await it.ask("POST", "/v1/queries/preview", query(**NOISY))).json()
        for report in ((await it.result(opened))["report"], preview):
            said = " ".join(report["assumptions"])
            assert WARNING in said
            assert "is run by a different operator" not in said
        head = (await it.ask("GET", f"/v1/rounds/{opened.id}")).json()
        for page in (f"/console/rounds/{opened.id}", f"/console/queries/{head['query_id']}"):
            assert (await browser.get(page)).status_code == 200
            assert WARNING in browser.words(), page
        like = f"/console/queries/new?like={head['query_id']}"
        assert (await browser.get(like)).status_code == 200
        await go(browser, "4")
        assert "Who would have to work together" in browser.words()
        assert WARNING in browser.words()


async def test_nothing_is_said_of_aggregators_apart(house: Houses) -> None:
    async with house(3) as it:
        report = (await it.ask("POST", "/v1/queries/preview", query(**NOISY))).json()
        assert WARNING not in " ".join(report["assumptions"])
        assert "is run by a different operator" in " ".join(report["assumptions"])


MOST_BYTES = 150_000
TABS = 50


@pytest.mark.slow
async def test_no_page_is_larger_than_a_browser_takes_in(house: Houses) -> None:
    async with house(3, console=True, max_body_bytes=8_000_000) as it:
        round_id = await large.fill(it)
        browser = await signed_in(it)
        for path in await large.paths(it, round_id):
            page = await browser.get(path)
            assert page.status_code == 200, path
            assert len(page.content) < MOST_BYTES, (path, len(page.content))
        assert (await it.ask("GET", "/v1/curators?limit=1")).json()["total"] == large.CURATORS
        await browser.get("/console/budget/ledger")
        assert len((await it.ask("GET", "/v1/budget/events?limit=1000")).json()["events"]) == 1000
        assert (await it.ask("GET", "/v1/budget/verification")).json()["rows"] == large.EVENTS


@pytest.mark.slow
async def test_tabs_that_wait_ask_the_store_together(
    house: Houses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty of them, while nothing changes, cost what one costs; a change reaches them all."""
    monkeypatch.setattr(rounds, "_LOOK_S", 0.1)
    clock = ManualClock()
    async with house(3, console=True, clock=clock) as it:
        await it.host("gateway", 5)
        opened = await it.open(query(deadline_s=60))
        browser = await signed_in(it)
        live = f"/console/rounds/{opened.id}/live"
        page = await browser.get(live)
        tag = {"If-None-Match": page.headers["etag"]}

        def tab() -> asyncio.Task[int]:
            async def wait() -> int:
                answer = await browser.client.get(f"{live}?wait_s=20", headers=tag)
                return answer.status_code

            return asyncio.create_task(wait())

        database, changes = part_of(it.app, Database), part_of(it.app, Changes)
        wait_as_usual, read_as_usual = changes.wait, database.reading
        looks, reads, looked = Counter[object](), Counter[object](), asyncio.Event()

        async def wait(ticket: asyncio.Event, seconds: float) -> None:
            looks[asyncio.current_task()] += 1
            looked.set()
            await wait_as_usual(ticket, seconds)

        def reading(*, large: bool = False) -> AbstractAsyncContextManager[Transaction]:
            reads[asyncio.current_task()] += 1
            return read_as_usual(large=large)

        async def look(times: int) -> None:
            """Until every tab has looked so often again, and found nothing new."""
            enough = {each: looks[each] + times for each in tabs}
            while any(looks[each] < count for each, count in enough.items()):
                looked.clear()
                await looked.wait()

        async def cost() -> int:
            """How often the tabs read the store while time goes on once."""
            before = sum(reads[each] for each in tabs)
            clock.advance(timedelta(seconds=2))
            await look(2)
            return sum(reads[each] for each in tabs) - before

        monkeypatch.setattr(changes, "wait", wait)
        monkeypatch.setattr(database, "reading", reading)
        tabs = [tab()]
        await look(1)
        alone = await cost()
        tabs += [tab() for _ in range(TABS - 1)]
        await look(1)
        assert await cost() == alone > 0
        assert not any(each.done() for each in tabs)
        await it.ask("POST", f"/v1/rounds/{opened.id}/abort")
        clock.advance(timedelta(seconds=2))
        async with asyncio.timeout(120):
            assert set(await asyncio.gather(*tabs)) == {200}
