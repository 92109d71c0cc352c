"""Pages of what curators agree to, and of stopping.

The default policy, an operator's for one curator, and an owner's own, in sentences; each can be
tried on the past before it holds. Stop and start again, on pages that say what that means before it
is done. Spec: console, sections 6.5 and 6.6.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request, Response

from common.bodies import parse_json
from common.principals import Principal, Scope
from common.store.transactions import Database
from common.web.console.browser_sessions import Visitor
from common.web.console.pages import Pages, PagesPart, own_form, person, see
from common.web.console.sign_in import SessionsPart
from curator.console.contributions_page import ClockPart, Person, PoliciesPart, found, typed_name
from curator.owner import policy_trial, stopping
from curator.owner.policies import Policies, beside, set_own
from curator.owner.policy_trial import Tried
from curator.owner.stopping import Stop
from curator.policy import Policy, agreed
from curator.store import history
from curator.store import parties as store
from curator.store.parties import CuratorRow, PartyRow
from curator.web import DatabasePart
from tacit.crypto.signing import Signed
from tacit.errors import DomainError, Invalid
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.query.terms import PrivacyUnit
from tacit.report.model import guess
from tacit.wire import encode_binary

Operator = Annotated[Visitor, Depends(person(Scope.OPERATOR))]
FIGURES: Final = ("period/epsilon", "period/delta", "lifetime/epsilon")
"""Of each unit's limits: what the form asks for. All else of a policy is for the command line."""
QUERIES: Final = 50
"""Known queries that a form lists: the newest."""
REFUSED: Final = {
    "budget_exceeded": "it would have cost more than the limits",
    "policy_refused": "something of the question is not agreed to",
    "window_contributed": "the same question about the same time was answered before",
}


@dataclass(frozen=True)
class Subject:
    """Whose policy a page is about: of the whole process, or one curator's, and by whom."""

    path: str
    of: tuple[CuratorRow, PartyRow] | None
    by_owner: bool
    base: Policy
    own: bool
    """Whether the caller has set one for this curator."""
    operators: Policy


def add_policy(router: APIRouter) -> None:
    """Add the pages."""

    @router.get("/policy")
    async def default(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        policies: PoliciesPart,
        visitor: Operator,
    ) -> Response:
        subject = _default(await policies.current())
        return await _show(request, pages, database, visitor, subject, _fields(subject.base))

    @router.post("/policy")
    async def change_default(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        policies: PoliciesPart,
        clock: ClockPart,
        sessions: SessionsPart,
        visitor: Operator,
    ) -> Response:
        form = await own_form(request, visitor)
        subject = _default(await policies.current())
        try:
            asked = _policy(subject.base, form)
            if form.get("step") == "save":
                await policies.put(asked)
                await sessions.note(visitor, "changed the policy", "", "done")
                return see(f"{subject.path}?said=policy")
        except DomainError as error:
            return await _show(request, pages, database, visitor, subject, form, error=error)
        found = await policy_trial.try_on(database, (asked,), clock.now(), None)
        return await _show(request, pages, database, visitor, subject, form, tried=found)

    @router.get("/curators/{curator_id}/policy")
    async def own(
        request: Request,
        curator_id: str,
        pages: PagesPart,
        database: DatabasePart,
        policies: PoliciesPart,
        visitor: Person,
    ) -> Response:
        subject = await _subject(database, policies, curator_id, visitor.principal)
        return await _show(request, pages, database, visitor, subject, _fields(subject.base))

    @router.post("/curators/{curator_id}/policy")
    async def change_own(
        request: Request,
        curator_id: str,
        pages: PagesPart,
        database: DatabasePart,
        policies: PoliciesPart,
        clock: ClockPart,
        sessions: SessionsPart,
        visitor: Person,
    ) -> Response:
        form = await own_form(request, visitor)
        caller = visitor.principal
        subject = await _subject(database, policies, curator_id, caller)
        assert subject.of is not None
        name, default = subject.of[0].id, await policies.current()
        dropped = form.get("step") == "drop"
        try:
            asked = None if dropped else _policy(subject.base, form)
            if dropped or form.get("step") == "save":
                async with database.begin() as transaction:
                    await set_own(transaction, name, caller, default, asked)
                await sessions.note(visitor, "changed a curator's policy", name, "done")
                return see(f"{subject.path}?said={'dropped' if dropped else 'policy'}")
        except DomainError as error:
            return await _show(request, pages, database, visitor, subject, form, error=error)
        assert asked is not None
        both = beside(asked, subject.of[0], caller, default)
        found = await policy_trial.try_on(database, both, clock.now(), subject.of)
        return await _show(request, pages, database, visitor, subject, form, tried=found)


def _default(policy: Policy) -> Subject:
    return Subject("/console/policy", None, False, policy, False, policy)


async def _subject(
    database: Database, policies: Policies, curator_id: str, caller: Principal
) -> Subject:
    """Raises NoSuchPage."""
    default = await policies.current()
    async with database.reading() as transaction:
        row, party = await found(transaction, curator_id, caller)
    by_owner = not caller.has(Scope.OPERATOR)
    operator, *owners = agreed(default, row.policy, row.owner_policy)
    base = owners[0] if owners and by_owner else operator
    own = (row.owner_policy if by_owner else row.policy) is not None
    path = f"/console/curators/{row.id}/policy"
    return Subject(path, (row, party), by_owner, base, own, operator)


def _fields(policy: Policy) -> dict[str, str]:
    """A policy as the form has it."""
    document = policy.model_dump(mode="json")
    given = {
        f"{unit}/{figure}": _figure(document, unit, figure) or ""
        for unit in PrivacyUnit
        for figure in FIGURES
    }
    given |= {f"query-{encode_binary(each)}": "on" for each in policy.queries}
    given["accept"] = "any" if policy.accept_any else "some"
    given["min_participants"] = str(policy.min_participants)
    if policy.allow_unverified:
        given["allow_unverified"] = "on"
    return given


def _figure(document: dict[str, Any], unit: str, figure: str) -> str | None:
    limit, name = figure.split("/")
    value: str | None = document[unit][limit][name]
    return value


def _policy(base: Policy, form: Mapping[str, str]) -> Policy:
    """A policy with what the form has in it. Raises Invalid with the fields that are wrong."""
    document = base.model_dump(mode="json")
    for unit in PrivacyUnit:
        for figure in FIGURES:
            limit, name = figure.split("/")
            document[unit][limit][name] = form.get(f"{unit}/{figure}", "").strip() or None
    least = form.get("min_participants", "").strip()
    document["min_participants"] = int(least) if least.isascii() and least.isdigit() else least
    document["allow_unverified"] = "allow_unverified" in form
    document["accept_any"] = form.get("accept") != "some"
    document["queries"] = [name[6:] for name in form if name.startswith("query-")]
    return parse_json(json.dumps(document).encode(), Policy)


async def _show(
    request: Request,
    pages: Pages,
    database: Database,
    visitor: Visitor,
    subject: Subject,
    given: Mapping[str, str],
    *,
    error: DomainError | None = None,
    tried: Tried | None = None,
) -> Response:
    async with database.reading() as transaction:
        party = None if subject.of is None else subject.of[1].id
        texts = await history.newest_queries(transaction, QUERIES, party)
    known = {
        encode_binary(descriptor.query.digest()): descriptor.query.name
        for text in texts
        for descriptor in (Signed[RoundDescriptor].model_validate_json(text).statement,)
    }
    agreed_to = {name[6:]: name[6:] for name in given if name.startswith("query-")}
    limits = subject.base.curator.period
    right = None if limits.epsilon is None else guess([_texts(subject.base)])
    return pages.show(
        request,
        "policy.html",
        visitor,
        status=200 if error is None else 422,
        subject=subject,
        given=given,
        queries=agreed_to | known,
        units=(PrivacyUnit.CURATOR.value, PrivacyUnit.RECORD.value),
        hundred=None if right is None else f"{(100 * Decimal(right)).normalize():f}",
        whole=json.dumps(subject.base.model_dump(mode="json", exclude_none=True), indent=2),
        operators=subject.operators.model_dump(mode="json"),
        tried=tried,
        refused=REFUSED,
        error=error,
        said={
            "policy": "It holds from the next question on.",
            "dropped": "What you had set for this curator is gone.",
        }.get(request.query_params.get("said", "")),
    )


def _texts(policy: Policy) -> tuple[str, str]:
    period = policy.curator.period.model_dump(mode="json")
    return period["epsilon"], period["delta"] or "0"


# Stop and start again, on pages that say what that means before it is done.
#
# Spec: console, section 6.6.


class NotTyped(Invalid):
    """What many depend on is asked for by its name."""

    name = "not_typed"
    title = "Type it as it is shown"


def add_stop(router: APIRouter) -> None:
    """Add the forms of stopping."""

    @router.get("/stop")
    async def confirm_all(
        request: Request, pages: PagesPart, database: DatabasePart, visitor: Operator
    ) -> Response:
        async with database.reading() as transaction:
            total = await store.hosted_curators(transaction)
        return pages.show(request, "stop.html", visitor, curator=None, typed=str(total), error=None)

    @router.post("/stop")
    async def stop_all(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        clock: ClockPart,
        sessions: SessionsPart,
        visitor: Operator,
    ) -> Response:
        form = await own_form(request, visitor)
        async with database.reading() as transaction:
            total = str(await store.hosted_curators(transaction))
        if form.get("typed", "").strip() != total:
            wrong = NotTyped(pointer="/typed")
            return pages.show(
                request, "stop.html", visitor, status=422, curator=None, typed=total, error=wrong
            )
        async with database.begin() as transaction:
            await stopping.set_process(transaction, Stop(stopped=True), clock.now())
        await sessions.note(visitor, "stopped all curators", "", "done")
        return see("/console?said=stopped")

    @router.post("/start")
    async def start_all(
        request: Request,
        database: DatabasePart,
        clock: ClockPart,
        sessions: SessionsPart,
        visitor: Operator,
    ) -> Response:
        await own_form(request, visitor)
        async with database.begin() as transaction:
            await stopping.set_process(transaction, Stop(stopped=False), clock.now())
        await sessions.note(visitor, "started all curators again", "", "done")
        return see("/console?said=started")

    @router.get("/curators/{curator_id}/stop")
    async def confirm(
        request: Request, curator_id: str, pages: PagesPart, database: DatabasePart, visitor: Person
    ) -> Response:
        name = await typed_name(database, curator_id, visitor.principal)
        return pages.show(request, "stop.html", visitor, curator=name, typed=name, error=None)

    @router.post("/curators/{curator_id}/stop")
    async def stop(
        request: Request,
        curator_id: str,
        pages: PagesPart,
        database: DatabasePart,
        clock: ClockPart,
        sessions: SessionsPart,
        visitor: Person,
    ) -> Response:
        form = await own_form(request, visitor)
        name = await typed_name(database, curator_id, visitor.principal)
        if form.get("typed", "").strip() != name:
            wrong = NotTyped(pointer="/typed")
            return pages.show(
                request, "stop.html", visitor, status=422, curator=name, typed=name, error=wrong
            )
        async with database.begin() as transaction:
            caller, asked = visitor.principal, Stop(stopped=True)
            await stopping.set_curator(transaction, name, caller, asked, clock.now())
        await sessions.note(visitor, "stopped a curator", name, "done")
        return see(f"/console/curators/{name}?said=stopped")

    @router.post("/curators/{curator_id}/start")
    async def start(
        request: Request,
        curator_id: str,
        database: DatabasePart,
        clock: ClockPart,
        sessions: SessionsPart,
        visitor: Person,
    ) -> Response:
        await own_form(request, visitor)
        name = await typed_name(database, curator_id, visitor.principal)
        async with database.begin() as transaction:
            caller, asked = visitor.principal, Stop(stopped=False)
            await stopping.set_curator(transaction, name, caller, asked, clock.now())
        await sessions.note(visitor, "started a curator again", name, "done")
        return see(f"/console/curators/{name}?said=started")
