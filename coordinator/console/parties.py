"""Pages of parties: who belongs to the deployment, with which keys, and who is on the way in.

An aggregator is paired by its fingerprint, typed from what its operator gave; no page shows it
before. An invitation here is the coordinator's own part alone: no field takes an aggregator's.
Spec: console, section 5.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from fastapi import Response

from common.bodies import parse_json
from common.store.transactions import Database
from common.web import grants
from common.web.console.pages import console_router, see
from common.web.problems import status_of
from coordinator.api.registry import Prefix
from coordinator.console.visits import NotTyped, Operator, Visit
from coordinator.errors import UnknownAggregator, UnknownParty
from coordinator.registry import members
from coordinator.registry.members import AggregatorRequest
from coordinator.services import CoordinatorServices, Services
from coordinator.store import registry as group_store
from coordinator.store import registry as store
from coordinator.store import tables
from coordinator.store.registry import AggregatorRow, PartyRow
from tacit.crypto.signing import fingerprint
from tacit.errors import DomainError, FieldError, Invalid
from tacit.protocol.enrolment import GrantAnswer, GrantRequest, PartyKind
from tacit.wire import encode_binary

router = console_router()


ROWS: Final = 50
HOURS: Final = 24
SAID: Final = {
    "paired": "The aggregator is paired.",
    "unpaired": "The aggregator is not paired any more.",
    "left": "The party has left.",
    "withdrawn": "The invitation is withdrawn.",
}


async def _page(
    visit: Visit,
    services: CoordinatorServices,
    *,
    prefix: str = "",
    after: str | None = None,
    error: DomainError | None = None,
    **values: Any,
) -> Response:
    async with services.database.reading() as transaction:
        aggregators = await store.list_aggregators(transaction)
        party_rows = await store.list_parties(transaction, after, ROWS, prefix)
        total = await store.count_parties(transaction, prefix)
        curators = await store.count_curators(transaction)
        named = await store.list_curators(transaction, None, ROWS, prefix) if prefix else []
        matching = await store.count_curators(transaction, prefix) if prefix else 0
        invitations = await grants.open_grants(transaction, tables.grants, services.clock.now())
        groups = await group_store.page_of_groups(transaction, None, ROWS)
    operators = Counter(row.operator for row in aggregators)
    return visit.show(
        "parties.html",
        status=200 if error is None else status_of(error),
        aggregators=list(
            zip(aggregators, await services.health_looks.look(aggregators), strict=True)
        ),
        printed={row.id: fingerprint(row.identity_key).hex() for row in aggregators},
        operators={name: count for name, count in operators.items() if count > 1},
        parties=party_rows,
        total=total,
        curators=curators,
        named=named,
        matching=matching,
        prefix=prefix,
        after=after,
        more=party_rows[-1].id if len(party_rows) == ROWS else None,
        invitations=invitations,
        groups=groups,
        hours=HOURS,
        error=error,
        said=visit.said(SAID),
        **{"given": {}, "made": None, "returned": None, "answer": None} | values,
    )


@router.get("/parties")
async def list_parties(
    visit: Operator, services: Services, prefix: Prefix = "", after: str | None = None
) -> Response:
    return await _page(
        visit,
        services,
        prefix=prefix,
        after=after,
    )


@router.post("/parties/aggregators")
async def pair_aggregator(visit: Operator, services: Services) -> Response:
    form = await visit.form()
    try:
        row = await members.pair(
            services.database, services.registry, services.peers, pairing_of(form)
        )
    except DomainError as error:
        form_values = {"url": form.get("url", ""), "fingerprint": form.get("fingerprint", "")}
        return await _page(
            visit,
            services,
            error=error,
            given=form_values,
        )
    await visit.note("paired an aggregator", row.id)
    return see("/console/parties?said=paired")


@router.get("/parties/aggregators/{aggregator}/unpair")
async def confirm_unpairing(visit: Operator, aggregator: str, services: Services) -> Response:
    row = await _aggregator(services.database, aggregator)
    return _sure(visit, "unpair", row.id)


@router.post("/parties/aggregators/{aggregator}/unpair")
async def unpair_aggregator(visit: Operator, aggregator: str, services: Services) -> Response:
    form = await visit.form()
    row = await _aggregator(services.database, aggregator)
    if form.get("typed", "").strip() != row.id:
        return _sure(visit, "unpair", row.id, NotTyped(pointer="/typed"))
    async with services.database.begin() as transaction:
        if not await store.remove_aggregator(transaction, row.id, services.clock.now()):
            raise UnknownAggregator
    await visit.note("unpaired an aggregator", row.id)
    return see("/console/parties?said=unpaired")


@router.get("/parties/{party}/leave")
async def confirm_leaving(visit: Operator, party: str, services: Services) -> Response:
    return _sure(visit, "leave", (await _party(services.database, party)).id)


@router.post("/parties/{party}/leave")
async def end_membership(visit: Operator, party: str, services: Services) -> Response:
    form = await visit.form()
    row = await _party(services.database, party)
    if form.get("typed", "").strip() != row.id:
        return _sure(visit, "leave", row.id, NotTyped(pointer="/typed"))
    await members.leave(services.database, services.registry, row.id)
    services.authenticator.forget()
    await visit.note("let a party leave", row.id)
    return see("/console/parties?said=left")


@router.post("/parties/{party}/return")
async def return_party(visit: Operator, party: str, services: Services) -> Response:
    await visit.form()
    token = await members.come_back(services.database, services.registry, party)
    await visit.note("took a party back", party)
    returned = {"party": party, "token": token}
    return await _page(
        visit,
        services,
        returned=returned,
    )


@router.post("/parties/invitations")
async def invite_party(visit: Operator, services: Services) -> Response:
    form = await visit.form()
    try:
        invitation = invitation_of(form)
        async with services.database.begin() as transaction:
            grant: GrantAnswer = await members.issue_grant(
                transaction, services.registry, invitation
            )
    except DomainError as error:
        return await _page(
            visit,
            services,
            error=error,
            given=form,
        )
    await visit.note("invited a party", invitation.party)
    answer = grant.model_dump_json()
    return await _page(
        visit,
        services,
        made=invitation,
        answer=answer,
    )


@router.post("/parties/invitations/{grant_id}/withdraw")
async def withdraw_invitation(visit: Operator, grant_id: str, services: Services) -> Response:
    await visit.form()
    async with services.database.begin() as transaction:
        await grants.withdraw_grant(transaction, tables.grants, grant_id)
    await visit.note("withdrew an invitation", grant_id)
    return see("/console/parties?said=withdrawn")


def _sure(visit: Visit, action: str, name: str, error: DomainError | None = None) -> Response:
    return visit.show(
        "party-confirm.html",
        status=200 if error is None else 422,
        what=action,
        name=name,
        error=error,
    )


async def _aggregator(database: Database, aggregator: str) -> AggregatorRow:
    async with database.reading() as transaction:
        rows = await store.list_aggregators(transaction)
    aggregator_row = next((row for row in rows if row.id == aggregator), None)
    if aggregator_row is None:
        raise UnknownAggregator
    return aggregator_row


async def _party(database: Database, party: str) -> PartyRow:
    async with database.reading() as transaction:
        row = await store.party(transaction, party)
    if row is None or row.left is not None:
        raise UnknownParty
    return row


def pairing_of(form: Mapping[str, str]) -> AggregatorRequest:
    """What the form pairs; the fingerprint in the form that people write. Raises Invalid with
    the field."""
    typed = form.get("fingerprint", "").replace(":", "").replace(" ", "").lower()
    try:
        digits = bytes.fromhex(typed)
    except ValueError:
        digits = b""
    if len(digits) != 32:
        problem = "has 64 hexadecimal digits"
        raise Invalid(problem, errors=(FieldError("/fingerprint", problem),))
    body = {
        "url": form.get("url", "").strip(),
        "token": form.get("token", "").strip(),
        "fingerprint": encode_binary(digits),
    }
    return parse_json(json.dumps(body).encode(), AggregatorRequest)


def invitation_of(form: Mapping[str, str]) -> GrantRequest:
    """Whom the form invites. Raises Invalid with the field."""
    curators = _whole(form, "max_curators")
    kind = PartyKind.CURATOR if curators is None else PartyKind.HOST
    body: dict[str, Any] = {
        "party": form.get("party", "").strip(),
        "kind": kind.value,
        "max_curators": curators or 1,
        "valid_s": 3600 * (_whole(form, "hours") or HOURS),
    }
    return parse_json(json.dumps(body).encode(), GrantRequest)


def _whole(form: Mapping[str, str], name: str) -> int | None:
    text = form.get(name, "").strip()
    if not text:
        return None
    if not (text.isdecimal() and text.isascii() and len(text) <= 9 and int(text)):
        problem = "must be a whole number above 0"
        raise Invalid(problem, errors=(FieldError(f"/{name}", problem),))
    return int(text)
