"""What the coordinator's routes share: who may ask, and how answers are written."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi import Query as Parameter
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.responses import JSONResponse

from common.models.base import WireModel, format_instant
from common.service.auth import Authenticator, Principal, require
from common.service.clock import Clock
from common.service.paging import next_link
from common.service.tokens import Scope
from common.service.wire import JSON
from coordinator.changes import Changes
from coordinator.conductor import Conductor
from coordinator.datasets.holding import Datasets
from coordinator.jobs.service import Jobs
from coordinator.registry import Registry
from coordinator.rounds import Conduct
from coordinator.scheduling import Scheduler

MAX_WAIT_S = 30.0

Operator = Annotated[Principal, Depends(require(Scope.OPERATOR))]
Analyst = Annotated[Principal, Depends(require(Scope.ANALYST))]
Reader = Annotated[Principal, Depends(require(Scope.ANALYST, Scope.CURATOR))]
Party = Annotated[Principal, Depends(require(Scope.CURATOR))]
Wait = Annotated[float, Parameter(ge=0, le=MAX_WAIT_S, description="Long poll: seconds to wait.")]


@dataclass(frozen=True)
class Service:
    """What the routes need; `app.state.service` while the app runs."""

    engine: AsyncEngine
    clock: Clock
    registry: Registry
    conduct: Conduct
    conductor: Conductor
    scheduler: Scheduler
    changes: Changes
    authenticator: Authenticator
    datasets: Datasets
    jobs: Jobs


def service_of(app: FastAPI) -> Service:
    """The parts of a running app."""
    service: Service = app.state.service
    return service


def time_text(instant: datetime | None) -> str | None:
    """An instant as it stands on the wire."""
    return None if instant is None else format_instant(instant)


def encode(value: Any) -> bytes:
    """Plain values as JSON."""
    return json.dumps(value).encode()


def model_response(model: WireModel, status: int = 200) -> Response:
    """A wire model as an answer."""
    return Response(model.model_dump_json(), status, media_type=JSON)


def page_response(
    request: Request, name: str, items: list[dict[str, Any]], limit: int, key: str
) -> Response:
    """A page of items, with the address of the next one."""
    headers = next_link(request, items[-1][key]) if len(items) == limit else None
    return JSONResponse({name: items}, headers=headers)
