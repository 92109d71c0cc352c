"""From a token to its party on the roster, in one batched look-up.

A million lone curators send one piece a round each, so most tokens are used once: the look-ups that
arrive while one is in progress share the next query. Results are cached for a few seconds, which is
how long a revocation by another process may go unnoticed.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime

from aggregator.store import roster as store
from aggregator.store.roster import Party
from common.runtime.clock import Clock
from common.store.transactions import Database
from common.web.auth import TokenExpired
from common.web.tokens import MAX_CHARACTERS, hash_token

_MOST = 500


@dataclass(frozen=True, slots=True)
class _Found:
    at: float
    party: Party
    expires: datetime | None


class SenderDirectory:
    """Parties by token, with a bounded cache in front of the store."""

    def __init__(self, database: Database, clock: Clock, *, ttl_s: float, capacity: int) -> None:
        self._database = database
        self._clock = clock
        self._ttl_s = ttl_s
        self._capacity = capacity
        self._cache: OrderedDict[str, _Found] = OrderedDict()
        self._wanted: dict[str, asyncio.Future[_Found | None]] = {}
        self._loading: asyncio.Task[None] | None = None

    async def find(self, token: str, *, fresh: bool = False) -> Party | None:
        """The party of a curator token, or nothing; TokenExpired for one that was valid once."""
        if len(token) > MAX_CHARACTERS:
            return None
        token_hash = hash_token(token)
        found = None if fresh else self._remembered(token_hash)
        if found is None:
            found = await self._load(token_hash)
        if found is None:
            return None
        if found.expires is not None and found.expires <= self._clock.now():
            raise TokenExpired
        return found.party

    def forget(self) -> None:
        """Ask the store again for every token: after a change of the roster."""
        self._cache.clear()

    def _remembered(self, token_hash: str) -> _Found | None:
        found = self._cache.get(token_hash)
        if found is not None and self._clock.monotonic() - found.at >= self._ttl_s:
            del self._cache[token_hash]
            return None
        return found

    async def _load(self, token_hash: str) -> _Found | None:
        waiting = self._wanted.get(token_hash)
        if waiting is None:
            waiting = self._wanted[token_hash] = asyncio.get_running_loop().create_future()
            if self._loading is None:
                self._loading = asyncio.create_task(self._drain(), name="tacit-senders")
        return await asyncio.shield(waiting)

    async def _drain(self) -> None:
        try:
            while self._wanted:
                batch = dict(list(self._wanted.items())[:_MOST])
                for token_hash in batch:
                    del self._wanted[token_hash]
                await self._answer(batch)
        finally:
            self._loading = None

    async def _answer(self, batch: dict[str, asyncio.Future[_Found | None]]) -> None:
        try:
            async with self._database.reading() as transaction:
                rows = await store.senders(transaction, list(batch))
        except Exception as error:
            for waiting in batch.values():
                waiting.set_exception(error)
            return
        now = self._clock.monotonic()
        for token_hash, waiting in batch.items():
            row = rows.get(token_hash)
            found = None if row is None else _Found(now, *row)
            if found is not None:
                self._cache[token_hash] = found
            waiting.set_result(found)
        while len(self._cache) > self._capacity:
            self._cache.popitem(last=False)
