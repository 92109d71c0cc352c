"""What a curator gave away: all answers, one answer, what is left; and the curators of a process.

Spec: console, sections 6.1 to 6.3.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request, Response
from pydantic import TypeAdapter

from common.bodies import encode
from common.principals import Principal, Scope
from common.runtime.clock import Clock
from common.store.transactions import Database, Transaction
from common.web.console.browser_sessions import Visitor
from common.web.console.charts import ladder, promise
from common.web.console.pages import HEADERS, NoSuchPage, PagesPart, person, see
from common.web.dependencies import part
from common.web.limits import Wait
from common.web.paging import Page, decode_cursor, encode_cursor
from common.web.wire import json_response
from curator.errors import ForeignCurator, UnknownCurator
from curator.owner import curators as listing
from curator.owner import routes, statement, stopping
from curator.owner.curators import Asked, Filter
from curator.owner.policies import Policies
from curator.owner.routes import PeersPart
from curator.policy import Policy
from curator.store import stops
from curator.store.parties import CuratorRow, PartyRow
from curator.web import DatabasePart
from tacit.query.terms import PrivacyUnit
from tacit.report.model import VerifiedStatement, guess
from tacit.report.statements import one_machine
from tacit.wire import encode_binary

Person = Annotated[Visitor, Depends(person(Scope.OPERATOR, Scope.CURATOR))]
PoliciesPart = Annotated[Policies, Depends(part(Policies))]
ClockPart = Annotated[Clock, Depends(part(Clock))]
Operator = Annotated[Visitor, Depends(person(Scope.OPERATOR))]
ROWS: Final = 50
CSV_ROWS: Final = 500
LOOK_S: Final = 10.0
"""Between two looks for what is new on a page that is open."""
COLUMNS: Final = (
    *("when", "round", "query", "function", "window_start", "window_end", "state", "outcome"),
    *(
        "status",
        "epsilon",
        "delta",
        "guess",
        "readings_used",
        "readings_clamped",
        "refused_because",
    ),
)
SAID: Final = {
    "stopped": "It takes part in nothing from now on.",
    "started": "Your stop was taken back.",
}
"""What a page says after a form, by a key: never words from an address."""
FILTERS: Final = {
    Filter.OUT_OF_BUDGET: "out of budget",
    Filter.SILENT: "without a reading of the last day",
    Filter.WITHOUT_BOUND: "with an answer without a bound",
    Filter.STOPPED: "stopped",
    Filter.OWN_POLICY: "with a policy of their own",
}
_LINES: Final = TypeAdapter(tuple[VerifiedStatement, ...])


def add_given(router: APIRouter) -> None:
    """Add the pages that look at answers."""

    @router.get("")
    async def curators(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        policies: PoliciesPart,
        clock: ClockPart,
        visitor: Person,
        find: str = "",
        only: Filter | None = None,
        cursor: str | None = None,
    ) -> Response:
        if not visitor.has(Scope.OPERATOR):
            return see(f"/console/curators/{visitor.principal.subject}")
        after, default, now = _after(cursor), await policies.current(), clock.now()
        asked = Asked(find.strip(), only, -1 if after is None else after, ROWS)
        async with database.reading() as transaction:
            standing = await listing.standing(transaction, default, now)
            items, total, following = await listing.page_of_curators(transaction, standing, asked)
            stopped = await stops.process(transaction)
        return pages.show(
            request,
            "curators.html",
            visitor,
            items=items,
            total=total,
            summary=standing.summary,
            filters=FILTERS,
            only=only,
            stopped=stopped,
            find=find.strip(),
            older=None if following is None else encode_cursor(following),
            said=SAID.get(request.query_params.get("said", "")),
        )

    @router.get("/curators")
    async def own(visitor: Person) -> Response:
        subject = visitor.principal.subject
        return see("/console" if subject is None else f"/console/curators/{subject}")

    @router.get("/summary/live")
    async def summary(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        policies: PoliciesPart,
        clock: ClockPart,
        visitor: Operator,
        wait_s: Wait = 0,
    ) -> Response:
        async def values() -> dict[str, Any]:
            async with database.reading() as transaction:
                default = await policies.current()
                standing = await listing.standing(transaction, default, clock.now())
            return {"summary": standing.summary, "filters": FILTERS}

        return await pages.live(request, "summary-live.html", visitor, values, wait_s, LOOK_S)

    @router.get("/curators/{curator_id}")
    async def given(
        request: Request,
        curator_id: str,
        pages: PagesPart,
        database: DatabasePart,
        policies: PoliciesPart,
        clock: ClockPart,
        visitor: Person,
        cursor: str | None = None,
    ) -> Response:
        default, caller = await policies.current(), visitor.principal
        async with database.reading() as transaction:
            of = await found(transaction, curator_id, caller)
            values = await _given(transaction, of, caller, default, clock.now(), _after(cursor))
        said = SAID.get(request.query_params.get("said", ""))
        return pages.show(
            request, "given.html", visitor, newer=cursor is not None, said=said, **values
        )

    @router.get("/curators/{curator_id}/live")
    async def live(
        request: Request,
        curator_id: str,
        pages: PagesPart,
        database: DatabasePart,
        policies: PoliciesPart,
        clock: ClockPart,
        visitor: Person,
        wait_s: Wait = 0,
    ) -> Response:
        async def values() -> dict[str, Any]:
            default, caller = await policies.current(), visitor.principal
            async with database.reading() as transaction:
                of = await found(transaction, curator_id, caller)
                shown = await _given(transaction, of, caller, default, clock.now(), None)
            return {"newer": False, **shown}

        return await pages.live(request, "given-live.html", visitor, values, wait_s, LOOK_S)

    @router.get("/curators/{curator_id}/answers.csv")
    async def table(curator_id: str, database: DatabasePart, visitor: Person) -> Response:
        async with database.reading() as transaction:
            row, party = await found(transaction, curator_id, visitor.principal)
            text, after = io.StringIO(newline=""), None
            rows = csv.writer(text)
            rows.writerow(COLUMNS)
            while True:
                items, after = await statement.contributions(
                    transaction, row, party, after, CSV_ROWS
                )
                rows.writerows(_line(item) for item in items)
                if after is None:
                    break
        shown = {**HEADERS, "Content-Disposition": f'attachment; filename="{row.id}.csv"'}
        return Response(text.getvalue(), media_type="text/csv; charset=utf-8", headers=shown)

    @router.get("/curators/{curator_id}/answers/{round_id}")
    async def answer(
        request: Request,
        curator_id: str,
        round_id: str,
        pages: PagesPart,
        database: DatabasePart,
        visitor: Person,
    ) -> Response:
        async with database.reading() as transaction:
            row, party = await found(transaction, curator_id, visitor.principal)
            item = await statement.contribution(transaction, row, party, round_id)
        lines = _LINES.validate_json(json.dumps(item["verified"]))
        rungs = await asyncio.to_thread(ladder, lines, None)
        return pages.show(
            request,
            "answer.html",
            visitor,
            row=row,
            party=party,
            item=item,
            rungs=rungs,
            promise=promise,
            one_machine=one_machine([each["url"] for each in item["aggregators"]]),
        )

    @router.get("/curators/{curator_id}/answers/{round_id}/evidence.json")
    async def evidence(
        curator_id: str,
        round_id: str,
        database: DatabasePart,
        peers: PeersPart,
        visitor: Person,
    ) -> Response:
        """What a browser needs to check a round; the page's script has no token for the API."""
        async with database.reading() as transaction:
            await found(transaction, curator_id, visitor.principal)
        of = await routes.given(database, curator_id, round_id, visitor.principal)
        anchors = of.anchors
        head = {
            "round": round_id,
            "coordinator": encode_binary(anchors.coordinator_key),
            "answered": encode_binary(anchors.descriptor_hash),
            "pins": {
                each.id: each.fingerprints[0].fingerprint for each in anchors.trust.aggregators
            },
            "result": None,
        }
        transcript = await routes.transcript(peers, of)
        body = encode(head)[:-1] + b', "transcript": ' + transcript + b"}"
        return json_response(body, headers=dict(HEADERS))


async def _given(
    transaction: Transaction,
    of: tuple[CuratorRow, PartyRow],
    caller: Principal,
    default: Policy,
    now: datetime,
    after: int | None,
) -> dict[str, Any]:
    """What the page of a curator shows, of the answers behind one."""
    row, party = of
    budget = await statement.budget(transaction, row, party, default, now)
    items, following = await statement.contributions(transaction, row, party, after, ROWS)
    reports, _ = await statement.reports(transaction, row, party, None, ROWS)
    aggregators: list[dict[str, Any]] = []
    if items:
        newest = await statement.contribution(transaction, row, party, items[0]["round"])
        aggregators = newest["aggregators"]
    return {
        "row": row,
        "party": party,
        "units": [left_of(unit, budget["units"][unit.value]) for unit in PrivacyUnit],
        "items": items,
        "reports": reports,
        "most": ROWS,
        "older": None if following is None else encode_cursor(following),
        "counts": await statement.reading_counts(transaction, row, party),
        "stop": await stopping.of_curator(transaction, row.id, caller),
        "aggregators": aggregators,
        "one_machine": one_machine([each["url"] for each in aggregators]),
    }


def _line(item: Mapping[str, Any]) -> list[Any]:
    """An answer as a line of the table that one takes away, by `COLUMNS`."""
    declared, readings, window = item.get("declared", {}), item.get("readings", {}), item["window"]
    return [
        item.get("finished") or item["send_at"],
        item["round"],
        item["query_name"],
        item["function"],
        window["start"],
        window["end"],
        item["state"],
        item.get("outcome") or "",
        *(declared.get(name, "") for name in ("status", "epsilon", "delta", "guess")),
        readings.get("used", ""),
        readings.get("clamped", ""),
        " ".join(each["name"] for each in item.get("refused_because", ())),
    ]


def _after(cursor: str | None) -> int | None:
    """Raises BadCursor."""
    return None if cursor is None else Page(ROWS, decode_cursor(cursor)).after_number()


async def found(
    transaction: Transaction, curator_id: str, caller: Principal
) -> tuple[CuratorRow, PartyRow]:
    """The curator and its party. Raises NoSuchPage for another's as for one that there is not."""
    try:
        return await statement.find(transaction, curator_id, caller)
    except (ForeignCurator, UnknownCurator):
        raise NoSuchPage from None


async def typed_name(database: Database, curator_id: str, caller: Principal) -> str:
    """The name that a form has typed. Raises NoSuchPage."""
    async with database.reading() as transaction:
        return (await found(transaction, curator_id, caller))[0].id


def left_of(unit: PrivacyUnit, told: dict[str, Any]) -> dict[str, Any]:
    """What is left of a period, of one unit of the ledger statement; `left` None without a limit.

    `hundred`: of 100 guesses the most that are right, of those who saw all answers of the period
    with a proven bound. It is not rounded to whole ones: 99.95 is not knowing.
    """
    spent = told["period"]
    limit = told["limits"]["period"].get("epsilon")
    right = guess([(spent["epsilon"], spent["delta"])])
    left = None if limit is None else max(Decimal(0), Decimal(limit) - Decimal(spent["epsilon"]))
    return {
        "unit": unit.value,
        "limit": limit,
        "spent": spent["epsilon"],
        "left": None if left is None else f"{left.normalize():f}",
        "hundred": f"{(100 * Decimal(right)).normalize():f}",
        "seconds": spent["seconds"],
        "unverified": told["unverified_rounds"],
    }
