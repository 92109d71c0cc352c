"""The route that takes readings, as JSON, arrays or NDJSON, and the batching of small requests.

Requests that arrive during a write form the next batch: a gateway's devices send one reading a
request each, and thousands share a transaction. A request waits at most for the write before its
own. There is no timer: a single request is written immediately.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request, Response
from starlette.responses import JSONResponse

from common.runtime.logs import describe, get_logger
from common.store.failures import store_failed
from common.store.group_commit import QueueFull
from common.web.auth import Principal
from common.web.dependencies import part
from common.web.openapi import gives
from common.web.wire import JSON, NDJSON, content_type
from curator import examples
from curator.intake.intake import Answer, Intake, together
from curator.intake.reading import items_of
from curator.settings import CuratorSettings
from curator.web import Sender
from tacit.answers.curator import ReadingsTaken
from tacit.errors import UnsupportedForm

SMALL: Final = 256
"""Most items in a request that is batched; a larger one gets its own transaction."""
TOGETHER: Final = 4_096
MOST_WAITING: Final = 20_000
_logger = get_logger("tacit.curator.gathering")


@dataclass(frozen=True)
class _Waiting:
    raws: Sequence[Any]
    caller: Principal
    answer: asyncio.Future[list[Answer]]


class Gathering:
    """Requests that wait, and the task that writes them while there are any."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._queue: deque[_Waiting] = deque()
        self._items = 0
        self._task: asyncio.Task[None] | None = None

    async def take(self, raws: Sequence[Any], caller: Principal) -> list[Answer]:
        """Store the items of a request; one answer each, after the commit.

        What is waiting is written even if its sender goes away. Raises QueueFull before anything
        is queued, and what the store raises.
        """
        if len(raws) > SMALL:
            return await self._intake.take(raws, caller)
        if self._items + len(raws) > MOST_WAITING:
            raise QueueFull(retry_after_s=1)
        answer: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        self._queue.append(_Waiting(raws, caller, answer))
        self._items += len(raws)
        if self._task is None:
            self._task = asyncio.create_task(self._drain(), name="readings")
        return await answer

    async def _drain(self) -> None:
        try:
            while self._queue:
                lot = [self._queue.popleft()]
                count = len(lot[0].raws)
                while self._queue and count + len(self._queue[0].raws) <= TOGETHER:
                    lot.append(self._queue.popleft())
                    count += len(lot[-1].raws)
                self._items -= count
                await self._write(lot)
        finally:
            self._task = None

    async def _write(self, lot: Sequence[_Waiting]) -> None:
        try:
            found = await together(self._intake, [(each.raws, each.caller) for each in lot])
        except Exception as error:
            if len(lot) == 1 or store_failed(error):
                for waiting in lot:
                    if not waiting.answer.done():
                        waiting.answer.set_exception(error)
                return
            # One request that cannot be stored must not fail the others: each by itself.
            _logger.error("requests_unprocessable", requests=len(lot), **describe(error))
            for waiting in lot:
                await self._write([waiting])
            return
        for waiting, answers in zip(lot, found, strict=True):
            if not waiting.answer.done():
                waiting.answer.set_result(answers)


_LINES = frozenset({NDJSON, "application/ndjson", "application/jsonl"})


router = APIRouter()


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
    gathering: Annotated[Gathering, Depends(part(Gathering))],
    settings: Annotated[CuratorSettings, Depends(part(CuratorSettings))],
) -> Response:
    raws = await _raw_items(request, settings.max_items)
    answers = await gathering.take(raws, caller)
    return JSONResponse({"items": [answer.document() for answer in answers]})


async def _raw_items(request: Request, most: int) -> list[Any]:
    form = content_type(request)
    if form not in _LINES and form != JSON:
        raise UnsupportedForm(extra={"supported": [JSON, *sorted(_LINES)]})
    return items_of(await request.body(), form, most)
