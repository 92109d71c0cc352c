"""Pages of what curators agree to, and of stopping.

The default policy, an operator's for one curator, and an owner's own, in sentences; each can be
tried on the past before it holds. Stop and start again, on pages that say what that means before it
is done. Spec: console, section 6.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from fastapi import Response

from common.bodies import parse_json
from common.principals import Scope
from common.web.console.pages import console_router, see
from curator.console.view import AnyView, OperatorView, View
from curator.owner import policies, stopping
from curator.owner.policies import Tried, beside, set_own
from curator.owner.statement import OwnCurator
from curator.owner.stopping import Stop
from curator.policy import Limit, Policy, agreed
from curator.store import history
from curator.store import parties as store
from curator.store.parties import CuratorRow, PartyRow
from tacit.accounting.amounts import format_nano
from tacit.crypto.signing import Signed
from tacit.errors import DomainError, Invalid
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.query.terms import PrivacyUnit
from tacit.report.model import guess
from tacit.wire import encode_binary, format_exact

FIGURES: Final = (
    *("period/epsilon", "period/delta", "period/zcdp/epsilon", "period/zcdp/delta"),
    *("lifetime/epsilon", "lifetime/zcdp/epsilon", "lifetime/zcdp/delta"),
)
"""Of each unit's limits: what the form asks for. All else of a policy is for the command line."""
QUERIES: Final = 50
"""Known queries that a form lists: the newest."""
REFUSED: Final = {
    "budget_exceeded": "it would have cost more than the limits",
    "policy_refused": "something of the question is not agreed to",
    "in_exact_sum": "the readings of this time are in another sum without noise",
    "window_contributed": "the same question about the same time was answered before",
}


SAID: Final = {
    "policy": "It holds from the next question on.",
    "dropped": "What you had set for this curator is gone.",
}


@dataclass(frozen=True)
class Subject:
    """Whose policy a page shows: that of the whole process, or one curator's, and who changes
    it."""

    path: str
    of: tuple[CuratorRow, PartyRow] | None
    by_owner: bool
    base: Policy
    own: bool
    """Whether the caller has set one for this curator."""
    operators: Policy


router = console_router()


@router.get("/policy")
async def show_policy(view: OperatorView) -> Response:
    """The default policy."""
    subject = await _default(view)
    return await _show(view, subject, _fields(subject.base))


@router.post("/policy")
async def change_policy(view: OperatorView) -> Response:
    """Try a default policy on the past, or set it."""
    form, subject = await view.form(), await _default(view)
    try:
        policy = _policy(subject.base, form)
        if form.get("step") == "save":
            await view.policies.put(policy)
            await view.note("changed the policy")
            return see(f"{subject.path}?said=policy")
    except DomainError as error:
        return await _show(view, subject, form, error=error)
    tried = await policies.try_on(view.database, (policy,), view.clock.now(), None)
    return await _show(view, subject, form, tried=tried)


@router.get("/curators/{curator_id}/policy")
async def show_curator_policy(view: AnyView, curator_id: str) -> Response:
    """The caller's policy for a curator."""
    subject = await _subject(view, curator_id)
    return await _show(view, subject, _fields(subject.base))


@router.post("/curators/{curator_id}/policy")
async def change_curator_policy(view: AnyView, curator_id: str) -> Response:
    """Try the caller's policy for a curator on past rounds, set it, or delete it."""
    form, subject = await view.form(), await _subject(view, curator_id)
    assert subject.of is not None
    name, default = subject.of[0].id, await view.policies.current()
    dropped = form.get("step") == "drop"
    try:
        policy = None if dropped else _policy(subject.base, form)
        if dropped or form.get("step") == "save":
            await set_own(OwnCurator(name, view.caller, view.database), default, policy)
            await view.note("changed a curator's policy", name)
            return see(f"{subject.path}?said={'dropped' if dropped else 'policy'}")
    except DomainError as error:
        return await _show(view, subject, form, error=error)
    assert policy is not None
    both = beside(policy, subject.of[0], view.caller, default)
    tried = await policies.try_on(view.database, both, view.clock.now(), subject.of)
    return await _show(view, subject, form, tried=tried)


async def _default(view: View) -> Subject:
    policy = await view.policies.current()
    return Subject("/console/policy", None, False, policy, False, policy)


async def _subject(view: View, curator_id: str) -> Subject:
    """Raises NoSuchPage."""
    default = await view.policies.current()
    async with view.database.reading() as transaction:
        row, party = await view.find(transaction, curator_id)
    by_owner = not view.visitor.has(Scope.OPERATOR)
    operator, *owners = agreed(default, row.policy, row.owner_policy)
    base = owners[0] if owners and by_owner else operator
    has_own_policy = (row.owner_policy if by_owner else row.policy) is not None
    path = f"/console/curators/{row.id}/policy"
    return Subject(path, (row, party), by_owner, base, has_own_policy, operator)


def _fields(policy: Policy) -> dict[str, str]:
    """A policy as the values of the form."""
    document = policy.model_dump(mode="json")
    values = {
        f"{unit}/{figure}": _figure(document, unit, figure) or ""
        for unit in PrivacyUnit
        for figure in FIGURES
    }
    values |= {f"query-{encode_binary(query)}": "on" for query in policy.queries}
    values["accept"] = "any" if policy.accept_any else "some"
    values["min_participants"] = str(policy.min_participants)
    if policy.allow_unverified:
        values["allow_unverified"] = "on"
    return values


def _figure(document: dict[str, Any], unit: str, figure: str) -> str | None:
    *path, name = figure.split("/")
    limit = document[unit]
    for step in path:
        limit = limit[step] or {}
    value: str | None = limit.get(name)
    return value


def _policy(base: Policy, form: Mapping[str, str]) -> Policy:
    """A policy with the values of the form. Raises Invalid with the wrong fields."""
    document = base.model_dump(mode="json")
    for unit in PrivacyUnit:
        for figure in FIGURES:
            *path, name = figure.split("/")
            limit = document[unit]
            for step in path:
                limit[step] = limit[step] or {}
                limit = limit[step]
            limit[name] = form.get(f"{unit}/{figure}", "").strip() or None
    least = form.get("min_participants", "").strip()
    document["min_participants"] = int(least) if least.isascii() and least.isdigit() else least
    document["allow_unverified"] = "allow_unverified" in form
    document["accept_any"] = form.get("accept") != "some"
    document["queries"] = [name[6:] for name in form if name.startswith("query-")]
    return parse_json(json.dumps(document).encode(), Policy)


async def _show(
    view: View,
    subject: Subject,
    form_values: Mapping[str, str],
    *,
    error: DomainError | None = None,
    tried: Tried | None = None,
) -> Response:
    async with view.database.reading() as transaction:
        party = None if subject.of is None else subject.of[1].id
        texts = await history.newest_queries(transaction, QUERIES, party)
    newest = {
        encode_binary(descriptor.query.digest()): descriptor.query.name
        for text in texts
        for descriptor in (Signed[RoundDescriptor].model_validate_json(text).statement,)
    }
    agreed_to = {name[6:]: name[6:] for name in form_values if name.startswith("query-")}
    right = _right(subject.base.curator.period)
    return view.show(
        "policy.html",
        status=200 if error is None else 422,
        subject=subject,
        given=form_values,
        queries=agreed_to | newest,
        units=(PrivacyUnit.CURATOR.value, PrivacyUnit.RECORD.value),
        hundred=None if right is None else f"{(100 * Decimal(right)).normalize():f}",
        whole=json.dumps(subject.base.model_dump(mode="json", exclude_none=True), indent=2),
        operators=subject.operators.model_dump(mode="json"),
        tried=tried,
        refused=REFUSED,
        error=error,
        said=view.said(SAID),
    )


def _right(limit: Limit) -> str | None:
    """The largest share of right guesses within a limit; None without a limit."""
    points, zcdp = [], None
    if limit.epsilon is not None:
        points.append((format_exact(limit.epsilon), format_exact(limit.delta or Fraction(0))))
    if limit.zcdp is not None:
        epsilon, delta = (format_exact(figure) for figure in (limit.zcdp.epsilon, limit.zcdp.delta))
        points.append((epsilon, delta))
        zcdp = format_nano(max(0, limit.zcdp.limit.most_rho())), delta
    return guess(points, zcdp) if points else None


# --- stop and start again ------------------------------------------------------------------------


class NotTyped(Invalid):
    """A stop is confirmed by typing what it concerns."""

    name = "not_typed"
    title = "Type it as it is shown"


@router.get("/stop")
async def confirm_stop_all(view: OperatorView) -> Response:
    """What stopping all curators means."""
    return _confirm(view, None, await _curators(view))


@router.post("/stop")
async def stop_all(view: OperatorView) -> Response:
    """Stop all curators of the process."""
    form, total = await view.form(), await _curators(view)
    if form.get("typed", "").strip() != total:
        return _confirm(view, None, total, NotTyped(pointer="/typed"))
    async with view.database.begin() as transaction:
        await stopping.set_process(transaction, Stop(stopped=True), view.clock.now())
    await view.note("stopped all curators")
    return see("/console?said=stopped")


@router.post("/start")
async def start_all(view: OperatorView) -> Response:
    """Remove the process's stop."""
    await view.form()
    async with view.database.begin() as transaction:
        await stopping.set_process(transaction, Stop(stopped=False), view.clock.now())
    await view.note("started all curators again")
    return see("/console?said=started")


@router.get("/curators/{curator_id}/stop")
async def confirm_stop(view: AnyView, curator_id: str) -> Response:
    """What stopping a curator means."""
    name = await view.name_of(curator_id)
    return _confirm(view, name, name)


@router.post("/curators/{curator_id}/stop")
async def stop_curator(view: AnyView, curator_id: str) -> Response:
    """Set the caller's stop of a curator."""
    form, name = await view.form(), await view.name_of(curator_id)
    if form.get("typed", "").strip() != name:
        return _confirm(view, name, name, NotTyped(pointer="/typed"))
    curator = OwnCurator(name, view.caller, view.database)
    await stopping.set_curator(curator, Stop(stopped=True), view.clock.now())
    await view.note("stopped a curator", name)
    return see(f"/console/curators/{name}?said=stopped")


@router.post("/curators/{curator_id}/start")
async def start_curator(view: AnyView, curator_id: str) -> Response:
    """Remove the caller's stop of a curator."""
    await view.form()
    name = await view.name_of(curator_id)
    curator = OwnCurator(name, view.caller, view.database)
    await stopping.set_curator(curator, Stop(stopped=False), view.clock.now())
    await view.note("started a curator again", name)
    return see(f"/console/curators/{name}?said=started")


def _confirm(
    view: View, curator: str | None, typed: str, error: NotTyped | None = None
) -> Response:
    status = 200 if error is None else 422
    return view.show("stop.html", status=status, curator=curator, typed=typed, error=error)


async def _curators(view: View) -> str:
    """How many curators there are, as the form wants it typed."""
    async with view.database.reading() as transaction:
        return str(await store.hosted_curators(transaction))
