"""Shared by the curator's routes: access checks, and writing models.

It imports no domain: a route names the parts of the service that it uses by their types
(`common.web.dependencies`); here is only the store's engine, which most routes use.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Response
from fastapi import Path as PathParameter

from common.principals import Principal, Scope
from common.store.transactions import Database
from common.web.auth import require
from common.web.dependencies import part
from common.web.wire import json_response
from tacit.wire import WireModel

Operator = Annotated[Principal, Depends(require(Scope.OPERATOR))]
Owner = Annotated[Principal, Depends(require(Scope.OPERATOR, Scope.CURATOR))]
Sender = Annotated[Principal, Depends(require(Scope.OPERATOR, Scope.DEVICE, Scope.CURATOR))]
CuratorId = Annotated[str, PathParameter(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$")]
DatabasePart = Annotated[Database, Depends(part(Database))]


def answer(value: WireModel) -> Response:
    """A model as JSON, without the fields that have no value."""
    return json_response(value.model_dump_json(exclude_none=True))
