"""The identities of aggregators: followed from the paired key, passed on to each other, together
with the coordinator's own.

Before a round the coordinator asks each of its aggregators for its chain, at most twice a
minute, and goes along it. Aggregators never call one another, so it hands each the chains of the
others; they check them against their own pins. Spec: keys, section 5.2.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.store.database import exclusive
from common.store.own_identities import OwnIdentities
from common.store.transactions import Database
from coordinator.errors import AggregatorUnreachable, UnknownAggregator
from coordinator.registry.answers import gather
from coordinator.registry.peers import Peer, Peers
from coordinator.store import registry as store
from coordinator.store.registry import AggregatorRow
from tacit.crypto.signing import fingerprint
from tacit.protocol.identities import (
    IdentityChain,
    IdentityForked,
    IdentitySuperseded,
    KeyChangeUnconfirmed,
    Pin,
    Role,
)

LOOK: Final = timedelta(seconds=30)
LOCK: Final = "aggregators"
_logger = get_logger("tacit.coordinator.identities")


@dataclass(frozen=True)
class Identities:
    """Follows the chains of all paired aggregators."""

    database: Database
    peers: Peers
    clock: Clock
    deployment: str
    own: OwnIdentities
    confirmed: Collection[bytes] | None
    """Fingerprints of documents that a person compared, where every change has to be; else None."""
    _looked: dict[str, datetime] = field(default_factory=dict)

    async def followed(
        self, rows: Sequence[AggregatorRow], *, again: bool = False
    ) -> list[AggregatorRow]:
        """The same aggregators, with their identities of now. `again`: ask all of them.

        Raises IdentityForked until one is confirmed, IdentitySuperseded for one that was revoked,
        and what else stands against the chain that an aggregator shows.
        """
        return [await self._followed(row, again) for row in rows]

    async def confirm(self, aggregator: str, compared: bytes) -> AggregatorRow:
        """The operator compared the fingerprint of a document out of band. Raises
        UnknownAggregator, KeyNotAnchored if the aggregator shows no such document."""
        row = await self._paired(aggregator)
        shown = await self.peers.of(row).identities()
        if shown is None:
            raise AggregatorUnreachable(f"{aggregator} shows no identity document")
        pin = (row.pin or _pin(row)).confirmed(self.deployment, shown, compared)
        return await self._keep(row, pin, shown)

    async def take(self, aggregator: str, shown: IdentityChain) -> AggregatorRow:
        """Go along the chain of an aggregator that somebody else shows, as it may be gone. Raises
        UnknownAggregator, and what stands against the chain."""
        row = await self._paired(aggregator)
        return await self._along(row, shown, self.clock.now())

    async def _paired(self, aggregator: str) -> AggregatorRow:
        async with self.database.reading() as transaction:
            rows = await store.list_aggregators(transaction)
        for row in rows:
            if row.id == aggregator:
                return row
        raise UnknownAggregator

    async def hand_over(self, peers: Sequence[Peer]) -> None:
        """Give the aggregators of a round the coordinator's chain, and each other's. Who does not
        take one says so when the round is opened."""
        await self._hand_own(peers)
        await gather(
            peer.hand_identities(other.id, other.row.shown)
            for peer in peers
            for other in peers
            if other.id != peer.id and other.row.shown is not None
        )

    async def tell(self) -> tuple[str, ...]:
        """Give all paired aggregators the coordinator's chain; those that did not take it."""
        async with self.database.reading() as transaction:
            rows = await store.list_aggregators(transaction)
        return await self._hand_own([self.peers.of(row) for row in rows])

    async def _hand_own(self, peers: Sequence[Peer]) -> tuple[str, ...]:
        if self.own.chain is None:
            return ()
        text = self.own.chain.model_dump_json()
        answers = await gather(peer.hand_identities(None, text) for peer in peers)
        found = zip(peers, answers, strict=True)
        return tuple(peer.id for peer, answer in found if isinstance(answer, Exception))

    async def _followed(self, row: AggregatorRow, again: bool) -> AggregatorRow:
        pin, now = row.pin or _pin(row), self.clock.now()
        if pin.anchored is not None and pin.anchored.forked:
            raise IdentityForked(f"aggregator {row.id} has two successors: confirm one")
        _check_current(row.id, pin)
        looked = self._looked.get(row.id)
        if not again and looked is not None and timedelta() <= now - looked < LOOK:
            return row
        self._looked[row.id] = now
        try:
            shown = await self.peers.of(row).identities()
        except AggregatorUnreachable:
            return row
        if shown is None:
            return row
        try:
            kept = await self._along(row, shown, now)
        except KeyChangeUnconfirmed:
            if again:
                raise
            return row  # it may still use the one before
        _check_current(row.id, kept.pin or pin)
        return kept

    async def _along(
        self, row: AggregatorRow, shown: IdentityChain, now: datetime
    ) -> AggregatorRow:
        pin = row.pin or _pin(row)
        try:
            new = pin.follow(self.deployment, shown, now, Role.AGGREGATOR, row.id, self.confirmed)
        except IdentityForked:
            await self._keep(row, pin.forking(), None)
            _logger.warning("identity_forked", aggregator=row.id)
            raise
        if new == row.pin:
            return row
        _logger.info("identity_followed", aggregator=row.id)
        return await self._keep(row, new, shown)

    async def _keep(
        self, row: AggregatorRow, pin: Pin, shown: IdentityChain | None
    ) -> AggregatorRow:
        current = None if pin.anchored is None else pin.anchored.current
        key = row.identity_key if current is None else current.ed25519
        text = row.shown if shown is None else shown.model_dump_json()
        async with self.database.begin() as transaction:
            await exclusive(transaction, LOCK)
            await store.set_pin(transaction, row.id, key, pin, text)
        return replace(row, identity_key=key, pin=pin, shown=text)


def _check_current(aggregator: str, pin: Pin) -> None:
    if pin.newest is None:
        raise IdentitySuperseded(f"aggregator {aggregator} revoked its identity")


def _pin(row: AggregatorRow) -> Pin:
    return Pin(fingerprint=fingerprint(row.identity_key))
