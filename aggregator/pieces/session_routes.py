"""The route by which a party announces a session apart from pieces, as a host does before its
batches. Spec: keys, section 2.3."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, FastAPI, Request, Response

from aggregator.context import Aggregator
from aggregator.errors import NotYourParty, SessionRefusedHere, UnknownParty
from aggregator.pieces import sessions
from aggregator.store import roster
from aggregator.web import Curator
from common.web.bodies import gives, takes
from common.web.parts import part
from common.web.wire import CBOR, answer, read_body
from tacit.answers.aggregators import AnnouncedSession
from tacit.crypto.signing import Signed
from tacit.protocol.sessions import Session
from tacit.wire import encode_binary

AggregatorPart = Annotated[Aggregator, Depends(part(Aggregator))]


def add_sessions(app: FastAPI) -> None:
    """Add it to the app."""

    @app.put(
        "/v1/parties/{party}/sessions/{session}",
        **gives(AnnouncedSession, 200, 201, also=[CBOR]),
        tags=["pieces"],
        summary="Announce a session under a seal key",
        openapi_extra=takes(Signed[Session]),
    )
    async def announce_session(
        request: Request, party: str, session: str, aggregator: AggregatorPart, caller: Curator
    ) -> Response:
        if caller.subject != party:
            raise NotYourParty
        body = await read_body(request, Signed[Session])
        if encode_binary(body.statement.session) != session:
            raise SessionRefusedHere(
                "another session than the path's", pointer="/statement/session"
            )
        async with aggregator.database.reading() as transaction:
            sender = await roster.active_party(transaction, party)
        if sender is None:
            raise UnknownParty
        new = await sessions.announce(aggregator, sender, body)
        return answer(request, {"party": party, "session": session}, status=201 if new else 200)
