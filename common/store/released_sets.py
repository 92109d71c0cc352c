"""Released sets of curators, against which a new set is compared (`tacit.protocol.differencing`).

One row for each scope of a round, permanently: a later round over the same time may be opened at
any time. Coordinator and aggregators each keep their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, Insert, Select, Table, bindparam, func, insert, select

from common.store.transactions import LARGE_BYTES, Transaction
from tacit import sets
from tacit.protocol.differencing import Release, refusal
from tacit.query.fields import Window

_FEW: Final = 8
"""Earlier sets that are compared in less time than a thread would cost, unless they are large."""


@dataclass(frozen=True)
class ReleasedSets:
    """A table of released sets. `round`: its column with a round's id; `counted`: conditions on the
    rows that a new set is compared with."""

    table: Table
    round: Column[str]
    counted: tuple[ColumnElement[bool], ...] = ()

    @cached_property
    def _meets(self) -> tuple[ColumnElement[bool], ...]:
        columns = self.table.c
        return (
            columns.family == bindparam("scope"),
            columns.window_end > bindparam("start"),
            columns.window_start < bindparam("end"),
        )

    @cached_property
    def _largest(self) -> Select[Any]:
        return select(func.max(self.table.c.minimum)).where(*self._meets)

    @cached_property
    def _earlier(self) -> Select[Any]:
        """Equal sets once, by their first round and with their largest minimum: the guard needs
        no more of them, and a schedule makes very many."""
        columns, first = self.table.c, func.min(self.round)
        return (
            select(
                first.label("round"),
                columns.members,
                columns.size,
                func.max(columns.minimum).label("minimum"),
                columns.job,
            )
            .where(*self._meets, *self.counted, self.round != bindparam("but"))
            .group_by(columns.members, columns.size, columns.job)
            .order_by(first)
        )

    @cached_property
    def _add(self) -> Insert:
        return insert(self.table)

    async def add(
        self,
        transaction: Transaction,
        releases: Mapping[str, Release],
        window: Window,
        size: int,
    ) -> None:
        """Keep a round's set in each of its scopes; `size` is its roster's."""
        await transaction.execute(
            self._add,
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
        """Raise DifferenceRefused if one of a round's sets must not be summed together with
        earlier ones of its scope."""
        for scope, release in releases.items():
            earlier = await self._overlapping(transaction, scope, window, release)
            if not earlier:
                continue
            few = len(earlier) <= _FEW and len(earlier) * len(release.members) < LARGE_BYTES
            compare = partial(refusal, release, earlier)
            refused = compare() if few else await asyncio.to_thread(compare)
            if refused is not None:
                raise refused.error()

    async def _overlapping(
        self, transaction: Transaction, scope: str, window: Window, new: Release
    ) -> list[Release]:
        """The sets of a scope over windows that meet this one, by round. None is read if neither
        they nor the new one require protection."""
        scope_and_window = {"scope": scope, "start": window.start, "end": window.end}
        if new.minimum <= 1:
            largest = (await transaction.execute(self._largest, scope_and_window)).scalar_one()
            if largest is None or largest <= 1:
                return []
        rows = await transaction.execute(self._earlier, {**scope_and_window, "but": new.round})
        return [
            Release(row.round, sets.decompressed(row.members, row.size), row.minimum, row.job)
            for row in rows
        ]
