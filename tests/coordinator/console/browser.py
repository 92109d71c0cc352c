"""A browser without a screen: cookies, the headers that a real one sends, and forms."""

from __future__ import annotations

import html
import re
from typing import Any
from urllib.parse import urlencode

import httpx
from fastapi import FastAPI

from tests.coordinator.double import OPERATOR_TOKEN

ORIGIN = "http://house.test"
OWN = {"Sec-Fetch-Site": "same-origin", "Origin": ORIGIN}


class Browser:
    """One window at a console."""

    def __init__(self, app: FastAPI | str) -> None:
        """`app`: in this process, or its address."""
        if isinstance(app, str):
            self.client = httpx.AsyncClient(base_url=app, timeout=None)
        else:
            transport = httpx.ASGITransport(app=app)
            self.client = httpx.AsyncClient(transport=transport, base_url=ORIGIN)
        self.page: httpx.Response

    async def get(self, path: str, **headers: str) -> httpx.Response:
        """Look at a page, without following where it leads."""
        self.page = await self.client.get(
            path, headers={"Sec-Fetch-Site": "same-origin", **headers}
        )
        return self.page

    async def post(
        self, path: str, fields: dict[str, str] | None = None, headers: dict[str, str] | None = None
    ) -> httpx.Response:
        """Send a form as a page of this origin would, or with other headers."""
        sent = {"Content-Type": "application/x-www-form-urlencoded"}
        sent |= OWN if headers is None else headers
        content = urlencode(fields or {}).encode()
        self.page = await self.client.post(path, content=content, headers=sent)
        return self.page

    async def sign_in(
        self, token: str = OPERATOR_TOKEN, wanted: str = "/console"
    ) -> httpx.Response:
        return await self.post("/console/login", {"token": token, "next": wanted})

    def field(self, name: str) -> str:
        """The value of a hidden field of the page."""
        found = re.search(rf'name="{name}" value="([^"]*)"', self.page.text)
        assert found is not None, self.page.text
        return html.unescape(found[1])

    def words(self) -> str:
        """The text of the page, without its tags."""
        text = re.sub(r"<[^>]+>", " ", self.page.text)
        return re.sub(r"\s+", " ", html.unescape(text))

    async def submit(self, path: str, **fields: Any) -> httpx.Response:
        """Send a form of the page that is looked at, with its secret."""
        return await self.post(path, {"csrf": self.field("csrf"), **fields})


_LINK = re.compile(r'href="(/console[^"]*)"')


async def dead_links(browser: Browser, most: int = 150) -> dict[str, int | str]:
    """Every link of every page, from the first one on, that answers with a problem or names a place
    that its page has not, by address. Each is looked at once, `most` at most."""
    waiting, seen, dead = ["/console"], {"/console"}, dict[str, int | str]()
    ids: dict[str, set[str]] = {}
    places: list[tuple[str, str]] = []
    while waiting and len(seen) < most:
        path = waiting.pop(0)
        page = await browser.get(path)
        if page.status_code >= 400:
            dead[path] = page.status_code
            continue
        if "location" in page.headers:
            found = [page.headers["location"]]
        elif page.headers["content-type"].startswith("text/html"):
            ids[path] = set(re.findall(r' id="([^"]*)"', page.text))
            found = [html.unescape(each) for each in _LINK.findall(page.text)]
        else:
            continue
        for link in found:
            target, _, place = link.partition("#")
            if place:
                places.append((target, place))
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    dead |= {
        f"{path}#{place}": "no such place"
        for path, place in places
        if path in ids and place not in ids[path]
    }
    return dead
