"""No page of the console leads nowhere, for its operator and for an owner."""

from __future__ import annotations

import pytest

from tests.coordinator.console.browser import Browser, dead_links
from tests.curator.conftest import OPERATOR, Site
from tests.curator.console.test_pages import owner


@pytest.mark.usefixtures("given")
@pytest.mark.parametrize("who", ["operator", "owner"])
async def test_every_link_of_every_page_leads_somewhere(
    s: Site, browser: Browser, who: str
) -> None:
    await browser.sign_in(OPERATOR if who == "operator" else await owner(s, "g-1"))
    assert await dead_links(browser) == {}
