"""No page of the console leads nowhere, for its operator and for an owner."""

from __future__ import annotations

import pytest

from tests.coordinator.console.browser import Browser, dead_links
from tests.curator.conftest import OPERATOR, OpenSite
from tests.curator.console.test_pages import given, owner


@pytest.mark.parametrize("who", ["operator", "owner"])
async def test_every_link_of_every_page_leads_somewhere(site: OpenSite, who: str) -> None:
    async with given(site) as (s, _):
        browser = Browser(s.app)
        await browser.sign_in(OPERATOR if who == "operator" else await owner(s, "g-1"))
        assert await dead_links(browser) == {}
