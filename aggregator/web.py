"""What the routes share: the parts of the running service, its meters, who may ask."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, FastAPI, Request, Response
from prometheus_client import Counter, Gauge

from aggregator.context import Aggregator
from aggregator.intake import Intake
from aggregator.senders import KeyWarmer, SenderDirectory
from aggregator.store import rounds as store
from common.models.round import RoundState
from common.service.auth import Principal, require
from common.service.database import reading
from common.service.tokens import Scope
from common.service.wire import JSON

Operator = Annotated[Principal, Depends(require(Scope.OPERATOR))]
Coordinator = Annotated[Principal, Depends(require(Scope.COORDINATOR))]
Curator = Annotated[Principal, Depends(require(Scope.CURATOR))]
Watcher = Annotated[Principal, Depends(require(Scope.COORDINATOR, Scope.OPERATOR))]


@dataclass
class Service:
    """What the routes need; `app.state.service` after the start."""

    aggregator: Aggregator
    intake: Intake
    directory: SenderDirectory
    warmer: KeyWarmer
    samplers_passed: bool
    large: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a large enrolment is read and stored: there is memory for one."""


class Meters:
    """Coarse public metrics: no label tells one curator or round from another."""

    def __init__(self, app: FastAPI) -> None:
        metrics = app.state.metrics
        self.accepted: Counter = metrics.counter(
            "pieces_accepted", "Pieces and batches answered 200 or 201.", ("form", "status")
        )
        self.refused: Counter = metrics.counter(
            "pieces_refused", "Pieces and batches refused, by problem.", ("form", "reason")
        )
        self.rounds: Gauge = metrics.gauge("rounds", "Rounds in the store, by state.", ("state",))
        self.commits: Counter = metrics.counter("commits", "Transactions of the writer.")

    async def count_rounds(self, aggregator: Aggregator) -> None:
        """Bring the gauge of rounds up to date."""
        async with reading(aggregator.engine) as connection:
            found = await store.count_states(connection)
        for state in RoundState:
            self.rounds.labels(state.value).set(found.get(state.value, 0))


def service_of(request: Request) -> Service:
    """The parts of the running service."""
    service: Service = request.app.state.service
    return service


def text_response(body: str, status: int = 200) -> Response:
    """A stored answer, byte for byte."""
    return Response(body, status, media_type=JSON)
