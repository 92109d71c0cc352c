"""Routes of suites: what parties can do, and the mirror of seal keys."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request, Response

from common.web.bodies import gives, gives_octets, takes
from common.web.parts import part
from common.web.wire import read_body
from coordinator.errors import UnknownParty, UnknownSealKey
from coordinator.registry import suites
from coordinator.registry.seal_keys import SealKeyMirror
from coordinator.registry.suites import IN_USE, SHOWN, Formats
from coordinator.store import suites as store
from coordinator.web import ClockPart, DatabasePart, Operator, Party, time_text
from tacit.answers.registry import SuitesInUse
from tacit.crypto.signing import Signed
from tacit.protocol.suites import Suites
from tacit.wire import parse_binary

KEPT_S = 7 * 86_400


def add_suites(app: FastAPI) -> None:
    """Add them to the app."""

    @app.put(
        "/v1/parties/{party}/suites",
        tags=["registry"],
        status_code=204,
        summary="A party says which suites it can do",
        openapi_extra=takes(Signed[Suites]),
    )
    async def announce_suites(
        request: Request, party: str, database: DatabasePart, clock: ClockPart, caller: Party
    ) -> None:
        if caller.subject != party:
            raise UnknownParty
        signed = await read_body(request, Signed[Suites])
        await suites.announce(database, clock, party, signed)

    @app.get(
        "/v1/suites",
        **gives(SuitesInUse),
        tags=["registry"],
        summary="Parties by suite; the next round's format",
    )
    async def get_suites(
        database: DatabasePart,
        clock: ClockPart,
        formats: Annotated[Formats, Depends(part(Formats))],
        _: Operator,
    ) -> dict[str, Any]:
        now = clock.now()
        async with database.reading() as transaction:
            following = await formats.next(transaction, now)
            highest = await store.highest_format(transaction)
            found = await store.reach(transaction)
            waiting = await store.laggards(transaction, 2, now - IN_USE, SHOWN)
        return {
            "setting": formats.setting,
            "next_format": following,
            "highest_format": highest,
            "suites": [
                {
                    "suite": each.suite,
                    "parties": each.parties,
                    "curators": each.curators,
                    "last_delivered": time_text(each.delivered),
                }
                for each in found
            ],
            "needs_upgrade": [
                {
                    "id": each.id,
                    "kind": each.kind.value,
                    "software": each.software,
                    "enrolled": time_text(each.enrolled),
                    "last_delivered": time_text(each.delivered),
                }
                for each in waiting
            ],
        }

    @app.get(
        "/v1/seal-keys/{key_hash}",
        **gives_octets(),
        tags=["registry"],
        summary="A public key that pieces are sealed to, by its hash",
    )
    async def get_seal_key(
        key_hash: str, mirror: Annotated[SealKeyMirror, Depends(part(SealKeyMirror))]
    ) -> Response:
        try:
            wanted = parse_binary(key_hash)
        except ValueError:
            raise UnknownSealKey from None
        content = await mirror.key(wanted)
        headers = {"Cache-Control": f"public, max-age={KEPT_S}, immutable"}
        return Response(content, media_type="application/octet-stream", headers=headers)
