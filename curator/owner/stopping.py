"""Stop: a curator, or all of a process, take part in nothing more until they are started again.

An owner and an operator each stop for themselves, and each takes back only its own: a curator takes
part while neither has stopped it. The routes are at the end.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Request

from common.runtime.clock import Clock
from common.store.transactions import Transaction
from common.web.auth import Principal
from common.web.dependencies import part
from common.web.openapi import takes
from common.web.tokens import Scope
from common.web.wire import read_body
from curator import examples
from curator.owner import statement
from curator.store import stops
from curator.web import CuratorId, DatabasePart, Operator, Owner
from tacit.answers.curator import CuratorStop, ProcessStop, StoppedBy
from tacit.wire import WireModel, format_instant


class Stop(WireModel):
    """`stopped`: whether to take part in nothing from now on."""

    stopped: bool


async def of_process(transaction: Transaction) -> ProcessStop:
    """Whether all curators of this process are stopped, and since when."""
    since = await stops.process(transaction)
    return ProcessStop(stopped=since is not None, since=_instant(since))


async def of_curator(transaction: Transaction, curator_id: str, caller: Principal) -> CuratorStop:
    """Whether a curator is stopped, and by whom since when.

    Raises ForeignCurator, UnknownCurator.
    """
    row, _ = await statement.find(transaction, curator_id, caller)
    by = StoppedBy(
        owner=_instant(row.stopped_by_owner),
        operator=_instant(row.stopped_by_operator),
        process=_instant(await stops.process(transaction)),
    )
    stopped = any((by.owner, by.operator, by.process))
    return CuratorStop(curator=row.id, stopped=stopped, by=by)


async def set_curator(
    transaction: Transaction, curator_id: str, caller: Principal, asked: Stop, now: datetime
) -> CuratorStop:
    """Set the caller's own stop. Raises ForeignCurator, UnknownCurator."""
    row, _ = await statement.find(transaction, curator_id, caller)
    by_owner = not caller.has(Scope.OPERATOR)
    since = now if asked.stopped else None
    await stops.set_curator(transaction, row.key, since, by_owner=by_owner)
    return await of_curator(transaction, curator_id, caller)


async def set_process(transaction: Transaction, asked: Stop, now: datetime) -> ProcessStop:
    """Stop all curators of this process, or start them again; what each was stopped by stays."""
    await stops.set_process(transaction, now if asked.stopped else None)
    return await of_process(transaction)


def _instant(since: datetime | None) -> str | None:
    return None if since is None else format_instant(since)


ClockPart = Annotated[Clock, Depends(part(Clock))]


router = APIRouter(tags=["owner"])


@router.get(
    "/v1/stop",
    summary="Whether all curators of this process are stopped",
)
async def get_stop(_: Operator, database: DatabasePart) -> ProcessStop:
    async with database.reading() as transaction:
        return await of_process(transaction)


@router.put(
    "/v1/stop",
    summary="Let all curators of this process take part in nothing, or start them again",
    openapi_extra=takes(Stop, examples.STOP),
)
async def put_stop(
    request: Request, _: Operator, database: DatabasePart, clock: ClockPart
) -> ProcessStop:
    asked = await read_body(request, Stop)
    async with database.begin() as transaction:
        return await set_process(transaction, asked, clock.now())


@router.get(
    "/v1/curators/{curator_id}/stop",
    summary="Whether a curator takes part in nothing, and who stopped it since when",
)
async def get_own_stop(curator_id: CuratorId, caller: Owner, database: DatabasePart) -> CuratorStop:
    async with database.reading() as transaction:
        return await of_curator(transaction, curator_id, caller)


@router.put(
    "/v1/curators/{curator_id}/stop",
    summary="Let a curator take part in nothing, or take back one's own stop",
    openapi_extra=takes(Stop, examples.STOP),
)
async def put_own_stop(
    request: Request,
    curator_id: CuratorId,
    caller: Owner,
    database: DatabasePart,
    clock: ClockPart,
) -> CuratorStop:
    asked = await read_body(request, Stop)
    async with database.begin() as transaction:
        return await set_curator(transaction, curator_id, caller, asked, clock.now())
