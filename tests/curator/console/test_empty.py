"""Every page of a curator service that hosts nobody is there."""

from __future__ import annotations

import html

from tests.coordinator.console.browser import Browser
from tests.coordinator.console.test_empty import head, whole
from tests.curator.conftest import OPERATOR, OpenSite, Site
from tests.curator.console.test_pages import HOSTILE


async def test_every_page_of_a_curator_service_that_has_nothing(browser: Browser) -> None:
    await browser.sign_in(OPERATOR)
    for page in whole("curator"):
        shown = await browser.get(page)
        if page == "/console/curators":  # an owner's way in; an operator has the list
            assert shown.headers["location"] == "/console"
        else:
            assert shown.status_code == 200, page
            assert head(shown.text), page


async def test_hostile_words_are_text(s: Site, browser: Browser) -> None:
    await s.enrol("g-1")
    await browser.sign_in(OPERATOR)
    for text in HOSTILE:
        found = await browser.client.get("/console", params={"find": text})
        assert found.status_code == 200
        assert "<img" not in found.text
        assert "49" not in found.text.partition("<main")[2].partition("</main")[0]
        assert html.escape(text) in found.text


async def test_without_the_setting_there_is_no_console(site: OpenSite) -> None:
    async with site() as s:
        for path in ("/console", "/console/login", "/v1/console/codes"):
            assert (await s.client.get(path)).status_code == 404
