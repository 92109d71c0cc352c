"""Shared by the coordinator's routes: access checks, and writing answers."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any

from fastapi import Depends, Response

from common.principals import Principal, Scope
from common.runtime.clock import Clock
from common.store.transactions import Database
from common.web.auth import require
from common.web.dependencies import part
from common.web.wire import json_response
from tacit.wire import WireModel, format_instant

Operator = Annotated[Principal, Depends(require(Scope.OPERATOR))]
Analyst = Annotated[Principal, Depends(require(Scope.ANALYST))]
Reader = Annotated[Principal, Depends(require(Scope.ANALYST, Scope.CURATOR))]
Party = Annotated[Principal, Depends(require(Scope.CURATOR))]
DatabasePart = Annotated[Database, Depends(part(Database))]
ClockPart = Annotated[Clock, Depends(part(Clock))]


def time_text(instant: datetime | None) -> str | None:
    """An instant in its wire format."""
    return None if instant is None else format_instant(instant)


def encode(value: Any) -> bytes:
    """Plain values as JSON."""
    return json.dumps(value).encode()


def model_response(model: WireModel, status: int = 200) -> Response:
    """A wire model as an answer."""
    return json_response(model.model_dump_json(), status)
