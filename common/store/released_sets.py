"""Released sets of curators, against which a new set is compared (`tacit.protocol.differencing`).

One row for each scope of a round, permanently: a later round over the same time may be opened at
any time. Coordinator and aggregators each keep their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Column, ColumnElement, Table, func, insert, select

from common.store.transactions import Transaction
from tacit import sets
from tacit.protocol.differencing import Release, refusal
from tacit.query.fields import Window


@dataclass(frozen=True)
class ReleasedSets:
    """A table of released sets. `round`: its column with a round's id; `counted`: conditions on the
    rows that a new set is compared with."""

    table: Table
    round: Column[str]
    counted: tuple[ColumnElement[bool], ...] = ()

    async def add(
        self,
        transaction: Transaction,
        releases: Mapping[str, Release],
        window: Window,
        size: int,
    ) -> None:
        """Keep a round's set in each of its scopes; `size` is its roster's."""
        await transaction.execute(
            insert(self.table),
            [
                {
                    "family": scope,
                    self.round.name: release.round,
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

    async def check(
        self, transaction: Transaction, releases: Mapping[str, Release], window: Window
    ) -> None:
        """Raise DifferenceRefused if one of a round's sets must not be summed beside earlier ones
        of its scope."""
        for scope, release in releases.items():
            earlier = await self._overlapping(transaction, scope, window, release.minimum)
            refused = await asyncio.to_thread(refusal, release, earlier) if earlier else None
            if refused is not None:
                raise refused.error()

    async def _overlapping(
        self, transaction: Transaction, scope: str, window: Window, minimum: int
    ) -> list[Release]:
        """The sets of a scope over windows that meet this one, by round.

        None is read where neither they nor the new set (`minimum`) ask for protection.
        """
        kept = self.table.c
        meets = (
            kept.family == scope,
            kept.window_end > window.start,
            kept.window_start < window.end,
        )
        if minimum <= 1:
            found = await transaction.execute(select(func.max(kept.minimum)).where(*meets))
            largest = found.scalar_one()
            if largest is None or largest <= 1:
                return []
        found = await transaction.execute(
            select(self.round.label("round"), kept.members, kept.size, kept.minimum, kept.job)
            .where(*meets, *self.counted)
            .order_by(self.round)
        )
        return [
            Release(row.round, sets.decompressed(row.members, row.size), row.minimum, row.job)
            for row in found
        ]
