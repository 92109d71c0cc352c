"""Groups of curators, as compressed bitmaps over roster numbers, and the curators behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Row, bindparam, insert, select

from common.store.transactions import Transaction
from coordinator.store.tables import curators, groups, parties

_CHUNK = 10_000
# Asked at every round: made once, and so compiled once.
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


async def add(transaction: Transaction, row: GroupRow) -> None:
    """Keep a new group."""
    values = {name: getattr(row, name) for name in GroupRow.__dataclass_fields__}
    await transaction.execute(insert(groups).values(**values))


async def find(transaction: Transaction, name: str) -> GroupRow | None:
    """A group by its name."""
    row = (await transaction.execute(_NAMED, {"name": name})).first()
    return None if row is None else _group(row)


async def page(transaction: Transaction, after: str | None, limit: int) -> list[GroupRow]:
    """Groups by name."""
    chosen = select(groups).order_by(groups.c.name).limit(limit)
    if after is not None:
        chosen = chosen.where(groups.c.name > after)
    return [_group(row) for row in await transaction.execute(chosen)]


async def numbers(transaction: Transaction, ids: Sequence[str]) -> dict[str, tuple[int, bool]]:
    """(roster number, whether its party is here) of those curators that ever enrolled."""
    found: dict[str, tuple[int, bool]] = {}
    for start in range(0, len(ids), _CHUNK):
        rows = await transaction.execute(
            select(curators.c.id, curators.c.number, parties.c.left)
            .join(parties, parties.c.id == curators.c.party)
            .where(curators.c.id.in_(ids[start : start + _CHUNK]))
        )
        found.update((row.id, (row.number, row.left is None)) for row in rows)
    return found


async def names(transaction: Transaction, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Curators by their numbers, rising."""
    found: list[dict[str, Any]] = []
    for start in range(0, len(numbers), _CHUNK):
        rows = await transaction.execute(
            select(curators.c.number, curators.c.id)
            .where(curators.c.number.in_(numbers[start : start + _CHUNK]))
            .order_by(curators.c.number)
        )
        found.extend({"number": row.number, "id": row.id} for row in rows)
    return found


async def staying(
    transaction: Transaction, members: NDArray[np.bool_], since: datetime
) -> NDArray[np.bool_]:
    """These members, one boolean per roster number, without those that had left at `since`."""
    rows = await transaction.execute(_LEFT, {"end": members.size, "since": since})
    left = members.copy()
    for row in rows:
        left[row.first : row.first + row.curators] = False
    return left
