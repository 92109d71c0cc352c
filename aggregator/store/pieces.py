"""Sealed pieces, kept as received, and the counts of uploads by hour, form and outcome.

A batch is one row, and the lone pieces of one commit are one row (`numbers`, `tags` and `bodies`
joined), because with a row per curator every piece writes a separate page. No count names a curator
or a round.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from sqlalchemy import bindparam, delete, insert, select, update

from aggregator.store.tables import batches, pieces, uploads
from common.store.database import exclusive
from common.store.transactions import Transaction

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
    batches.c.segment.in_(bindparam("segments", expanding=True)),
    batches.c.host.in_(bindparam("hosts", expanding=True)),
)
_ADD = insert(pieces).returning(pieces.c.id)
_ADD_BATCHES = insert(batches)
_OF_ROUND = select(*_PLACE).where(batches.c.round == bindparam("round_key")).order_by(batches.c.id)
_NUMBERS = (
    select(pieces.c.id, pieces.c.numbers)
    .where(pieces.c.round == bindparam("round_key"), pieces.c.id > bindparam("after"))
    .order_by(pieces.c.id)
)
_BY_ID = (
    select(pieces).where(pieces.c.id.in_(bindparam("rows", expanding=True))).order_by(pieces.c.id)
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
    transaction: Transaction, key: int, numbers: bytes, tags: bytes, bodies: bytes
) -> int:
    """Keep the lone pieces of one commit as one row."""
    values = {"round": key, "numbers": numbers, "tags": tags, "bodies": bodies}
    return int((await transaction.execute(_ADD, values)).scalar_one())


async def piece_numbers(transaction: Transaction, key: int, after: int) -> list[tuple[int, bytes]]:
    """(row, numbers) of a round's rows above a row id."""
    result = await transaction.execute(_NUMBERS, {"round_key": key, "after": after})
    return [(int(row.id), row.numbers) for row in result]


async def piece_row(transaction: Transaction, row_id: int) -> PieceRow:
    """One row of lone pieces."""
    row = (await transaction.execute(select(pieces).where(pieces.c.id == row_id))).one()
    return PieceRow(row.id, row.numbers, row.tags, row.bodies)


async def rows_by_id(transaction: Transaction, row_ids: Sequence[int]) -> list[PieceRow]:
    """These rows of lone pieces, in the order of their ids."""
    piece_rows: list[PieceRow] = []
    for start in range(0, len(row_ids), _CHUNK):
        parameters = {"rows": row_ids[start : start + _CHUNK]}
        rows = await transaction.execute(_BY_ID, parameters)
        piece_rows += [PieceRow(row.id, row.numbers, row.tags, row.bodies) for row in rows]
    return piece_rows


# --- batches -------------------------------------------------------------------------------------


async def add_batches(
    transaction: Transaction, key: int, received: Sequence[tuple[BatchRow, bytes]]
) -> None:
    """Store sealed batches as received (`BatchRow.id` is ignored)."""
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
    await transaction.execute(_ADD_BATCHES, rows)


async def batch_parts(
    transaction: Transaction, key: int, segments: Sequence[int], hosts: Sequence[int]
) -> list[BatchRow]:
    """The parts of some hosts in some segments, without their bodies."""
    parts: list[BatchRow] = []
    for first in range(0, len(segments), _CHUNK):
        for start in range(0, len(hosts), _CHUNK):
            parameters = {
                "round_key": key,
                "segments": segments[first : first + _CHUNK],
                "hosts": hosts[start : start + _CHUNK],
            }
            parts += [BatchRow(*row) for row in await transaction.execute(_PARTS, parameters)]
    return parts


async def round_batches(transaction: Transaction, key: int) -> list[BatchRow]:
    """All batches of a round in order, without their bodies."""
    result = await transaction.execute(_OF_ROUND, {"round_key": key})
    return [BatchRow(*row) for row in result]


async def batch_bodies(transaction: Transaction, row_ids: Sequence[int]) -> dict[int, bytes]:
    """The sealed bytes of batches, by row; empty once they are destroyed."""
    bodies: dict[int, bytes] = {}
    for start in range(0, len(row_ids), _CHUNK):
        parameters = {"rows": row_ids[start : start + _CHUNK]}
        bodies.update((row.id, row.body) for row in await transaction.execute(_BODIES, parameters))
    return bodies


# Uploads counted by hour, form and outcome; no row identifies a curator or a round.

UploadKey: TypeAlias = tuple[datetime, str, str]
"""(hour, form, outcome)."""
_LOCK = "aggregator uploads"
_ADD_UPLOADS = (
    update(uploads)
    .where(
        uploads.c.hour == bindparam("at"),
        uploads.c.form == bindparam("of"),
        uploads.c.outcome == bindparam("came"),
    )
    .values(count=uploads.c.count + bindparam("more"))
)


async def add_uploads(transaction: Transaction, counts: Mapping[UploadKey, int]) -> None:
    """Add to the counts that are kept."""
    await exclusive(transaction, _LOCK)
    for (hour, form, outcome), count in counts.items():
        done = await transaction.execute(
            _ADD_UPLOADS, {"at": hour, "of": form, "came": outcome, "more": count}
        )
        if done.rowcount == 0:
            await transaction.execute(
                insert(uploads).values(hour=hour, form=form, outcome=outcome, count=count)
            )


async def uploads_between(
    transaction: Transaction, start: datetime, end: datetime
) -> dict[tuple[datetime, str], Counter[str]]:
    """The outcomes of each hour and form from `start` to before `end`, in order."""
    counts: defaultdict[tuple[datetime, str], Counter[str]] = defaultdict(Counter)
    rows = await transaction.execute(
        select(uploads)
        .where(uploads.c.hour >= start, uploads.c.hour < end)
        .order_by(uploads.c.hour, uploads.c.form)
    )
    for hour, form, outcome, count in rows:
        counts[hour, form][outcome] = count
    return counts


async def forget_uploads(transaction: Transaction, before: datetime) -> None:
    """Drop the hours before an instant."""
    await transaction.execute(delete(uploads).where(uploads.c.hour < before))
