"""The parties of a process: their coordinators and aggregators, their keys; enrolling another.

Spec: console, section 6.5. A join token's services and fingerprints are shown before anything is
sent. The token lies in the form alone until then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request, Response

from common.principals import Scope
from common.store.transactions import Database
from common.web.console.browser_sessions import Visitor
from common.web.console.pages import Pages, PagesPart, own_form, person, see
from common.web.console.sign_in import SessionsPart
from common.web.dependencies import part
from curator.parties.enrolment import Enroller, curators_of, parse_token
from curator.store import parties as store
from curator.web import DatabasePart
from tacit.crypto.signing import fingerprint
from tacit.errors import DomainError

Operator = Annotated[Visitor, Depends(person(Scope.OPERATOR))]
EnrollerPart = Annotated[Enroller, Depends(part(Enroller))]
ROWS: Final = 50
SAID: Final = {"enrolled": "It is enrolled: its curators take part from the next round on."}


def add_parties(router: APIRouter, enrolled: Callable[[], Awaitable[None]]) -> None:
    """Add the page and its form. `enrolled` is called after an enrolment."""

    @router.get("/parties")
    async def listing(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        visitor: Operator,
        after: str | None = None,
    ) -> Response:
        return await _list(request, pages, database, visitor, {}, after=after)

    @router.post("/parties")
    async def enrol(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        enroller: EnrollerPart,
        sessions: SessionsPart,
        visitor: Operator,
    ) -> Response:
        form = await own_form(request, visitor)
        text, named = form.get("token", ""), form.get("curators", "").split()
        try:
            token = parse_token(text)
            curators = curators_of(token, named)
            if form.get("step") != "enrol":
                return pages.show(
                    request,
                    "enrol-confirm.html",
                    visitor,
                    token=token,
                    text=text.strip(),
                    named=named,
                    curators=curators,
                )
            row = await enroller.enrol(text, named or None)
        except DomainError as error:
            return await _list(request, pages, database, visitor, form, error=error)
        await enrolled()
        await sessions.note(visitor, "enrolled a party", row.id, "done")
        return see("/console/parties?said=enrolled")


async def _list(
    request: Request,
    pages: Pages,
    database: Database,
    visitor: Visitor,
    given: Mapping[str, str],
    *,
    after: str | None = None,
    error: DomainError | None = None,
) -> Response:
    async with database.reading() as transaction:
        rows = await store.list_parties(transaction, after=after, limit=ROWS)
        items: list[dict[str, Any]] = []
        for row in rows:
            key = row.coordinator_key
            items.append(
                {
                    "row": row,
                    "coordinator": None if key is None else fingerprint(key).hex(),
                }
            )
    return pages.show(
        request,
        "parties.html",
        visitor,
        status=200 if error is None else 422,
        items=items,
        after=after,
        more=rows[-1].id if len(rows) == ROWS else None,
        given=given,
        error=error,
        said=SAID.get(request.query_params.get("said", "")),
    )
