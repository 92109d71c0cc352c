"""Identities of coordinators and aggregators: followed link by link from the join token.

Spec: keys, section 5.2. A party asks for a chain when a list or a round names a key that it does
not know. The anchors are for the operator: who is known by which identity, and the two things that
only a person can do: confirm a new identity, and drop one that is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, ClassVar, Final, Literal

from fastapi import Depends, Request, Response

from common.identity.own_identity import ConfirmationRequest
from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.store.transactions import Database
from common.web.dependencies import part
from common.web.openapi import api_router, gives, takes
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

CHECK_AFTER: Final = timedelta(hours=1)
"""A chain is requested again after this time, also where the known key is still in use."""
_logger = get_logger("tacit.curator.identities")


@dataclass
class _Chains:
    """Follows the identities of services of one role; one request at a time."""

    database: Database
    peers: Peers
    clock: Clock
    confirmed: Collection[bytes] | None
    """Fingerprints of documents that a person compared, if every change must be; else None."""
    _checked: dict[str, datetime] = field(default_factory=dict)
    """By address."""
    _alone: asyncio.Lock = field(default_factory=asyncio.Lock)
    role: ClassVar[Role]

    def _is_over(self, url: str, now: datetime) -> bool:
        """Whether the last check of an address is too old, or by a clock that was set back."""
        checked = self._checked.get(url)
        return checked is None or not timedelta() <= now - checked < CHECK_AFTER

    async def _along(
        self,
        pin: Pin,
        deployment: str,
        name: str,
        shown: IdentityChain,
        keep: Callable[[Pin], Awaitable[None]],
    ) -> Pin:
        """The pin after following a chain, stored by `keep` if it changed. Raises what
        invalidates the chain; a fork is stored."""
        role = {self.role.value: name}
        try:
            after = pin.follow(deployment, shown, self.clock.now(), self.role, name, self.confirmed)
        except IdentityForked:
            await keep(pin.forking())
            _logger.warning("identity_forked", **role)
            raise
        if after != pin:
            await keep(after)
            _logger.info("identity_followed", **role)
        return after


class Coordinators(_Chains):
    """Follows the chains of the coordinators of all parties here."""

    role = Role.COORDINATOR

    async def known(self, url: str) -> set[Coordinator]:
        """The coordinator at an address, as the parties that use it know it."""
        return await self.database.read(lambda transaction: store.coordinators(transaction, url))

    async def look(self, url: str) -> None:
        """Follow what a coordinator shows if that was not done in the last hour."""
        if self._is_over(url, self.clock.now()):
            await self.follow(url)

    async def follow(self, url: str) -> bool:
        """Follow the chain that a coordinator shows; returns whether more of it is known than
        before."""
        async with self._alone:
            self._checked[url] = self.clock.now()
            try:
                shown = await self.peers.identities(url, "tacit-coordinator")
            except (PeerUnavailable, ProblemReceived):
                return False
            if shown is None:
                return False
            return any([await self._followed(row, shown) for row in await self.known(url)])

    async def confirm(self, deployment: str, compared: bytes) -> bool:
        """Pin the document whose fingerprint a person compared out of band, in place of the
        earlier one; returns whether a coordinator of this deployment is known. Raises
        KeyNotAnchored if it shows no such document, PeerUnavailable."""
        rows = await self._of(deployment)
        for row in rows:
            shown = await self.peers.shown_identities(row.url, "tacit-coordinator")
            await self._keep(row, row.pin.confirmed(deployment, shown, compared))
        return bool(rows)

    async def take(self, deployment: str, shown: IdentityChain) -> bool:
        """Follow the chain of a coordinator that someone else shows, as the coordinator may no
        longer exist; returns whether one of this deployment is known. Raises what invalidates
        the chain."""
        async with self._alone:
            rows = await self._of(deployment)
        for row in rows:
            await self._along(row.pin, deployment, deployment, shown, partial(self._keep, row))
        return bool(rows)

    async def _of(self, deployment: str) -> list[Coordinator]:
        async with self.database.reading() as transaction:
            rows = await store.coordinators(transaction)
        return [row for row in rows if row.deployment == deployment]

    async def _followed(self, row: Coordinator, shown: IdentityChain) -> bool:
        """Whether more is known than before."""
        name, keep = row.deployment, partial(self._keep, row)
        try:
            return await self._along(row.pin, name, name, shown, keep) != row.pin
        except DomainError as error:  # the known key stays valid
            _logger.warning("identity_not_followed", coordinator=name, problem=error.name)
            return False

    async def _keep(self, row: Coordinator, pin: Pin) -> None:
        if pin == row.pin:
            return
        current = None if pin.anchored is None else pin.anchored.current
        key = row.key if current is None else current.ed25519
        async with self.database.begin() as transaction:
            await store.set_coordinator(transaction, row, key, pin)


# --- aggregators (spec: keys, section 5.2) -------------------------------------------------------
#
# A party requests an aggregator's chain when a round names a key that is not the anchored one, and
# periodically before that, so that its documents are known before anyone could forge one. Each link
# is signed by the pair to which the document before committed; nothing else is trusted.


class Identities(_Chains):
    """Follows the chains of the aggregators of all parties here."""

    role = Role.AGGREGATOR

    async def check(self, descriptor: RoundDescriptor, party: PartyRow) -> None:
        """Raise unless every aggregator of a round is anchored by the party, or follows from an
        anchor.

        KeyNotAnchored and the rest as `Pin.follow`; PeerUnavailable while a chain cannot be
        fetched.
        """
        now = self.clock.now()
        pins = {anchor.aggregator: anchor.pin for anchor in party.anchors}
        keys = {entry.id: entry.identity_key for entry in descriptor.aggregators}
        for anchor in party.anchors:
            key = keys.get(anchor.aggregator)
            if key is not None and self._is_due(anchor, key, now):
                async with self._alone:
                    pins[anchor.aggregator] = await self._followed(anchor, party, key, now)
        check_anchors(descriptor, pins, now)

    async def confirm(self, aggregator: str, compared: bytes) -> bool:
        """Pin the document whose fingerprint a person compared out of band, in place of the
        earlier one; returns whether such an aggregator is known. Raises KeyNotAnchored if it
        shows no such document, PeerUnavailable."""
        rows = await self._of(aggregator)
        for deployment, anchor in rows:
            shown = await self.peers.shown_identities(anchor.url, "tacit-aggregator")
            pin = anchor.pin.confirmed(deployment, shown, compared)
            await self._keep(anchor, deployment, pin)
        return bool(rows)

    async def take(self, aggregator: str, shown: IdentityChain) -> bool:
        """Follow the chain of an aggregator that someone else shows, as the aggregator may no
        longer exist; returns whether it is known. Raises what invalidates the chain."""
        rows = await self._of(aggregator)
        for deployment, anchor in rows:
            await self._follow(anchor, deployment, shown)
        return bool(rows)

    async def _of(self, aggregator: str) -> list[tuple[str, Anchor]]:
        async with self.database.reading() as transaction:
            rows = await store.anchored(transaction)
        return [row for row in rows if row[1].aggregator == aggregator]

    def _is_due(self, anchor: Anchor, key: bytes, now: datetime) -> bool:
        """Whether the round names another key, or the aggregator was not checked for an hour."""
        try:
            anchor.pin.check_key(key, now)
        except KeyNotAnchored:
            return True
        except DomainError:
            return False
        return self._is_over(anchor.url, now)

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
        anchor_kept = next(a for a in rows[party.id].anchors if a.aggregator == anchor.aggregator)
        if not self._is_due(anchor_kept, key, now):
            return anchor_kept.pin
        self._checked[anchor.url] = now
        try:
            shown = await self.peers.identities(anchor.url, "tacit-aggregator")
        except (PeerUnavailable, ProblemReceived):
            if self._is_anchored(anchor_kept.pin, key, now):
                return anchor_kept.pin
            raise PeerUnavailable(f"{anchor.aggregator} does not show its identity") from None
        if shown is None:
            return anchor_kept.pin
        try:
            return await self._follow(anchor_kept, party.deployment, shown)
        except IdentityForked:
            raise
        except DomainError:
            if self._is_anchored(anchor_kept.pin, key, now):  # and nothing else was asked
                return anchor_kept.pin
            raise

    async def _follow(self, anchor: Anchor, deployment: str, shown: IdentityChain) -> Pin:
        async def keep(pin: Pin) -> None:
            await self._keep(anchor, deployment, pin)

        return await self._along(anchor.pin, deployment, anchor.aggregator, shown, keep)

    async def _keep(self, anchor: Anchor, deployment: str, pin: Pin) -> None:
        async with self.database.begin() as transaction:
            await store.set_pin(transaction, anchor, deployment, pin)


# --- anchors, for the operator -------------------------------------------------------------------


class AnchorAnswer(WireModel):
    """A service as the parties here know it. `name`: an aggregator's id, or a coordinator's
    deployment; `fingerprint`: of its current Ed25519 key, in hex; `document`: of its identity
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
        answers = [
            _answer("coordinator", row.deployment, row.deployment, row.url, row.pin)
            for row in above
        ]
        answers += [
            _answer("aggregator", row.aggregator, deployment, row.url, row.pin)
            for deployment, row in below
        ]
        chosen = {anchor for anchor in answers if name in (None, anchor.name)}
        ordered = sorted(
            chosen, key=lambda anchor: (anchor.role != "coordinator", anchor.name, anchor.url)
        )
        return AnchorsAnswer(anchors=tuple(ordered))

    async def confirm(self, name: str, compared: bytes) -> AnchorsAnswer:
        """Pin the document whose fingerprint the operator compared out of band: from now on the
        service is known by it. Raises UnknownAnchor, KeyNotAnchored if no such document is
        shown, PeerUnavailable."""
        above = await self.coordinators.confirm(name, compared)
        below = await self.identities.confirm(name, compared)
        if not above and not below:
            raise UnknownAnchor
        return await self.listed(name)

    async def take(self, name: str, shown: IdentityChain) -> None:
        """Follow the chain of a service that someone else shows, as the service may no longer
        exist. Raises UnknownAnchor, and what invalidates the chain."""
        of_coordinator = shown.documents[0].statement.role is Role.COORDINATOR
        chains = self.coordinators if of_coordinator else self.identities
        if not await chains.take(name, shown):
            raise UnknownAnchor

    async def drop(self, name: str) -> None:
        """Forget an aggregator: no party here participates in its rounds any more. Raises
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


AnchorsPart = Annotated[Anchors, Depends(part(Anchors))]


router = api_router("parties")


@router.get(
    "/v1/anchors",
    **gives(AnchorsAnswer),
    summary="The services as the parties here know them",
)
async def list_anchors(_: Operator, anchors: AnchorsPart) -> Response:
    return answer(await anchors.listed())


@router.put(
    "/v1/anchors/{name}/identity",
    status_code=204,
    summary="Show the chain of a service's identities, where the service is gone",
    openapi_extra=takes(IdentityChain),
)
async def follow_anchor_identity(
    request: Request, name: str, _: Operator, anchors: AnchorsPart
) -> None:
    await anchors.take(name, await read_body(request, IdentityChain))


@router.post(
    "/v1/anchors/{name}/confirmation",
    **gives(AnchorsAnswer),
    summary="Confirm a service's new identity, compared out of band",
    openapi_extra=takes(ConfirmationRequest, examples.CONFIRMATION),
)
async def confirm_anchor(
    request: Request, name: str, _: Operator, anchors: AnchorsPart
) -> Response:
    body = await read_body(request, ConfirmationRequest)
    return answer(await anchors.confirm(name, body.fingerprint))


@router.delete(
    "/v1/anchors/{name}",
    status_code=204,
    summary="Forget an aggregator: no party here participates in its rounds any more",
)
async def drop_anchor(name: str, _: Operator, anchors: AnchorsPart) -> None:
    await anchors.drop(name)
