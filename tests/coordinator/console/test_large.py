"""Pages of a deployment that is large and old: none outgrows what a browser takes in at once."""

from __future__ import annotations

import asyncio

import pytest

from common.store.transactions import Database
from common.web.parts import part_of
from tests.coordinator.conftest import Houses
from tests.coordinator.console import large
from tests.coordinator.console.test_rounds import signed_in
from tests.coordinator.double import query

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
        totals = (await it.ask("GET", "/v1/curators?limit=1")).json()
        assert totals["total"] == large.CURATORS
        await browser.get("/console/budget/ledger")
        events = (await it.ask("GET", "/v1/budget/events?limit=1000")).json()["events"]
        assert len(events) == 1000
        assert (await it.ask("GET", "/v1/budget/verification")).json()["rows"] == large.EVENTS


async def test_tabs_that_wait_ask_the_store_together(house: Houses) -> None:
    """Fifty of them, while nothing changes, cost what one costs; a change reaches them all."""
    async with house(3, console=True) as it:
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

        counts = part_of(it.app, Database).counts
        tabs = [tab()]
        await asyncio.sleep(0.5)
        before = counts.reading
        await asyncio.sleep(2.0)
        alone = counts.reading - before
        tabs += [tab() for _ in range(TABS - 1)]
        await asyncio.sleep(1.0)
        before = counts.reading
        await asyncio.sleep(2.0)
        together = counts.reading - before
        assert not any(each.done() for each in tabs)
        assert together <= alone + TABS // 5, (alone, together)
        await it.ask("POST", f"/v1/rounds/{opened.id}/abort")
        async with asyncio.timeout(30):
            assert set(await asyncio.gather(*tabs)) == {200}
