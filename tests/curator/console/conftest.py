"""A curator service with its console, a browser, and something to see."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.coordinator.console.browser import Browser
from tests.curator.conftest import NOISY, OPEN, OpenSite, Site, query


@pytest.fixture
async def s(site: OpenSite) -> AsyncIterator[Site]:
    """The service, running."""
    async with site(console=True) as running:
        yield running


@pytest.fixture
def browser(s: Site) -> Browser:
    return Browser(s.app)


async def filled(s: Site) -> None:
    """A host of two and a lone curator after a noisy round and one without a bound."""
    await s.policy(**OPEN)
    await s.enrol("house-1")
    await s.enrol("gateway", ["g-1", "g-2"])
    await s.reading("g-1", "1")
    await s.reading("g-1", "9", 5)
    for asked in (query(NOISY), query()):
        s.open(asked)
        await s.take_part()


@pytest.fixture
async def given(s: Site) -> None:
    await filled(s)
