"""Many small requests, one transaction: requests that wait during a write form the next batch.

A gateway's devices each send a reading in a separate request. Written one by one, each reading
costs a transaction; batched, thousands share one, and each request waits at most for the write
before its own. There is no timer: a single request is written immediately.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from common.runtime.logs import describe, get_logger
from common.store.failures import store_failed
from common.store.group_commit import QueueFull
from common.web.auth import Principal
from curator.intake.intake import Answer, Intake

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


async def together(
    intake: Intake, requests: Sequence[tuple[Sequence[Any], Principal]]
) -> list[list[Answer]]:
    """The items of several requests in one transaction; the answers of each, counted from 0."""
    answers = await intake.take_sent([(raw, caller) for raws, caller in requests for raw in raws])
    found, begin = [], 0
    for raws, _ in requests:
        own = answers[begin : begin + len(raws)]
        found.append([replace(answer, index=answer.index - begin) for answer in own])
        begin += len(raws)
    return found
