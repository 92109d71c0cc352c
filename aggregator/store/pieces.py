"""Sealed pieces, kept as received.

A batch is one row, and the lone pieces of one commit are one row (`numbers`, `tags` and `bodies`
joined), because a row per curator makes every piece dirty a page of its own (spec: hot-path,
section 2). Presence, numbers and tags outlive the sealed words: after a round they still tell a
duplicate from a stranger. No opened word is ever stored here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import bindparam, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from aggregator.store.tables import batches, pieces

_PLACE = (
    batches.c.id,
    batches.c.segment,
    batches.c.host,
    batches.c.part,
    batches.c.first,
    batches.c.tag,
    batches.c.presence,
)
_CHUNK = 500
# Asked in every transaction: made once, and so compiled once.
_PARTS = select(*_PLACE).where(
    batches.c.round == bindparam("round_key"),
    batches.c.segment == bindparam("segment"),
    batches.c.host.in_(bindparam("hosts", expanding=True)),
)
_BODIES = select(batches.c.id, batches.c.body).where(
    batches.c.id.in_(bindparam("rows", expanding=True))
)


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


async def add_batches(
    connection: AsyncConnection, key: int, received: Sequence[tuple[BatchRow, bytes]]
) -> None:
    """Keep sealed batches as received (`BatchRow.id` is not looked at)."""
    rows = [
        {
            "round": key,
            "segment": row.segment,
            "host": row.host,
            "part": row.part,
            "first": row.first,
            "tag": row.tag,
            "presence": row.presence,
            "body": body,
        }
        for row, body in received
    ]
    await connection.execute(insert(batches), rows)


async def batch_parts(
    connection: AsyncConnection, key: int, segment: int, hosts: Sequence[int]
) -> list[BatchRow]:
    """The parts of some hosts in one segment, without their bodies."""
    found: list[BatchRow] = []
    for start in range(0, len(hosts), _CHUNK):
        wanted = {"round_key": key, "segment": segment, "hosts": hosts[start : start + _CHUNK]}
        found += [BatchRow(*row) for row in await connection.execute(_PARTS, wanted)]
    return found


async def round_batches(connection: AsyncConnection, key: int) -> list[BatchRow]:
    """All batches of a round in order, without their bodies."""
    found = await connection.execute(
        select(*_PLACE).where(batches.c.round == key).order_by(batches.c.id)
    )
    return [BatchRow(*row) for row in found]


async def batch_bodies(connection: AsyncConnection, row_ids: Sequence[int]) -> dict[int, bytes]:
    """The sealed bytes of batches, by row; empty once they are destroyed."""
    found: dict[int, bytes] = {}
    for start in range(0, len(row_ids), _CHUNK):
        wanted = {"rows": row_ids[start : start + _CHUNK]}
        found.update((row.id, row.body) for row in await connection.execute(_BODIES, wanted))
    return found
