"""Shared by the coordinator's routes: access checks, and writing answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from pydantic import BaseModel

from common.principals import Principal, Scope
from common.web.auth import require
from common.web.paging import Page, next_link
from common.web.wire import json_response
from tacit.wire import WireModel, format_instant

Operator = Annotated[Principal, Depends(require(Scope.OPERATOR))]
Analyst = Annotated[Principal, Depends(require(Scope.ANALYST))]
Reader = Annotated[Principal, Depends(require(Scope.ANALYST, Scope.CURATOR))]
Party = Annotated[Principal, Depends(require(Scope.CURATOR))]


def time_text(instant: datetime | None) -> str | None:
    """An instant in its wire format."""
    return None if instant is None else format_instant(instant)


def encode(value: Any) -> bytes:
    """A model, or plain values, as the JSON of an answer that is stored or has a tag."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return json.dumps(value).encode()


def link_next(
    request: Request, response: Response, page: Page, rows: Sequence[Any], key: str
) -> None:
    """Behind a full page, set the header `Link` to the one after the `key` of its last row."""
    if len(rows) == page.limit:
        response.headers.update(next_link(request, getattr(rows[-1], key)))


def model_response(model: WireModel, status: int = 200) -> Response:
    """A wire model as an answer."""
    return json_response(model.model_dump_json(), status)
