"""The wizard: five steps from a question in plain words to a query, with its price before it is
asked. Its state lies in the form alone.

Spec: console, section 5.5.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request, Response

from common.runtime.clock import Clock
from common.store.transactions import Database
from common.web import idempotency
from common.web.console.ladder import Rung, ladder, promise
from common.web.console.pages import PagesPart, own_form, see
from common.web.console.sessions import Visitor
from common.web.console.sign_in import SessionsPart
from common.web.parts import part
from common.web.tokens import Scope
from coordinator.budget.ledger import Ledger
from coordinator.budget.planning.plans import Plan
from coordinator.budget.planning.routes import outlook_of, preview_of
from coordinator.budget.planning.views import Asked, LimitOutlook, OutlookRequest
from coordinator.console import question
from coordinator.console.budget import Choice, LedgerPart, Person, what_if
from coordinator.console.queries import spread
from coordinator.console.question import STEPS, Fault
from coordinator.queries import queries
from coordinator.rounds import query_asking
from coordinator.rounds.scheduling import Scheduler
from coordinator.settings import CoordinatorSettings
from coordinator.store import groups as group_store
from coordinator.store import queries as query_store
from coordinator.store.registry import list_aggregators
from coordinator.web import ClockPart, DatabasePart
from tacit.accounting.scenarios import Scenario
from tacit.errors import DomainError, Invalid
from tacit.query.fields import Window
from tacit.query.query import Query
from tacit.query.words import Mechanism
from tacit.registers import REGISTERS
from tacit.report.model import PrivacyReport
from tacit.report.operators import one_machine
from tacit.units import UNITS

_LAST: Final = len(STEPS)
_MOST_GROUPS: Final = 500


@dataclass(frozen=True)
class Price:
    """What a query would cost and give. `error`: of each part; `lasts`: the first limit that the
    running schedules and this one use up, None where none is."""

    report: PrivacyReport
    rungs: tuple[Rung, ...]
    one_machine: str | None
    error: Sequence[Mapping[str, Any]]
    useful_from: int | None
    cost: Mapping[str, Any]
    each: Mapping[str, str]
    lasts: LimitOutlook | None


def add_wizard(router: APIRouter, settings: CoordinatorSettings) -> None:
    """Add its page and its form."""

    async def shown(
        pages: PagesPart,
        request: Request,
        visitor: Visitor,
        database: Database,
        ledger: Ledger,
        clock: Clock,
        fields: Mapping[str, str],
        step: int,
        found: Sequence[Fault] = (),
    ) -> Response:
        """The form at a step, and what is known so far."""
        asked, price = None, None
        choices: list[Choice] = []
        later: Sequence[Fault] = found
        try:
            asked = question.query(fields)
            price = await _price(database, ledger, clock, settings, asked, visitor)
        except Invalid as error:
            later = question.faults(error)
        except DomainError as error:
            later = [_fault(error)]
        if asked is not None and step == 3 and asked.mechanism is not Mechanism.EXACT:
            async with database.reading() as transaction:
                others = await query_store.scheduled(transaction)
            period_s = asked.schedule.period_s if asked.schedule else 86_400
            limit = None if price is None else price.lasts
            choices = await what_if(
                database, ledger, clock, settings, asked, period_s, others, limit
            )
        async with database.reading() as transaction:
            groups = await group_store.page(transaction, None, _MOST_GROUPS)
        wrong = list(found) or (list(later) if step == _LAST else [])
        return pages.show(
            request,
            "wizard.html",
            visitor,
            status=422 if found else 200,
            step=step,
            steps=STEPS,
            here=question.FIELDS[step - 1] if step < _LAST else (),
            fields=fields,
            faults=wrong,
            asked=asked,
            told=None if asked is None else json.dumps(json.loads(asked.canonical()), indent=2),
            price=price,
            choices=choices,
            spread=None if price is None else spread(price.report),
            promise=promise,
            groups=groups,
            registers=list(REGISTERS),
            units=list(UNITS),
            functions=question.FUNCTIONS,
            mechanisms=question.MECHANISMS,
            origin=str(request.base_url).rstrip("/"),
            key=secrets.token_urlsafe(16),
        )

    @router.get("/queries/new")
    async def begin(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        ledger: LedgerPart,
        clock: ClockPart,
        visitor: Person,
        like: str | None = None,
    ) -> Response:
        async with database.reading() as transaction:
            if like is not None:
                given = question.fields_of((await queries.find(transaction, like)).query)
            else:
                given = await _defaults(transaction)
        fields = question.read({}, given)
        return await shown(pages, request, visitor, database, ledger, clock, fields, 1)

    @router.post("/queries/new")
    async def go(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        ledger: LedgerPart,
        clock: ClockPart,
        scheduler: Annotated[Scheduler, Depends(part(Scheduler))],
        sessions: SessionsPart,
        visitor: Person,
    ) -> Response:
        form = await own_form(request, visitor)
        fields = question.read(form, {})
        step = _step(form.get("step", "1"))
        wanted = form.get("go", "next")
        found: Sequence[Fault] = ()
        asked = None
        try:
            asked = question.query(fields)
        except Invalid as error:
            found = question.faults(error)
        if wanted == "make" and asked is not None and visitor.has(Scope.OPERATOR):
            token_id, key = visitor.principal.token_id, form.get("key", "")
            own = idempotency.form_key(token_id, request.url.path, key, asked.canonical())
            try:
                made = await query_asking.create(database, settings, clock, asked, own)
            except DomainError as error:
                found = question.faults(error) if isinstance(error, Invalid) else [_fault(error)]
            else:
                scheduler.wake()
                query_id = json.loads(made.answer.body)["id"]
                await sessions.note(visitor, "made a query", query_id, "done")
                return see(f"/console/queries/{query_id}?said=made")
        target = _target(wanted, step)
        stops = question.until(found, step if target > step else 0)
        if stops:
            target = min(each.step for each in stops)
        return await shown(pages, request, visitor, database, ledger, clock, fields, target, stops)


def _step(text: str) -> int:
    return min(max(int(text), 1), _LAST) if text.isdecimal() else 1


def _target(wanted: str, step: int) -> int:
    """The step to show: the next, the one before, the same, or one by its number."""
    by_name = {"next": step + 1, "back": step - 1, "stay": step, "make": _LAST}
    return _step(str(by_name.get(wanted, wanted)))


def _fault(error: DomainError) -> Fault:
    """Of a query that this deployment cannot ask: the field to blame, and why."""
    detail = error.detail or error.title
    return question.faults(Invalid(detail, pointer=error.pointer or ""))[0]


async def _defaults(transaction: Any) -> dict[str, str]:
    """As many aggregators as are paired, all but one of which may work together."""
    paired = len(await list_aggregators(transaction))
    if paired < 2:
        return {}
    return {"aggregators": str(paired), "collusion_aggregators": str(paired - 1)}


async def _price(
    database: Database,
    ledger: Ledger,
    clock: Clock,
    settings: CoordinatorSettings,
    asked: Query,
    visitor: Visitor,
) -> Price:
    """What it would cost and give. Raises what `queries.preview` raises."""
    report = await queries.preview(database, asked, settings)
    async with database.reading() as transaction:
        urls = queries.urls_for(asked, await list_aggregators(transaction))
    now = clock.now()
    window = asked.window or Window(start=now - timedelta(hours=1), end=now)
    plan = Plan(query=asked, window=window)
    cost = await preview_of(database, ledger, clock, plan, named=visitor.has(Scope.OPERATOR))
    unit = asked.privacy_unit.value
    each = next(line for line in cost["costs"][unit] if line["key"] == Scenario.ASSUMED.value)
    lasts = None
    if asked.schedule is not None:
        async with database.reading() as transaction:
            others = await query_store.scheduled(transaction)
        beside = tuple(Asked(query_id=each.id) for each in others)
        whole = OutlookRequest(queries=(Asked(query=asked), *beside))
        limits = (await outlook_of(database, ledger, clock, whole)).limits
        ending = [limit for limit in limits if limit.exhausted is not None]
        lasts = min(ending, key=lambda limit: limit.exhausted or now, default=None)
    error = report.error or {}
    return Price(
        report=report,
        rungs=ladder(report.verified, None),
        one_machine=one_machine(urls),
        error=(*error.get("averages", ()), *error.get("parts", ())),
        useful_from=error.get("smallest_useful_group", {}).get("curators"),
        cost=cost,
        each=each,
        lasts=lasts,
    )
