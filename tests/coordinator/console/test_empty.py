"""Every page of a new deployment is there, with nothing to show yet."""

from __future__ import annotations

import re

from tests.coordinator.conftest import Houses
from tests.coordinator.console.test_rounds import signed_in
from tests.docs.test_console_page import table

OTHERS = {"/console/jobs/compare": 422, "/console/budget/curators": 303}
"""Pages that are of what their address names, with the status without it."""


def whole(service: str) -> list[str]:
    """Pages that are of no one thing, which somebody who is signed in looks at."""
    return [page for page in table(service) if "{" not in page and page != "/console/login"]


def head(text: str) -> str:
    """The heading of a page."""
    found = re.search(r"<h1>(.+?)</h1>", text, re.DOTALL)
    return "" if found is None else found[1].strip()


async def test_every_page_of_a_coordinator_that_has_nothing(house: Houses) -> None:
    async with house(0, console=True) as it:
        browser = await signed_in(it)
        for page in whole("coordinator"):
            shown = await browser.get(page)
            assert shown.status_code == OTHERS.get(page, 200), page
            assert shown.status_code == 303 or head(shown.text), page
