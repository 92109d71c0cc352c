"""Every page of a curator service that hosts nobody is there."""

from __future__ import annotations

from tests.coordinator.console.browser import Browser
from tests.coordinator.console.test_empty import head, whole
from tests.curator.conftest import OPERATOR, OpenSite


async def test_every_page_of_a_curator_service_that_has_nothing(site: OpenSite) -> None:
    async with site(console=True) as s:
        browser = Browser(s.app)
        await browser.sign_in(OPERATOR)
        for page in whole("curator"):
            shown = await browser.get(page)
            if page == "/console/curators":  # an owner's way in; an operator has the list
                assert shown.headers["location"] == "/console"
            else:
                assert shown.status_code == 200, page
                assert head(shown.text), page
