"""Whose sum a round opens: the member sets of frozen rounds, one row for each of their scopes."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import func, insert, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from common import sets
from common.differencing import Release
from common.models.query import Window
from common.models.round import RoundState
from coordinator.store.tables import frozen_sets, rounds


async def add(
    connection: AsyncConnection,
    releases: Mapping[str, Release],
    window: Window,
    size: int,
) -> None:
    """Keep a round's set in each of its scopes; `size` is its roster's."""
    await connection.execute(
        insert(frozen_sets),
        [
            {
                "family": scope,
                "round_id": release.round,
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


async def overlapping(
    connection: AsyncConnection, scope: str, window: Window, minimum: int
) -> list[Release]:
    """The sets of a scope over windows that meet this one, by round.

    Those of rounds that ended before any aggregator was asked to reveal are left out: their sums
    were never opened.

    None is read where neither they nor the new set (`minimum`) ask for protection.
    """
    meets = (
        frozen_sets.c.family == scope,
        frozen_sets.c.window_end > window.start,
        frozen_sets.c.window_start < window.end,
    )
    if minimum <= 1:
        largest = await connection.scalar(select(func.max(frozen_sets.c.minimum)).where(*meets))
        if largest is None or largest <= 1:
            return []
    found = await connection.execute(
        select(frozen_sets)
        .join(rounds, rounds.c.id == frozen_sets.c.round_id)
        .where(
            *meets,
            or_(
                rounds.c.state != RoundState.ABORTED.value,
                rounds.c.commitments.is_not(None),
            ),
        )
        .order_by(frozen_sets.c.round_id)
    )
    return [
        Release(row.round_id, sets.decompressed(row.members, row.size), row.minimum, row.job)
        for row in found
    ]
