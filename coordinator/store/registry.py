"""Identity, aggregators, grants, parties and their roster numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, bindparam, func, insert, select, update

from common.store.transactions import Transaction
from coordinator.store.tables import aggregators, curators, parties, roster, secrets
from tacit.protocol.enrolment import RUN_ALIGNMENT, PartyKind
from tacit.protocol.identities import Pin

BLOCK: Final = 10_000
"""Curators written or read together: a host's million need not be in memory twice."""

_LAST_CHARACTER: Final = "\U0010ffff"

# Asked in every round: made once, and so compiled once.
_ALL: Final = select(aggregators).order_by(aggregators.c.id)
_PRESENT: Final = _ALL.where(aggregators.c.removed.is_(None))
_ROSTER: Final = select(roster)
_ACTIVE: Final = select(func.coalesce(func.sum(parties.c.curators), 0)).where(
    parties.c.first < bindparam("size"),
    parties.c.left.is_(None) | (parties.c.left > bindparam("since")),
)


@dataclass(frozen=True)
class AggregatorRow:
    id: str
    url: str
    operator: str
    identity_key: bytes
    token: str
    pin: Pin | None = None
    """What was followed of its identity; None as long as its key alone is known."""
    shown: str | None = None
    """The chain of its identities as it was shown last and accepted, in JSON."""


@dataclass(frozen=True)
class PartyRow:
    """A lone curator or a host; its curators have the numbers `first`, `first + 1`, ..."""

    id: str
    kind: PartyKind
    identity_key: bytes
    first: int
    curators: int
    enrolled: datetime
    left: datetime | None


# --- secrets -------------------------------------------------------------------------------------


async def secret(transaction: Transaction, name: str) -> bytes | None:
    found = await transaction.execute(select(secrets.c.value).where(secrets.c.name == name))
    value: bytes | None = found.scalar_one_or_none()
    return value


async def add_secret(transaction: Transaction, name: str, value: bytes) -> None:
    await transaction.execute(insert(secrets).values(name=name, value=value))


# --- aggregators ---------------------------------------------------------------------------------


async def put_aggregator(transaction: Transaction, row: AggregatorRow, now: datetime) -> None:
    """Add an aggregator, or renew the address and token of a known one."""
    values = {
        "url": row.url,
        "operator": row.operator,
        "identity_key": row.identity_key,
        "token": row.token,
        "pin": None if row.pin is None else row.pin.model_dump_json(),
        "shown": row.shown,
        "removed": None,
    }
    done = await transaction.execute(
        update(aggregators).where(aggregators.c.id == row.id).values(**values)
    )
    if done.rowcount == 0:
        await transaction.execute(insert(aggregators).values(id=row.id, added=now, **values))


async def remove_aggregator(transaction: Transaction, aggregator: str, now: datetime) -> bool:
    done = await transaction.execute(
        update(aggregators)
        .where(aggregators.c.id == aggregator, aggregators.c.removed.is_(None))
        .values(removed=now)
    )
    return done.rowcount == 1


async def aggregators_like(transaction: Transaction, row: AggregatorRow) -> list[AggregatorRow]:
    """Paired aggregators of the same id or the same identity."""
    found = await list_aggregators(transaction)
    return [item for item in found if item.id == row.id or item.identity_key == row.identity_key]


async def list_aggregators(
    transaction: Transaction, *, also_removed: bool = False
) -> tuple[AggregatorRow, ...]:
    query = _ALL if also_removed else _PRESENT
    return tuple(
        AggregatorRow(
            row.id,
            row.url,
            row.operator,
            row.identity_key,
            row.token,
            None if row.pin is None else Pin.model_validate_json(row.pin),
            row.shown,
        )
        for row in await transaction.execute(query)
    )


async def set_token(transaction: Transaction, aggregator: str, token: str) -> None:
    """Keep another token for an aggregator."""
    await transaction.execute(
        update(aggregators).where(aggregators.c.id == aggregator).values(token=token)
    )


async def set_pin(
    transaction: Transaction,
    aggregator: str,
    identity_key: bytes,
    pin: Pin,
    shown: str | None,
) -> None:
    """Keep what was followed of an aggregator's identity."""
    await transaction.execute(
        update(aggregators)
        .where(aggregators.c.id == aggregator)
        .values(identity_key=identity_key, pin=pin.model_dump_json(), shown=shown)
    )


# --- enrolment -----------------------------------------------------------------------------------


# Asked for every report of a party: made once, and so compiled once.
_PARTY = select(parties).where(parties.c.id == bindparam("party_id"))


async def party(transaction: Transaction, party_id: str) -> PartyRow | None:
    row = (await transaction.execute(_PARTY, {"party_id": party_id})).first()
    return None if row is None else _party(row)


def _party(row: Any) -> PartyRow:
    return PartyRow(
        row.id,
        PartyKind(row.kind),
        row.identity_key,
        row.first,
        row.curators,
        row.enrolled,
        row.left,
    )


async def curators_of(transaction: Transaction, party_id: str) -> tuple[str, ...]:
    """The curators of a party, by number."""
    found = await transaction.execute(
        select(curators.c.id).where(curators.c.party == party_id).order_by(curators.c.number)
    )
    return tuple(row.id for row in found)


async def are_curators_of(transaction: Transaction, party: PartyRow, ids: Sequence[str]) -> bool:
    """Whether these are the curators of a party, in the order of their numbers."""
    if len(ids) != party.curators:
        return False
    for start in range(0, len(ids), BLOCK):
        block, first = ids[start : start + BLOCK], party.first + start
        found = await transaction.execute(
            select(curators.c.id)
            .where(curators.c.number.between(first, first + len(block) - 1))
            .order_by(curators.c.number)
        )
        if list(found.scalars()) != list(block):
            return False
    return True


async def enrolled_ids(transaction: Transaction, ids: Sequence[str]) -> set[str]:
    """Which of these curator ids have a number, under any party."""
    found: set[str] = set()
    for start in range(0, len(ids), BLOCK):
        chunk = ids[start : start + BLOCK]
        rows = await transaction.execute(select(curators.c.id).where(curators.c.id.in_(chunk)))
        found.update(row.id for row in rows)
    return found


async def add_party(
    transaction: Transaction,
    party: str,
    kind: PartyKind,
    identity_key: bytes,
    ids: Sequence[str],
    now: datetime,
) -> tuple[int, int]:
    """Give a party its run of numbers; (first number, new roster version).

    Numbers are never reused; a host's run starts at a multiple of 64. Raises IntegrityError for a
    curator that has a number already, or is listed twice.
    """
    row = (await transaction.execute(select(roster).with_for_update())).one()
    first: int = row.next_number
    if kind is PartyKind.HOST:
        first = -(-first // RUN_ALIGNMENT) * RUN_ALIGNMENT
    version: int = row.version + 1
    await transaction.execute(update(roster).values(version=version, next_number=first + len(ids)))
    await transaction.execute(
        insert(parties).values(
            id=party,
            kind=kind.value,
            identity_key=identity_key,
            first=first,
            curators=len(ids),
            enrolled=now,
        )
    )
    for start in range(0, len(ids), BLOCK):
        numbered = enumerate(ids[start : start + BLOCK], first + start)
        rows = [{"number": number, "id": curator, "party": party} for number, curator in numbered]
        await transaction.execute(insert(curators), rows)
    return first, version


async def set_identity(
    transaction: Transaction, party: str, identity_key: bytes, *, enrolled: datetime | None = None
) -> None:
    """Give a party another identity; `enrolled`: of one that enrolled again."""
    values: dict[str, Any] = {"identity_key": identity_key}
    if enrolled is not None:
        values["enrolled"] = enrolled
    await transaction.execute(update(parties).where(parties.c.id == party).values(**values))


async def roster_state(transaction: Transaction) -> tuple[int, int]:
    """(version, next number): every number below the latter may be in use."""
    row = (await transaction.execute(_ROSTER)).one()
    return row.version, row.next_number


async def active_curators(transaction: Transaction, roster_size: int, since: datetime) -> int:
    """How many curators with a number below `roster_size` had not left at `since`."""
    total = await transaction.execute(_ACTIVE, {"size": roster_size, "since": since})
    return int(total.scalar_one())


async def host_runs(transaction: Transaction) -> list[tuple[int, int]]:
    """The first number of each host and how many curators it has, rising."""
    hosts = select(parties.c.first, parties.c.curators).where(
        parties.c.kind == PartyKind.HOST.value
    )
    found = await transaction.execute(hosts.order_by(parties.c.first))
    return [(row.first, row.curators) for row in found]


async def list_parties(
    transaction: Transaction, after: str | None, limit: int, prefix: str = ""
) -> list[PartyRow]:
    """Parties whose ids begin so, by id."""
    query = select(parties).where(*_begins(transaction, parties.c.id, prefix))
    if after is not None:
        query = query.where(parties.c.id > after)
    found = await transaction.execute(query.order_by(parties.c.id).limit(limit))
    return [_party(row) for row in found]


async def list_curators(
    transaction: Transaction, after: int | None, limit: int, prefix: str = ""
) -> list[dict[str, Any]]:
    """Curators whose ids begin so, by number."""
    query = select(curators).where(*_begins(transaction, curators.c.id, prefix))
    if after is not None:
        query = query.where(curators.c.number > after)
    rows = await transaction.execute(query.order_by(curators.c.number).limit(limit))
    return [{"number": row.number, "id": row.id, "party": row.party} for row in rows]


async def count_parties(transaction: Transaction, prefix: str = "") -> int:
    """How many parties have ids that begin so, those that left among them."""
    which = _begins(transaction, parties.c.id, prefix)
    return int(
        (await transaction.execute(select(func.count(parties.c.id)).where(*which))).scalar_one()
    )


async def count_curators(transaction: Transaction, prefix: str = "") -> int:
    """The same of curators."""
    if not prefix:  # each number is of one party for good
        chosen = select(func.coalesce(func.sum(parties.c.curators), 0))
    else:
        which = _begins(transaction, curators.c.id, prefix)
        chosen = select(func.count(curators.c.number)).where(*which)
    return int((await transaction.execute(chosen)).scalar_one())


def _begins(
    transaction: Transaction, column: Column[str], prefix: str
) -> tuple[ColumnElement[bool], ...]:
    """Whether a text begins so, letter by letter; SQLite finds it by its index, while the order of
    PostgreSQL's index is that of a language."""
    if not prefix:
        return ()
    if transaction.dialect.name == "sqlite":
        return column >= prefix, column < prefix + _LAST_CHARACTER
    return (column.startswith(prefix, autoescape=True),)


async def leave(transaction: Transaction, party: str, now: datetime) -> bool:
    done = await transaction.execute(
        update(parties).where(parties.c.id == party, parties.c.left.is_(None)).values(left=now)
    )
    return done.rowcount == 1


async def come_back(transaction: Transaction, party: str) -> bool:
    """A party that left is in again; whether it had left."""
    done = await transaction.execute(
        update(parties).where(parties.c.id == party, parties.c.left.is_not(None)).values(left=None)
    )
    return done.rowcount == 1
