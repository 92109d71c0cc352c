"""Identity, aggregators and their seal keys, grants, parties and their roster numbers, groups.

Groups are compressed bitmaps over roster numbers. Seal keys are those that rounds name, by hash.

Also the state of the storage key: which generation seals, and how far a rotation has come. Proofs
and kept content keys lie among the secrets, each sealed with a storage key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Column, ColumnElement, Row, bindparam, delete, func, insert, select, update

from common.store.transactions import Transaction
from coordinator.store.tables import (
    aggregators,
    curators,
    groups,
    parties,
    roster,
    seal_keys,
    secrets,
    storage_keys,
)
from tacit.answers.registry import GroupCurator, RosterEntry
from tacit.protocol.enrolment import RUN_ALIGNMENT, PartyKind
from tacit.protocol.identities import Pin

BLOCK: Final = 10_000
"""Curators written or read together: a host's million need not be in memory twice."""

_LAST_CHARACTER: Final = "\U0010ffff"

# Built once, so that it is compiled once.
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
    result = await transaction.execute(select(secrets.c.value).where(secrets.c.name == name))
    value: bytes | None = result.scalar_one_or_none()
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
    rows = await list_aggregators(transaction)
    return [item for item in rows if item.id == row.id or item.identity_key == row.identity_key]


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


# Built once, so that it is compiled once.
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
    rows = await transaction.execute(
        select(curators.c.id).where(curators.c.party == party_id).order_by(curators.c.number)
    )
    return tuple(row.id for row in rows)


async def are_curators_of(transaction: Transaction, party: PartyRow, ids: Sequence[str]) -> bool:
    """Whether these are the curators of a party, in the order of their numbers."""
    if len(ids) != party.curators:
        return False
    for start in range(0, len(ids), BLOCK):
        block, first = ids[start : start + BLOCK], party.first + start
        result = await transaction.execute(
            select(curators.c.id)
            .where(curators.c.number.between(first, first + len(block) - 1))
            .order_by(curators.c.number)
        )
        if list(result.scalars()) != list(block):
            return False
    return True


async def enrolled_ids(transaction: Transaction, ids: Sequence[str]) -> set[str]:
    """Which of these curator ids have a number, under any party."""
    ids_found: set[str] = set()
    for start in range(0, len(ids), BLOCK):
        chunk = ids[start : start + BLOCK]
        rows = await transaction.execute(select(curators.c.id).where(curators.c.id.in_(chunk)))
        ids_found.update(row.id for row in rows)
    return ids_found


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
    rows = await transaction.execute(hosts.order_by(parties.c.first))
    return [(row.first, row.curators) for row in rows]


async def list_parties(
    transaction: Transaction, after: str | None, limit: int, prefix: str = ""
) -> list[PartyRow]:
    """Parties whose ids begin so, by id."""
    query = select(parties).where(*_begins(transaction, parties.c.id, prefix))
    if after is not None:
        query = query.where(parties.c.id > after)
    rows = await transaction.execute(query.order_by(parties.c.id).limit(limit))
    return [_party(row) for row in rows]


async def list_curators(
    transaction: Transaction, after: int | None, limit: int, prefix: str = ""
) -> list[RosterEntry]:
    """Curators whose ids begin so, by number."""
    query = select(curators).where(*_begins(transaction, curators.c.id, prefix))
    if after is not None:
        query = query.where(curators.c.number > after)
    rows = await transaction.execute(query.order_by(curators.c.number).limit(limit))
    return [RosterEntry(number=row.number, id=row.id, party=row.party) for row in rows]


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
    """Whether a text begins with this one, letter by letter. SQLite uses its index; the order of
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


# Groups of curators, as compressed bitmaps over roster numbers, and the curators behind them.

_CHUNK = 10_000
# Built once, so that it is compiled once.
_NAMED = select(groups).where(groups.c.name == bindparam("name"))
_LEFT = select(parties.c.first, parties.c.curators).where(
    parties.c.first < bindparam("end"), parties.c.left <= bindparam("since")
)


@dataclass(frozen=True)
class GroupRow:
    """A group. `members` is compressed, over `size` roster numbers; `curators` counts them."""

    name: str
    parent: str | None
    size: int
    curators: int
    members: bytes
    created: datetime


def _group(row: Row[Any]) -> GroupRow:
    return GroupRow(**row._mapping)


async def add_group(transaction: Transaction, row: GroupRow) -> None:
    """Keep a new group."""
    values = {name: getattr(row, name) for name in GroupRow.__dataclass_fields__}
    await transaction.execute(insert(groups).values(**values))


async def find_group(transaction: Transaction, name: str) -> GroupRow | None:
    """A group by its name."""
    row = (await transaction.execute(_NAMED, {"name": name})).first()
    return None if row is None else _group(row)


async def page_of_groups(transaction: Transaction, after: str | None, limit: int) -> list[GroupRow]:
    """Groups by name."""
    chosen = select(groups).order_by(groups.c.name).limit(limit)
    if after is not None:
        chosen = chosen.where(groups.c.name > after)
    return [_group(row) for row in await transaction.execute(chosen)]


async def curator_numbers(
    transaction: Transaction, ids: Sequence[str]
) -> dict[str, tuple[int, bool]]:
    """(roster number, whether its party is here) of those curators that ever enrolled."""
    number_of: dict[str, tuple[int, bool]] = {}
    for start in range(0, len(ids), _CHUNK):
        rows = await transaction.execute(
            select(curators.c.id, curators.c.number, parties.c.left)
            .join(parties, parties.c.id == curators.c.party)
            .where(curators.c.id.in_(ids[start : start + _CHUNK]))
        )
        number_of.update((row.id, (row.number, row.left is None)) for row in rows)
    return number_of


async def curators_by_number(
    transaction: Transaction, numbers: Sequence[int]
) -> list[GroupCurator]:
    """Curators by their numbers, rising."""
    members_found: list[GroupCurator] = []
    for start in range(0, len(numbers), _CHUNK):
        rows = await transaction.execute(
            select(curators.c.number, curators.c.id)
            .where(curators.c.number.in_(numbers[start : start + _CHUNK]))
            .order_by(curators.c.number)
        )
        members_found.extend(GroupCurator(number=row.number, id=row.id) for row in rows)
    return members_found


async def members_present(
    transaction: Transaction, members: NDArray[np.bool_], since: datetime
) -> NDArray[np.bool_]:
    """These members, one boolean per roster number, without those that had left at `since`."""
    rows = await transaction.execute(_LEFT, {"end": members.size, "since": since})
    present = members.copy()
    for row in rows:
        present[row.first : row.first + row.curators] = False
    return present


# The seal keys that rounds name, by hash.


@dataclass(frozen=True)
class SealKeyRow:
    """`content`: the key's bytes once they were asked for."""

    aggregator: str
    content: bytes | None


# Built once, so that it is compiled once.
_KEEP = (
    update(seal_keys)
    .where(seal_keys.c.hash == bindparam("of_hash"), seal_keys.c.kept_until < bindparam("until"))
    .values(kept_until=bindparam("until"))
)
_FORGET = delete(seal_keys).where(seal_keys.c.kept_until < bindparam("before"))
_SEAL_KEY = select(seal_keys.c.aggregator, seal_keys.c.content).where(
    seal_keys.c.hash == bindparam("of_hash")
)


async def expect_seal_keys(
    transaction: Transaction, keys: Iterable[tuple[bytes, str]], until: datetime
) -> None:
    """Store hashes of seal keys and their aggregators, for which curators may ask until then.
    The caller holds the ledger's lock, so no other transaction adds the same."""
    for key_hash, aggregator in keys:
        done = await transaction.execute(_KEEP, {"of_hash": key_hash, "until": until})
        if done.rowcount or await seal_key(transaction, key_hash) is not None:
            continue
        await transaction.execute(
            insert(seal_keys).values(hash=key_hash, aggregator=aggregator, kept_until=until)
        )


async def forget_seal_keys(transaction: Transaction, before: datetime) -> None:
    """Those of rounds that are over."""
    await transaction.execute(_FORGET, {"before": before})


async def seal_key(transaction: Transaction, key_hash: bytes) -> SealKeyRow | None:
    """A seal key that a round names."""
    row = (await transaction.execute(_SEAL_KEY, {"of_hash": key_hash})).first()
    return None if row is None else SealKeyRow(row.aggregator, row.content)


async def keep_seal_key(transaction: Transaction, key_hash: bytes, content: bytes) -> None:
    """Keep a key that was compared with its hash."""
    await transaction.execute(
        update(seal_keys).where(seal_keys.c.hash == key_hash).values(content=content)
    )


_PROOF = "storage_key_proof"
_CONTENT_KEY = "content_key_"
_ONE = 1


class Rotation(StrEnum):
    """`sealing`: what an older key encrypted is encrypted again; `cleaning`: nothing older is
    accepted any more, and the older key is deleted."""

    IDLE = "idle"
    SEALING = "sealing"
    CLEANING = "cleaning"


@dataclass(frozen=True)
class StorageKeyRow:
    """`generation`: of the key that seals."""

    generation: int
    state: Rotation


_STATE = select(storage_keys)


async def state(transaction: Transaction) -> StorageKeyRow:
    """The state."""
    return _row((await transaction.execute(_STATE)).one())


async def held_state(transaction: Transaction) -> StorageKeyRow:
    """The state, which stays as it is until the transaction ends."""
    return _row((await transaction.execute(_STATE.with_for_update(read=True))).one())


def _row(row: Row[Any]) -> StorageKeyRow:
    return StorageKeyRow(row.generation, Rotation(row.state))


async def change(transaction: Transaction, row: StorageKeyRow) -> None:
    """The new state."""
    await transaction.execute(
        update(storage_keys).values(generation=row.generation, state=row.state.value)
    )


async def proofs(transaction: Transaction) -> dict[int, bytes]:
    """What each generation's key sealed when it began, by generation."""
    rows = await transaction.execute(select(secrets).where(secrets.c.name.startswith(_PROOF)))
    return {int(row.name.removeprefix(_PROOF) or _ONE): row.value for row in rows}


async def add_proof(transaction: Transaction, generation: int, value: bytes) -> None:
    """Keep one."""
    name = _PROOF if generation == _ONE else f"{_PROOF}{generation}"
    await transaction.execute(insert(secrets).values(name=name, value=value))


async def remove_proofs_before(transaction: Transaction, generation: int) -> None:
    """Forget those of older generations."""
    for older in await proofs(transaction):
        if older < generation:
            name = _PROOF if older == _ONE else f"{_PROOF}{older}"
            await transaction.execute(delete(secrets).where(secrets.c.name == name))


async def content_keys(transaction: Transaction) -> dict[int, bytes]:
    """The sealed content keys of older generations, by generation."""
    rows = await transaction.execute(select(secrets).where(secrets.c.name.startswith(_CONTENT_KEY)))
    return {int(row.name.removeprefix(_CONTENT_KEY)): row.value for row in rows}


async def put_content_key(transaction: Transaction, generation: int, value: bytes) -> None:
    """Keep one, in place of what was kept of that generation."""
    name = f"{_CONTENT_KEY}{generation}"
    await transaction.execute(delete(secrets).where(secrets.c.name == name))
    await transaction.execute(insert(secrets).values(name=name, value=value))
