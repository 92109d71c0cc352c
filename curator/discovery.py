"""What coordinators ask of this process's parties, told by long polls.

One of the parties at a coordinator asks for all; another does where its token is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence, Set
from dataclasses import dataclass, field
from secrets import SystemRandom
from typing import Any, Protocol

from sqlalchemy.ext.asyncio import AsyncEngine

from common.service.database import reading
from common.service.logs import describe, get_logger
from common.service.problems import ProblemReceived
from curator.errors import PeerUnavailable
from curator.peers import Listing
from curator.store import parties as party_store

SPEAKERS = 3
_chance = SystemRandom()
_logger = get_logger("tacit.curator.discovery")


class Ask(Protocol):
    """Asks a coordinator for a list; nothing if it is that of the ETag still."""

    async def __call__(
        self, url: str, token: str, etag: str | None, wait_s: float
    ) -> Listing | None: ...


@dataclass
class Discovery:
    """One list of each coordinator; `take` is given the coordinator's pinned keys, and all that is
    listed whenever that changes."""

    engine: AsyncEngine
    ask: Ask
    take: Callable[[Set[bytes], Sequence[Any]], Awaitable[None]]
    _etags: dict[str, str | None] = field(default_factory=dict)

    def forget(self) -> None:
        """Take up the lists again when they are next asked for: somebody new may be concerned."""
        self._etags.clear()

    async def look(self, url: str, wait_s: float = 0.0) -> bool:
        """Take up what a coordinator lists; whether it answered."""
        async with reading(self.engine) as connection:
            speakers = [each for each in await party_store.speakers(connection) if each.url == url]
        for speaker in _chance.sample(speakers, min(SPEAKERS, len(speakers))):
            try:
                found = await self.ask(url, speaker.token, self._etags.get(url), wait_s)
            except ProblemReceived as error:
                if error.status in (401, 403):
                    continue
                return False
            except PeerUnavailable:
                return False
            if found is not None:
                await self.take({each.coordinator_key for each in speakers}, found.items)
                self._etags[url] = found.etag
            return True
        return False

    async def watch(self, url: str, wait_s: float, retry_s: float) -> None:
        """Look for ever; `wait_s` 0 asks now and then instead of waiting for a change."""
        while True:
            try:
                known = await self.look(url, wait_s)
            except Exception as error:
                _logger.warning("coordinator_unreachable", **describe(error))
                known = False
            if not known or wait_s == 0:
                await asyncio.sleep(retry_s)
