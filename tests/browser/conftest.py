"""A deployment as `tacit demo` and `tacit up` leave it, and Debian's Chromium before it.

Chromium is found on the path or by TACIT_TEST_CHROMIUM; nothing is downloaded. Where it is absent
these tests are skipped; with TACIT_TEST_CHROMIUM set they fail instead.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from cli.services.deployment import Deployment, Running
from cli.services.up import service_settings

PICTURES = Path(os.environ.get("TACIT_TEST_PICTURES", "build/pictures"))
SHOWN = PICTURES / "docs"
"""Those of the documentation: `make pictures` puts them into docs/pictures/console."""


WAIT_MS = 120_000
"""On a busy machine a browser checks an answer for longer than Playwright waits by itself."""
expect.set_options(timeout=WAIT_MS)

LIMITS = '{"limits": [{"epsilon": "40", "period_s": 60}]}'
"""After the demo's round of the paper stance only a later period has anything left."""


@dataclass(frozen=True)
class Site:
    """A running console."""

    home: Path
    address: str

    def command(self, *words: str) -> str:
        """What `tacit WORDS --home ...` prints."""
        line = [sys.executable, "-m", "cli.main", *words, "--home", str(self.home)]
        return subprocess.run(line, check=True, capture_output=True, text=True, timeout=120).stdout

    def sign_in_address(self) -> str:
        return self.command("console", "--no-open").strip()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Four rounds of 1,000 meters: three mechanisms, and one of the paper stance."""
    home = tmp_path_factory.mktemp("site") / "home"
    line = [sys.executable, "-m", "cli.main", "demo", "--full", "--home", str(home)]
    subprocess.run(line, check=True, capture_output=True, timeout=240)
    deployment = Deployment.load(home)
    running = Running(deployment, service_settings())
    try:
        running.start()
        found = Site(home, deployment.coordinator.url)
        found.command("budget", "limits", LIMITS)
        yield found
    finally:
        running.stop()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Of one file: while it runs its event loop is the thread's, and other files have their own."""
    wanted = os.environ.get("TACIT_TEST_CHROMIUM")
    path = wanted or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("there is no Chromium on this machine (Debian's package chromium)")
    arguments = ["--disable-gpu", "--disable-background-networking", "--no-first-run"]
    if os.geteuid() == 0:
        arguments.append("--no-sandbox")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def state(site: Site, chromium: Browser) -> Any:
    """The cookies of an operator who came by `tacit console`."""
    return signed_in(chromium, site.sign_in_address())


def signed_in(chromium: Browser, address: str) -> Any:
    """The cookies of who opened this address of `tacit console`."""
    context = chromium.new_context()
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    page.goto(address)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/console")
    found = context.storage_state()
    context.close()
    return found


class Window:
    """A page that fails the test at any violation of the policy, error or request elsewhere."""

    def __init__(self, context: BrowserContext, site: Site) -> None:
        self.page: Page = context.new_page()
        self.site = site
        self.faults: list[str] = []
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.page.on("console", self._said)
        self.page.on("request", self._asked)

    def go(self, path: str) -> Page:
        self.page.goto(f"{self.site.address}{path}")
        return self.page

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"{message.type}: {message.text}")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.site.address, "data:")):
            self.faults.append(f"request: {request.url}")


@pytest.fixture
def window(chromium: Browser, site: Site, state: Any) -> Iterator[Any]:
    """`window(width=360, scheme="dark")`: a signed-in window."""
    yield from windows(chromium, site, state)


def windows(chromium: Browser, site: Site, state: Any) -> Iterator[Any]:
    """A maker of windows with these cookies; none of them had a fault at the end."""
    opened: list[tuple[BrowserContext, Window]] = []

    def make(width: int = 1440, scheme: str = "light", script: bool = True) -> Window:
        context = chromium.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,  # type: ignore[arg-type]
            java_script_enabled=script,
            storage_state=state,
        )
        context.set_default_timeout(WAIT_MS)
        opened.append((context, Window(context, site)))
        return opened[-1][1]

    yield make
    for context, each in opened:
        assert each.faults == []
        context.close()
