"""The anchors of the parties here, for the operator: who is known by which identity, and the two
things that only a person can do: confirm a new identity, and drop one that is lost.

Spec: keys, section 5.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from common.store.transactions import Database
from curator.errors import UnknownAnchor
from curator.parties.coordinators import Coordinators
from curator.parties.identities import Identities
from curator.store import parties as store
from tacit.protocol.identities import IdentityChain, Pin, Role
from tacit.wire import WireModel


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
