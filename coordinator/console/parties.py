"""Pages of parties: who belongs to the deployment, with which keys, and who is on the way in.

An aggregator is paired by its fingerprint, typed from what its operator gave; no page shows it
before. An invitation here is the coordinator's own part alone: no field takes an aggregator's.
Spec: console, section 5.9.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request, Response

from common.bodies import parse_json
from common.store.transactions import Database
from common.web import grants
from common.web.auth import Authenticator
from common.web.console.browser_sessions import Visitor
from common.web.console.pages import Pages, PagesPart, own_form, see
from common.web.console.sign_in import SessionsPart
from common.web.dependencies import part
from common.web.problems import status_of
from coordinator.console.ledger import Operator
from coordinator.console.monitoring import LooksPart
from coordinator.console.round_actions import NotTyped
from coordinator.errors import UnknownAggregator, UnknownParty
from coordinator.registry import members
from coordinator.registry.aggregators import HealthLooks
from coordinator.registry.members import AggregatorRequest, Registry
from coordinator.registry.peers import Peers
from coordinator.registry.routes import Prefix
from coordinator.store import registry as group_store
from coordinator.store import registry as store
from coordinator.store import tables
from coordinator.store.registry import AggregatorRow, PartyRow
from coordinator.web import ClockPart, DatabasePart
from tacit.crypto.signing import fingerprint
from tacit.errors import DomainError, FieldError, Invalid
from tacit.protocol.enrolment import GrantAnswer, GrantRequest, PartyKind
from tacit.wire import encode_binary

PeersPart = Annotated[Peers, Depends(part(Peers))]
RegistryPart = Annotated[Registry, Depends(part(Registry))]
AuthenticatorPart = Annotated[Authenticator, Depends(part(Authenticator))]

ROWS: Final = 50
HOURS: Final = 24
SAID: Final = {
    "paired": "The aggregator is paired.",
    "unpaired": "The aggregator is not paired any more.",
    "left": "The party has left.",
    "withdrawn": "The invitation is withdrawn.",
}


def add_parties(router: APIRouter) -> None:
    """Add the pages."""
    _add_looks(router)
    _add_aggregators(router)
    _add_leaving(router)
    _add_invitations(router)


async def _page(
    request: Request,
    pages: Pages,
    database: Database,
    looks: HealthLooks,
    clock: Any,
    visitor: Visitor,
    *,
    prefix: str = "",
    after: str | None = None,
    error: DomainError | None = None,
    **values: Any,
) -> Response:
    now = clock.now()
    async with database.reading() as transaction:
        aggregators = await store.list_aggregators(transaction)
        found = await store.list_parties(transaction, after, ROWS, prefix)
        total = await store.count_parties(transaction, prefix)
        curators = await store.count_curators(transaction)
        named = await store.list_curators(transaction, None, ROWS, prefix) if prefix else []
        matching = await store.count_curators(transaction, prefix) if prefix else 0
        invitations = await grants.open_grants(transaction, tables.grants, now)
        groups = await group_store.page_of_groups(transaction, None, ROWS)
    operators = Counter(row.operator for row in aggregators)
    return pages.show(
        request,
        "parties.html",
        visitor,
        status=200 if error is None else status_of(error),
        aggregators=list(zip(aggregators, await looks.look(aggregators), strict=True)),
        printed={row.id: fingerprint(row.identity_key).hex() for row in aggregators},
        operators={name: count for name, count in operators.items() if count > 1},
        parties=found,
        total=total,
        curators=curators,
        named=named,
        matching=matching,
        prefix=prefix,
        after=after,
        more=found[-1].id if len(found) == ROWS else None,
        invitations=invitations,
        groups=groups,
        hours=HOURS,
        error=error,
        said=SAID.get(request.query_params.get("said", "")),
        **{"given": {}, "made": None, "returned": None, "answer": None} | values,
    )


def _add_looks(router: APIRouter) -> None:
    @router.get("/parties")
    async def listing(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        looks: LooksPart,
        clock: ClockPart,
        visitor: Operator,
        prefix: Prefix = "",
        after: str | None = None,
    ) -> Response:
        return await _page(
            request, pages, database, looks, clock, visitor, prefix=prefix, after=after
        )


def _add_aggregators(router: APIRouter) -> None:
    @router.post("/parties/aggregators")
    async def pair(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        looks: LooksPart,
        clock: ClockPart,
        peers: PeersPart,
        own: RegistryPart,
        sessions: SessionsPart,
        visitor: Operator,
    ) -> Response:
        form = await own_form(request, visitor)
        try:
            row = await members.pair(database, own, peers, pairing_of(form))
        except DomainError as error:
            given = {"url": form.get("url", ""), "fingerprint": form.get("fingerprint", "")}
            return await _page(
                request, pages, database, looks, clock, visitor, error=error, given=given
            )
        await sessions.note(visitor, "paired an aggregator", row.id, "done")
        return see("/console/parties?said=paired")

    @router.get("/parties/aggregators/{aggregator}/unpair")
    async def confirm(
        request: Request,
        aggregator: str,
        pages: PagesPart,
        database: DatabasePart,
        visitor: Operator,
    ) -> Response:
        row = await _aggregator(database, aggregator)
        return _sure(request, pages, visitor, "unpair", row.id)

    @router.post("/parties/aggregators/{aggregator}/unpair")
    async def unpair(
        request: Request,
        aggregator: str,
        pages: PagesPart,
        database: DatabasePart,
        clock: ClockPart,
        sessions: SessionsPart,
        visitor: Operator,
    ) -> Response:
        form = await own_form(request, visitor)
        row = await _aggregator(database, aggregator)
        if form.get("typed", "").strip() != row.id:
            return _sure(request, pages, visitor, "unpair", row.id, NotTyped(pointer="/typed"))
        async with database.begin() as transaction:
            if not await store.remove_aggregator(transaction, row.id, clock.now()):
                raise UnknownAggregator
        await sessions.note(visitor, "unpaired an aggregator", row.id, "done")
        return see("/console/parties?said=unpaired")


def _add_leaving(router: APIRouter) -> None:
    @router.get("/parties/{party}/leave")
    async def confirm(
        request: Request, party: str, pages: PagesPart, database: DatabasePart, visitor: Operator
    ) -> Response:
        return _sure(request, pages, visitor, "leave", (await _party(database, party)).id)

    @router.post("/parties/{party}/leave")
    async def leave(
        request: Request,
        party: str,
        pages: PagesPart,
        database: DatabasePart,
        own: RegistryPart,
        authenticator: AuthenticatorPart,
        sessions: SessionsPart,
        visitor: Operator,
    ) -> Response:
        form = await own_form(request, visitor)
        row = await _party(database, party)
        if form.get("typed", "").strip() != row.id:
            return _sure(request, pages, visitor, "leave", row.id, NotTyped(pointer="/typed"))
        await members.leave(database, own, row.id)
        authenticator.forget()
        await sessions.note(visitor, "let a party leave", row.id, "done")
        return see("/console/parties?said=left")

    @router.post("/parties/{party}/return")
    async def come_back(
        request: Request,
        party: str,
        pages: PagesPart,
        database: DatabasePart,
        looks: LooksPart,
        clock: ClockPart,
        own: RegistryPart,
        sessions: SessionsPart,
        visitor: Operator,
    ) -> Response:
        await own_form(request, visitor)
        token = await members.come_back(database, own, party)
        await sessions.note(visitor, "took a party back", party, "done")
        returned = {"party": party, "token": token}
        return await _page(request, pages, database, looks, clock, visitor, returned=returned)


def _add_invitations(router: APIRouter) -> None:
    @router.post("/parties/invitations")
    async def invite(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        looks: LooksPart,
        clock: ClockPart,
        own: RegistryPart,
        sessions: SessionsPart,
        visitor: Operator,
    ) -> Response:
        form = await own_form(request, visitor)
        try:
            asked = invitation_of(form)
            async with database.begin() as transaction:
                made: GrantAnswer = await members.issue_grant(transaction, own, asked)
        except DomainError as error:
            return await _page(
                request, pages, database, looks, clock, visitor, error=error, given=form
            )
        await sessions.note(visitor, "invited a party", asked.party, "done")
        answer = made.model_dump_json()
        return await _page(
            request, pages, database, looks, clock, visitor, made=asked, answer=answer
        )

    @router.post("/parties/invitations/{grant_id}/withdraw")
    async def withdraw(
        request: Request,
        grant_id: str,
        database: DatabasePart,
        sessions: SessionsPart,
        visitor: Operator,
    ) -> Response:
        await own_form(request, visitor)
        async with database.begin() as transaction:
            await grants.withdraw_grant(transaction, tables.grants, grant_id)
        await sessions.note(visitor, "withdrew an invitation", grant_id, "done")
        return see("/console/parties?said=withdrawn")


def _sure(
    request: Request,
    pages: Pages,
    visitor: Visitor,
    what: str,
    name: str,
    error: DomainError | None = None,
) -> Response:
    return pages.show(
        request,
        "party-confirm.html",
        visitor,
        status=200 if error is None else 422,
        what=what,
        name=name,
        error=error,
    )


async def _aggregator(database: Database, aggregator: str) -> AggregatorRow:
    async with database.reading() as transaction:
        rows = await store.list_aggregators(transaction)
    found = next((row for row in rows if row.id == aggregator), None)
    if found is None:
        raise UnknownAggregator
    return found


async def _party(database: Database, party: str) -> PartyRow:
    async with database.reading() as transaction:
        row = await store.party(transaction, party)
    if row is None or row.left is not None:
        raise UnknownParty
    return row


def pairing_of(form: Mapping[str, str]) -> AggregatorRequest:
    """What the form pairs; the fingerprint as people write it. Raises Invalid with the field."""
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
