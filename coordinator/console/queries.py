"""Pages of queries: which questions exist, on which schedule, and what they gave.

Spec: console, section 5.4.
"""

from __future__ import annotations

import json
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from common.principals import Scope
from common.web.console import charts, formatting
from common.web.console.charts import ladder, promise
from common.web.console.pages import NoSuchPage, PagesPart, own_form, see
from common.web.console.sign_in import SessionsPart
from common.web.paging import Page
from coordinator import queries
from coordinator.console.budget import Person
from coordinator.rounds import query_routes, views
from coordinator.store import queries as store
from coordinator.store.queries import NONE
from coordinator.store.registry import list_aggregators
from coordinator.store.rounds import Filter
from coordinator.web import ClockPart, DatabasePart
from tacit.protocol.round.descriptor import RoundState
from tacit.report.model import PrivacyReport
from tacit.report.statements import one_machine

ROWS: Final = 50
SAID: Final = {
    "made": "The query is made. It never changes; the same content is the same query.",
    "stopped": "Its schedule opens no more rounds.",
}


def add_queries(router: APIRouter) -> None:
    """Add the pages; the wizard before them, whose path begins alike."""

    @router.get("/queries")
    async def listing(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        visitor: Person,
        after: str | None = None,
    ) -> Response:
        async with database.reading() as transaction:
            found = await store.page(transaction, after, ROWS)
            asked = await store.rounds_of(transaction, [row.id for row in found])
        rows = [
            {"row": row, "asked": asked.get(row.id, NONE), "guess": _guess(_report(row.preview))}
            for row in found
        ]
        return pages.show(
            request,
            "queries.html",
            visitor,
            rows=rows,
            more=found[-1].id if len(found) == ROWS else None,
            after=after,
        )

    @router.get("/queries/{query_id}")
    async def one(
        request: Request,
        query_id: str,
        pages: PagesPart,
        database: DatabasePart,
        visitor: Person,
    ) -> Response:
        async with database.reading() as transaction:
            row = await queries.find(transaction, query_id)
            asked = (await store.rounds_of(transaction, [query_id])).get(query_id, NONE)
            aggregators = await list_aggregators(transaction)
        which = Filter(None, query_id, newest_first=True, heads=True)
        _, shown, _ = await views.page(database, which, Page(ROWS, None))
        heads = [json.loads(each) for each in shown]
        report = _report(row.preview)
        return pages.show(
            request,
            "query.html",
            visitor,
            row=row,
            told=json.dumps(json.loads(row.body), indent=2, sort_keys=True),
            asked=asked,
            heads=heads,
            course=course(heads),
            report=report,
            spread=spread(report),
            rungs=ladder(report.verified, None),
            promise=promise,
            one_machine=one_machine(queries.urls_for(row.query, aggregators)),
            said=SAID.get(request.query_params.get("said", "")),
        )

    @router.post("/queries/{query_id}/stop")
    async def stop(
        request: Request,
        query_id: str,
        database: DatabasePart,
        clock: ClockPart,
        sessions: SessionsPart,
        visitor: Person,
    ) -> Response:
        if not visitor.has(Scope.OPERATOR):
            raise NoSuchPage
        await own_form(request, visitor)
        await query_routes.stop(database, clock, query_id)
        await sessions.note(visitor, "ended a schedule", query_id, "done")
        return see(f"/console/queries/{query_id}?said=stopped")


def _report(preview: str) -> PrivacyReport:
    return PrivacyReport.model_validate_json(preview)


def _guess(report: PrivacyReport) -> str | None:
    return next((line.guess for line in report.verified if line.key == "e"), None)


def spread(report: PrivacyReport) -> Markup | None:
    """Forty equally likely amounts of noise; None where a result is not one number."""
    parts = (report.error or {}).get("parts", ())
    if len(parts) != 1 or parts[0]["dimension"] != 1:
        return None
    [part] = parts
    half_width = part["interval"]["half_width"]
    unit = "" if part["unit"] == "1" else part["unit"]
    error = formatting.with_error("0", half_width)[1]
    reach = f"{error} {unit}".rstrip()
    sentence = (
        "Forty equally likely amounts of noise. In 95 of 100 cases it moves a result by at most "
        f"{reach}."
    )
    upper = [float(each) for each in part["quantiles"].values()]
    return charts.dots(0.0, upper, float(half_width), unit=unit, sentence=sentence)


def course(heads: list[dict[str, Any]]) -> Markup | None:
    """The released values with their error, the oldest first; None where they are no single
    numbers."""
    points = [
        (head, list(head["figures"]["result"].values()), head["figures"]["interval"])
        for head in reversed(heads)
        if head["state"] == RoundState.RELEASED.value and head["figures"]
    ]
    if len(points) < 2 or not all(values and interval for _, values, interval in points):
        return None
    last, values, interval = points[-1]
    value, error = formatting.with_error(values[0], interval["half_width"])
    return charts.bars(
        [float(values[0]) for _, values, _ in points],
        [float(interval["half_width"]) for _, _, interval in points],
        labels=[formatting.day(head["window"]["start"]) for head, _, _ in points],
        sentence=f"{len(points)} rounds; the last gave {value} ± {error} {last['unit']}. Each line "
        "reaches as far as the noise in 95 of 100 cases.",
    )
