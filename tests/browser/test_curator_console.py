"""The curator's console in a real browser: everybody can use it, and a stop is two pages away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from cli.deployment import Deployment
from tests.browser.conftest import PICTURES, Site, Window
from tests.browser.test_console import LOOKS, violations

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def curators(site: Site) -> Site:
    return Site(site.home, Deployment.load(site.home).curator.url)


@pytest.fixture(scope="module")
def operator(curators: Site, chromium: Browser) -> Any:
    """The cookies of the process' operator, who came by `tacit console --curator`."""
    context = chromium.new_context()
    page = context.new_page()
    page.goto(curators.command("console", "--curator", "--no-open").strip())
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/console")
    found = context.storage_state()
    context.close()
    return found


@pytest.fixture
def look(chromium: Browser, curators: Site, operator: Any) -> Iterator[Any]:
    """`look(width, scheme, script=False)`: a window at the curator's console."""
    opened: list[tuple[BrowserContext, Window]] = []

    def make(width: int = 1440, scheme: str = "light", script: bool = True) -> Window:
        context = chromium.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,  # type: ignore[arg-type]
            java_script_enabled=script,
            storage_state=operator,
        )
        opened.append((context, Window(context, curators)))
        return opened[-1][1]

    yield make
    for context, each in opened:
        assert each.faults == []
        context.close()


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_every_page_fits_and_is_accessible(look: Any, width: int, scheme: str) -> None:
    it = look(width, scheme)
    PICTURES.mkdir(parents=True, exist_ok=True)
    one = "/console/curators/meter-000"
    links = [each.get_attribute("href") for each in it.go(one).locator("table a").all()]
    assert len(links) == 4
    paths = {
        "curators": "/console",
        "given": one,
        "answer-paper": links[0],
        "answer": links[1],
        "stop": f"{one}/stop",
        "stop-all": "/console/stop",
    }
    for name, path in paths.items():
        page = it.go(path)
        page.screenshot(path=PICTURES / f"{name}-{width}-{scheme}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert violations(page) == []


@pytest.mark.parametrize("script", [True, False])
def test_a_curator_stops_and_takes_part_again(look: Any, curators: Site, script: bool) -> None:
    it = look(script=script)
    page = it.go("/console/curators/meter-001")
    page.get_by_role("link", name="Stop taking part").click()
    page.get_by_label("Type the name").fill("meter-001")
    page.keyboard.press("Enter")
    expect(page.get_by_text("This curator takes part in nothing.")).to_be_visible()
    told = curators.command("policy", "stops", "--curator", "meter-001")
    assert told.startswith("meter-001: stopped (operator since")
    page.get_by_role("button", name="Take back my stop").click()
    expect(page.get_by_role("link", name="Stop taking part")).to_be_visible()
    assert "not stopped" in curators.command("policy", "stops", "--curator", "meter-001")
