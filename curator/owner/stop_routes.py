"""The routes by which a curator, or all of a process, take part in nothing more."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request

from common.runtime.clock import Clock
from common.web.bodies import gives, takes
from common.web.parts import part
from common.web.wire import read_body
from curator import examples
from curator.owner import stopping
from curator.owner.stopping import Stop
from curator.web import CuratorId, DatabasePart, Operator, Owner
from tacit.answers.owners import CuratorStop, ProcessStop

ClockPart = Annotated[Clock, Depends(part(Clock))]


def add_stops(app: FastAPI) -> None:
    """Add the routes to an app."""

    @app.get(
        "/v1/stop",
        **gives(ProcessStop),
        tags=["owner"],
        summary="Whether all curators of this process are stopped",
    )
    async def get_stop(_: Operator, database: DatabasePart) -> dict[str, Any]:
        async with database.reading() as transaction:
            return await stopping.of_process(transaction)

    @app.put(
        "/v1/stop",
        **gives(ProcessStop),
        tags=["owner"],
        summary="Let all curators of this process take part in nothing, or start them again",
        openapi_extra=takes(Stop, examples.STOP),
    )
    async def put_stop(
        request: Request, _: Operator, database: DatabasePart, clock: ClockPart
    ) -> dict[str, Any]:
        asked = await read_body(request, Stop)
        async with database.begin() as transaction:
            return await stopping.set_process(transaction, asked, clock.now())

    @app.get(
        "/v1/curators/{curator_id}/stop",
        **gives(CuratorStop),
        tags=["owner"],
        summary="Whether a curator takes part in nothing, and who stopped it since when",
    )
    async def get_own_stop(
        curator_id: CuratorId, caller: Owner, database: DatabasePart
    ) -> dict[str, Any]:
        async with database.reading() as transaction:
            return await stopping.of_curator(transaction, curator_id, caller)

    @app.put(
        "/v1/curators/{curator_id}/stop",
        **gives(CuratorStop),
        tags=["owner"],
        summary="Let a curator take part in nothing, or take back one's own stop",
        openapi_extra=takes(Stop, examples.STOP),
    )
    async def put_own_stop(
        request: Request,
        curator_id: CuratorId,
        caller: Owner,
        database: DatabasePart,
        clock: ClockPart,
    ) -> dict[str, Any]:
        asked = await read_body(request, Stop)
        async with database.begin() as transaction:
            return await stopping.set_curator(transaction, curator_id, caller, asked, clock.now())
