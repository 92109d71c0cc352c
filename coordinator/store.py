"""All SQL of the coordinator. It stores no share and no reading: there is no table for one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    and_,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from common.models.enrolment import RUN_ALIGNMENT, PartyKind
from common.models.query import Query
from common.models.round import RoundState
from common.service.columns import Instant
from common.service.idempotency import idempotency_table
from common.service.tokens import token_table

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)
tokens = token_table(metadata)
idempotency_keys = idempotency_table(metadata)

secrets = Table(
    "secret",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", LargeBinary, nullable=False),
)
roster = Table(
    "roster",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("version", Integer, nullable=False),
    Column("next_number", BigInteger, nullable=False),
)
parties = Table(
    "party",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("identity_key", LargeBinary, nullable=False),
    Column("first", BigInteger, nullable=False),
    Column("curators", Integer, nullable=False),
    Column("enrolled", Instant, nullable=False),
    Column("left", Instant, nullable=True),
)
curators = Table(
    "curator",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("id", String(128), nullable=False, unique=True),
    Column("party", String(128), ForeignKey("party.id"), nullable=False, index=True),
)
grants = Table(
    "join_grant",
    metadata,
    Column("secret_hash", String(64), primary_key=True),
    Column("party", String(128), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("max_curators", Integer, nullable=False),
    Column("expires", Instant, nullable=False),
    Column("used", Instant, nullable=True),
)
aggregators = Table(
    "aggregator",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("url", String(500), nullable=False),
    Column("operator", String(128), nullable=False),
    Column("identity_key", LargeBinary, nullable=False),
    Column("token", String(512), nullable=False),
    Column("added", Instant, nullable=False),
    Column("removed", Instant, nullable=True),
)
queries = Table(
    "query",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("hash", LargeBinary, nullable=False, unique=True),
    Column("body", Text, nullable=False),
    Column("preview", Text, nullable=False),
    Column("scheduled", Boolean, nullable=False),
    Column("created", Instant, nullable=False),
)
rounds = Table(
    "round",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("query_id", String(36), ForeignKey("query.id"), nullable=False, index=True),
    Column("state", String(16), nullable=False),
    Column("announced", Boolean, nullable=False),
    Column("closing", Boolean, nullable=False),
    Column("version", Integer, nullable=False),
    Column("opened", Instant, nullable=False),
    Column("deadline", Instant, nullable=False),
    Column("slot", Integer, nullable=True),
    Column("descriptor", Text, nullable=False),
    Column("accepted", Text, nullable=True),
    Column("manifest", Text, nullable=True),
    Column("commitments", Text, nullable=True),
    Column("aborts", Text, nullable=True),
    Column("reason", String(256), nullable=True),
    Column("participants", Integer, nullable=True),
    Column("result", Text, nullable=True),
    Column("report", Text, nullable=True),
    Column("transcript", Text, nullable=True),
    Column("finished", Instant, nullable=True),
    Column("lease_holder", String(64), nullable=True),
    Column("lease_until", Instant, nullable=True),
    UniqueConstraint("query_id", "slot", name="uq_round_query_slot"),
    Index("ix_round_state", "state"),
)

ACTIVE = (RoundState.OPEN.value, RoundState.FROZEN.value, RoundState.COMMITTED.value)


@dataclass(frozen=True)
class AggregatorRow:
    id: str
    url: str
    operator: str
    identity_key: bytes
    token: str


@dataclass(frozen=True)
class GrantRow:
    party: str
    kind: PartyKind
    max_curators: int
    expires: datetime
    used: datetime | None


@dataclass(frozen=True)
class QueryRow:
    id: str
    query: Query
    preview: str
    created: datetime


@dataclass(frozen=True)
class RoundRow:
    """A round as stored; texts are the canonical JSON of the models of `common.models.round`."""

    id: str
    query_id: str
    state: RoundState
    announced: bool
    closing: bool
    version: int
    opened: datetime
    deadline: datetime
    slot: int | None
    descriptor: str
    accepted: str | None
    manifest: str | None
    commitments: str | None
    aborts: str | None
    reason: str | None
    participants: int | None
    result: str | None
    report: str | None
    transcript: str | None
    finished: datetime | None
    lease_holder: str | None
    lease_until: datetime | None


# --- secrets -------------------------------------------------------------------------------------


async def secret(connection: AsyncConnection, name: str) -> bytes | None:
    found = await connection.execute(select(secrets.c.value).where(secrets.c.name == name))
    value: bytes | None = found.scalar_one_or_none()
    return value


async def add_secret(connection: AsyncConnection, name: str, value: bytes) -> None:
    await connection.execute(insert(secrets).values(name=name, value=value))


# --- aggregators ---------------------------------------------------------------------------------


async def put_aggregator(connection: AsyncConnection, row: AggregatorRow, now: datetime) -> None:
    """Add an aggregator, or renew the address and token of one with the same identity."""
    values = {
        "url": row.url,
        "operator": row.operator,
        "identity_key": row.identity_key,
        "token": row.token,
        "removed": None,
    }
    done = await connection.execute(
        update(aggregators).where(aggregators.c.id == row.id).values(**values)
    )
    if done.rowcount == 0:
        await connection.execute(insert(aggregators).values(id=row.id, added=now, **values))


async def remove_aggregator(connection: AsyncConnection, aggregator: str, now: datetime) -> bool:
    done = await connection.execute(
        update(aggregators)
        .where(aggregators.c.id == aggregator, aggregators.c.removed.is_(None))
        .values(removed=now)
    )
    return done.rowcount == 1


async def list_aggregators(
    connection: AsyncConnection, *, also_removed: bool = False
) -> tuple[AggregatorRow, ...]:
    query = select(aggregators).order_by(aggregators.c.id)
    if not also_removed:
        query = query.where(aggregators.c.removed.is_(None))
    return tuple(
        AggregatorRow(row.id, row.url, row.operator, row.identity_key, row.token)
        for row in await connection.execute(query)
    )


# --- enrolment -----------------------------------------------------------------------------------


async def add_grant(
    connection: AsyncConnection,
    secret_hash: str,
    party: str,
    kind: PartyKind,
    max_curators: int,
    expires: datetime,
) -> None:
    await connection.execute(
        insert(grants).values(
            secret_hash=secret_hash,
            party=party,
            kind=kind.value,
            max_curators=max_curators,
            expires=expires,
        )
    )


async def grant(connection: AsyncConnection, secret_hash: str) -> GrantRow | None:
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


async def party_exists(connection: AsyncConnection, party: str) -> bool:
    found = await connection.execute(select(parties.c.id).where(parties.c.id == party))
    return found.first() is not None


async def enrolled_ids(connection: AsyncConnection, ids: Sequence[str]) -> set[str]:
    """Which of these curator ids have a number, whoever speaks for them."""
    found: set[str] = set()
    for start in range(0, len(ids), 10_000):
        chunk = ids[start : start + 10_000]
        rows = await connection.execute(select(curators.c.id).where(curators.c.id.in_(chunk)))
        found.update(row.id for row in rows)
    return found


async def add_party(
    connection: AsyncConnection,
    party: str,
    kind: PartyKind,
    identity_key: bytes,
    ids: Sequence[str],
    now: datetime,
) -> tuple[int, int]:
    """Give a party its run of numbers; (first number, new roster version).

    Numbers are never reused; a host's run starts at a multiple of 64.
    """
    row = (await connection.execute(select(roster).with_for_update())).one()
    first: int = row.next_number
    if kind is PartyKind.HOST:
        first = -(-first // RUN_ALIGNMENT) * RUN_ALIGNMENT
    version: int = row.version + 1
    await connection.execute(update(roster).values(version=version, next_number=first + len(ids)))
    await connection.execute(
        insert(parties).values(
            id=party,
            kind=kind.value,
            identity_key=identity_key,
            first=first,
            curators=len(ids),
            enrolled=now,
        )
    )
    rows = [
        {"number": first + offset, "id": curator, "party": party}
        for offset, curator in enumerate(ids)
    ]
    await connection.execute(insert(curators), rows)
    return first, version


async def roster_state(connection: AsyncConnection) -> tuple[int, int]:
    """(version, next number): every number below the latter may be in use."""
    row = (await connection.execute(select(roster))).one()
    return row.version, row.next_number


async def active_curators(connection: AsyncConnection) -> int:
    """How many curators are enrolled and have not left."""
    total = await connection.execute(
        select(func.coalesce(func.sum(parties.c.curators), 0)).where(parties.c.left.is_(None))
    )
    return int(total.scalar_one())


async def list_parties(
    connection: AsyncConnection, after: str | None, limit: int
) -> list[dict[str, Any]]:
    query = select(parties).order_by(parties.c.id).limit(limit)
    if after is not None:
        query = query.where(parties.c.id > after)
    rows = await connection.execute(query)
    return [
        {
            "id": row.id,
            "kind": row.kind,
            "first": row.first,
            "curators": row.curators,
            "enrolled": row.enrolled,
            "left": row.left,
        }
        for row in rows
    ]


async def list_curators(
    connection: AsyncConnection, after: int | None, limit: int
) -> list[dict[str, Any]]:
    query = select(curators).order_by(curators.c.number).limit(limit)
    if after is not None:
        query = query.where(curators.c.number > after)
    rows = await connection.execute(query)
    return [{"number": row.number, "id": row.id, "party": row.party} for row in rows]


async def leave(connection: AsyncConnection, party: str, now: datetime) -> bool:
    done = await connection.execute(
        update(parties).where(parties.c.id == party, parties.c.left.is_(None)).values(left=now)
    )
    return done.rowcount == 1


# --- queries -------------------------------------------------------------------------------------


async def add_query(
    connection: AsyncConnection, query_id: str, query: Query, preview: str, now: datetime
) -> None:
    await connection.execute(
        insert(queries).values(
            id=query_id,
            hash=query.digest(),
            body=query.canonical().decode(),
            preview=preview,
            scheduled=query.schedule is not None,
            created=now,
        )
    )


def _query(row: Any) -> QueryRow:
    return QueryRow(row.id, Query.model_validate_json(row.body), row.preview, row.created)


async def query(connection: AsyncConnection, query_id: str) -> QueryRow | None:
    row = (await connection.execute(select(queries).where(queries.c.id == query_id))).first()
    return None if row is None else _query(row)


async def query_by_hash(connection: AsyncConnection, digest: bytes) -> QueryRow | None:
    row = (await connection.execute(select(queries).where(queries.c.hash == digest))).first()
    return None if row is None else _query(row)


async def list_queries(
    connection: AsyncConnection, after: str | None, limit: int
) -> tuple[QueryRow, ...]:
    chosen = select(queries).order_by(queries.c.id).limit(limit)
    if after is not None:
        chosen = chosen.where(queries.c.id > after)
    return tuple(_query(row) for row in await connection.execute(chosen))


async def scheduled_queries(connection: AsyncConnection) -> tuple[QueryRow, ...]:
    rows = await connection.execute(select(queries).where(queries.c.scheduled.is_(True)))
    return tuple(_query(row) for row in rows)


# --- rounds --------------------------------------------------------------------------------------


async def add_round(
    connection: AsyncConnection,
    round_id: str,
    query_id: str,
    opened: datetime,
    deadline: datetime,
    descriptor: str,
    slot: int | None,
) -> None:
    await connection.execute(
        insert(rounds).values(
            id=round_id,
            query_id=query_id,
            state=RoundState.OPEN.value,
            announced=False,
            closing=False,
            version=1,
            opened=opened,
            deadline=deadline,
            slot=slot,
            descriptor=descriptor,
        )
    )


def _round(row: Any) -> RoundRow:
    values = dict(row._mapping)
    values["state"] = RoundState(values["state"])
    return RoundRow(**values)


async def round_row(connection: AsyncConnection, round_id: str) -> RoundRow | None:
    row = (await connection.execute(select(rounds).where(rounds.c.id == round_id))).first()
    return None if row is None else _round(row)


async def list_rounds(
    connection: AsyncConnection,
    *,
    state: RoundState | None = None,
    query_id: str | None = None,
    announced: bool = False,
    after: str | None = None,
    limit: int = 100,
) -> tuple[RoundRow, ...]:
    chosen = select(rounds).order_by(rounds.c.id).limit(limit)
    if state is not None:
        chosen = chosen.where(rounds.c.state == state.value)
    if query_id is not None:
        chosen = chosen.where(rounds.c.query_id == query_id)
    if announced:
        chosen = chosen.where(rounds.c.announced.is_(True))
    if after is not None:
        chosen = chosen.where(rounds.c.id > after)
    return tuple(_round(row) for row in await connection.execute(chosen))


async def newest_slot(connection: AsyncConnection, query_id: str) -> int | None:
    found = await connection.execute(
        select(func.max(rounds.c.slot)).where(rounds.c.query_id == query_id)
    )
    slot: int | None = found.scalar_one_or_none()
    return slot


async def change_round(
    connection: AsyncConnection, round_id: str, expected: RoundState, **values: Any
) -> bool:
    """Change a round that is in the expected state; whether it was."""
    if isinstance(values.get("state"), RoundState):
        values["state"] = values["state"].value
    done = await connection.execute(
        update(rounds)
        .where(rounds.c.id == round_id, rounds.c.state == expected.value)
        .values(version=rounds.c.version + 1, **values)
    )
    return done.rowcount == 1


async def claim_rounds(
    connection: AsyncConnection, holder: str, now: datetime, until: datetime
) -> tuple[str, ...]:
    """Take the lease of every unfinished round that nobody else holds; their ids."""
    free = and_(
        rounds.c.state.in_(ACTIVE),
        or_(
            rounds.c.lease_until.is_(None),
            rounds.c.lease_until < now,
            rounds.c.lease_holder == holder,
        ),
    )
    found = await connection.execute(select(rounds.c.id).where(free).with_for_update())
    ids = tuple(row.id for row in found)
    if ids:
        await connection.execute(
            update(rounds)
            .where(rounds.c.id.in_(ids))
            .values(lease_holder=holder, lease_until=until)
        )
    return ids


async def release_lease(connection: AsyncConnection, holder: str, now: datetime) -> None:
    await connection.execute(
        update(rounds).where(rounds.c.lease_holder == holder).values(lease_until=now)
    )
