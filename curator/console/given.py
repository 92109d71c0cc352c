"""What a curator gave away: all answers, one answer, what is left; and the curators of a process.

Spec: console, sections 6.1 to 6.3.
"""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request, Response
from pydantic import TypeAdapter

from common.runtime.clock import Clock
from common.store.transactions import Database, Transaction
from common.web.auth import Principal
from common.web.console.ladder import ladder, promise
from common.web.console.pages import HEADERS, NoSuchPage, PagesPart, person, see
from common.web.console.sessions import Visitor
from common.web.paging import Page, decode_cursor, encode_cursor
from common.web.parts import part
from common.web.tokens import Scope
from common.web.wire import encode, json_response
from curator.errors import ForeignCurator, UnknownCurator
from curator.owner import curators as listing
from curator.owner import published, statement, stopping
from curator.owner.curators import Asked, Filter
from curator.owner.policies import Policies
from curator.owner.routes import PeersPart
from curator.store import stops
from curator.store.parties import CuratorRow, PartyRow
from curator.web import DatabasePart
from tacit.query.words import PrivacyUnit
from tacit.report.guessing import guess
from tacit.report.model import VerifiedStatement
from tacit.wire import encode_binary

Person = Annotated[Visitor, Depends(person(Scope.OPERATOR, Scope.CURATOR))]
PoliciesPart = Annotated[Policies, Depends(part(Policies))]
ClockPart = Annotated[Clock, Depends(part(Clock))]
ROWS: Final = 50
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
            items, total, following = await listing.page(transaction, standing, asked)
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
            row, party = await found(transaction, curator_id, caller)
            budget = await statement.budget(transaction, row, party, default, clock.now())
            items, following = await statement.contributions(
                transaction, row, party, _after(cursor), ROWS
            )
            reports, _ = await statement.reports(transaction, row, party, None, ROWS)
            counts = await statement.reading_counts(transaction, row, party)
            stop = await stopping.of_curator(transaction, curator_id, caller)
        return pages.show(
            request,
            "given.html",
            visitor,
            row=row,
            party=party,
            units=[left_of(unit, budget["units"][unit.value]) for unit in PrivacyUnit],
            items=items,
            reports=reports,
            most=ROWS,
            older=None if following is None else encode_cursor(following),
            newer=cursor is not None,
            counts=counts,
            stop=stop,
            said=SAID.get(request.query_params.get("said", "")),
        )

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
        of = await published.given(database, curator_id, round_id, visitor.principal)
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
        transcript = await published.transcript(peers, of)
        body = encode(head)[:-1] + b', "transcript": ' + transcript + b"}"
        return json_response(body, headers=dict(HEADERS))


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
