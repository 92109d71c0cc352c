"""The identities of aggregators: followed from the join token's fingerprint, link by link.

A party asks an aggregator for its chain when a round names a key that is not the anchored one, and
now and then before that, so that its documents are known before anybody could forge one. Nothing
here is trusted: each link is signed by the pair to which the document before committed. Spec: keys,
section 5.2.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.store.transactions import Database
from common.web.problems import ProblemReceived
from curator.errors import PeerUnavailable
from curator.parties.peers import Peers
from curator.store import parties as store
from curator.store.parties import Anchor, PartyRow
from tacit.errors import DomainError
from tacit.protocol.identities import IdentityChain, IdentityForked, KeyNotAnchored, Pin, Role
from tacit.protocol.round.agreement import check_anchors
from tacit.protocol.round.descriptor import RoundDescriptor

LOOK: Final = timedelta(hours=1)
"""Between questions for the first document of an aggregator."""
_logger = get_logger("tacit.curator.identities")


@dataclass
class Identities:
    """Follows chains; one question at a time."""

    database: Database
    peers: Peers
    clock: Clock
    confirmed: Collection[bytes] | None
    """Fingerprints of documents that a person compared, where every change has to be; else None."""
    _looked: dict[str, datetime] = field(default_factory=dict)
    _alone: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def check(self, descriptor: RoundDescriptor, party: PartyRow) -> None:
        """Raise unless every aggregator of a round is anchored by the party, or follows from what
        is. KeyNotAnchored and the rest as `Pin.follow`; PeerUnavailable while a chain cannot be
        had."""
        now = self.clock.now()
        pins = {each.aggregator: each.pin for each in party.anchors}
        keys = {entry.id: entry.identity_key for entry in descriptor.aggregators}
        for anchor in party.anchors:
            key = keys.get(anchor.aggregator)
            if key is not None and self._is_due(anchor, key, now):
                async with self._alone:
                    pins[anchor.aggregator] = await self._followed(anchor, party, key, now)
        check_anchors(descriptor, pins, now)

    async def confirm(self, aggregator: str, compared: bytes) -> bool:
        """A person compared the fingerprint of a document out of band: it is anchored, in place of
        what was; whether such an aggregator is known. Raises KeyNotAnchored if it shows no such
        document, PeerUnavailable."""
        async with self.database.reading() as transaction:
            found = await store.anchored(transaction)
        known = [each for each in found if each[1].aggregator == aggregator]
        for deployment, held in known:
            shown = await self.peers.shown_identities(held.url, "tacit-aggregator")
            pin = held.pin.confirmed(deployment, shown, compared)
            await self._keep(held, deployment, pin)
        return bool(known)

    async def take(self, aggregator: str, shown: IdentityChain) -> bool:
        """Go along the chain of an aggregator that somebody else shows, as it may be gone; whether
        such an aggregator is known. Raises what stands against the chain."""
        async with self.database.reading() as transaction:
            found = await store.anchored(transaction)
        known = [each for each in found if each[1].aggregator == aggregator]
        for deployment, held in known:
            await self._along(held, deployment, shown, self.clock.now())
        return bool(known)

    def _is_due(self, anchor: Anchor, key: bytes, now: datetime) -> bool:
        """Whether the round names another key, or the aggregator was not looked at for an hour."""
        try:
            anchor.pin.check_key(key, now)
        except KeyNotAnchored:
            return True
        except DomainError:
            return False
        looked = self._looked.get(anchor.url)
        return looked is None or now - looked >= LOOK

    @staticmethod
    def _is_anchored(pin: Pin, key: bytes, now: datetime) -> bool:
        try:
            pin.check_key(key, now)
        except DomainError:
            return False
        return True

    async def _followed(self, anchor: Anchor, party: PartyRow, key: bytes, now: datetime) -> Pin:
        async with self.database.reading() as transaction:  # another party may have followed it
            rows = await store.parties_by_id(transaction, [party.id])
        held = next(a for a in rows[party.id].anchors if a.aggregator == anchor.aggregator)
        if not self._is_due(held, key, now):
            return held.pin
        self._looked[anchor.url] = now
        try:
            shown = await self.peers.identities(anchor.url, "tacit-aggregator")
        except (PeerUnavailable, ProblemReceived):
            if self._is_anchored(held.pin, key, now):
                return held.pin
            raise PeerUnavailable(f"{anchor.aggregator} does not show its identity") from None
        if shown is None:
            return held.pin
        try:
            return await self._along(held, party.deployment, shown, now)
        except IdentityForked:
            raise
        except DomainError:
            if self._is_anchored(held.pin, key, now):  # and nothing else was asked
                return held.pin
            raise

    async def _along(
        self, held: Anchor, deployment: str, shown: IdentityChain, now: datetime
    ) -> Pin:
        try:
            pin = held.pin.follow(
                deployment, shown, now, Role.AGGREGATOR, held.aggregator, self.confirmed
            )
        except IdentityForked:
            await self._keep(held, deployment, held.pin.forking())
            _logger.warning("identity_forked", aggregator=held.aggregator)
            raise
        if pin != held.pin:
            await self._keep(held, deployment, pin)
            _logger.info("identity_followed", aggregator=held.aggregator)
        return pin

    async def _keep(self, held: Anchor, deployment: str, pin: Pin) -> None:
        async with self.database.begin() as transaction:
            await store.set_pin(transaction, held, deployment, pin)
