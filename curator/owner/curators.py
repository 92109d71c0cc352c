"""The curators of a process: what is left of their budgets, who is silent or stopped, and how many.

With the routes of a process' curators and of the readings received. Spec: console, section 7, rows
14 and 15.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from fractions import Fraction
from typing import Annotated, Final

import numpy as np
from fastapi import Query, Request, Response
from numpy.typing import NDArray
from pydantic import Field

from common.principals import Principal, Scope
from common.runtime.clock import epoch_microseconds, from_epoch_microseconds
from common.store.transactions import Transaction
from common.web.openapi import api_router
from common.web.paging import PageQuery
from curator.ledger import INFINITE, LIFETIME, Bits
from curator.owner import readings_received, statement
from curator.owner.policies import PoliciesPart, holding
from curator.owner.readings_received import Device, IntakeFlow, ReadingsCompleteness, Register
from curator.policy import Policy
from curator.store import accounts, intake_counts, stops
from curator.store import parties as store
from curator.store.parties import CuratorRow, PartyRow
from curator.web import ClockPart, DatabasePart, Operator, Owner, page_of
from tacit.accounting.amounts import MICRO
from tacit.query.terms import PrivacyUnit
from tacit.wire import Exact, Instant, WireModel

SILENT: Final = timedelta(days=1)
"""Without a reading of any time as late as this."""
_NO_LIMIT: Final = -1


class Filter(StrEnum):
    """Which curators a list has."""

    OUT_OF_BUDGET = "out_of_budget"
    WITHOUT_BOUND = "without_bound"
    SILENT = "silent"
    STOPPED = "stopped"
    OWN_POLICY = "own_policy"


class Listed(WireModel):
    """A curator of a list. `left`: epsilon that its readings together can still spend in the
    current period, None without a limit; `without_bound`: whether some answer has no proven
    bound."""

    id: str
    party: str
    left: Exact | None
    limit: Exact | None
    without_bound: bool
    accepted: Annotated[int, Field(ge=0)]
    last_reading: Instant | None
    stopped: bool
    own_policy: bool


class Summary(WireModel):
    """How many curators a process has, and how many of them the list of each `Filter` would
    have."""

    curators: int
    out_of_budget: int
    without_bound: int
    silent: int
    stopped: int
    own_policy: int
    silent_s: int = int(SILENT.total_seconds())


@dataclass(frozen=True)
class Standing:
    """All curators of a process, by key: columns with one element each. `left` and `limit` in
    micro-epsilon of the unit `curator`, -1 without a limit."""

    left: NDArray[np.int64]
    limit: NDArray[np.int64]
    flags: Mapping[Filter, Bits]

    @property
    def summary(self) -> Summary:
        """Counts."""
        counts = {name.value: int(bits.sum()) for name, bits in self.flags.items()}
        return Summary(curators=len(self.left), **counts)


async def standing(transaction: Transaction, default: Policy, now: datetime) -> Standing:
    """Of all curators; a million of them take some arrays of 8 MB."""
    count = await store.hosted_curators(transaction)
    left, limit = (np.full(count, _NO_LIMIT, np.int64) for _ in range(2))
    flags = {name: np.zeros(count, np.bool_) for name in Filter}
    for party in await store.list_parties(transaction):
        span = slice(party.first_key, party.first_key + party.curators)
        all_keys = (0, party.curators)
        for policy, members in await holding(transaction, party, default, *all_keys):
            most = policy.limits(PrivacyUnit.CURATOR).period.epsilon
            if most is None:
                continue
            spent = await accounts.totals(transaction, party.id, policy.period_s, now, all_keys)
            allowed = int(most * MICRO)
            rest = np.maximum(allowed - spent.epsilon, 0)
            stricter = members & ((limit[span] == _NO_LIMIT) | (rest < left[span]))
            left[span][stricter] = rest[stricter]
            limit[span][stricter] = allowed
        ever = await accounts.totals(transaction, party.id, LIFETIME, now, all_keys)
        flags[Filter.WITHOUT_BOUND][span] = ever.epsilon >= INFINITE
        flags[Filter.STOPPED][span] = await stops.members(
            transaction, party.first_key, party.curators
        )
    flags[Filter.OUT_OF_BUDGET] = left == 0
    flags[Filter.SILENT] = np.ones(count, np.bool_)
    heard = await intake_counts.sent_since(transaction, epoch_microseconds(now - SILENT))
    flags[Filter.SILENT][heard] = False
    policies = await store.own_policies(transaction, 0, count)
    flags[Filter.OWN_POLICY][[key for key, *_ in policies]] = True
    return Standing(left, limit, flags)


@dataclass(frozen=True)
class Asked:
    """Which curators a list has: a beginning of their names, and one `Filter`; `after`: the key
    of the last one of the page before."""

    prefix: str = ""
    only: Filter | None = None
    after: int = -1
    limit: int = 50


async def page_of_curators(
    transaction: Transaction, state: Standing, page_asked: Asked
) -> tuple[list[Listed], int, int | None]:
    """The curators of a page, in the order of their enrolment, how many there are in total, and the
    key after which the next page begins."""
    chosen = (
        np.ones(len(state.left), np.bool_)
        if page_asked.only is None
        else state.flags[page_asked.only]
    )
    if page_asked.prefix:
        named = np.zeros(len(chosen), np.bool_)
        named[await store.keys_by_prefix(transaction, page_asked.prefix)] = True
        chosen = chosen & named
    keys = np.flatnonzero(chosen)
    here = keys[keys > page_asked.after][: page_asked.limit].tolist()
    rows = await store.curators_by_key(transaction, here)
    newest = await intake_counts.newest_of(transaction, here)
    items = [_listed(row, state, newest.get(row.key)) for row in rows]
    return items, len(keys), here[-1] if len(here) == page_asked.limit else None


def _listed(row: CuratorRow, state: Standing, newest_us: int | None) -> Listed:
    budget_left, limit = int(state.left[row.key]), int(state.limit[row.key])
    return Listed(
        id=row.id,
        party=row.party,
        left=None if limit == _NO_LIMIT else Fraction(budget_left, MICRO),
        limit=None if limit == _NO_LIMIT else Fraction(limit, MICRO),
        without_bound=bool(state.flags[Filter.WITHOUT_BOUND][row.key]),
        accepted=row.accepted,
        last_reading=None if newest_us is None else from_epoch_microseconds(newest_us),
        stopped=bool(state.flags[Filter.STOPPED][row.key]),
        own_policy=bool(state.flags[Filter.OWN_POLICY][row.key]),
    )


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


router = api_router()


@router.get(
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
    asked_page = Asked(prefix, only, -1 if after is None else after, page.limit)
    default = await policies.current()
    async with database.reading() as transaction:
        state = await standing(transaction, default, clock.now())
        items, total, following = await page_of_curators(transaction, state, asked_page)
    return page_of(request, ListOfCurators(curators=tuple(items), total=total), following)


@router.get(
    "/v1/summary",
    tags=["owner"],
    summary="How many curators this process has, and how many need attention",
)
async def get_summary(
    database: DatabasePart, policies: PoliciesPart, clock: ClockPart, _: Operator
) -> Summary:
    default = await policies.current()
    async with database.reading() as transaction:
        return (await standing(transaction, default, clock.now())).summary


@router.get(
    "/v1/intake",
    tags=["readings"],
    summary="Readings that came in, by hour and outcome",
)
async def get_intake(
    database: DatabasePart, clock: ClockPart, _: Operator, begin: Begin = None, end: End = None
) -> IntakeFlow:
    span = readings_received.span_of(begin, end, clock.now(), readings_received.HOUR)
    async with database.reading() as transaction:
        return await readings_received.intake(transaction, *span)


@router.get(
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
        devices, following = await readings_received.silent(
            transaction, before, key, after, page.limit
        )
    return page_of(request, ListOfDevices(devices=tuple(devices)), following)


@router.get(
    "/v1/registers",
    tags=["readings"],
    summary="Registers that have readings, their units, and the queries that ask for them",
)
async def list_registers(database: DatabasePart, caller: Owner) -> ListOfRegisters:
    async with database.reading() as transaction:
        of = await own(transaction, caller)
        key, party = (None, None) if of is None else (of[0].key, of[1].id)
        registers = await readings_received.registers(transaction, key, party)
    return ListOfRegisters(registers=tuple(registers))


@router.get(
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
    span = readings_received.span_of(begin, end, clock.now(), timedelta(seconds=period_s))
    async with database.reading() as transaction:
        of = await own(transaction, caller)
        key = None if of is None else of[0].key
        return await readings_received.completeness(transaction, register, period_s, span, key)


async def own(transaction: Transaction, caller: Principal) -> tuple[CuratorRow, PartyRow] | None:
    """The curator of an owner's token; None for an operator, who sees all."""
    if caller.has(Scope.OPERATOR):
        return None
    return await statement.find(transaction, caller.subject or "", caller)
