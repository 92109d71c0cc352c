"""Drops what rounds said once their retention is over, a few of them in each transaction.

Spec: aggregation, section 8. Every step is whole and can be repeated, so a process may end at any
moment, and several may work on one database.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from prometheus_client import Counter

from common.runtime.background import Repeating
from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.runtime.metrics import ServiceMetrics
from common.store.database import exclusive
from common.store.transactions import Database
from coordinator.budget.ledger import HEADS_LOOKED_AT
from coordinator.store import expiry as store

LOCK: Final = "retention"
LOOK_S: Final = 60.0
AT_ONCE: Final = 50
"""Rounds that share a transaction: others that write wait for it."""
REST_S: Final = 0.05
_log = get_logger("tacit.expiry")


class Expiry(Repeating):
    """Expires rounds that ended more than `retention_s` ago; with None, never one.

    The newest rounds stay whatever their age: their descriptors carry heads of the ledger, against
    which it is checked at a start (`coordinator.budget.ledger`).
    """

    def __init__(
        self, database: Database, clock: Clock, retention_s: float | None, metrics: ServiceMetrics
    ) -> None:
        super().__init__("expiry", _log, LOOK_S)
        self._database, self._clock = database, clock
        self._retention = None if retention_s is None else timedelta(seconds=retention_s)
        self._expired: Counter = metrics.counter(
            "rounds_expired", "Rounds whose content this process dropped after their retention."
        )

    async def look(self) -> None:
        """Expire all that are due."""
        while self._retention is not None and not self._pauses.ending:
            now = self._clock.now()
            async with self._database.begin() as transaction:
                await exclusive(transaction, LOCK)
                expired = await store.expire(
                    transaction,
                    now - self._retention,
                    now,
                    spared=HEADS_LOOKED_AT,
                    limit=AT_ONCE,
                )
            self._expired.inc(expired)
            if expired < AT_ONCE:
                return
            await self._pauses.pause(REST_S)
