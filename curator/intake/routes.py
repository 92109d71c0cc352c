"""The route that takes readings, as JSON, arrays or NDJSON, and the batching of small requests.

Requests that arrive during a write form the next batch: a gateway's devices send one reading a
request each, and thousands share a transaction. A request waits at most for the write before its
own. There is no timer: a single request is written immediately.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Annotated, Any, Final, TypeAlias

from fastapi import Depends, Query, Request, Response
from starlette.responses import JSONResponse

from common.bodies import JSON
from common.principals import Principal
from common.runtime.clock import Clock, epoch_microseconds
from common.store.group_commit import GroupCommit
from common.web.dependencies import part
from common.web.openapi import api_router, gives
from common.web.wire import NDJSON, content_type
from curator import examples
from curator.errors import BadItem, NotReadings
from curator.intake.intake import Answer, Intake, together
from curator.intake.reading import items_of, register_name
from curator.intake.senml import SENML_CBOR, SENML_JSON, items_of_senml
from curator.settings import CuratorSettings
from curator.web import Sender
from tacit.answers.curator import ReadingsTaken
from tacit.errors import UnsupportedForm
from tacit.units import Kind

SMALL: Final = 256
"""Most items in a request that is batched; a larger one gets its own transaction."""
TOGETHER: Final = 4_096
MOST_WAITING: Final = 20_000


Sent: TypeAlias = tuple[Sequence[Any], Principal]


class Batching:
    """Writes the requests that wait in one transaction."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._requests: GroupCommit[Sent, list[Answer]] = GroupCommit(
            self._write,
            size_of=lambda request: len(request[0]),
            batch_items=inf,
            batch_size=TOGETHER,
            max_size=MOST_WAITING,
            abandoned=True,
        )

    async def take(self, raws: Sequence[Any], caller: Principal) -> list[Answer]:
        """Store the items of a request; one answer each, after the commit.

        Queued items are written even if their sender disconnects. Raises QueueFull before
        anything is queued, and what the store raises.
        """
        if len(raws) > SMALL:
            return await self._intake.take(raws, caller)
        return await self._requests.submit((raws, caller))

    async def _write(self, requests: Sequence[Sent]) -> list[list[Answer]]:
        return await together(self._intake, requests)


_LINES = frozenset({NDJSON, "application/ndjson", "application/jsonl"})


router = api_router()


@router.post(
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
    clock: Annotated[Clock, Depends(part(Clock))],
    register: Annotated[
        str | None, Query(description="Of SenML: the register of names that end in none")
    ] = None,
    kind: Annotated[
        Kind | None, Query(description="Of SenML: the kind, of registers that take it")
    ] = None,
) -> Response:
    form = content_type(request)
    if form in (SENML_JSON, SENML_CBOR):
        given, now = await request.body(), epoch_microseconds(clock.now())
        raws = items_of_senml(
            given, form, settings.max_items, now, register=_register(register), kind=kind
        )
    else:
        raws = await _raw_items(request, settings.max_items)
    answers = await batching.take(raws, caller)
    return JSONResponse({"items": [answer.document() for answer in answers]})


def _register(named: str | None) -> str | None:
    try:
        return named if named is None else register_name(named)
    except BadItem as error:
        raise NotReadings(f"/register {error.detail}") from None


async def _raw_items(request: Request, most: int) -> list[Any]:
    form = content_type(request)
    if form not in _LINES and form != JSON:
        raise UnsupportedForm(extra={"supported": [JSON, *sorted(_LINES), SENML_JSON, SENML_CBOR]})
    return items_of(await request.body(), form, most)
