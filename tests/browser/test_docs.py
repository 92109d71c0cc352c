"""The page `/docs` of each service in Chromium: the API is read and tried, nothing leaves the
machine, and the page's policy holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from cli.services.deployment import Deployment, Running, ServiceAddress, pair
from docs.generate import SERVICES
from tests.browser.conftest import WAIT_MS

pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ServiceAddress]]:
    """One service of each kind that runs."""
    plan = Deployment.plan(tmp_path_factory.mktemp("docs"), 1)
    running = Running(plan, {})
    try:
        running.start()
        pair(plan)
        yield {each.kind: each for each in plan.services}
    finally:
        running.stop()


@pytest.mark.parametrize("kind", SERVICES)
def test_the_api_is_read_and_tried(
    chromium: Browser, services: dict[str, ServiceAddress], kind: str
) -> None:
    service = services[kind]
    token = (Path(service.directory) / "operator.token").read_text().strip()
    page = chromium.new_page()
    page.set_default_timeout(WAIT_MS)
    said, asked = list[str](), list[str]()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{service.url}/docs")
    tokens = page.locator("#operations-tokens-list_tokens")
    tokens.wait_for()
    page.click("button.authorize")
    page.fill(".auth-container input", token)
    page.click(".auth-btn-wrapper button.authorize")
    page.click("button.btn-done")
    tokens.locator(".opblock-summary-control").click()
    tokens.locator("button.execute").click()
    answer = tokens.locator(".live-responses-table .response")
    answer.wait_for()
    assert answer.locator(".response-col_status").inner_text().startswith("200")
    assert '"scopes"' in answer.inner_text()
    assert said == []
    assert {url.split("/", 3)[2] for url in asked} == {service.url.split("/", 3)[2]}
    page.close()
