"""All SQL of an aggregator.

Sealed pieces are kept as received: a batch is one row, and the lone pieces of one commit are one
row (`numbers`, `tags` and `bodies` joined), because a row per curator makes every piece dirty a
page of its own (spec: hot-path, section 2). Presence, numbers and tags outlive the sealed words:
after a round they still tell a duplicate from a stranger. No opened word is ever stored, except
the partial sum with its noise inside, in the transaction of its commitment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Row,
    String,
    Table,
    Text,
    UniqueConstraint,
    delete,
    func,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from common.models.enrolment import PartyKind
from common.models.round import RoundState
from common.service.columns import Instant
from common.service.tokens import Scope, token_table

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)
Key = BigInteger().with_variant(Integer, "sqlite")

tokens = token_table(metadata)
secrets = Table(
    "secret",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", LargeBinary, nullable=False),
)
epoch_keys = Table(
    "epoch_key",
    metadata,
    Column("epoch", BigInteger, primary_key=True, autoincrement=False),
    Column("private_key", LargeBinary, nullable=True),
    Column("signed", Text, nullable=False),
    Column("destroyed", Instant, nullable=True),
)
coordinators = Table(
    "coordinator",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("deployment", String(128), nullable=False),
    Column("identity_key", LargeBinary, nullable=False),
    Column("paired", Instant, nullable=False),
)
grants = Table(
    "join_grant",
    metadata,
    Column("secret_hash", String(64), primary_key=True),
    Column("party", String(128), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("max_curators", Integer, nullable=False),
    Column("expires", Instant, nullable=False, index=True),
    Column("used", Instant, nullable=True),
)
parties = Table(
    "party",
    metadata,
    Column("key", Key, primary_key=True),
    Column("id", String(128), nullable=False, index=True),
    Column("kind", String(16), nullable=False),
    Column("identity_key", LargeBinary, nullable=False),
    Column("first", BigInteger, nullable=False, index=True),
    Column("curators", Integer, nullable=False),
    Column("enrolled", Instant, nullable=False),
    Column("left", Instant, nullable=True),
)
Index(
    "uq_party_active_id",
    parties.c.id,
    unique=True,
    sqlite_where=parties.c.left.is_(None),
    postgresql_where=parties.c.left.is_(None),
)
Index(
    "uq_party_active_identity",
    parties.c.identity_key,
    unique=True,
    sqlite_where=parties.c.left.is_(None),
    postgresql_where=parties.c.left.is_(None),
)
party_keys = Table(
    "party_key",
    metadata,
    Column("party", Key, ForeignKey("party.key"), primary_key=True),
    Column("epoch", BigInteger, primary_key=True, autoincrement=False),
    Column("public_key", LargeBinary, nullable=False),
)
hosted = Table(
    "hosted",
    metadata,
    Column("party", Key, ForeignKey("party.key"), primary_key=True),
    Column("hashes", LargeBinary, nullable=False),
    Column("ids", LargeBinary, nullable=False),
)
rounds = Table(
    "round",
    metadata,
    Column("key", Key, primary_key=True),
    Column("id", String(36), nullable=False, unique=True),
    Column("state", String(16), nullable=False, index=True),
    Column("descriptor_hash", LargeBinary, nullable=False),
    Column("descriptor", Text, nullable=False),
    Column("own_epoch", BigInteger, nullable=False),
    Column("deadline", Instant, nullable=False),
    Column("received", Integer, nullable=False),
    Column("noise_shares", Text, nullable=True),
    Column("accepted", Text, nullable=True),
    Column("manifest", Text, nullable=True),
    Column("manifest_hash", LargeBinary, nullable=True),
    Column("nonce", LargeBinary, nullable=True),
    Column("partial", LargeBinary, nullable=True),
    Column("commitment", Text, nullable=True),
    Column("reveal_request", LargeBinary, nullable=True),
    Column("reveal", Text, nullable=True),
    Column("abort_statement", Text, nullable=True),
    Column("reason", String(256), nullable=True),
    Column("finished", Instant, nullable=True),
)
contributions = Table(
    "contribution",
    metadata,
    Column("round", Key, ForeignKey("round.key"), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("key_epoch", BigInteger, nullable=False),
    Column("nonce", LargeBinary, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
)
pieces = Table(
    "piece",
    metadata,
    Column("id", Key, primary_key=True),
    Column("round", Key, ForeignKey("round.key"), nullable=False),
    Column("numbers", LargeBinary, nullable=False),
    Column("tags", LargeBinary, nullable=False),
    Column("bodies", LargeBinary, nullable=False),
    Index("ix_piece_round_id", "round", "id"),
)
batches = Table(
    "batch",
    metadata,
    Column("id", Key, primary_key=True),
    Column("round", Key, ForeignKey("round.key"), nullable=False),
    Column("segment", BigInteger, nullable=False),
    Column("host", Key, ForeignKey("party.key"), nullable=False),
    Column("part", BigInteger, nullable=False),
    Column("first", BigInteger, nullable=False),
    Column("tag", LargeBinary, nullable=False),
    Column("presence", LargeBinary, nullable=False),
    Column("body", LargeBinary, nullable=False),
    UniqueConstraint("round", "segment", "host", "part", name="uq_batch_place"),
)

LIVE = (RoundState.OPEN.value, RoundState.FROZEN.value, RoundState.COMMITTED.value)
_CHUNK = 500


@dataclass(frozen=True)
class CoordinatorRow:
    deployment: str
    identity_key: bytes


@dataclass(frozen=True)
class GrantRow:
    party: str
    kind: PartyKind
    max_curators: int
    expires: datetime
    used: datetime | None


@dataclass(frozen=True)
class Party:
    """A sender on the roster, with the X25519 keys it announced, by epoch."""

    key: int
    id: str
    kind: PartyKind
    identity_key: bytes
    first: int
    curators: int
    left: datetime | None
    keys: dict[int, bytes]


@dataclass(frozen=True)
class RoundRow:
    """A round as stored; texts are JSON of the models of `common.models.round`."""

    key: int
    id: str
    state: RoundState
    descriptor_hash: bytes
    descriptor: str
    own_epoch: int
    deadline: datetime
    received: int
    noise_shares: str | None
    accepted: str | None
    manifest: str | None
    manifest_hash: bytes | None
    nonce: bytes | None
    partial: bytes | None
    commitment: str | None
    reveal_request: bytes | None
    reveal: str | None
    abort_statement: str | None
    reason: str | None
    finished: datetime | None


@dataclass(frozen=True)
class ContributionRow:
    position: int
    key_epoch: int
    nonce: bytes
    sealed: bytes


@dataclass(frozen=True)
class PieceRow:
    """The lone pieces of one commit, record i of each column belonging to number i."""

    id: int
    numbers: bytes
    tags: bytes
    bodies: bytes


@dataclass(frozen=True)
class BatchRow:
    id: int
    segment: int
    host: int
    part: int
    first: int
    tag: bytes
    presence: bytes


# --- secrets and keys ----------------------------------------------------------------------------


async def secret(connection: AsyncConnection, name: str) -> bytes | None:
    """A secret by its name."""
    found = await connection.execute(select(secrets.c.value).where(secrets.c.name == name))
    value: bytes | None = found.scalar_one_or_none()
    return value


async def add_secret(connection: AsyncConnection, name: str, value: bytes) -> None:
    """Keep a secret under a new name."""
    await connection.execute(insert(secrets).values(name=name, value=value))


async def epoch_key(connection: AsyncConnection, epoch: int) -> tuple[bytes | None, str] | None:
    """(private key unless destroyed, signed public key) of an epoch."""
    found = await connection.execute(select(epoch_keys).where(epoch_keys.c.epoch == epoch))
    row = found.first()
    return None if row is None else (row.private_key, row.signed)


async def add_epoch_key(
    connection: AsyncConnection, epoch: int, private_key: bytes, signed: str
) -> None:
    """Keep the key pair of a new epoch."""
    await connection.execute(
        insert(epoch_keys).values(epoch=epoch, private_key=private_key, signed=signed)
    )


async def idle_epochs(connection: AsyncConnection, before: int) -> tuple[int, ...]:
    """Epochs below `before` that hold a private key and that no live round needs."""
    needed = select(rounds.c.own_epoch).where(rounds.c.state.in_(LIVE))
    found = await connection.execute(
        select(epoch_keys.c.epoch).where(
            epoch_keys.c.epoch < before,
            epoch_keys.c.private_key.is_not(None),
            epoch_keys.c.epoch.not_in(needed),
        )
    )
    return tuple(int(epoch) for epoch in found.scalars())


async def held_epochs(connection: AsyncConnection) -> tuple[int, ...]:
    """All epochs that hold a private key."""
    found = await connection.execute(
        select(epoch_keys.c.epoch).where(epoch_keys.c.private_key.is_not(None))
    )
    return tuple(int(epoch) for epoch in found.scalars())


async def replace_epoch_key(
    connection: AsyncConnection, epoch: int, private_key: bytes, signed: str
) -> None:
    """Keep another key pair for an epoch, whose old one is destroyed."""
    await connection.execute(delete(epoch_keys).where(epoch_keys.c.epoch == epoch))
    await add_epoch_key(connection, epoch, private_key, signed)


async def destroy_epoch_key(connection: AsyncConnection, epoch: int, now: datetime) -> None:
    """Forget the private key of an epoch. In SQLite the old page is overwritten too."""
    sqlite = connection.dialect.name == "sqlite"
    if sqlite:
        await connection.execute(text("PRAGMA secure_delete=ON"))
    await connection.execute(
        update(epoch_keys)
        .where(epoch_keys.c.epoch == epoch)
        .values(private_key=None, destroyed=now)
    )
    if sqlite:
        await connection.execute(text("PRAGMA secure_delete=OFF"))


async def empty_log(engine: AsyncEngine) -> None:
    """In SQLite: move the write-ahead log into the database and cut it, with what it held."""
    if engine.dialect.name == "sqlite":
        async with engine.connect() as connection:
            raw = await connection.get_raw_connection()
            driver: Any = raw.driver_connection
            await driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")


# --- coordinator ---------------------------------------------------------------------------------


async def coordinator(connection: AsyncConnection) -> CoordinatorRow | None:
    """The coordinator that this aggregator is paired with."""
    row = (await connection.execute(select(coordinators))).first()
    return None if row is None else CoordinatorRow(row.deployment, row.identity_key)


async def put_coordinator(connection: AsyncConnection, row: CoordinatorRow, now: datetime) -> None:
    """Pair with a coordinator, in place of any other."""
    await connection.execute(delete(coordinators))
    await connection.execute(
        insert(coordinators).values(
            id=1, deployment=row.deployment, identity_key=row.identity_key, paired=now
        )
    )


async def revoke_scope(connection: AsyncConnection, scope: Scope, now: datetime) -> None:
    """Revoke all tokens that were made for one scope."""
    await connection.execute(
        update(tokens)
        .where(tokens.c.scopes == scope.value, tokens.c.revoked.is_(None))
        .values(revoked=now)
    )


# --- grants --------------------------------------------------------------------------------------


async def add_grant(connection: AsyncConnection, secret_hash: str, row: GrantRow) -> None:
    """Keep the hash of a one-time secret."""
    await connection.execute(
        insert(grants).values(
            secret_hash=secret_hash,
            party=row.party,
            kind=row.kind.value,
            max_curators=row.max_curators,
            expires=row.expires,
        )
    )


async def grant(connection: AsyncConnection, secret_hash: str) -> GrantRow | None:
    """The grant of a secret, used or not."""
    found = await connection.execute(select(grants).where(grants.c.secret_hash == secret_hash))
    row = found.first()
    if row is None:
        return None
    return GrantRow(row.party, PartyKind(row.kind), row.max_curators, row.expires, row.used)


async def use_grant(connection: AsyncConnection, secret_hash: str, now: datetime) -> bool:
    """Mark a grant as used; whether it was still unused."""
    done = await connection.execute(
        update(grants)
        .where(grants.c.secret_hash == secret_hash, grants.c.used.is_(None))
        .values(used=now)
    )
    return done.rowcount == 1


async def forget_grants(connection: AsyncConnection, before: datetime) -> None:
    """Drop grants that expired before an instant."""
    await connection.execute(delete(grants).where(grants.c.expires < before))


# --- the roster ----------------------------------------------------------------------------------


async def add_party(
    connection: AsyncConnection, party: Party, epoch: int, public_key: bytes, now: datetime
) -> int:
    """Put a party on the roster with its first epoch key; its key in the store."""
    done = await connection.execute(
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
    key = int(done.scalar_one())
    await add_party_key(connection, key, epoch, public_key)
    return key


async def add_hosted(
    connection: AsyncConnection, party: int, hashes: bytes, compressed_ids: bytes
) -> None:
    """Keep the curators of a host: sorted 64-bit hashes to search, ids to confirm."""
    await connection.execute(insert(hosted).values(party=party, hashes=hashes, ids=compressed_ids))


async def hosted_hashes(
    connection: AsyncConnection,
) -> list[tuple[int, NDArray[np.uint64]]]:
    """The sorted hashes of every active host's curator ids."""
    found = await connection.execute(
        select(hosted.c.party, hosted.c.hashes)
        .join(parties, parties.c.key == hosted.c.party)
        .where(parties.c.left.is_(None))
    )
    return [(int(row.party), np.frombuffer(row.hashes, "<u8")) for row in found]


async def hosted_ids(connection: AsyncConnection, party: int) -> bytes:
    """The compressed ids of a host's curators, in the order of their numbers."""
    found = await connection.execute(select(hosted.c.ids).where(hosted.c.party == party))
    return bytes(found.scalar_one())


async def lone_ids(connection: AsyncConnection) -> set[str]:
    """The ids of all active lone curators."""
    found = await connection.execute(
        select(parties.c.id).where(
            parties.c.left.is_(None), parties.c.kind == PartyKind.CURATOR.value
        )
    )
    return set(found.scalars())


async def is_active(connection: AsyncConnection, party: str, identity_key: bytes) -> bool:
    """Whether a party of this id, or with this identity, is on the roster."""
    found = await connection.execute(
        select(parties.c.key).where(
            parties.c.left.is_(None),
            (parties.c.id == party) | (parties.c.identity_key == identity_key),
        )
    )
    return found.first() is not None


async def numbers_taken(connection: AsyncConnection, first: int, count: int) -> bool:
    """Whether any of these numbers was ever given to somebody. Numbers are never reused."""
    below = await connection.execute(
        select(parties.c.first, parties.c.curators)
        .where(parties.c.first < first + count)
        .order_by(parties.c.first.desc())
        .limit(1)
    )
    row = below.first()
    return row is not None and row.first + row.curators > first


async def add_party_key(
    connection: AsyncConnection, party: int, epoch: int, public_key: bytes
) -> None:
    """Keep an announced epoch key."""
    await connection.execute(
        insert(party_keys).values(party=party, epoch=epoch, public_key=public_key)
    )


async def active_party(connection: AsyncConnection, party: str) -> Party | None:
    """The party of this id that is on the roster."""
    found = await _parties(connection, (parties.c.id == party) & parties.c.left.is_(None))
    return found[0] if found else None


async def enrolled_at(connection: AsyncConnection, key: int) -> datetime:
    """When a party was put on the roster."""
    found = await connection.execute(select(parties.c.enrolled).where(parties.c.key == key))
    enrolled: datetime = found.scalar_one()
    return enrolled


async def parties_by_key(connection: AsyncConnection, keys: Sequence[int]) -> dict[int, Party]:
    """Parties by their key in the store, also those that left."""
    result: dict[int, Party] = {}
    for start in range(0, len(keys), _CHUNK):
        chunk = keys[start : start + _CHUNK]
        found = await _parties(connection, parties.c.key.in_(chunk))
        result.update((party.key, party) for party in found)
    return result


async def lone_by_number(connection: AsyncConnection, numbers: Sequence[int]) -> dict[int, Party]:
    """Lone curators by roster number, also those that left."""
    result: dict[int, Party] = {}
    for start in range(0, len(numbers), _CHUNK):
        chunk = numbers[start : start + _CHUNK]
        condition = parties.c.first.in_(chunk) & (parties.c.kind == PartyKind.CURATOR.value)
        found = await _parties(connection, condition)
        result.update((party.first, party) for party in found)
    return result


async def left_runs(connection: AsyncConnection, below: int) -> list[tuple[int, int]]:
    """(first number, count) of parties that left, with numbers below a roster's size."""
    found = await connection.execute(
        select(parties.c.first, parties.c.curators).where(
            parties.c.left.is_not(None), parties.c.first < below
        )
    )
    return [(int(row.first), int(row.curators)) for row in found]


async def lone_page(connection: AsyncConnection, after: int, limit: int) -> list[Party]:
    """Active lone curators in the order of their numbers, above `after`."""
    found = await connection.execute(
        select(parties.c.key)
        .where(
            parties.c.left.is_(None),
            parties.c.kind == PartyKind.CURATOR.value,
            parties.c.first > after,
        )
        .order_by(parties.c.first)
        .limit(limit)
    )
    by_key = await parties_by_key(connection, list(found.scalars()))
    return sorted(by_key.values(), key=lambda party: party.first)


async def leave(connection: AsyncConnection, party: str, now: datetime) -> bool:
    """Take a party off the roster; whether it was on it."""
    done = await connection.execute(
        update(parties).where(parties.c.id == party, parties.c.left.is_(None)).values(left=now)
    )
    return done.rowcount == 1


async def list_parties(
    connection: AsyncConnection, after: int | None, limit: int
) -> list[dict[str, Any]]:
    """A page of the roster, in the order of enrolment."""
    query = select(parties).order_by(parties.c.key).limit(limit)
    if after is not None:
        query = query.where(parties.c.key > after)
    return [dict(row._mapping) for row in await connection.execute(query)]


async def senders(
    connection: AsyncConnection, token_hashes: Sequence[str]
) -> dict[str, tuple[Party, datetime | None]]:
    """The active party that each valid curator token speaks for, and when the token expires."""
    found = await connection.execute(
        select(tokens.c.hash, tokens.c.expires, parties, *_KEY)
        .join(parties, parties.c.id == tokens.c.subject)
        .join(party_keys, party_keys.c.party == parties.c.key)
        .where(
            tokens.c.hash.in_(token_hashes),
            tokens.c.scopes == Scope.CURATOR.value,
            tokens.c.revoked.is_(None),
            parties.c.left.is_(None),
        )
    )
    result: dict[str, tuple[Party, datetime | None]] = {}
    for row in found:
        known = result.get(row.hash)
        if known is None:
            known = result[row.hash] = (_party(row), row.expires)
        known[0].keys[row.epoch] = row.public_key
    return result


_KEY = (party_keys.c.epoch, party_keys.c.public_key)


async def _parties(connection: AsyncConnection, condition: Any) -> list[Party]:
    found = await connection.execute(
        select(parties, *_KEY)
        .join(party_keys, party_keys.c.party == parties.c.key)
        .where(condition)
        .order_by(parties.c.key)
    )
    result: list[Party] = []
    for row in found:
        if not result or result[-1].key != row.key:
            result.append(_party(row))
        result[-1].keys[row.epoch] = row.public_key
    return result


def _party(row: Row[Any]) -> Party:
    return Party(
        row.key,
        row.id,
        PartyKind(row.kind),
        row.identity_key,
        row.first,
        row.curators,
        row.left,
        {},
    )


# --- rounds --------------------------------------------------------------------------------------


async def add_round(
    connection: AsyncConnection,
    round_id: str,
    descriptor_hash: bytes,
    descriptor: str,
    own_epoch: int,
    deadline: datetime,
    noise_shares: str | None,
) -> int:
    """Keep a new round, open; its key in the store."""
    done = await connection.execute(
        insert(rounds)
        .values(
            id=round_id,
            state=RoundState.OPEN.value,
            descriptor_hash=descriptor_hash,
            descriptor=descriptor,
            own_epoch=own_epoch,
            deadline=deadline,
            received=0,
            noise_shares=noise_shares,
        )
        .returning(rounds.c.key)
    )
    return int(done.scalar_one())


async def round_row(connection: AsyncConnection, round_id: str) -> RoundRow | None:
    """A round by its id."""
    row = (await connection.execute(select(rounds).where(rounds.c.id == round_id))).first()
    return None if row is None else _round(row)


async def round_by_key(connection: AsyncConnection, key: int) -> RoundRow:
    """A round by its key in the store."""
    return _round((await connection.execute(select(rounds).where(rounds.c.key == key))).one())


async def states(connection: AsyncConnection, keys: Sequence[int]) -> dict[int, RoundState]:
    """The states of rounds by key; a purged round is missing."""
    found = await connection.execute(
        select(rounds.c.key, rounds.c.state).where(rounds.c.key.in_(keys))
    )
    return {int(row.key): RoundState(row.state) for row in found}


async def advance(
    connection: AsyncConnection, key: int, before: RoundState, after: RoundState, **values: object
) -> bool:
    """One transition; whether the round was in the state `before`."""
    done = await connection.execute(
        update(rounds)
        .where(rounds.c.key == key, rounds.c.state == before.value)
        .values(state=after.value, **values)
    )
    return done.rowcount == 1


async def count_received(connection: AsyncConnection, key: int, curators: int) -> None:
    """Add to the number of curators whose pieces are held."""
    await connection.execute(
        update(rounds).where(rounds.c.key == key).values(received=rounds.c.received + curators)
    )


async def count_states(connection: AsyncConnection) -> dict[str, int]:
    """How many rounds there are in each state."""
    found = await connection.execute(select(rounds.c.state, func.count()).group_by(rounds.c.state))
    return {row[0]: int(row[1]) for row in found}


async def overdue(connection: AsyncConnection, before: datetime) -> tuple[str, ...]:
    """Live rounds whose deadline lies before an instant."""
    found = await connection.execute(
        select(rounds.c.id).where(rounds.c.state.in_(LIVE), rounds.c.deadline < before)
    )
    return tuple(found.scalars())


async def live(connection: AsyncConnection) -> tuple[str, ...]:
    """Rounds that are neither released nor aborted."""
    found = await connection.execute(select(rounds.c.id).where(rounds.c.state.in_(LIVE)))
    return tuple(found.scalars())


async def purge(connection: AsyncConnection, before: datetime) -> int:
    """Forget finished rounds whose deadline lies before an instant."""
    old = select(rounds.c.key).where(rounds.c.state.not_in(LIVE), rounds.c.deadline < before)
    for table in (pieces, batches, contributions):
        await connection.execute(delete(table).where(table.c.round.in_(old)))
    done = await connection.execute(delete(rounds).where(rounds.c.key.in_(old)))
    return done.rowcount


async def destroy_pieces(connection: AsyncConnection, key: int) -> None:
    """Destroy all sealed words of a round; numbers, presence and tags stay."""
    await connection.execute(update(batches).where(batches.c.round == key).values(body=b""))
    await connection.execute(update(pieces).where(pieces.c.round == key).values(bodies=b""))
    await connection.execute(
        update(contributions).where(contributions.c.round == key).values(sealed=b"")
    )


def _round(row: Row[Any]) -> RoundRow:
    values = dict(row._mapping)
    return RoundRow(**{**values, "state": RoundState(values["state"])})


# --- contributions of noise ----------------------------------------------------------------------


async def add_contribution(connection: AsyncConnection, key: int, row: ContributionRow) -> None:
    """Keep an aggregator's sealed share of noise."""
    await connection.execute(
        insert(contributions).values(
            round=key,
            position=row.position,
            key_epoch=row.key_epoch,
            nonce=row.nonce,
            sealed=row.sealed,
        )
    )


async def held_contributions(connection: AsyncConnection, key: int) -> dict[int, ContributionRow]:
    """The shares of noise that a round holds, by the sender's place in the descriptor."""
    found = await connection.execute(
        select(contributions).where(contributions.c.round == key).order_by(contributions.c.position)
    )
    return {
        row.position: ContributionRow(row.position, row.key_epoch, row.nonce, row.sealed)
        for row in found
    }


# --- lone pieces ---------------------------------------------------------------------------------


async def add_pieces(
    connection: AsyncConnection, key: int, numbers: bytes, tags: bytes, bodies: bytes
) -> int:
    """Keep the lone pieces of one commit as one row."""
    done = await connection.execute(
        insert(pieces)
        .values(round=key, numbers=numbers, tags=tags, bodies=bodies)
        .returning(pieces.c.id)
    )
    return int(done.scalar_one())


async def piece_numbers(
    connection: AsyncConnection, key: int, after: int
) -> list[tuple[int, bytes]]:
    """(row, numbers) of a round's rows above a row id."""
    found = await connection.execute(
        select(pieces.c.id, pieces.c.numbers)
        .where(pieces.c.round == key, pieces.c.id > after)
        .order_by(pieces.c.id)
    )
    return [(int(row.id), row.numbers) for row in found]


async def piece_row(connection: AsyncConnection, row_id: int) -> PieceRow:
    """One row of lone pieces."""
    row = (await connection.execute(select(pieces).where(pieces.c.id == row_id))).one()
    return PieceRow(row.id, row.numbers, row.tags, row.bodies)


async def piece_rows(
    connection: AsyncConnection, key: int, after: int, limit: int
) -> list[PieceRow]:
    """The next rows of a round's lone pieces."""
    found = await connection.execute(
        select(pieces)
        .where(pieces.c.round == key, pieces.c.id > after)
        .order_by(pieces.c.id)
        .limit(limit)
    )
    return [PieceRow(row.id, row.numbers, row.tags, row.bodies) for row in found]


# --- batches -------------------------------------------------------------------------------------

_PLACE = (
    batches.c.id,
    batches.c.segment,
    batches.c.host,
    batches.c.part,
    batches.c.first,
    batches.c.tag,
    batches.c.presence,
)


async def add_batch(connection: AsyncConnection, key: int, row: BatchRow, body: bytes) -> None:
    """Keep a sealed batch as received (`row.id` is not looked at)."""
    await connection.execute(
        insert(batches).values(
            round=key,
            segment=row.segment,
            host=row.host,
            part=row.part,
            first=row.first,
            tag=row.tag,
            presence=row.presence,
            body=body,
        )
    )


async def batch_parts(
    connection: AsyncConnection, key: int, segment: int, host: int
) -> list[BatchRow]:
    """The parts of one host's segment, without their bodies."""
    found = await connection.execute(
        select(*_PLACE).where(
            batches.c.round == key, batches.c.segment == segment, batches.c.host == host
        )
    )
    return [BatchRow(*row) for row in found]


async def round_batches(connection: AsyncConnection, key: int) -> list[BatchRow]:
    """All batches of a round in order, without their bodies."""
    found = await connection.execute(
        select(*_PLACE).where(batches.c.round == key).order_by(batches.c.id)
    )
    return [BatchRow(*row) for row in found]


async def batch_body(connection: AsyncConnection, row_id: int) -> bytes:
    """The sealed bytes of a batch; empty once they are destroyed."""
    found = await connection.execute(select(batches.c.body).where(batches.c.id == row_id))
    return bytes(found.scalar_one())
