"""Stop: a curator, or all curators of a process, participate in nothing until they are resumed.

An owner and an operator each set their own stop, and each removes only its own: a curator
participates while neither has stopped it. The routes are at the end.
"""

from __future__ import annotations

from datetime import datetime

from fastapi import Request

from common.principals import Scope
from common.store.transactions import Transaction
from common.web.openapi import api_router, takes
from common.web.wire import read_body
from curator import examples
from curator.owner import statement
from curator.owner.statement import OwnCurator, OwnCuratorPart
from curator.store import stops
from curator.store.parties import CuratorRow
from curator.web import ClockPart, DatabasePart, Operator
from tacit.answers.curator import CuratorStop, ProcessStop, StoppedBy
from tacit.wire import WireModel, format_instant


class Stop(WireModel):
    """`stopped`: whether to participate in nothing from now on."""

    stopped: bool


async def of_process(transaction: Transaction) -> ProcessStop:
    """Whether all curators of this process are stopped, and since when."""
    since = await stops.process(transaction)
    return ProcessStop(stopped=since is not None, since=_instant(since))


async def of_curator(transaction: Transaction, row: CuratorRow) -> CuratorStop:
    """Whether a curator is stopped, and by whom since when."""
    by = StoppedBy(
        owner=_instant(row.stopped_by_owner),
        operator=_instant(row.stopped_by_operator),
        process=_instant(await stops.process(transaction)),
    )
    stopped = any((by.owner, by.operator, by.process))
    return CuratorStop(curator=row.id, stopped=stopped, by=by)


async def set_curator(own: OwnCurator, stop: Stop, now: datetime) -> CuratorStop:
    """Set or remove the caller's own stop. Raises ForeignCurator, UnknownCurator."""
    by_owner = not own.caller.has(Scope.OPERATOR)
    async with own.changing() as (transaction, row, _):
        since = now if stop.stopped else None
        await stops.set_curator(transaction, row.key, since, by_owner=by_owner)
        row, _ = await statement.find(transaction, own.id, own.caller)
        return await of_curator(transaction, row)


async def set_process(transaction: Transaction, stop: Stop, now: datetime) -> ProcessStop:
    """Stop all curators of this process, or resume them; stops of single curators stay."""
    await stops.set_process(transaction, now if stop.stopped else None)
    return await of_process(transaction)


def _instant(since: datetime | None) -> str | None:
    return None if since is None else format_instant(since)


router = api_router("owner")


@router.get(
    "/v1/stop",
    summary="Whether all curators of this process are stopped",
)
async def get_stop(_: Operator, database: DatabasePart) -> ProcessStop:
    async with database.reading() as transaction:
        return await of_process(transaction)


@router.put(
    "/v1/stop",
    summary="Stop all curators of this process, or resume them",
    openapi_extra=takes(Stop, examples.STOP),
)
async def put_stop(
    request: Request, _: Operator, database: DatabasePart, clock: ClockPart
) -> ProcessStop:
    stop = await read_body(request, Stop)
    async with database.begin() as transaction:
        return await set_process(transaction, stop, clock.now())


@router.get(
    "/v1/curators/{curator_id}/stop",
    summary="Whether a curator is stopped, by whom and since when",
)
async def get_own_stop(own: OwnCuratorPart) -> CuratorStop:
    async with own.reading() as (transaction, row, _):
        return await of_curator(transaction, row)


@router.put(
    "/v1/curators/{curator_id}/stop",
    summary="Stop a curator, or remove your stop",
    openapi_extra=takes(Stop, examples.STOP),
)
async def put_own_stop(request: Request, own: OwnCuratorPart, clock: ClockPart) -> CuratorStop:
    return await set_curator(own, await read_body(request, Stop), clock.now())
