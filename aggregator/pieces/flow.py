"""Counts what becomes of uploads, by hour, and tells the hours that are over.

Counts wait in memory, so an upload pays for no row: a process that is killed loses those of the
last sweep. Spec: console, section 7.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import Depends, FastAPI, Response
from fastapi import Query as Parameter

from aggregator.store import flow as store
from aggregator.store.flow import Key
from aggregator.web import Watcher
from common.runtime.clock import Clock
from common.store.transactions import Database
from common.web.parts import part
from common.web.wire import json_response
from tacit.protocol.flow import KEPT, Flow, FlowHour, hour_of, told
from tacit.wire import Instant

Begin = Annotated[
    Instant | None,
    Parameter(alias="from", description="In the first hour; without it the last 24 hours."),
]
End = Annotated[Instant | None, Parameter(alias="to", description="In the hour after the last.")]


class UploadCounts:
    """Uploads of this process by hour, form and outcome; `settled_s`: how long after an hour the
    counts of all processes are stored."""

    def __init__(self, database: Database, clock: Clock, settled_s: float) -> None:
        self._database, self._clock = database, clock
        self._settled = timedelta(seconds=settled_s)
        self._waiting: Counter[Key] = Counter()

    def add(self, form: str, outcome: str) -> None:
        """Count one upload."""
        self._waiting[hour_of(self._clock.now()), form, outcome] += 1

    async def store(self) -> None:
        """Store what waits, and forget what is old."""
        counts, self._waiting = self._waiting, Counter()
        try:
            async with self._database.begin() as transaction:
                await store.add(transaction, counts)
                await store.forget(transaction, self._clock.now() - KEPT)
        except BaseException:
            self._waiting.update(counts)
            raise

    async def told(self, start: datetime | None, end: datetime | None) -> Flow:
        """The hours from `start` to `end` that are over; without them the last 24."""
        over = hour_of(self._clock.now() - self._settled)
        oldest = over - KEPT
        until = over if end is None else max(oldest, min(over, hour_of(end)))
        first = until - timedelta(days=1) if start is None else max(oldest, hour_of(start))
        async with self._database.reading() as transaction:
            found = await store.between(transaction, first, until)
        hours = (
            FlowHour(hour=hour, form=form, outcomes=shown)  # type: ignore[arg-type]
            for (hour, form), counts in found.items()
            if (shown := told(counts))
        )
        return Flow(until=until, hours=tuple(hours))


def add_flow(app: FastAPI) -> None:
    """Add the route to the app."""

    @app.get(
        "/v1/flow",
        tags=["pieces"],
        summary="Uploads by hour, form and outcome: hours that are over, no count below five",
        response_model=Flow,
    )
    async def get_flow(
        counts: Annotated[UploadCounts, Depends(part(UploadCounts))],
        _: Watcher,
        start: Begin = None,
        end: End = None,
    ) -> Response:
        return json_response((await counts.told(start, end)).model_dump_json())
