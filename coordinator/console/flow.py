"""The page of the flow of contributions: do they arrive, and if not, where do they stop.

Spec: console, section 5.7.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request, Response
from markupsafe import Markup

from common.web.console import charts, words
from common.web.console.pages import PagesPart
from common.web.parts import part
from coordinator.budget.screening import SENTENCE as PROPOSALS
from coordinator.budget.screening_routes import screened
from coordinator.console.ledger import LedgerPart, Operator
from coordinator.registry.health import HealthLooks
from coordinator.registry.peers import Peers
from coordinator.rounds import views
from coordinator.rounds.flow import AggregatorFlow, Begin, DeploymentFlow, End, flow_of
from coordinator.store import registry
from coordinator.store import rounds as store
from coordinator.store.rounds import RoundHead
from coordinator.web import ClockPart, DatabasePart
from tacit.crypto.signing import fingerprint
from tacit.protocol.flow import OTHER
from tacit.wire import format_instant

LooksPart = Annotated[HealthLooks, Depends(part(HealthLooks))]

SPANS: Final = {"24 hours": 1, "7 days": 7, "30 days": 30}
_DRAWN: Final = 60
_ALPHA: Final = 0.001
GROUNDS: Final = {
    ground: f"refused by curators, {why}"
    for ground, why in {
        **words.REFUSED,
        OTHER: "on other grounds, fewer than five of each",
    }.items()
}
_TAKEN: Final = ("stored", "known")


@dataclass(frozen=True)
class Stop:
    """Where contributions stop: what, how many, and the reason's name in the documentation."""

    what: str
    count: int
    reason: str = ""


def add_flow(router: APIRouter) -> None:
    """Add the page."""

    @router.get("/flow")
    async def show(
        request: Request,
        pages: PagesPart,
        database: DatabasePart,
        ledger: LedgerPart,
        peers: Annotated[Peers, Depends(part(Peers))],
        looks: LooksPart,
        clock: ClockPart,
        visitor: Operator,
        begin: Begin = None,
        end: End = None,
    ) -> Response:
        async with database.reading() as transaction:
            rows = await registry.list_aggregators(transaction)
        flow, seen = await asyncio.gather(
            flow_of(database, peers, clock, begin, end), looks.look(rows)
        )
        async with database.reading() as transaction:
            heads = await store.opened_between(transaction, flow.begin, flow.end, _DRAWN)
            _, size = await registry.roster_state(transaction)
            curators = await registry.active_curators(transaction, size, clock.now())
        _, _, _, absent = await screened(database, ledger, _ALPHA)
        now, nothing = clock.now(), AggregatorFlow(id="", problem="not_asked")
        told = {row.id: nothing for row in rows} | {each.id: each for each in flow.aggregators}
        return pages.show(
            request,
            "flow.html",
            visitor,
            flow=flow,
            stops=stops(flow),
            absent=len(absent),
            proposals=PROPOSALS,
            heads=[views.head(head) for head in heads],
            picture=picture(heads, curators),
            curators=curators,
            health=[(row, each, told[row.id]) for row, each in zip(rows, seen, strict=True)],
            paired={row.id: fingerprint(row.identity_key).hex() for row in rows},
            taken=taken,
            spans={
                name: format_instant(now - timedelta(days=days)) for name, days in SPANS.items()
            },
        )


def stops(flow: DeploymentFlow) -> list[Stop]:
    """Refusals of curators, then of aggregators, the largest first."""
    curators = [Stop(GROUNDS[ground], count) for ground, count in flow.refused.items()]
    aggregators = [
        Stop(f"refused by {each.id}", count, reason)
        for each in flow.aggregators
        for outcomes in (each.lone, each.batch)
        for reason, count in outcomes.items()
        if reason not in _TAKEN
    ]
    return [
        *sorted(curators, key=lambda stop: -stop.count),
        *sorted(aggregators, key=lambda stop: -stop.count),
    ]


def taken(told: AggregatorFlow) -> tuple[int, int]:
    """How many lone pieces and batches an aggregator tells that it took."""
    return told.lone.get("stored", 0), told.batch.get("stored", 0)


def picture(heads: Sequence[RoundHead], curators: int) -> Markup | None:
    """A bar for each released round, from two on: how many curators are in its sum."""
    counts = [(head.opened, head.participants) for head in reversed(heads)]
    known = [(at, count) for at, count in counts if count is not None]
    if len(known) < 2:
        return None
    values = [float(count) for _, count in known]
    sentence = (
        f"{len(known)} rounds released, from {words.grouped(int(min(values)))} to "
        f"{words.grouped(int(max(values)))} curators each, of {words.grouped(curators)} that are "
        "enrolled now."
    )
    labels = [words.day(format_instant(at)) for at, _ in known]
    return charts.bars(values, [0.0] * len(values), labels=labels, sentence=sentence)
