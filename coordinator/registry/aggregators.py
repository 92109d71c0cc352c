"""The aggregators: their identities, whether they respond, and a mirror of their seal keys.

Identities are followed from the paired key and passed on to each other, with the coordinator's own.
The mirror is for curators that cannot reach an aggregator now, and for aggregators that seal to
each other, which never call one another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.runtime.tasks import Repeating
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
from coordinator.registry.answers import SOON_S, AggregatorPolicy, gather
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
        """The same aggregators, with their current identities. `again`: ask all of them. Raises
        IdentityForked until one is confirmed, IdentitySuperseded for a revoked one, and the
        error of the chain that an aggregator shows."""
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
        """Follow the chain of an aggregator that may no longer exist, shown by someone else.
        Raises UnknownAggregator, and the error of the chain."""
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
        """Send the aggregators of a round the coordinator's chain, and each other's. An
        aggregator that does not accept one reports it when the round is opened."""
        await self._hand_own(peers)
        await gather(
            peer.hand_identities(other.id, other.row.shown)
            for peer in peers
            for other in peers
            if other.id != peer.id and other.row.shown is not None
        )

    async def tell(self) -> tuple[str, ...]:
        """Send all paired aggregators the coordinator's chain; returns those that did not accept
        it."""
        async with self.database.reading() as transaction:
            rows = await store.list_aggregators(transaction)
        return await self._hand_own([self.peers.of(row) for row in rows])

    async def _hand_own(self, peers: Sequence[Peer]) -> tuple[str, ...]:
        if self.own.chain is None:
            return ()
        text = self.own.chain.model_dump_json()
        answers = await gather(peer.hand_identities(None, text) for peer in peers)
        deliveries = zip(peers, answers, strict=True)
        return tuple(peer.id for peer, answer in deliveries if isinstance(answer, Exception))

    async def _followed(self, row: AggregatorRow, again: bool) -> AggregatorRow:
        check_followed(row)
        pin, now = row.pin or _pin(row), self.clock.now()
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
            followed = await self._along(row, shown, now)
        except KeyChangeUnconfirmed:
            if again:
                raise
            return row  # it may still use the one before
        _check_current(row.id, followed.pin or pin)
        return followed

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


def check_followed(row: AggregatorRow) -> None:
    """Raise IdentityForked or IdentitySuperseded for an aggregator whose identity the
    coordinator knows to be forked or superseded; sends no request."""
    pin = row.pin or _pin(row)
    if pin.anchored is not None and pin.anchored.forked:
        raise IdentityForked(f"aggregator {row.id} has two successors: confirm one")
    _check_current(row.id, pin)


def _check_current(aggregator: str, pin: Pin) -> None:
    if pin.newest is None:
        raise IdentitySuperseded(f"aggregator {aggregator} revoked its identity")


def _pin(row: AggregatorRow) -> Pin:
    return Pin(fingerprint=fingerprint(row.identity_key))


KEPT: Final = timedelta(seconds=10)
"""How long one check serves all callers."""


class Health(WireModel):
    """An aggregator at this coordinator's last check. `fingerprint_seen`, in hex: of the
    identity that it shows, which may differ from the paired one; `problem`: why it is not
    reachable; `ahead_s`: how far its clock is ahead of the coordinator's, to a second."""

    reachable: bool
    looked: Instant
    ahead_s: int | None = None
    problem: str | None = None
    fingerprint_seen: str | None = None
    policy: AggregatorPolicy | None = None


@dataclass
class _Look:
    health: Health | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class HealthLooks:
    """Checks aggregators, each at most once in ten seconds, but immediately after a change of
    its identity."""

    def __init__(self, peers: Peers, clock: Clock) -> None:
        self._peers, self._clock = peers, clock
        self._looks: dict[tuple[str, str, bytes], _Look] = {}

    async def look(
        self,
        rows: Sequence[AggregatorRow],
        *,
        again: bool = False,
        patience_s: float | None = SOON_S,
    ) -> list[Health]:
        """The health of each, in order. `again`: check now, however recent the last check.
        `patience_s`: how long a caller waits for it; None: as long as requests of a round do."""
        return list(await asyncio.gather(*(self._one(row, again, patience_s) for row in rows)))

    async def _one(self, row: AggregatorRow, again: bool, patience_s: float | None) -> Health:
        look = self._looks.setdefault((row.id, row.url, row.identity_key), _Look())
        try:
            async with asyncio.timeout(patience_s), look.lock:
                now = self._clock.now()
                is_recent = (
                    look.health is not None and timedelta() <= now - look.health.looked < KEPT
                )
                if look.health is None or again or not is_recent:
                    look.health = await self._ask(row, now)
                return look.health
        except TimeoutError:
            problem = f"no answer within {patience_s:g} seconds"
            return Health(reachable=False, looked=self._clock.now(), problem=problem)

    async def _ask(self, row: AggregatorRow, now: datetime) -> Health:
        try:
            said, date = await self._peers.statement(row.url)
        except (AggregatorUnreachable, NotAnAggregator) as error:
            return Health(reachable=False, looked=now, problem=error.detail)
        return Health(
            reachable=True,
            looked=now,
            ahead_s=None if date is None else self._ahead_s(date),
            fingerprint_seen=fingerprint(said.identity_key).hex(),
            policy=said.policy,
        )

    def _ahead_s(self, date: str) -> int | None:
        """How far the date of an answer that just arrived is ahead; None for no date."""
        try:
            return round((parsedate_to_datetime(date) - self._clock.now()).total_seconds())
        except (ValueError, TypeError):
            return None


AWAY: Final = timedelta(seconds=15)
"""An aggregator that has not answered for this long is away."""
RETRY_S: Final = 60
"""When a round that needs an aggregator that is away is worth another try."""


@dataclass(frozen=True)
class Presence:
    """A paired aggregator: `answered`, when it last did, None if not yet; `away`, since when it
    has not answered, None if it answers; `problem`, why; `ahead_s`, how far its clock is ahead."""

    id: str
    answered: datetime | None = None
    away: datetime | None = None
    problem: str = ""
    ahead_s: int | None = None


class Attendance(Repeating):
    """Asks all paired aggregators every ten seconds whether they answer, with the timeout of a
    round's requests, so that one slow name lookup is no absence. Each process of a coordinator
    asks for itself."""

    def __init__(self, database: Database, health: HealthLooks, clock: Clock) -> None:
        super().__init__("attendance", _logger, KEPT.total_seconds())
        self._database, self._health, self._clock = database, health, clock
        self.present: Mapping[str, Presence] = {}

    async def look(self) -> None:
        """Ask all of them."""
        async with self._database.reading() as transaction:
            rows = await store.list_aggregators(transaction)
        await self._ask(rows, patience_s=None)
        self.present = {row.id: self.present[row.id] for row in rows}

    async def _ask(
        self,
        rows: Sequence[AggregatorRow],
        *,
        again: bool = False,
        patience_s: float | None = SOON_S,
    ) -> None:
        answers = await self._health.look(rows, again=again, patience_s=patience_s)
        self.present = {
            **self.present,
            **{
                row.id: self._after(row.id, answer)
                for row, answer in zip(rows, answers, strict=True)
            },
        }

    def _after(self, aggregator: str, health: Health) -> Presence:
        presence = self.present.get(aggregator, Presence(aggregator))
        if health.reachable:
            if presence.away is not None:
                _logger.info("aggregator_back", aggregator=aggregator)
            return Presence(aggregator, answered=health.looked, ahead_s=health.ahead_s)
        if presence.away is None:
            _logger.warning("aggregator_silent", aggregator=aggregator, problem=health.problem)
        since = presence.away or presence.answered or health.looked
        return Presence(aggregator, presence.answered, since, health.problem or "")

    def away(self, among: Collection[str] | None = None) -> list[Presence]:
        """Those that have not answered for a while; of these alone, if given."""
        now = self._clock.now()
        return [
            presence
            for presence in self.present.values()
            if presence.away is not None
            and now - presence.away >= AWAY
            and (among is None or presence.id in among)
        ]

    def sentence(self, presence: Presence) -> str:
        """How long one that is away has not answered."""
        assert presence.away is not None
        silent = (self._clock.now() - presence.away).total_seconds()
        return f"{presence.id} has not answered for {silent:.0f} s"

    async def readiness(self) -> str | None:
        """Which aggregators are away."""
        return "; ".join(map(self.sentence, self.away())) or None

    async def require(self, rows: Sequence[AggregatorRow]) -> None:
        """Raise AggregatorUnreachable if one of these is away and does not answer now either."""
        away = {presence.id for presence in self.away([row.id for row in rows])}
        if not away:
            return
        await self._ask([row for row in rows if row.id in away], again=True)
        if still := self.away(away):
            raise AggregatorUnreachable("; ".join(map(self.sentence, still)), retry_after_s=RETRY_S)


# For curators that cannot reach an aggregator now, and for aggregators, which never call one
# another. Only keys that an open round named are served, and only bytes with the hash that the
# aggregator signed; the recipient compares it again. Spec: keys, section 2.1.


@dataclass(frozen=True)
class SealKeyMirror:
    """Public keys by their hash, each fetched from its aggregator once."""

    database: Database
    peers: Peers

    async def key(self, digest: bytes) -> bytes:
        """1,216 bytes. Raises UnknownSealKey, or AggregatorUnreachable if the aggregator does
        not show what it signed."""
        async with self.database.reading() as transaction:
            row = await store.seal_key(transaction, digest)
            rows = await registry.list_aggregators(transaction, also_removed=True)
        if row is None:
            raise UnknownSealKey
        if row.content is not None:
            return row.content
        peers = [self.peers.of(other) for other in rows if other.id == row.aggregator]
        if not peers:
            raise UnknownSealKey
        try:
            content = await peers[0].seal_key_content(digest)
        except ProblemReceived as error:
            raise AggregatorUnreachable(f"{row.aggregator}: {error.name}") from None
        if len(content) != PUBLIC_KEY_BYTES or key_hash(content) != digest:
            raise AggregatorUnreachable(f"{row.aggregator} shows another key than it signed")
        async with self.database.begin() as transaction:
            await store.keep_seal_key(transaction, digest, content)
        return content

    async def hand_over(self, peers: Sequence[Peer], descriptor: RoundDescriptor) -> None:
        """Send the aggregators of a round each other's keys. A key that cannot be fetched or
        sent now is omitted: an aggregator without a key reports that when the round is opened."""
        hashes = {entry.id: entry.seal.public_key_hash for entry in descriptor.aggregators}
        public_keys = await gather(self.key(key_hash) for key_hash in hashes.values())
        contents = dict(zip(hashes, public_keys, strict=True))
        await gather(
            peer.hand_seal_key(hashes[name], content)
            for peer in peers
            for name, content in contents.items()
            if name != peer.id and isinstance(content, bytes)
        )
