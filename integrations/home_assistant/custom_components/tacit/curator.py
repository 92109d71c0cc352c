"""The HTTP API of a curator, as far as a house needs it."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from aiohttp import ClientError, ClientSession, ClientTimeout

TIMEOUT = ClientTimeout(total=30)


class CuratorUnreachable(Exception):
    """Nothing answers, or not as a curator does."""


class TokenRefused(Exception):
    """The curator does not take this token, or not for this house."""


@dataclass(frozen=True)
class Curator:
    """A house's curator, at an address, with a token of scope `curator`."""

    session: ClientSession
    url: str
    token: str
    name: str

    async def send(self, readings: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Hand in readings; one answer each, in their order."""
        named = [{"curator": self.name, **reading} for reading in readings]
        answer = await self._ask("POST", "/v1/readings", named)
        items = answer.get("items")
        if not isinstance(items, list) or len(items) != len(readings):
            raise CuratorUnreachable("an answer of another form")
        return items

    async def budget(self) -> dict[str, Any]:
        """What was spent of this house's privacy, and what is left."""
        return await self._ask("GET", f"/v1/curators/{self.name}/budget")

    async def contributions(self) -> list[dict[str, Any]]:
        """The newest questions, whether answered or refused."""
        answer = await self._ask("GET", f"/v1/curators/{self.name}/contributions?limit=20")
        items = answer.get("contributions")
        if not isinstance(items, list):
            raise CuratorUnreachable("an answer of another form")
        return items

    async def _ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.token}"}
        url = self.url.rstrip("/") + path
        try:
            async with self.session.request(
                method, url, json=body, headers=headers, timeout=TIMEOUT
            ) as answer:
                if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
                    raise TokenRefused
                if answer.status == HTTPStatus.NOT_FOUND:
                    raise TokenRefused
                if answer.status >= HTTPStatus.BAD_REQUEST:
                    raise CuratorUnreachable(f"status {answer.status}")
                document = await answer.json()
        except (TimeoutError, ClientError, ValueError) as error:
            raise CuratorUnreachable(type(error).__name__) from None
        if not isinstance(document, dict):
            raise CuratorUnreachable("an answer of another form")
        return document
