"""The sums of the noise audit, packed per chunk of curators, and the looks that were taken."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from sqlalchemy import bindparam, func, insert, select, update

from aggregator.store import roster
from aggregator.store.tables import audit_chunks, audit_families, audit_looks, parties
from common.store.transactions import Transaction
from tacit.protocol.enrolment import PartyKind

_CHUNK = 500


@dataclass(frozen=True)
class FamilyRow:
    """Rounds in which curators draw the same noise. `scale`: exact, in ring units."""

    key: int
    part: str
    scale: Fraction
    rounds: int


@dataclass(frozen=True)
class LookRow:
    """A look at the audit: its number, its time, its alpha, and how much was screened before it."""

    number: int
    time: datetime
    alpha: str
    screened: int


@dataclass(frozen=True)
class Named:
    """The curator of a roster number, and its party."""

    curator: str
    party: str
    left: bool


# --- families and their sums ---------------------------------------------------------------------


async def families(transaction: Transaction) -> list[FamilyRow]:
    """All families, oldest first."""
    result = await transaction.execute(select(audit_families).order_by(audit_families.c.key))
    return [FamilyRow(row.key, row.part, Fraction(row.scale), row.rounds) for row in result]


async def screened(transaction: Transaction) -> int:
    """How many rounds all families have together."""
    result = await transaction.execute(select(func.coalesce(func.sum(audit_families.c.rounds), 0)))
    return int(result.scalar_one())


async def count_round(transaction: Transaction, part: str, scale: Fraction) -> int:
    """Count one more round of a family, which may be a new one; its key."""
    same = (audit_families.c.part == part) & (audit_families.c.scale == str(scale))
    done = await transaction.execute(
        update(audit_families)
        .where(same)
        .values(rounds=audit_families.c.rounds + 1)
        .returning(audit_families.c.key)
    )
    key = done.scalar_one_or_none()
    if key is None:
        done = await transaction.execute(
            insert(audit_families)
            .values(part=part, scale=str(scale), rounds=1)
            .returning(audit_families.c.key)
        )
        key = done.scalar_one()
    return int(key)


async def chunks(transaction: Transaction, family: int, numbers: Sequence[int]) -> dict[int, bytes]:
    """The records of some chunks of a family; a chunk without any record is omitted."""
    bodies: dict[int, bytes] = {}
    for start in range(0, len(numbers), _CHUNK):
        rows = await transaction.execute(
            select(audit_chunks.c.chunk, audit_chunks.c.records).where(
                audit_chunks.c.family == family,
                audit_chunks.c.chunk.in_(numbers[start : start + _CHUNK]),
            )
        )
        bodies.update((int(row.chunk), row.records) for row in rows)
    return bodies


async def chunk_numbers(transaction: Transaction, family: int) -> list[int]:
    """The chunks of a family that have records."""
    result = await transaction.execute(
        select(audit_chunks.c.chunk)
        .where(audit_chunks.c.family == family)
        .order_by(audit_chunks.c.chunk)
    )
    return [int(number) for number in result.scalars()]


async def put_chunks(
    transaction: Transaction, family: int, new: dict[int, bytes], stored: dict[int, bytes]
) -> None:
    """Write chunks: `new` ones, and `known` ones in place of what was there."""
    if new:
        await transaction.execute(
            insert(audit_chunks),
            [
                {"family": family, "chunk": chunk, "records": records}
                for chunk, records in new.items()
            ],
        )
    if stored:
        place = (audit_chunks.c.family == family) & (audit_chunks.c.chunk == bindparam("place"))
        await transaction.execute(
            update(audit_chunks).where(place).values(records=bindparam("packed")),
            [{"place": chunk, "packed": records} for chunk, records in stored.items()],
        )


# --- looks ---------------------------------------------------------------------------------------


async def last_look(transaction: Transaction) -> LookRow | None:
    """The newest look."""
    result = await transaction.execute(
        select(audit_looks).order_by(audit_looks.c.number.desc()).limit(1)
    )
    row = result.first()
    return None if row is None else LookRow(row.number, row.time, row.alpha, row.screened)


async def add_look(transaction: Transaction, look: LookRow) -> None:
    """Store a look; each number is used once."""
    await transaction.execute(
        insert(audit_looks).values(
            number=look.number, time=look.time, alpha=look.alpha, screened=look.screened
        )
    )


# --- whose a number is ---------------------------------------------------------------------------


async def named(transaction: Transaction, numbers: Sequence[int]) -> dict[int, Named]:
    """Curators by roster number, also those that left."""
    result: dict[int, Named] = {}
    lone = parties.c.kind == PartyKind.CURATOR.value
    for start in range(0, len(numbers), _CHUNK):
        rows = await transaction.execute(
            select(parties.c.first, parties.c.id, parties.c.left).where(
                lone, parties.c.first.in_(numbers[start : start + _CHUNK])
            )
        )
        result.update((int(row.first), Named(row.id, row.id, row.left is not None)) for row in rows)
    missing = sorted(set(numbers) - set(result))
    if missing:
        hosts = await transaction.execute(
            select(parties).where(~lone, parties.c.first <= missing[-1])
        )
        for host in hosts:
            missing_of_host = [item for item in missing if 0 <= item - host.first < host.curators]
            if missing_of_host:
                packed = await roster.hosted_ids(transaction, host.key)
                ids = zlib.decompress(packed).decode().split("\n")
                for item in missing_of_host:
                    result[item] = Named(ids[item - host.first], host.id, host.left is not None)
    return result
