"""No page of the console leads nowhere."""

from __future__ import annotations

import pytest

from common.web.tokens import Scope
from tests.coordinator.conftest import Houses
from tests.coordinator.console.browser import Browser, dead_links
from tests.coordinator.console.test_queries import go
from tests.coordinator.console.test_rounds import NOISY, released, signed_in
from tests.coordinator.double import query


@pytest.mark.parametrize("scope", [Scope.OPERATOR, Scope.ANALYST])
async def test_every_link_of_every_page_leads_somewhere(house: Houses, scope: Scope) -> None:
    async with house(3, console=True) as it:
        await released(it)
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


@pytest.mark.parametrize("together", [True, False])
async def test_aggregators_on_one_machine_are_named_on_every_page_and_in_every_report(
    house: Houses, together: bool
) -> None:
    async with house(3, console=True, one_machine=together) as it:
        opened = await released(it)
        browser = await signed_in(it)
        preview = (await it.ask("POST", "/v1/queries/preview", query(**NOISY))).json()
        for report in ((await it.result(opened))["report"], preview):
            said = " ".join(report["assumptions"])
            assert (WARNING in said) == together
            assert ("is run by a different operator" in said) != together
        head = (await it.ask("GET", f"/v1/rounds/{opened.id}")).json()
        for page in (f"/console/rounds/{opened.id}", f"/console/queries/{head['query_id']}"):
            assert (await browser.get(page)).status_code == 200
            assert (WARNING in browser.words()) == together, page
        like = f"/console/queries/new?like={head['query_id']}"
        assert (await browser.get(like)).status_code == 200
        await go(browser, "4")
        assert "Who would have to work together" in browser.words()
        assert (WARNING in browser.words()) == together
