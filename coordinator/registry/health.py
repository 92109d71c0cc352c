"""Whether the aggregators are there, and who they say they are, looked at when somebody asks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from common.runtime.clock import Clock
from coordinator.errors import AggregatorUnreachable, NotAnAggregator
from coordinator.registry.answers import AggregatorPolicy, soon
from coordinator.registry.peers import Peers
from coordinator.store.registry import AggregatorRow
from tacit.crypto.signing import fingerprint
from tacit.wire import Instant, WireModel

KEPT: Final = timedelta(seconds=10)
"""How long a look serves all who ask."""


class Health(WireModel):
    """What was seen of an aggregator when this coordinator looked last. `fingerprint_seen`, in hex:
    of the identity that it shows, which may differ from the paired one; `problem`: why it is not
    reachable."""

    reachable: bool
    looked: Instant
    problem: str | None = None
    fingerprint_seen: str | None = None
    policy: AggregatorPolicy | None = None


@dataclass
class _Look:
    health: Health | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class HealthLooks:
    """Looks at aggregators, at most once in ten seconds at each."""

    def __init__(self, peers: Peers, clock: Clock) -> None:
        self._peers, self._clock = peers, clock
        self._looks: dict[tuple[str, str], _Look] = {}

    async def look(self, rows: Sequence[AggregatorRow]) -> list[Health]:
        """The health of each, in order."""
        return list(await asyncio.gather(*map(self._one, rows)))

    async def _one(self, row: AggregatorRow) -> Health:
        look = self._looks.setdefault((row.id, row.url), _Look())
        async with look.lock:
            now = self._clock.now()
            if look.health is None or not timedelta() <= now - look.health.looked < KEPT:
                look.health = await self._ask(row, now)
            return look.health

    async def _ask(self, row: AggregatorRow, now: datetime) -> Health:
        try:
            said = await soon(self._peers.statement(row.url))
        except (AggregatorUnreachable, NotAnAggregator) as error:
            return Health(reachable=False, looked=now, problem=error.detail)
        return Health(
            reachable=True,
            looked=now,
            fingerprint_seen=fingerprint(said.identity_key).hex(),
            policy=said.policy,
        )
