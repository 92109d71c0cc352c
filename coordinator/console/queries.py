"""Pages of queries: which questions exist, on which schedule, and what they gave.

Spec: console, section 5.
"""

from __future__ import annotations

import json
from datetime import datetime
from itertools import pairwise
from typing import Final

from fastapi import Response
from markupsafe import Markup

from common.web.console import charts, formatting
from common.web.console.charts import ladder, promise
from common.web.console.pages import NoSuchPage, console_router, see
from common.web.paging import Page
from coordinator import queries
from coordinator.api import queries as api_queries
from coordinator.console.visits import Person
from coordinator.rounds import progress
from coordinator.services import Services
from coordinator.store import queries as store
from coordinator.store.queries import NONE
from coordinator.store.registry import list_aggregators
from coordinator.store.rounds import Filter
from tacit.answers.rounds import RoundHead
from tacit.protocol.round.state import RoundState
from tacit.report.model import PrivacyReport
from tacit.report.statements import one_machine

router = console_router()

ROWS: Final = 50
_MOST_BARS: Final = 12
SAID: Final = {
    "made": "The query is made. It never changes; the same content is the same query.",
    "stopped": "Its schedule opens no more rounds.",
}


@router.get("/queries")
async def list_queries(
    visit: Person, services: Services, after: str | None = None, search: str = ""
) -> Response:
    async with services.database.reading() as transaction:
        query_rows = await store.page(transaction, after, ROWS, search)
        round_counts = await store.rounds_of(transaction, [row.id for row in query_rows])
    rows = [
        {"row": row, "asked": round_counts.get(row.id, NONE), "guess": _guess(_report(row.preview))}
        for row in query_rows
    ]
    return visit.show(
        "queries.html",
        rows=rows,
        more=query_rows[-1].id if len(query_rows) == ROWS else None,
        after=after,
        search=search,
    )


@router.get("/queries/{query_id}")
async def show_query(visit: Person, query_id: str, services: Services) -> Response:
    async with services.database.reading() as transaction:
        row = await queries.find(transaction, query_id)
        rounds_asked = (await store.rounds_of(transaction, [query_id])).get(query_id, NONE)
        aggregators = await list_aggregators(transaction)
    which = Filter(None, query_id, newest_first=True, heads=True)
    heads, _ = await progress.heads(services.database, which, Page(ROWS, None))
    report = _report(row.preview)
    return visit.show(
        "query.html",
        row=row,
        told=json.dumps(json.loads(row.body), indent=2, sort_keys=True),
        asked=rounds_asked,
        heads=heads,
        course=course(heads),
        report=report,
        spread=spread(report),
        rungs=ladder(report.verified, None),
        promise=promise,
        one_machine=one_machine(queries.urls_for(row.query, aggregators)),
        said=visit.said(SAID),
    )


@router.post("/queries/{query_id}/stop")
async def stop_schedule(visit: Person, query_id: str, services: Services) -> Response:
    if not visit.operator:
        raise NoSuchPage
    await visit.form()
    await api_queries.stop(services, query_id)
    await visit.note("ended a schedule", query_id)
    return see(f"/console/queries/{query_id}?said=stopped")


def _report(preview: str) -> PrivacyReport:
    return PrivacyReport.model_validate_json(preview)


def _guess(report: PrivacyReport) -> str | None:
    return next((line.guess for line in report.verified if line.key == "e"), None)


def spread(report: PrivacyReport) -> Markup | None:
    """Forty equally likely amounts of noise; None without noise, or for more than one number."""
    parts = (report.error or {}).get("parts", ())
    if len(parts) != 1 or parts[0]["dimension"] != 1:
        return None
    [part] = parts
    half_width = part["interval"]["half_width"]
    unit = "" if part["unit"] == "1" else part["unit"]
    error = formatting.with_error("0", half_width)[1]
    if error is None:
        return None
    reach = f"{error} {unit}".rstrip()
    sentence = (
        "Forty equally likely amounts of noise. In 95 of 100 cases it moves a result by at most "
        f"{reach}."
    )
    upper = [float(quantile) for quantile in part["quantiles"].values()]
    return charts.dots(0.0, upper, float(half_width), unit=unit, sentence=sentence)


def course(heads: list[RoundHead]) -> Markup | None:
    """The released values with their error, the oldest first: many values of windows without a
    gap as a line within its band, others as bars; None if they are not single numbers."""
    points: list[tuple[RoundHead, str, str]] = []
    for head in reversed(heads):
        if head.state is not RoundState.RELEASED or head.figures is None:
            continue
        value, interval = next(iter(head.figures.result.values()), None), head.figures.interval
        if value is None or interval is None:
            return None
        points.append((head, value, interval.half_width))
    if len(points) < 2:
        return None
    last, released, half_width = points[-1]
    value, error = formatting.with_error(released, half_width)
    values = [float(value) for _, value, _ in points]
    gave = (
        f"{len(points)} rounds; the last gave {value}{f' ± {error}' if error else ''} {last.unit}."
    )
    reach = "reaches as far as the noise in 95 of 100 cases."
    windows = [head.window for head, *_ in points]
    without_gap = all(a.end == b.start for a, b in pairwise(windows))
    if len(points) > _MOST_BARS and without_gap and len({width for *_, width in points}) == 1:
        return charts.band(
            values,
            float(half_width),
            start=datetime.fromisoformat(windows[0].start),
            end=datetime.fromisoformat(windows[-1].end),
            unit=last.unit,
            sentence=f"{gave} The band {reach}" if error else gave,
        )
    return charts.bars(
        values,
        [float(half_width) for *_, half_width in points],
        labels=[formatting.day(window.start) for window in windows],
        sentence=f"{gave} Each line {reach}" if error else gave,
    )
