"""Whose sums this aggregator helped to open: one row for each family of a round.

A row outlives its round, its pieces and their hashes, and has no reference to it: it protects for
as long as a later round over the same time may be opened, which is for ever.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from aggregator.store.tables import revealed_sets
from common import sets
from common.differencing import Release
from common.models.query import Window


async def add(
    connection: AsyncConnection,
    releases: Mapping[str, Release],
    window: Window,
    size: int,
) -> None:
    """Keep a round's set in each of its scopes; `size` is its roster's."""
    await connection.execute(
        insert(revealed_sets),
        [
            {
                "family": scope,
                "round": release.round,
                "window_start": window.start,
                "window_end": window.end,
                "minimum": release.minimum,
                "job": release.job,
                "size": size,
                "members": sets.compressed(release.members),
            }
            for scope, release in releases.items()
        ],
    )


async def forget(connection: AsyncConnection, round_id: str) -> None:
    """Drop the set of a round whose sum nobody can open any more."""
    await connection.execute(delete(revealed_sets).where(revealed_sets.c.round == round_id))


async def overlapping(
    connection: AsyncConnection, scope: str, window: Window, minimum: int
) -> list[Release]:
    """The sets of a scope over windows that meet this one, by round.

    None is read where neither they nor the new set (`minimum`) ask for protection.
    """
    meets = (
        revealed_sets.c.family == scope,
        revealed_sets.c.window_end > window.start,
        revealed_sets.c.window_start < window.end,
    )
    if minimum <= 1:
        largest = await connection.scalar(select(func.max(revealed_sets.c.minimum)).where(*meets))
        if largest is None or largest <= 1:
            return []
    found = await connection.execute(
        select(revealed_sets)
        .where(
            *meets,
        )
        .order_by(revealed_sets.c.round)
    )
    return [
        Release(row.round, sets.decompressed(row.members, row.size), row.minimum, row.job)
        for row in found
    ]
