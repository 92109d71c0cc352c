"""The route that takes readings, as JSON, arrays or NDJSON."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request, Response
from starlette.responses import JSONResponse

from common.bodies import JSON
from common.web.dependencies import part
from common.web.openapi import gives
from common.web.wire import NDJSON, content_type
from curator import examples
from curator.intake.batching import Batching
from curator.intake.reading import items_of
from curator.settings import CuratorSettings
from curator.web import Sender
from tacit.answers.curator import ReadingsTaken
from tacit.errors import UnsupportedForm

_LINES = frozenset({NDJSON, "application/ndjson", "application/jsonl"})


def add_intake(app: FastAPI) -> None:
    """Add the route to an app."""

    @app.post(
        "/v1/readings",
        **gives(ReadingsTaken),
        tags=["readings"],
        summary="Readings: one object, an array, or a line each; one answer per item",
        openapi_extra=examples.readings_body(),
    )
    async def post_readings(
        request: Request,
        caller: Sender,
        batching: Annotated[Batching, Depends(part(Batching))],
        settings: Annotated[CuratorSettings, Depends(part(CuratorSettings))],
    ) -> Response:
        raws = await _raw_items(request, settings.max_items)
        answers = await batching.take(raws, caller)
        return JSONResponse({"items": [answer.document() for answer in answers]})


async def _raw_items(request: Request, most: int) -> list[Any]:
    form = content_type(request)
    if form not in _LINES and form != JSON:
        raise UnsupportedForm(extra={"supported": [JSON, *sorted(_LINES)]})
    return items_of(await request.body(), form, most)
