"""The first page: is anything wrong, and what is the next step.

Spec: console, section 5.1.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from common.store.transactions import Database
from common.web.console.pages import PagesPart
from common.web.paging import Page
from common.web.tokens import Scope
from coordinator.budget.ledger import Ledger
from coordinator.budget.planning.routes import outlook_of
from coordinator.budget.planning.views import BudgetOutlook, OutlookRequest
from coordinator.budget.screening_routes import screened
from coordinator.console.budget import LedgerPart, Person
from coordinator.rounds import views
from coordinator.store import queries as query_store
from coordinator.store import registry
from coordinator.store.rounds import ACTIVE, Filter
from coordinator.web import ClockPart, DatabasePart
from tacit.protocol.round.descriptor import RoundState
from tacit.wire import format_exact

SOON: Final = timedelta(days=30)
"""A limit that is used up within this time is shown on the first page."""
_LOOKED_AT: Final = 20
_SHOWN: Final = 3
_ALPHA: Final = 0.001


@dataclass(frozen=True)
class Need:
    """Something that wants an operator: what, and the page where it is seen."""

    words: str
    path: str
    at: datetime | None = None


JOINING: Final = (
    "a join token, pasted at the curator's console on its page of parties (a question needs 100 "
    "curators at least, unless it says another number). It comes from"
)
READINGS: Final = "at the curator's console, on its page of readings, or"


@dataclass(frozen=True)
class Step:
    """A step of a new deployment: whether it is done, and how it is: a page, or a command with
    what is to be known of it."""

    title: str
    done: bool
    path: str | None
    command: str
    how: str = ""


def add_overview(router: APIRouter) -> None:
    """Add the page."""

    @router.get("")
    async def first(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        ledger: LedgerPart,
        clock: ClockPart,
        visitor: Person,
    ) -> Response:
        operator = visitor.has(Scope.OPERATOR)
        which = Filter(newest_first=True, heads=True)
        _, shown, _ = await views.page(database, which, Page(_LOOKED_AT, None))
        heads = [json.loads(each) for each in shown]
        outlook = await outlook_of(database, ledger, clock, OutlookRequest(days=SOON.days))
        async with database.reading() as transaction:
            state = await ledger.current(transaction)
            aggregators = len(await registry.list_aggregators(transaction))
            any_query = bool(await query_store.page(transaction, None, 1))
        released = [head for head in heads if head["state"] == RoundState.RELEASED.value]
        curators = int(state.roster.members().sum())
        steps = begin(aggregators, curators, any_query=any_query, heads=heads)
        return pages.show(
            request,
            "overview.html",
            visitor,
            needs=[
                *needs(outlook, heads),
                *(await proposals(database, ledger) if operator else ()),
            ],
            latest=released[:_SHOWN],
            open_rounds=sum(head["state"] in ACTIVE for head in heads),
            next=min(outlook.schedules, key=lambda each: each.next, default=None),
            seq=state.seq,
            head=state.head.hex(),
            curators=curators,
            aggregators=aggregators,
            steps=steps,
            new=not all(step.done for step in steps),
        )


def needs(outlook: BudgetOutlook, heads: Sequence[dict[str, Any]]) -> list[Need]:
    """Limits that are used up soon, and the newest round if no sum came of it."""
    found = [
        Need(
            f"A limit of epsilon {format_exact(each.limit.epsilon)} is used up on",
            f"/console/budget?limit={place}",
            each.exhausted,
        )
        for place, each in enumerate(outlook.limits)
        if each.exhausted is not None
    ]
    finished = [head for head in heads if head["state"] not in ACTIVE]
    if finished and finished[0]["state"] == RoundState.ABORTED.value:
        newest = finished[0]
        sentence = f"The last round of {newest['query']} opened no sum: {newest['reason']}"
        found.append(Need(sentence, f"/console/rounds/{newest['id']}"))
    return found


async def proposals(database: Database, ledger: Ledger) -> list[Need]:
    """How many curators the screening proposes to look at; it decides nothing."""
    _, _, far, absent = await screened(database, ledger, _ALPHA)
    count = len({each.number for each in (*far, *absent)})
    if not count:
        return []
    who = "1 curator is" if count == 1 else f"{count} curators are"
    sentence = f"{who} proposed to be looked at: far bounds or missed rounds, a hint and no proof"
    return [Need(sentence, "/console/budget/ledger")]


def begin(
    aggregators: int, curators: int, *, any_query: bool, heads: Sequence[dict[str, Any]]
) -> tuple[Step, ...]:
    """The five steps of a new deployment. Of readings a coordinator knows nothing but that a sum
    came about."""
    released = any(head["state"] == RoundState.RELEASED.value for head in heads)
    return (
        Step("Pair aggregators", aggregators > 0, None, "tacit pair --help", "see"),
        Step("Enrol curators", curators > 0, None, "tacit enroll token NAME", JOINING),
        Step("Ask a first query", any_query, "/console/queries/new", "tacit query create"),
        Step("Open a first round", bool(heads), "/console/rounds/new", "tacit round open"),
        Step("Let readings arrive", released, None, "tacit readings import FILE", READINGS),
    )
