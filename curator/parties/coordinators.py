"""The identities of coordinators: followed from the key that the join token named, link by link.

A coordinator is asked for its chain when it lists something that no known key of it signed, and
once an hour before that, so that its documents are known before anybody could forge one. Spec:
keys, section 5.2.
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
from curator.store.parties import Coordinator
from tacit.errors import DomainError
from tacit.protocol.identities import IdentityChain, IdentityForked, Pin, Role

LOOK: Final = timedelta(hours=1)
_logger = get_logger("tacit.curator.coordinators")


@dataclass
class Coordinators:
    """Follows the chains of the coordinators of all parties here; one question at a time."""

    database: Database
    peers: Peers
    clock: Clock
    confirmed: Collection[bytes] | None
    """Fingerprints of documents that a person compared, where every change has to be; else None."""
    _looked: dict[str, datetime] = field(default_factory=dict)
    _alone: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def known(self, url: str) -> set[Coordinator]:
        """Who answers at an address, as the parties that speak there know it."""
        async with self.database.reading() as transaction:
            return await store.coordinators(transaction, url)

    async def look(self, url: str) -> None:
        """Follow what a coordinator shows if that was not done in the last hour."""
        looked = self._looked.get(url)
        if looked is None or not timedelta() <= self.clock.now() - looked < LOOK:
            await self.follow(url)

    async def follow(self, url: str) -> bool:
        """Follow what a coordinator shows; whether it is known by more than before."""
        async with self._alone:
            self._looked[url] = self.clock.now()
            try:
                shown = await self.peers.identities(url, "tacit-coordinator")
            except (PeerUnavailable, ProblemReceived):
                return False
            if shown is None:
                return False
            return any([await self._followed(held, shown) for held in await self.known(url)])

    async def confirm(self, deployment: str, compared: bytes) -> bool:
        """A person compared the fingerprint of a document out of band: it is pinned, in place of
        what was; whether a coordinator of this deployment is known. Raises KeyNotAnchored if it
        shows no such document, PeerUnavailable."""
        async with self.database.reading() as transaction:
            found = await store.coordinators(transaction)
        known = [held for held in found if held.deployment == deployment]
        for held in known:
            shown = await self.peers.shown_identities(held.url, "tacit-coordinator")
            await self._keep(held, held.pin.confirmed(deployment, shown, compared))
        return bool(known)

    async def take(self, deployment: str, shown: IdentityChain) -> bool:
        """Go along the chain of a coordinator that somebody else shows, as it may be gone; whether
        one of this deployment is known. Raises what stands against the chain."""
        async with self._alone, self.database.reading() as transaction:
            found = await store.coordinators(transaction)
        known = [held for held in found if held.deployment == deployment]
        for held in known:
            await self._along(held, shown)
        return bool(known)

    async def _followed(self, held: Coordinator, shown: IdentityChain) -> bool:
        try:
            return await self._along(held, shown)
        except DomainError as error:  # it stops nobody: the known key stays good
            name = held.deployment
            _logger.warning("identity_not_followed", coordinator=name, problem=error.name)
            return False

    async def _along(self, held: Coordinator, shown: IdentityChain) -> bool:
        """Whether it is known by more than before. Raises what stands against the chain; a fork is
        kept."""
        name, now = held.deployment, self.clock.now()
        try:
            pin = held.pin.follow(name, shown, now, Role.COORDINATOR, name, self.confirmed)
        except IdentityForked:
            await self._keep(held, held.pin.forking())
            _logger.warning("identity_forked", coordinator=name)
            raise
        if pin == held.pin:
            return False
        await self._keep(held, pin)
        _logger.info("identity_followed", coordinator=name)
        return True

    async def _keep(self, held: Coordinator, pin: Pin) -> None:
        if pin == held.pin:
            return
        current = None if pin.anchored is None else pin.anchored.current
        key = held.key if current is None else current.ed25519
        async with self.database.begin() as transaction:
            await store.set_coordinator(transaction, held, key, pin)
