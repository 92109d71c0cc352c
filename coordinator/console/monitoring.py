"""Pages for watching a deployment: the first page, and the page of the flow of contributions.

What is wrong, what the next step is, whether contributions arrive, and where they stop. Spec:
console, section 5.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from fastapi import Response
from markupsafe import Markup

from common.web.console import charts, formatting
from common.web.console.pages import console_router
from common.web.paging import Page
from coordinator.api.rounds import Begin, End
from coordinator.budget.outlook import outlook_of
from coordinator.budget.plans import OutlookRequest
from coordinator.budget.screening import SENTENCE as PROPOSALS
from coordinator.budget.screening import screened
from coordinator.console.visits import Operator, Person
from coordinator.rounds import progress
from coordinator.rounds.progress import AggregatorFlow, DeploymentFlow, flow_of
from coordinator.services import CoordinatorServices, Services
from coordinator.store import queries as query_store
from coordinator.store import registry
from coordinator.store import rounds as store
from coordinator.store.rounds import ACTIVE, Filter, RoundHead
from tacit.crypto.signing import fingerprint
from tacit.protocol.round.messages import OTHER
from tacit.protocol.round.state import RoundState
from tacit.wire import format_instant

router = console_router()

_LOOKED_AT: Final = 20
_SHOWN: Final = 3
_ALPHA: Final = 0.001


@dataclass(frozen=True)
class Need:
    """A hint for an operator, after the conditions: a sentence, and the page that shows it."""

    sentence: str
    path: str
    at: datetime | None = None


JOINING: Final = (
    "a join token, pasted at the curator's console on its page of parties (a question needs 100 "
    "curators at least, unless it says another number). It comes from"
)
READINGS: Final = "at the curator's console, on its page of readings, or"


@dataclass(frozen=True)
class Step:
    """A step of a new deployment: whether it is done, and how to do it: a page, or a command
    with an explanation."""

    title: str
    done: bool
    path: str | None
    command: str
    how: str = ""


@router.get("")
async def show_overview(visit: Person, services: Services) -> Response:
    operator = visit.operator
    which = Filter(newest_first=True, heads=True)
    heads, _ = await progress.heads(services.database, which, Page(_LOOKED_AT, None))
    days = services.settings.budget_warning_days
    outlook = await outlook_of(
        services.database, services.ledger, services.clock, OutlookRequest(days=days)
    )
    async with services.database.reading() as transaction:
        state = await services.ledger.current(transaction)
        aggregators = len(await registry.list_aggregators(transaction))
        any_query = bool(await query_store.page(transaction, None, 1))
    released = [head for head in heads if head.state is RoundState.RELEASED]
    curators = int(state.roster.members().sum())
    steps = begin(aggregators, curators, any_query=any_query, states=[head.state for head in heads])
    return visit.show(
        "overview.html",
        needs=[
            *await services.conditions.present(outlook),
            *(await proposals(services) if operator else ()),
        ],
        days=days,
        latest=released[:_SHOWN],
        open_rounds=sum(head.state in ACTIVE for head in heads),
        next=min(outlook.schedules, key=lambda schedule: schedule.next, default=None),
        seq=state.seq,
        head=state.head.hex(),
        curators=curators,
        aggregators=aggregators,
        steps=steps,
        new=not all(step.done for step in steps),
    )


async def proposals(services: CoordinatorServices) -> list[Need]:
    """How many curators the screening proposes for a check; it decides nothing."""
    _, _, far, absent = await screened(services.database, services.ledger, _ALPHA)
    count = len({finding.number for finding in (*far, *absent)})
    if not count:
        return []
    who_is = "1 curator is" if count == 1 else f"{count} curators are"
    sentence = (
        f"{who_is} proposed to be looked at: far bounds or missed rounds, a hint and no proof"
    )
    return [Need(sentence, "/console/budget/ledger")]


def begin(
    aggregators: int, curators: int, *, any_query: bool, states: Sequence[RoundState]
) -> tuple[Step, ...]:
    """The five steps of a new deployment. Only a released sum shows that readings arrived."""
    released = RoundState.RELEASED in states
    return (
        Step("Pair aggregators", aggregators > 0, None, "tacit pair --help", "see"),
        Step("Enrol curators", curators > 0, None, "tacit enroll token NAME", JOINING),
        Step("Ask a first query", any_query, "/console/queries/new", "tacit query create"),
        Step("Open a first round", bool(states), "/console/rounds/new", "tacit round open"),
        Step("Let readings arrive", released, None, "tacit readings import FILE", READINGS),
    )


SPANS: Final = {"24 hours": 1, "7 days": 7, "30 days": 30}
_DRAWN: Final = 60
GROUNDS: Final = {
    ground: f"refused by curators, {why}"
    for ground, why in {
        **formatting.REFUSED,
        OTHER: "on other grounds, fewer than five of each",
    }.items()
}
_TAKEN: Final = ("stored", "known")


@dataclass(frozen=True)
class Stop:
    """A place where contributions stop: what, how many, and the reason's documented name."""

    what: str
    count: int
    reason: str = ""


@router.get("/flow")
async def show_flow(
    visit: Operator, services: Services, begin: Begin = None, end: End = None
) -> Response:
    async with services.database.reading() as transaction:
        rows = await registry.list_aggregators(transaction)
    flow, seen = await asyncio.gather(
        flow_of(services.database, services.peers, services.clock, begin, end),
        services.health_looks.look(rows),
    )
    async with services.database.reading() as transaction:
        heads = await store.opened_between(transaction, flow.begin, flow.end, _DRAWN)
        _, size = await registry.roster_state(transaction)
        curators = await registry.active_curators(transaction, size, services.clock.now())
    _, _, _, absent = await screened(services.database, services.ledger, _ALPHA)
    now, nothing = services.clock.now(), AggregatorFlow(id="", problem="not_asked")
    flow_of_aggregator = {row.id: nothing for row in rows} | {
        aggregator.id: aggregator for aggregator in flow.aggregators
    }
    return visit.show(
        "flow.html",
        flow=flow,
        stops=stops(flow),
        absent=len(absent),
        proposals=PROPOSALS,
        heads=[progress.head(head) for head in heads],
        picture=picture(heads, curators),
        curators=curators,
        health=[
            (row, seen_health, flow_of_aggregator[row.id])
            for row, seen_health in zip(rows, seen, strict=True)
        ],
        paired={row.id: fingerprint(row.identity_key).hex() for row in rows},
        taken=taken,
        spans={name: format_instant(now - timedelta(days=days)) for name, days in SPANS.items()},
    )


def stops(flow: DeploymentFlow) -> list[Stop]:
    """Refusals of curators, then of aggregators, the largest first."""
    curators = [Stop(GROUNDS[ground], count) for ground, count in flow.refused.items()]
    aggregators = [
        Stop(f"refused by {aggregator.id}", count, reason)
        for aggregator in flow.aggregators
        for outcomes in (aggregator.lone, aggregator.batch)
        for reason, count in outcomes.items()
        if reason not in _TAKEN
    ]
    return [
        *sorted(curators, key=lambda stop: -stop.count),
        *sorted(aggregators, key=lambda stop: -stop.count),
    ]


def taken(flow: AggregatorFlow) -> tuple[int, int]:
    """How many lone pieces and batches an aggregator reports as taken."""
    return flow.lone.get("stored", 0), flow.batch.get("stored", 0)


def picture(heads: Sequence[RoundHead], curators: int) -> Markup | None:
    """A bar for each released round, if there are at least two: how many curators are in its
    sum."""
    counts = [(head.opened, head.participants) for head in reversed(heads)]
    known_counts = [(at, count) for at, count in counts if count is not None]
    if len(known_counts) < 2:
        return None
    values = [float(count) for _, count in known_counts]
    sentence = (
        f"{len(known_counts)} rounds released, from {formatting.grouped(int(min(values)))} to "
        f"{formatting.grouped(int(max(values)))} curators each, of "
        f"{formatting.grouped(curators)} that are enrolled now."
    )
    labels = [formatting.day(format_instant(at)) for at, _ in known_counts]
    return charts.bars(values, [0.0] * len(values), labels=labels, sentence=sentence)
