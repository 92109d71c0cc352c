"""Whose sum a round opens: the member sets of frozen rounds, one row for each of their families."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import insert, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from common import sets
from common.differencing import Release
from common.models.query import Window
from common.models.round import RoundState
from coordinator.store.tables import frozen_sets, rounds


async def add(
    connection: AsyncConnection,
    families: Sequence[str],
    window: Window,
    release: Release,
    size: int,
) -> None:
    """Keep a set; `size` is its roster's."""
    members = sets.compressed(release.members)
    await connection.execute(
        insert(frozen_sets),
        [
            {
                "family": family,
                "round_id": release.round,
                "window_start": window.start,
                "window_end": window.end,
                "minimum": release.minimum,
                "job": release.job,
                "size": size,
                "members": members,
            }
            for family in families
        ],
    )


async def overlapping(
    connection: AsyncConnection, families: Sequence[str], window: Window
) -> list[Release]:
    """The sets of these families over windows that meet this one, by round.

    Those of rounds that ended before any aggregator was asked to reveal are left out: their sums
    were never opened.
    """
    found = await connection.execute(
        select(frozen_sets)
        .join(rounds, rounds.c.id == frozen_sets.c.round_id)
        .where(
            frozen_sets.c.family.in_(families),
            frozen_sets.c.window_end > window.start,
            frozen_sets.c.window_start < window.end,
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
