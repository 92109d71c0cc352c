"""Discovers what coordinators request of this process's parties, by long polls.

One of the parties at a coordinator polls for all; another does where its token is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence, Set
from dataclasses import dataclass, field
from secrets import SystemRandom
from typing import Any, Protocol

from common.runtime.logs import describe, get_logger
from common.store.transactions import Database
from common.web.problems import ProblemReceived
from curator.errors import PeerUnavailable
from curator.parties.coordinators import Coordinators
from curator.parties.peers import Listing
from curator.store import parties as party_store
from curator.store.parties import Coordinator

SPEAKERS = 3
_chance = SystemRandom()
_logger = get_logger("tacit.curator.discovery")


class Ask(Protocol):
    """Requests a list from a coordinator; None if it still matches the ETag."""

    async def __call__(
        self, url: str, token: str, etag: str | None, wait_s: float
    ) -> Listing | None: ...


@dataclass
class Discovery:
    """One list of each coordinator; `take` is given the coordinator as parties here know it, and
    all that is listed whenever that changes; it says whether something is signed by another key."""

    database: Database
    coordinators: Coordinators
    ask: Ask
    take: Callable[[Set[Coordinator], Sequence[Any]], Awaitable[bool]]
    _etags: dict[str, str | None] = field(default_factory=dict)

    def forget(self) -> None:
        """Process the lists again at the next poll: they may concern a new party."""
        self._etags.clear()

    async def look(self, url: str, wait_s: float = 0.0) -> bool:
        """Process a coordinator's list; whether it answered."""
        async with self.database.reading() as transaction:
            speakers = [each for each in await party_store.speakers(transaction) if each.url == url]
        for speaker in _chance.sample(speakers, min(SPEAKERS, len(speakers))):
            try:
                found = await self.ask(url, speaker.token, self._etags.get(url), wait_s)
            except ProblemReceived as error:
                if error.status in (401, 403):
                    continue
                return False
            except PeerUnavailable:
                return False
            await self.coordinators.look(url)
            if found is not None:
                known = await self.coordinators.known(url)
                foreign = await self.take(known, found.items)
                if foreign and await self.coordinators.follow(url):
                    await self.take(await self.coordinators.known(url), found.items)
                self._etags[url] = found.etag
            return True
        return False

    async def watch(self, url: str, wait_s: float, retry_s: float) -> None:
        """Poll without end; `wait_s` 0 polls at intervals instead of waiting for a change."""
        while True:
            try:
                known = await self.look(url, wait_s)
            except Exception as error:
                _logger.warning("coordinator_unreachable", **describe(error))
                known = False
            if not known or wait_s == 0:
                await asyncio.sleep(retry_s)
