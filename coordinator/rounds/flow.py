"""Do contributions arrive, and if not, where do they stop: counts from all sides, no contribution.

Spec: console, sections 5.7 and 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Final

from fastapi import Depends, FastAPI
from fastapi import Query as Parameter
from pydantic import Field

from common.runtime.clock import Clock
from common.store.transactions import Database
from common.web.parts import part
from common.web.problems import ProblemReceived
from coordinator.registry.answers import gather, soon
from coordinator.registry.peers import Peer, Peers
from coordinator.store import refusals
from coordinator.store import registry as registry_store
from coordinator.store import rounds as store
from coordinator.web import ClockPart, DatabasePart, Operator
from tacit.errors import FieldError, Invalid
from tacit.protocol.flow import KEPT, LEAST, Flow, told, totals
from tacit.wire import Instant, WireModel

DAY: Final = timedelta(days=1)
SENTENCE: Final = (
    "Uploads are counted by each aggregator, hour by hour, and told once the hour is over; what "
    "was counted fewer than five times in an hour is not told by name. A batch is one upload of "
    "many curators. An aggregator tells its own counts: nothing proves them."
)
Begin = Annotated[
    Instant | None,
    Parameter(alias="from", description="At most 31 days ago; without it a day before `to`."),
]
End = Annotated[Instant | None, Parameter(alias="to", description="Without it, now.")]


class AggregatorFlow(WireModel):
    """What one aggregator tells: uploads until `until`, lone pieces and batches, by outcome; or the
    `problem` with which it did not."""

    id: str
    until: Instant | None = None
    lone: dict[str, int] = Field(default_factory=dict)
    batch: dict[str, int] = Field(default_factory=dict)
    problem: str | None = None


class DeploymentFlow(WireModel):
    """Rounds that were opened within a span, by state; curators that refused them, by ground;
    uploads at the aggregators."""

    begin: Annotated[Instant, Field(alias="from")]
    end: Annotated[Instant, Field(alias="to")]
    rounds: dict[str, int]
    refused: dict[str, int]
    aggregators: tuple[AggregatorFlow, ...]
    least: int = LEAST
    sentence: str = SENTENCE


def add_flow(app: FastAPI) -> None:
    """Add the route to the app."""

    @app.get(
        "/v1/flow",
        tags=["rounds"],
        summary="Whether contributions arrive: rounds, refusals and uploads of a span, in counts",
    )
    async def get_flow(
        database: DatabasePart,
        peers: Annotated[Peers, Depends(part(Peers))],
        clock: ClockPart,
        _: Operator,
        begin: Begin = None,
        end: End = None,
    ) -> DeploymentFlow:
        return await flow_of(database, peers, clock, begin, end)


async def flow_of(
    database: Database,
    peers: Peers,
    clock: Clock,
    begin: datetime | None = None,
    end: datetime | None = None,
) -> DeploymentFlow:
    """The flow from `begin` to `end`. Raises Invalid."""
    start, until = span_of(clock, begin, end)
    async with database.reading() as transaction:
        states = await store.states_between(transaction, start, until)
        refused = await refusals.counts_between(transaction, start, until)
        rows = await registry_store.list_aggregators(transaction)
    asked = [peers.of(row) for row in rows]
    answers = await gather(soon(peer.flow(start, until)) for peer in asked)
    return DeploymentFlow(
        begin=start,
        end=until,
        rounds={state.value: count for state, count in states.items()},
        refused=told({ground.value: count for ground, count in refused.items()}),
        aggregators=_aggregators(asked, answers),
    )


def span_of(
    clock: Clock, begin: datetime | None, end: datetime | None
) -> tuple[datetime, datetime]:
    """From when until when is asked, within the last 31 days. Raises Invalid."""
    now = clock.now()
    until = now if end is None else min(end, now)
    start = max(until, now - KEPT) - DAY if begin is None else begin
    if start >= until:
        raise Invalid(errors=(FieldError("/from", "is not before the end", "query"),))
    if start < now - KEPT - DAY:
        raise Invalid(errors=(FieldError("/from", "counts are kept for 31 days", "query"),))
    return start, until


def _aggregators(
    peers: Sequence[Peer], answers: Sequence[Flow | Exception]
) -> tuple[AggregatorFlow, ...]:
    found = []
    for peer, answer in zip(peers, answers, strict=True):
        if isinstance(answer, Flow):
            shown = AggregatorFlow(
                id=peer.id,
                until=answer.until,
                lone=totals(answer.hours, "lone"),
                batch=totals(answer.hours, "batch"),
            )
        else:
            name = answer.name[:64] if isinstance(answer, ProblemReceived) else "unreachable"
            shown = AggregatorFlow(id=peer.id, problem=name)
        found.append(shown)
    return tuple(found)
