"""Stop: a curator, or all of a process, take part in nothing more until they are started again.

An owner and an operator each stop for themselves, and each takes back only its own: a curator takes
part while neither has stopped it. The routes are at the end.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request

from common.principals import Principal, Scope
from common.runtime.clock import Clock
from common.store.transactions import Transaction
from common.web.dependencies import part
from common.web.openapi import gives, takes
from common.web.wire import read_body
from curator import examples
from curator.owner import statement
from curator.store import stops
from curator.web import CuratorId, DatabasePart, Operator, Owner
from tacit.answers.curator import CuratorStop, ProcessStop
from tacit.wire import WireModel, format_instant


class Stop(WireModel):
    """`stopped`: whether to take part in nothing from now on."""

    stopped: bool


async def of_process(transaction: Transaction) -> dict[str, Any]:
    """Whether all curators of this process are stopped, and since when."""
    since = await stops.process(transaction)
    return {"stopped": since is not None, "since": _instant(since)}


async def of_curator(
    transaction: Transaction, curator_id: str, caller: Principal
) -> dict[str, Any]:
    """Whether a curator is stopped, and by whom since when.

    Raises ForeignCurator, UnknownCurator.
    """
    row, _ = await statement.find(transaction, curator_id, caller)
    by = {
        "owner": row.stopped_by_owner,
        "operator": row.stopped_by_operator,
        "process": await stops.process(transaction),
    }
    return {
        "curator": row.id,
        "stopped": any(by.values()),
        "by": {who: _instant(since) for who, since in by.items()},
    }


async def set_curator(
    transaction: Transaction, curator_id: str, caller: Principal, asked: Stop, now: datetime
) -> dict[str, Any]:
    """Set the caller's own stop. Raises ForeignCurator, UnknownCurator."""
    row, _ = await statement.find(transaction, curator_id, caller)
    by_owner = not caller.has(Scope.OPERATOR)
    since = now if asked.stopped else None
    await stops.set_curator(transaction, row.key, since, by_owner=by_owner)
    return await of_curator(transaction, curator_id, caller)


async def set_process(transaction: Transaction, asked: Stop, now: datetime) -> dict[str, Any]:
    """Stop all curators of this process, or start them again; what each was stopped by stays."""
    await stops.set_process(transaction, now if asked.stopped else None)
    return await of_process(transaction)


def _instant(since: datetime | None) -> str | None:
    return None if since is None else format_instant(since)


# The routes by which a curator, or all of a process, take part in nothing more.

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
            return await of_process(transaction)

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
            return await set_process(transaction, asked, clock.now())

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
            return await of_curator(transaction, curator_id, caller)

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
            return await set_curator(transaction, curator_id, caller, asked, clock.now())
