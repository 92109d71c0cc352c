"""The routes of a process' curators and of the flow of their readings."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import Depends, FastAPI, Query, Request, Response

from common.runtime.clock import Clock
from common.store.transactions import Transaction
from common.web.auth import Principal
from common.web.paging import PageQuery, next_link
from common.web.parts import part
from common.web.tokens import Scope
from common.web.wire import JSON
from curator.owner import curators, flow, statement
from curator.owner.curators import Asked, Filter, Listed, Summary
from curator.owner.flow import Device, IntakeFlow, ReadingsCompleteness, Register
from curator.owner.policies import Policies
from curator.store.parties import CuratorRow, PartyRow
from curator.web import DatabasePart, Operator, Owner
from tacit.wire import Instant, WireModel

PoliciesPart = Annotated[Policies, Depends(part(Policies))]
ClockPart = Annotated[Clock, Depends(part(Clock))]
Prefix = Annotated[str, Query(max_length=128, description="How the name begins.")]
Only = Annotated[Filter | None, Query(alias="filter", description="Without it, all.")]
Begin = Annotated[
    Instant | None, Query(alias="from", description="At most 31 days before `to`; else a day.")
]
End = Annotated[Instant | None, Query(alias="to", description="Without it, now.")]
SilentS = Annotated[int, Query(ge=1, le=366 * 86_400, description="Seconds without a reading.")]
PeriodS = Annotated[int, Query(ge=60, le=86_400, description="Seconds of a period.")]
RegisterName = Annotated[str, Query(alias="register", min_length=1, max_length=64)]


class ListOfCurators(WireModel):
    """A page of curators; `total`: how many there are on all pages."""

    curators: tuple[Listed, ...]
    total: int


class ListOfDevices(WireModel):
    """A page of silent devices."""

    devices: tuple[Device, ...]


class ListOfRegisters(WireModel):
    """All registers."""

    registers: tuple[Register, ...]


def _answer(value: WireModel, headers: dict[str, str] | None = None) -> Response:
    return Response(value.model_dump_json(), media_type=JSON, headers=headers)


def add_curators(app: FastAPI) -> None:
    """Add the routes to an app."""

    @app.get(
        "/v1/curators",
        tags=["owner"],
        summary="The curators of this process: budget left, newest reading, stops",
        response_model=ListOfCurators,
    )
    async def list_curators(
        request: Request,
        page: PageQuery,
        database: DatabasePart,
        policies: PoliciesPart,
        clock: ClockPart,
        _: Operator,
        prefix: Prefix = "",
        only: Only = None,
    ) -> Response:
        after = page.after_number()
        asked = Asked(prefix, only, -1 if after is None else after, page.limit)
        default = await policies.current()
        async with database.reading() as transaction:
            found = await curators.standing(transaction, default, clock.now())
            items, total, following = await curators.page(transaction, found, asked)
        headers = None if following is None else next_link(request, following)
        return _answer(ListOfCurators(curators=tuple(items), total=total), headers)

    @app.get(
        "/v1/summary",
        tags=["owner"],
        summary="How many curators this process has, and how many need a look",
    )
    async def get_summary(
        database: DatabasePart, policies: PoliciesPart, clock: ClockPart, _: Operator
    ) -> Summary:
        default = await policies.current()
        async with database.reading() as transaction:
            return (await curators.standing(transaction, default, clock.now())).summary

    @app.get(
        "/v1/intake",
        tags=["readings"],
        summary="Readings that came in, by hour and outcome",
    )
    async def get_intake(
        database: DatabasePart, clock: ClockPart, _: Operator, begin: Begin = None, end: End = None
    ) -> IntakeFlow:
        span = flow.span_of(begin, end, clock.now(), flow.HOUR)
        async with database.reading() as transaction:
            return await flow.intake(transaction, *span)

    @app.get(
        "/v1/devices",
        tags=["readings"],
        summary="Devices that sent nothing for a while, the longest silent first",
        response_model=ListOfDevices,
    )
    async def list_devices(
        request: Request,
        page: PageQuery,
        database: DatabasePart,
        clock: ClockPart,
        caller: Owner,
        silent_s: SilentS = 86_400,
    ) -> Response:
        before = clock.now() - timedelta(seconds=silent_s)
        after = page.after_place()
        async with database.reading() as transaction:
            of = await own(transaction, caller)
            key = None if of is None else of[0].key
            found, following = await flow.silent(transaction, before, key, after, page.limit)
        headers = None if following is None else next_link(request, *following)
        return _answer(ListOfDevices(devices=tuple(found)), headers)

    @app.get(
        "/v1/registers",
        tags=["readings"],
        summary="Registers that have readings, their units, and the queries that ask for them",
    )
    async def list_registers(database: DatabasePart, caller: Owner) -> ListOfRegisters:
        async with database.reading() as transaction:
            of = await own(transaction, caller)
            key, party = (None, None) if of is None else (of[0].key, of[1].id)
            found = await flow.registers(transaction, key, party)
        return ListOfRegisters(registers=tuple(found))

    @app.get(
        "/v1/completeness",
        tags=["readings"],
        summary="How many devices have a reading of a register in each period",
    )
    async def get_completeness(
        database: DatabasePart,
        clock: ClockPart,
        caller: Owner,
        register: RegisterName,
        period_s: PeriodS = 3_600,
        begin: Begin = None,
        end: End = None,
    ) -> ReadingsCompleteness:
        span = flow.span_of(begin, end, clock.now(), timedelta(seconds=period_s))
        async with database.reading() as transaction:
            of = await own(transaction, caller)
            key = None if of is None else of[0].key
            return await flow.completeness(transaction, register, period_s, span, key)


async def own(transaction: Transaction, caller: Principal) -> tuple[CuratorRow, PartyRow] | None:
    """The curator that an owner's token is for; None for an operator, who sees all."""
    if caller.has(Scope.OPERATOR):
        return None
    return await statement.find(transaction, caller.subject or "", caller)
