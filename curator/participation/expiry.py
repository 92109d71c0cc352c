"""Drops refusals and deliveries of rounds whose retention is over, a few rounds at a time; what
records spent in jobs that are over as long; and what came in by the hour, after 400 days.

Every step is whole and can be repeated, so the process may end at any moment.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from prometheus_client import Counter

from common.runtime.background import Repeating
from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.store.transactions import Database
from curator.owner.flow import KEPT
from curator.store import expiry as store
from curator.store import flow

LOOK_S: Final = 60.0
AT_ONCE: Final = 50
"""Rounds that share a transaction: readings wait for it."""
REST_S: Final = 0.05
_logger = get_logger("tacit.curator.expiry")


class Expiry(Repeating):
    """Expires rounds whose deadline was more than `retention_s` ago."""

    def __init__(
        self, database: Database, clock: Clock, retention_s: float, expired: Counter
    ) -> None:
        super().__init__("expiry", _logger, LOOK_S)
        self._database, self._clock = database, clock
        self._retention = timedelta(seconds=retention_s)
        self._expired = expired

    async def look(self) -> None:
        """Expire all that are due."""
        async with self._database.begin() as transaction:
            now = self._clock.now()
            await flow.forget_hours(transaction, now - KEPT)
            await store.forget_spends(transaction, now - self._retention)
        while not self._pauses.ending:
            now = self._clock.now()
            async with self._database.begin() as transaction:
                expired = await store.expire(transaction, now - self._retention, now, AT_ONCE)
            self._expired.inc(expired)
            if expired < AT_ONCE:
                return
            await self._pauses.pause(REST_S)
