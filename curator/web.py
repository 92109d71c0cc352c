"""Shared by the curator's routes: access checks, and writing models.

It imports no domain: a route names the parts of the service that it uses by their types
(`common.web.dependencies`); here is only the store's engine, which most routes use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi import Path as PathParameter
from pydantic import BaseModel

from common.principals import Principal, Scope
from common.runtime.clock import Clock
from common.store.transactions import Database
from common.web.auth import require
from common.web.dependencies import part
from common.web.paging import next_link
from common.web.wire import json_response
from tacit.wire import WireModel

Operator = Annotated[Principal, Depends(require(Scope.OPERATOR))]
Owner = Annotated[Principal, Depends(require(Scope.OPERATOR, Scope.CURATOR))]
Sender = Annotated[Principal, Depends(require(Scope.OPERATOR, Scope.DEVICE, Scope.CURATOR))]
CuratorId = Annotated[str, PathParameter(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$")]
DatabasePart = Annotated[Database, Depends(part(Database))]
ClockPart = Annotated[Clock, Depends(part(Clock))]


def answer(value: WireModel) -> Response:
    """A model as JSON, without the fields that have no value."""
    return json_response(value.model_dump_json(exclude_none=True))


def answer_of(value: BaseModel, headers: Mapping[str, str] | None = None) -> Response:
    """A model as JSON, with the fields that were set."""
    body = value.model_dump_json(by_alias=True, exclude_unset=True)
    return json_response(body, headers=headers)


def page_of(request: Request, value: BaseModel, following: Any) -> Response:
    """A page of a list. `following`: the key or keys with which the next page starts, for the
    header `Link`; None after the last page."""
    if following is None:
        return answer_of(value)
    keys = following if isinstance(following, tuple) else (following,)
    return answer_of(value, next_link(request, *keys))
