"""Steps that are due in many rounds at one aggregator share a request.

The first goes at once. What comes while requests are under way waits for one of them to return, and
goes together: there is no timer, and a round alone waits for nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import httpx
from pydantic import ValidationError

from coordinator.errors import AggregatorUnreachable
from tacit.protocol.steps import MOST_STEPS, Step, StepAnswers, StepName, Steps

AT_ONCE: Final = 2
"""Requests with steps that are under way to one aggregator."""
MOST_BYTES: Final = 1 << 20
PATHS: Final = {
    StepName.CONTRIBUTE: "contributions",
    StepName.MISSING: "missing",
    StepName.FREEZE: "freeze",
    StepName.COMMIT: "commitment",
    StepName.REVEAL: "reveal",
}

Post = Callable[[str, str], Awaitable[httpx.Response]]
"""Sends JSON to a path. Raises AggregatorUnreachable."""


def path_of(step: Step) -> str:
    """The path of the step's own route."""
    if step.name is StepName.OPEN:
        return "/v1/rounds"
    return f"/v1/rounds/{step.round}/{PATHS[step.name]}"


@dataclass(frozen=True)
class _Waiting:
    step: Step
    post: Post
    answer: asyncio.Future[httpx.Response] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class StepQueue:
    """The steps that wait for one aggregator."""

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()
        self._senders: set[asyncio.Task[None]] = set()

    async def ask(self, step: Step, post: Post) -> httpx.Response:
        """The answer to a step, whichever request it went with. Raises AggregatorUnreachable."""
        waiting = _Waiting(step, post)
        self._waiting.append(waiting)
        if len(self._senders) < AT_ONCE:
            sender = asyncio.create_task(self._send(), name="steps")
            self._senders.add(sender)
            sender.add_done_callback(self._senders.discard)
        return await waiting.answer

    async def _send(self) -> None:
        while lot := self._lot():
            try:
                answers = await _answers(lot)
            except Exception as error:
                for waiting in lot:
                    if not waiting.answer.done():
                        waiting.answer.set_exception(error)
            else:
                for waiting, answer in zip(lot, answers, strict=True):
                    if not waiting.answer.done():
                        waiting.answer.set_result(answer)

    def _lot(self) -> list[_Waiting]:
        """What goes next: at least one step, and no more than fits."""
        lot: list[_Waiting] = []
        size = 0
        while self._waiting and len(lot) < MOST_STEPS:
            size += len(self._waiting[0].step.body)
            if lot and size > MOST_BYTES:
                break
            waiting = self._waiting.popleft()
            if not waiting.answer.cancelled():  # who asked waits no longer
                lot.append(waiting)
        return lot

    async def aclose(self) -> None:
        """End the requests under way."""
        for sender in self._senders:
            sender.cancel()
        await asyncio.gather(*self._senders, return_exceptions=True)


async def _answers(lot: Sequence[_Waiting]) -> list[httpx.Response]:
    post = lot[0].post
    if len(lot) == 1:
        return [await post(path_of(lot[0].step), lot[0].step.body)]
    together = Steps(steps=tuple(waiting.step for waiting in lot))
    answer = await post("/v1/rounds/steps", together.model_dump_json())
    if answer.status_code in (404, 405):  # an earlier version takes them one by one
        return [await post(path_of(waiting.step), waiting.step.body) for waiting in lot]
    if answer.status_code != 200:
        return [answer] * len(lot)
    try:
        found = StepAnswers.model_validate_json(answer.content).answers
    except ValidationError:
        found = ()
    if len(found) != len(lot):
        raise AggregatorUnreachable("an aggregator gives answers of another form")
    return [httpx.Response(item.status, content=item.body.encode()) for item in found]
