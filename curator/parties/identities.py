"""Identities of coordinators and aggregators: followed link by link from the join token.

Spec: keys, section 5.2. A party asks for a chain when a list or a round names a key that it does
not know. The anchors are for the operator: who is known by which identity, and the two things that
only a person can do: confirm a new identity, and drop one that is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal

from fastapi import Depends, FastAPI, Request, Response

from common.identity.own_identity import ConfirmationRequest
from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.store.transactions import Database
from common.web.dependencies import part
from common.web.openapi import gives, takes
from common.web.problems import ProblemReceived
from common.web.wire import read_body
from curator import examples
from curator.errors import PeerUnavailable, UnknownAnchor
from curator.parties.peers import Peers
from curator.store import parties as store
from curator.store.parties import Anchor, Coordinator, PartyRow
from curator.web import Operator, answer
from tacit.errors import DomainError
from tacit.protocol.identities import IdentityChain, IdentityForked, KeyNotAnchored, Pin, Role
from tacit.protocol.round.agreement import check_anchors
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.wire import WireModel

COORDINATOR_LOOK: Final = timedelta(hours=1)
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
        if looked is None or not timedelta() <= self.clock.now() - looked < COORDINATOR_LOOK:
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


# The identities of aggregators: followed from the join token's fingerprint, link by link.
#
# A party asks an aggregator for its chain when a round names a key that is not the anchored one,
# and now and then before that, so that its documents are known before anybody could forge one.
# Nothing here is trusted: each link is signed by the pair to which the document before committed.
# Spec: keys, section 5.2.

LOOK: Final = timedelta(hours=1)
"""Between questions for the first document of an aggregator."""
_identities_logger = get_logger("tacit.curator.identities")


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
            _identities_logger.warning("identity_forked", aggregator=held.aggregator)
            raise
        if pin != held.pin:
            await self._keep(held, deployment, pin)
            _identities_logger.info("identity_followed", aggregator=held.aggregator)
        return pin

    async def _keep(self, held: Anchor, deployment: str, pin: Pin) -> None:
        async with self.database.begin() as transaction:
            await store.set_pin(transaction, held, deployment, pin)


# The anchors of the parties here, for the operator: who is known by which identity, and the two
# things that only a person can do: confirm a new identity, and drop one that is lost.
#
# Spec: keys, section 5.2.


class AnchorAnswer(WireModel):
    """A service as the parties here know it. `name`: an aggregator's id, or a coordinator's
    deployment; `fingerprint`: of its Ed25519 key of now, in hex; `document`: of its identity
    document, once it showed one; `forked`: nothing of it is accepted until one is confirmed."""

    role: Literal["coordinator", "aggregator"]
    name: str
    deployment: str
    url: str
    fingerprint: str
    document: str | None = None
    forked: bool


class AnchorsAnswer(WireModel):
    """All of them, coordinators first."""

    anchors: tuple[AnchorAnswer, ...]


@dataclass(frozen=True)
class Anchors:
    """What the parties here know of their services."""

    database: Database
    coordinators: Coordinators
    identities: Identities

    async def listed(self, name: str | None = None) -> AnchorsAnswer:
        """All, or those of one name."""
        async with self.database.reading() as transaction:
            above = await store.coordinators(transaction)
            below = await store.anchored(transaction)
        found = [
            _answer("coordinator", each.deployment, each.deployment, each.url, each.pin)
            for each in above
        ]
        found += [
            _answer("aggregator", each.aggregator, deployment, each.url, each.pin)
            for deployment, each in below
        ]
        chosen = {each for each in found if name in (None, each.name)}
        ordered = sorted(chosen, key=lambda each: (each.role != "coordinator", each.name, each.url))
        return AnchorsAnswer(anchors=tuple(ordered))

    async def confirm(self, name: str, compared: bytes) -> AnchorsAnswer:
        """The operator compared the fingerprint of a document out of band: it is what is known of
        this service from now on. Raises UnknownAnchor, KeyNotAnchored if no such document is shown,
        PeerUnavailable."""
        above = await self.coordinators.confirm(name, compared)
        below = await self.identities.confirm(name, compared)
        if not above and not below:
            raise UnknownAnchor
        return await self.listed(name)

    async def take(self, name: str, shown: IdentityChain) -> None:
        """Go along the chain of a service that somebody else shows, as it may be gone. Raises
        UnknownAnchor, and what stands against the chain."""
        of_coordinator = shown.documents[0].statement.role is Role.COORDINATOR
        known = self.coordinators if of_coordinator else self.identities
        if not await known.take(name, shown):
            raise UnknownAnchor

    async def drop(self, name: str) -> None:
        """Forget an aggregator: no party here takes part in a round of it any more. Raises
        UnknownAnchor."""
        async with self.database.begin() as transaction:
            if not await store.drop_anchor(transaction, name):
                raise UnknownAnchor


def _answer(
    role: Literal["coordinator", "aggregator"], name: str, deployment: str, url: str, pin: Pin
) -> AnchorAnswer:
    current = None if pin.anchored is None else pin.anchored.current
    return AnchorAnswer(
        role=role,
        name=name,
        deployment=deployment,
        url=url,
        fingerprint=(pin.newest or pin.fingerprint).hex(),
        document=None if current is None else current.fingerprint.hex(),
        forked=pin.anchored is not None and pin.anchored.forked,
    )


# Routes of the anchors, for the operator of the curator service.

AnchorsPart = Annotated[Anchors, Depends(part(Anchors))]


def add_anchors(app: FastAPI) -> None:
    """Add them to the app."""

    @app.get(
        "/v1/anchors",
        **gives(AnchorsAnswer),
        tags=["parties"],
        summary="The services as the parties here know them",
    )
    async def list_anchors(_: Operator, known: AnchorsPart) -> Response:
        return answer(await known.listed())

    @app.put(
        "/v1/anchors/{name}/identity",
        tags=["parties"],
        status_code=204,
        summary="Show the chain of a service's identities, where the service is gone",
        openapi_extra=takes(IdentityChain),
    )
    async def follow_anchor_identity(
        request: Request, name: str, _: Operator, known: AnchorsPart
    ) -> None:
        await known.take(name, await read_body(request, IdentityChain))

    @app.post(
        "/v1/anchors/{name}/confirmation",
        **gives(AnchorsAnswer),
        tags=["parties"],
        summary="Confirm a service's new identity, compared out of band",
        openapi_extra=takes(ConfirmationRequest, examples.CONFIRMATION),
    )
    async def confirm_anchor(
        request: Request, name: str, _: Operator, known: AnchorsPart
    ) -> Response:
        body = await read_body(request, ConfirmationRequest)
        return answer(await known.confirm(name, body.fingerprint))

    @app.delete(
        "/v1/anchors/{name}",
        tags=["parties"],
        status_code=204,
        summary="Forget an aggregator: nobody here takes part in its rounds any more",
    )
    async def drop_anchor(name: str, _: Operator, known: AnchorsPart) -> None:
        await known.drop(name)
