"""The aggregators: their identities, whether they respond, and a mirror of their seal keys.

Identities are followed from the paired key and passed on to each other, with the coordinator's own.
The mirror is for curators that cannot reach an aggregator now, and for aggregators that seal to
each other, which never call one another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.store.database import exclusive
from common.store.own_identities import OwnIdentities
from common.store.transactions import Database
from common.web.problems import ProblemReceived
from coordinator.errors import (
    AggregatorUnreachable,
    NotAnAggregator,
    UnknownAggregator,
    UnknownSealKey,
)
from coordinator.registry.answers import AggregatorPolicy, gather, soon
from coordinator.registry.peers import Peer, Peers
from coordinator.store import registry
from coordinator.store import registry as store
from coordinator.store.registry import AggregatorRow
from tacit.crypto.sealing import PUBLIC_KEY_BYTES, key_hash
from tacit.crypto.signing import fingerprint
from tacit.protocol.identities import (
    IdentityChain,
    IdentityForked,
    IdentitySuperseded,
    KeyChangeUnconfirmed,
    Pin,
    Role,
)
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.wire import Instant, WireModel

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
    _checked: dict[str, datetime] = field(default_factory=dict)

    async def followed(
        self, rows: Sequence[AggregatorRow], *, again: bool = False
    ) -> list[AggregatorRow]:
        """The same aggregators, with their identities of now. `again`: ask all of them.

        Raises IdentityForked until one is confirmed, IdentitySuperseded for one that was revoked,
        and the error of the chain that an aggregator shows.
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
        """Follow the chain of an aggregator that may be gone, shown by someone else. Raises
        UnknownAggregator, and the error of the chain."""
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
        looked = self._checked.get(row.id)
        if not again and looked is not None and timedelta() <= now - looked < LOOK:
            return row
        self._checked[row.id] = now
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


KEPT: Final = timedelta(seconds=10)
"""How long one check serves all callers."""


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
    """Checks aggregators, each at most once in ten seconds."""

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


# For curators that cannot reach an aggregator now, and for aggregators, which never call one
# another. Only keys that an open round named are served, and only bytes with the hash that the
# aggregator signed; the recipient compares it again. Spec: keys, section 2.1.


@dataclass(frozen=True)
class SealKeyMirror:
    """Public keys by their hash, each fetched from its aggregator once."""

    database: Database
    peers: Peers

    async def key(self, wanted: bytes) -> bytes:
        """1,216 bytes. Raises UnknownSealKey, or AggregatorUnreachable where the aggregator does
        not show what it signed."""
        async with self.database.reading() as transaction:
            row = await store.seal_key(transaction, wanted)
            known = await registry.list_aggregators(transaction, also_removed=True)
        if row is None:
            raise UnknownSealKey
        if row.content is not None:
            return row.content
        peers = [self.peers.of(each) for each in known if each.id == row.aggregator]
        if not peers:
            raise UnknownSealKey
        try:
            content = await peers[0].seal_key_content(wanted)
        except ProblemReceived as error:
            raise AggregatorUnreachable(f"{row.aggregator}: {error.name}") from None
        if len(content) != PUBLIC_KEY_BYTES or key_hash(content) != wanted:
            raise AggregatorUnreachable(f"{row.aggregator} shows another key than it signed")
        async with self.database.begin() as transaction:
            await store.keep_seal_key(transaction, wanted, content)
        return content

    async def hand_over(self, peers: Sequence[Peer], descriptor: RoundDescriptor) -> None:
        """Give the aggregators of a round each other's keys. What cannot be had or given now is
        omitted: an aggregator without a key reports that when the round is opened."""
        hashes = {entry.id: entry.seal.public_key_hash for entry in descriptor.aggregators}
        found = await gather(self.key(wanted) for wanted in hashes.values())
        contents = dict(zip(hashes, found, strict=True))
        await gather(
            peer.hand_seal_key(hashes[name], content)
            for peer in peers
            for name, content in contents.items()
            if name != peer.id and isinstance(content, bytes)
        )
