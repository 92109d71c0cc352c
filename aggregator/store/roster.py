"""Who may send to this aggregator: parties with their roster numbers, which are never reused, and
their epoch keys; the one paired coordinator; and pinned peers.

Peers are the other aggregators with which this one may sum.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import BindParameter, Row, bindparam, delete, insert, or_, select, update

from aggregator.store.tables import coordinators, hosted, parties, pinned_peers, tokens
from common.principals import Scope
from common.store.transactions import Transaction
from tacit.crypto.signing import fingerprint
from tacit.protocol.enrolment import PartyKind
from tacit.protocol.identities import IdentityChain, Pin

_CHUNK = 500
_PAGE = 10_000
_LEFT = select(parties.c.first, parties.c.curators).where(
    parties.c.left.is_not(None), parties.c.first < bindparam("below")
)
_PARTIES = select(parties).order_by(parties.c.key)
# Asked in every round: made once, and so compiled once.
_CHOSEN: BindParameter[Any] = bindparam("chosen", expanding=True)
_BY_KEYS = _PARTIES.where(parties.c.key.in_(_CHOSEN))
_LONE = _PARTIES.where(parties.c.first.in_(_CHOSEN), parties.c.kind == PartyKind.CURATOR.value)


@dataclass(frozen=True)
class Party:
    """A sender on the roster."""

    key: int
    id: str
    kind: PartyKind
    identity_key: bytes
    first: int
    curators: int
    left: datetime | None


async def add_party(transaction: Transaction, party: Party, now: datetime) -> int:
    """Put a party on the roster; its key in the store."""
    done = await transaction.execute(
        insert(parties)
        .values(
            id=party.id,
            kind=party.kind.value,
            identity_key=party.identity_key,
            first=party.first,
            curators=party.curators,
            enrolled=now,
        )
        .returning(parties.c.key)
    )
    return int(done.scalar_one())


async def add_hosted(
    transaction: Transaction, party: int, hashes: bytes, compressed_ids: bytes
) -> None:
    """Keep the curators of a host: sorted 64-bit hashes to search, ids to confirm."""
    await transaction.execute(insert(hosted).values(party=party, hashes=hashes, ids=compressed_ids))


async def hosted_hashes(
    transaction: Transaction,
) -> AsyncIterator[tuple[int, NDArray[np.uint64]]]:
    """The sorted hashes of every active host's curator ids, one host at a time."""
    result = await transaction.execute(
        select(hosted.c.party)
        .join(parties, parties.c.key == hosted.c.party)
        .where(parties.c.left.is_(None))
    )
    for party in result.scalars().all():
        row = await transaction.execute(select(hosted.c.hashes).where(hosted.c.party == party))
        yield int(party), np.frombuffer(row.scalar_one(), "<u8")


async def hosted_ids(transaction: Transaction, party: int) -> bytes:
    """The compressed ids of a host's curators, in the order of their numbers."""
    result = await transaction.execute(select(hosted.c.ids).where(hosted.c.party == party))
    return bytes(result.scalar_one())


async def lone_ids(transaction: Transaction) -> AsyncIterator[list[str]]:
    """The ids of all active lone curators, in pages."""
    lone_parties = (
        select(parties.c.key, parties.c.id)
        .where(parties.c.left.is_(None), parties.c.kind == PartyKind.CURATOR.value)
        .order_by(parties.c.key)
        .limit(_PAGE)
    )
    after = -1
    while rows := (await transaction.execute(lone_parties.where(parties.c.key > after))).all():
        yield [row.id for row in rows]
        after = rows[-1].key


async def is_active(transaction: Transaction, party: str, identity_key: bytes) -> bool:
    """Whether a party of this id, or with this identity, is on the roster."""
    result = await transaction.execute(
        select(parties.c.key).where(
            parties.c.left.is_(None),
            (parties.c.id == party) | (parties.c.identity_key == identity_key),
        )
    )
    return result.first() is not None


async def has_identity(transaction: Transaction, identity_key: bytes) -> bool:
    """Whether a party with this identity is on the roster."""
    result = await transaction.execute(
        select(parties.c.key).where(
            parties.c.left.is_(None), parties.c.identity_key == identity_key
        )
    )
    return result.first() is not None


async def set_identity(
    transaction: Transaction, key: int, identity_key: bytes, *, enrolled: datetime | None = None
) -> None:
    """Give a party another identity; `enrolled`: of one that enrolled again."""
    values: dict[str, Any] = {"identity_key": identity_key}
    if enrolled is not None:
        values["enrolled"] = enrolled
    await transaction.execute(update(parties).where(parties.c.key == key).values(**values))


async def numbers_taken(transaction: Transaction, first: int, count: int) -> bool:
    """Whether any of these numbers was ever assigned. Numbers are never reused."""
    below = await transaction.execute(
        select(parties.c.first, parties.c.curators)
        .where(parties.c.first < first + count)
        .order_by(parties.c.first.desc())
        .limit(1)
    )
    row = below.first()
    return row is not None and row.first + row.curators > first


async def active_party(transaction: Transaction, party: str) -> Party | None:
    """The party of this id that is on the roster."""
    rows = await _parties(transaction, (parties.c.id == party) & parties.c.left.is_(None))
    return rows[0] if rows else None


async def enrolled_at(transaction: Transaction, key: int) -> datetime:
    """When a party was put on the roster."""
    result = await transaction.execute(select(parties.c.enrolled).where(parties.c.key == key))
    enrolled: datetime = result.scalar_one()
    return enrolled


async def parties_by_key(transaction: Transaction, keys: Sequence[int]) -> dict[int, Party]:
    """Parties by their key in the store, also those that left."""
    result: dict[int, Party] = {}
    for start in range(0, len(keys), _CHUNK):
        chunk = keys[start : start + _CHUNK]
        some = _read(await transaction.execute(_BY_KEYS, {"chosen": chunk}))
        result.update((party.key, party) for party in some)
    return result


async def lone_by_number(transaction: Transaction, numbers: Sequence[int]) -> dict[int, Party]:
    """Lone curators by roster number, also those that left."""
    result: dict[int, Party] = {}
    for start in range(0, len(numbers), _CHUNK):
        chunk = numbers[start : start + _CHUNK]
        some = _read(await transaction.execute(_LONE, {"chosen": chunk}))
        result.update((party.first, party) for party in some)
    return result


async def left_runs(transaction: Transaction, below: int) -> list[tuple[int, int]]:
    """(first number, count) of parties that left, with numbers below a roster's size."""
    result = await transaction.execute(_LEFT, {"below": below})
    return [(int(row.first), int(row.curators)) for row in result]


async def leave(transaction: Transaction, party: str, now: datetime) -> bool:
    """Take a party off the roster; whether it was on it."""
    done = await transaction.execute(
        update(parties).where(parties.c.id == party, parties.c.left.is_(None)).values(left=now)
    )
    return done.rowcount == 1


async def list_parties(
    transaction: Transaction, after: int | None, limit: int
) -> Sequence[Row[Any]]:
    """A page of the roster, in the order of enrolment."""
    query = select(parties).order_by(parties.c.key).limit(limit)
    if after is not None:
        query = query.where(parties.c.key > after)
    return (await transaction.execute(query)).all()


_SENDERS = (
    select(tokens.c.hash, tokens.c.expires, parties)
    .join(parties, parties.c.id == tokens.c.subject)
    .where(
        tokens.c.hash.in_(bindparam("hashes", expanding=True)),
        tokens.c.scopes == Scope.CURATOR.value,
        tokens.c.revoked.is_(None),
        parties.c.left.is_(None),
    )
)


async def senders(
    transaction: Transaction, token_hashes: Sequence[str]
) -> dict[str, tuple[Party, datetime | None]]:
    """The active party that each valid curator token belongs to, and when the token expires."""
    result = await transaction.execute(_SENDERS, {"hashes": token_hashes})
    return {row.hash: (_party(row), row.expires) for row in result}


async def _parties(transaction: Transaction, condition: Any) -> list[Party]:
    return _read(await transaction.execute(_PARTIES.where(condition)))


def _read(result: Iterable[Row[Any]]) -> list[Party]:
    return [_party(row) for row in result]


def _party(row: Row[Any]) -> Party:
    return Party(
        row.key,
        row.id,
        PartyKind(row.kind),
        row.identity_key,
        row.first,
        row.curators,
        row.left,
    )


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
