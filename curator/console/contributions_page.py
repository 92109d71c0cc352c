"""What left a curator: all answers, one answer, what is left; and the curators of a process.

Spec: console, section 6.
"""

from __future__ import annotations

import asyncio
import csv
import io
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from fastapi import Response

from common.bodies import encode
from common.principals import Scope
from common.web.console.charts import ladder, promise
from common.web.console.pages import HEADERS, console_router, see
from common.web.limits import Wait
from common.web.paging import Page, decode_cursor, encode_cursor
from common.web.wire import json_response
from curator.console.view import AnyView, OperatorView, View
from curator.owner import curators as listing
from curator.owner import routes, statement, stopping
from curator.owner.curators import Asked, Filter
from curator.owner.routes import PeersPart
from curator.owner.statement import OwnCurator
from curator.store import stops
from tacit.accounting.amounts import FEMTO, format_nano
from tacit.accounting.composition import ZcdpLimit
from tacit.answers.curator import GivenContribution, NamedAggregator, UnitStatement
from tacit.query.terms import PrivacyUnit
from tacit.report.model import guess
from tacit.report.statements import one_machine
from tacit.wire import encode_binary

ROWS: Final = 50
CSV_ROWS: Final = 500
COLUMNS: Final = (
    *("when", "round", "query", "function", "window_start", "window_end", "state", "outcome"),
    *("status", "epsilon", "delta", "guess"),
    *("readings_used", "readings_clamped", "refused_because"),
)
SAID: Final = {
    "stopped": "It participates in nothing from now on.",
    "started": "Your stop was taken back.",
}
FILTERS: Final = {
    Filter.OUT_OF_BUDGET: "out of budget",
    Filter.SILENT: "without a reading of the last day",
    Filter.WITHOUT_BOUND: "with an answer without a bound",
    Filter.STOPPED: "stopped",
    Filter.OWN_POLICY: "with a policy of their own",
}

router = console_router()


@router.get("")
async def show_curators(
    view: AnyView, find: str = "", only: Filter | None = None, cursor: str | None = None
) -> Response:
    """All curators of the process, for its operator."""
    if not view.visitor.has(Scope.OPERATOR):
        return see(f"/console/curators/{view.caller.subject}")
    after, default = _after(cursor), await view.policies.current()
    asked_page = Asked(find.strip(), only, -1 if after is None else after, ROWS)
    async with view.database.reading() as transaction:
        standing = await listing.standing(transaction, default, view.clock.now())
        items, total, following = await listing.page_of_curators(transaction, standing, asked_page)
        stopped = await stops.process(transaction)
    return view.show(
        "curators.html",
        items=items,
        total=total,
        summary=standing.summary,
        filters=FILTERS,
        only=only,
        stopped=stopped,
        find=find.strip(),
        older=None if following is None else encode_cursor(following),
        said=view.said(SAID),
    )


@router.get("/curators")
async def show_own_curator(view: AnyView) -> Response:
    """Lead an owner to its curator, an operator to all."""
    subject = view.caller.subject
    return see("/console" if subject is None else f"/console/curators/{subject}")


@router.get("/summary/live")
async def show_summary(view: OperatorView, wait_s: Wait = 0) -> Response:
    """The part of the operator's page that changes."""

    async def values() -> dict[str, Any]:
        async with view.database.reading() as transaction:
            default = await view.policies.current()
            standing = await listing.standing(transaction, default, view.clock.now())
        return {"summary": standing.summary, "filters": FILTERS}

    return await view.live("summary-live.html", values, wait_s)


@router.get("/curators/{curator_id}")
async def show_curator(view: AnyView, curator_id: str, cursor: str | None = None) -> Response:
    """What left a curator."""
    values = await _given(view, curator_id, _after(cursor))
    return view.show("given.html", newer=cursor is not None, said=view.said(SAID), **values)


@router.get("/curators/{curator_id}/live")
async def show_curator_live(view: AnyView, curator_id: str, wait_s: Wait = 0) -> Response:
    """The part of that page that changes."""

    async def values() -> dict[str, Any]:
        return {"newer": False, **await _given(view, curator_id, None)}

    return await view.live("given-live.html", values, wait_s)


@router.get("/curators/{curator_id}/answers.csv")
async def download_answers(view: AnyView, curator_id: str) -> Response:
    """All answers as a table."""
    async with view.database.reading() as transaction:
        row, party = await view.find(transaction, curator_id)
        text, after = io.StringIO(newline=""), None
        rows = csv.writer(text)
        rows.writerow(COLUMNS)
        while True:
            items, after = await statement.contributions(transaction, row, party, after, CSV_ROWS)
            rows.writerows(_line(item) for item in items)
            if after is None:
                break
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{row.id}.csv"'}
    return Response(text.getvalue(), media_type="text/csv; charset=utf-8", headers=headers)


@router.get("/curators/{curator_id}/answers/{round_id}")
async def show_answer(view: AnyView, curator_id: str, round_id: str) -> Response:
    """One answer, and who would have to collude to learn what of it."""
    async with view.database.reading() as transaction:
        row, party = await view.find(transaction, curator_id)
        item = await statement.contribution(transaction, row, party, round_id)
    rungs = await asyncio.to_thread(ladder, item.verified, None)
    return view.show(
        "answer.html",
        row=row,
        party=party,
        item=item,
        rungs=rungs,
        promise=promise,
        one_machine=one_machine([aggregator.url for aggregator in item.aggregators]),
    )


@router.get("/curators/{curator_id}/answers/{round_id}/evidence.json")
async def read_evidence(
    view: AnyView, curator_id: str, round_id: str, peers: PeersPart
) -> Response:
    """What a browser needs to check a round; the page's script has no token for the API."""
    async with view.database.reading() as transaction:
        await view.find(transaction, curator_id)
    curator = OwnCurator(curator_id, view.caller, view.database)
    of = await routes.given(curator, round_id)
    anchors = of.anchors
    head = {
        "round": round_id,
        "coordinator": encode_binary(anchors.coordinator_key),
        "answered": encode_binary(anchors.descriptor_hash),
        "pins": {
            aggregator.id: aggregator.fingerprints[0].fingerprint
            for aggregator in anchors.trust.aggregators
        },
        "result": None,
    }
    transcript = await routes.transcript(peers, of)
    body = encode(head)[:-1] + b', "transcript": ' + transcript + b"}"
    return json_response(body, headers=dict(HEADERS))


async def _given(view: View, curator_id: str, after: int | None) -> dict[str, Any]:
    """The content of a curator's page, from the answers after the one with the key `after`."""
    default, now = await view.policies.current(), view.clock.now()
    async with view.database.reading() as transaction:
        row, party = await view.find(transaction, curator_id)
        budget = await statement.budget(transaction, row, party, default, now)
        items, following = await statement.contributions(transaction, row, party, after, ROWS)
        reports, _ = await statement.reports(transaction, row, party, None, ROWS)
        counts = await statement.reading_counts(transaction, row, party)
        stop = await stopping.of_curator(transaction, row)
        aggregators: list[NamedAggregator] = []
        if items:
            newest = await statement.contribution(transaction, row, party, items[0].round)
            aggregators = newest.aggregators
    return {
        "row": row,
        "party": party,
        "units": [left_of(unit, getattr(budget.units, unit.value)) for unit in PrivacyUnit],
        "exact_answers": budget.exact_answers,
        "items": items,
        "reports": reports,
        "most": ROWS,
        "older": None if following is None else encode_cursor(following),
        "counts": counts,
        "stop": stop,
        "aggregators": aggregators,
        "one_machine": one_machine([aggregator.url for aggregator in aggregators]),
    }


def _line(item: GivenContribution) -> list[Any]:
    """An answer as a line of the downloaded table, by `COLUMNS`."""
    declared, readings = item.declared, item.readings
    charge = ("",) * 4
    if declared is not None:
        charge = (declared.status, declared.epsilon, declared.delta, declared.guess or "")
    return [
        item.finished or item.send_at,
        item.round,
        item.query_name,
        item.function,
        item.window.start,
        item.window.end,
        item.state,
        item.outcome or "",
        *charge,
        *(("", "") if readings is None else (readings.used, readings.clamped)),
        " ".join(reason.name for reason in item.refused_because),
    ]


def _after(cursor: str | None) -> int | None:
    """Raises BadCursor."""
    return None if cursor is None else Page(ROWS, decode_cursor(cursor)).after_number()


def _left(spent: str, most: str, currency: str) -> dict[str, str]:
    left = max(Decimal(0), Decimal(most) - Decimal(spent))
    return {"spent": spent, "most": most, "left": f"{left.normalize():f}", "currency": currency}


def left_of(unit: PrivacyUnit, stated: UnitStatement) -> dict[str, Any]:
    """What is left in a period, of one unit of the ledger statement, under each of its limits.

    `hundred`: the largest number of right guesses among 100, by someone who saw all answers of
    the period with a proven bound. It is not rounded to a whole number: 99.95 is not certainty.
    """
    spent, limit = stated.period, stated.limits.period
    right = guess([(spent.epsilon, spent.delta)], (spent.rho, spent.rho_delta))
    limits = []
    if limit.epsilon is not None:
        limits.append(_left(spent.epsilon, limit.epsilon, "epsilon"))
    if limit.zcdp is not None:
        at_delta = ZcdpLimit(Fraction(limit.zcdp.epsilon), Fraction(limit.zcdp.delta))
        most = at_delta.most_rho(math.ceil(Fraction(spent.rho_delta) * FEMTO))
        stands_for = f"rho, which is epsilon {limit.zcdp.epsilon} at delta {limit.zcdp.delta},"
        limits.append(_left(spent.rho, format_nano(max(0, most)), stands_for))
    return {
        "unit": unit.value,
        "limits": limits,
        "empty": any(each["left"] == "0" for each in limits),
        "spent": f"epsilon {spent.epsilon}, or rho {spent.rho}",
        "hundred": f"{(100 * Decimal(right)).normalize():f}",
        "seconds": spent.seconds,
        "unverified": stated.unverified_rounds,
    }
