"""The parties of a process: their coordinators and aggregators, their keys; enrolling another.

Spec: console, section 6.5. A join token's services and fingerprints are shown before anything is
sent. Until then only the form has the token.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fastapi import Response

from common.web.console.pages import console_router, see
from curator.console.view import OperatorView, View
from curator.parties.enrolment import curators_of, parse_token
from curator.parties.routes import After, EnrollerPart
from curator.store import parties as store
from tacit.crypto.signing import fingerprint
from tacit.errors import DomainError

ROWS: Final = 50
SAID: Final = {"enrolled": "It is enrolled: its curators take part from the next round on."}

router = console_router()


@router.get("/parties")
async def show_parties(view: OperatorView, after: str | None = None) -> Response:
    """The parties, and the form that enrols another."""
    return await _list(view, {}, after=after)


@router.post("/parties")
async def enrol_party(
    view: OperatorView, enroller: EnrollerPart, after_enrolment: After
) -> Response:
    """Show what a join token names; then enrol with it."""
    form = await view.form()
    text, named = form.get("token", ""), form.get("curators", "").split()
    try:
        token = parse_token(text)
        curators = curators_of(token, named)
        if form.get("step") != "enrol":
            return view.show(
                "enrol-confirm.html", token=token, text=text.strip(), named=named, curators=curators
            )
        row = await enroller.enrol(text, named or None)
    except DomainError as error:
        return await _list(view, form, error=error)
    await after_enrolment.run()
    await view.note("enrolled a party", row.id)
    return see("/console/parties?said=enrolled")


async def _list(
    view: View,
    given: Mapping[str, str],
    *,
    after: str | None = None,
    error: DomainError | None = None,
) -> Response:
    async with view.database.reading() as transaction:
        rows = await store.list_parties(transaction, after=after, limit=ROWS)
    keys = [row.coordinator_key for row in rows]
    coordinators = [None if key is None else fingerprint(key).hex() for key in keys]
    return view.show(
        "parties.html",
        status=200 if error is None else 422,
        items=[
            {"row": row, "coordinator": coordinator}
            for row, coordinator in zip(rows, coordinators, strict=True)
        ],
        after=after,
        more=rows[-1].id if len(rows) == ROWS else None,
        given=given,
        error=error,
        said=view.said(SAID),
    )
