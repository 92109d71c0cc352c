"""The services that this aggregator admits: the one paired coordinator, and pinned peers.

Peers are the other aggregators with which this one may sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from sqlalchemy import delete, insert, or_, select, update

from aggregator.store.tables import coordinators, pinned_peers, tokens
from common.principals import Scope
from common.store.transactions import Transaction
from tacit.crypto.signing import fingerprint
from tacit.protocol.identities import IdentityChain, Pin


@dataclass(frozen=True)
class CoordinatorRow:
    """The coordinator. `identity_key`: the current one; `pin`: its identities as followed, from the
    key that was paired; `shown`: the chain that it showed last."""

    deployment: str
    identity_key: bytes
    pin: Pin
    shown: IdentityChain | None = None

    def keys(self, now: datetime) -> tuple[bytes, ...]:
        """The keys that its statements may be signed with now. Raises IdentityForked,
        IdentitySuperseded."""
        anchored = self.pin.anchored
        return (self.identity_key,) if anchored is None else anchored.keys(now)


_COORDINATOR = select(coordinators)


async def coordinator(transaction: Transaction) -> CoordinatorRow | None:
    """The coordinator that this aggregator is paired with."""
    row = (await transaction.execute(_COORDINATOR)).first()
    if row is None:
        return None
    key, shown = row.identity_key, row.shown
    pin = Pin(fingerprint=fingerprint(key)) if row.pin is None else _pin(row.pin)
    chain = None if shown is None else IdentityChain.model_validate_json(shown)
    return CoordinatorRow(row.deployment, key, pin, chain)


@lru_cache(maxsize=2)  # asked for at every round
def _pin(text: str) -> Pin:
    return Pin.model_validate_json(text)


async def put_coordinator(transaction: Transaction, row: CoordinatorRow, now: datetime) -> None:
    """Pair with a coordinator, in place of any other."""
    await transaction.execute(delete(coordinators))
    await transaction.execute(
        insert(coordinators).values(
            id=1, deployment=row.deployment, identity_key=row.identity_key, paired=now
        )
    )


async def set_followed(transaction: Transaction, row: CoordinatorRow) -> None:
    """Store the followed identity of the coordinator."""
    shown = None if row.shown is None else row.shown.model_dump_json()
    await transaction.execute(
        update(coordinators).values(
            identity_key=row.identity_key, pin=row.pin.model_dump_json(), shown=shown
        )
    )


async def remove_coordinator(transaction: Transaction) -> bool:
    """Remove the pairing; whether there was a coordinator."""
    done = await transaction.execute(delete(coordinators))
    return done.rowcount > 0


async def end_scope(
    transaction: Transaction, scope: Scope, now: datetime, overlap: timedelta = timedelta()
) -> None:
    """Revoke all tokens that were made for one scope, or let them end after an overlap."""
    valid = tokens.c.scopes == scope.value, tokens.c.revoked.is_(None)
    if not overlap:
        await transaction.execute(update(tokens).where(*valid).values(revoked=now))
        return
    end = now + overlap
    longer = or_(tokens.c.expires.is_(None), tokens.c.expires > end)
    await transaction.execute(update(tokens).where(*valid, longer).values(expires=end))


@dataclass(frozen=True)
class PeerRow:
    """`pin`: what is accepted of it; `shown`: the chain of identities that was handed over last,
    accepted or not."""

    id: str
    operator: str
    pin: Pin
    pinned: datetime
    shown: IdentityChain | None = None

    @property
    def fingerprint(self) -> bytes:
        """SHA-256 of its current identity key, or of the last one."""
        return self.pin.newest or self.pin.fingerprint


_PEERS = select(pinned_peers).order_by(pinned_peers.c.id)


async def list_peers(transaction: Transaction) -> dict[str, PeerRow]:
    """All of them, by id."""
    result = await transaction.execute(_PEERS)
    return {row.id: _peer(row) for row in result}


def _peer(row: Any) -> PeerRow:
    pin = Pin(fingerprint=row.fingerprint)
    if row.pin is not None:
        pin = Pin.model_validate_json(row.pin)
    shown = None if row.shown is None else IdentityChain.model_validate_json(row.shown)
    return PeerRow(row.id, row.operator, pin, row.pinned, shown)


async def put_peer(transaction: Transaction, row: PeerRow) -> None:
    """Pin one, in place of what is pinned under its id."""
    await transaction.execute(delete(pinned_peers).where(pinned_peers.c.id == row.id))
    await transaction.execute(
        insert(pinned_peers).values(
            id=row.id,
            operator=row.operator,
            fingerprint=row.fingerprint,
            pinned=row.pinned,
            pin=row.pin.model_dump_json(),
            shown=None if row.shown is None else row.shown.model_dump_json(),
        )
    )


async def remove_peer(transaction: Transaction, peer: str) -> bool:
    """Unpin one; whether it was pinned."""
    done = await transaction.execute(delete(pinned_peers).where(pinned_peers.c.id == peer))
    return done.rowcount > 0
