"""Steps that are due in many rounds at one aggregator share a request.

The first goes at once. What comes while a request is under way waits for it to return, and goes
together. With many rounds in progress the requests follow each other at a pace, so that more share
one; a few rounds wait for nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, TypeAlias

import httpx
from pydantic import ValidationError

from coordinator.errors import AggregatorUnreachable
from tacit.protocol.steps import MOST_STEPS, Step, StepAnswer, StepAnswers, StepName, Steps

AT_ONCE: Final = 4
"""Requests with steps that are under way to one aggregator; all but one of them are slow."""
SLOW_S: Final = 0.5
"""A request that takes longer holds a large round's step: others no longer wait for it."""
MOST_BYTES: Final = 1 << 20
PATHS: Final = {
    StepName.CONTRIBUTE: "contributions",
    StepName.KEYS: "verification-keys",
    StepName.MISSING: "missing",
    StepName.FREEZE: "freeze",
    StepName.VERIFICATION: "verification",
    StepName.VERDICT: "verdict",
    StepName.COMMIT: "commitment",
    StepName.REVEAL: "reveal",
}


@dataclass(frozen=True, slots=True)
class StepDone:
    """What is needed of the answer to a step that succeeded: a hundredth of the work of a
    response."""

    status_code: int
    content: bytes


Answer: TypeAlias = httpx.Response | StepDone
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
    answer: asyncio.Future[Answer] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class StepQueue:
    """The steps that wait for one aggregator."""

    def __init__(self, pace_s: Callable[[], float] = lambda: 0.0) -> None:
        self._pace_s = pace_s
        self._sent_at = -inf
        self._later: asyncio.TimerHandle | None = None
        self._waiting: deque[_Waiting] = deque()
        self._senders: set[asyncio.Task[None]] = set()
        self._awaited: asyncio.Task[None] | None = None

    async def ask(self, step: Step, post: Post) -> Answer:
        """The answer to a step, whichever request it went with. Raises AggregatorUnreachable."""
        waiting = _Waiting(step, post)
        self._waiting.append(waiting)
        self._start()
        return await waiting.answer

    def _start(self) -> None:
        if self._awaited is not None or len(self._senders) >= AT_ONCE or not self._waiting:
            return
        loop = asyncio.get_running_loop()
        early_s = self._sent_at + self._pace_s() - loop.time()
        if early_s > 0 and len(self._waiting) < MOST_STEPS:
            if self._later is None:
                self._later = loop.call_later(early_s, self._resume)
            return
        if lot := self._lot():
            self._sent_at = loop.time()
            sender = self._awaited = asyncio.create_task(self._send(lot), name="steps")
            self._senders.add(sender)

    def _resume(self) -> None:
        self._later = None
        self._start()

    async def _send(self, lot: Sequence[_Waiting]) -> None:
        sender = asyncio.current_task()
        assert sender is not None
        slow = asyncio.get_running_loop().call_later(SLOW_S, self._pass_by, sender)
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
        finally:  # before the task is done: a step asked in between would never be sent
            slow.cancel()
            self._senders.discard(sender)
            self._pass_by(sender)

    def _pass_by(self, sender: asyncio.Task[None]) -> None:
        """What waits goes, as this request is answered, or takes too long to wait for it."""
        if self._awaited is sender:
            self._awaited = None
        self._start()

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
        self._waiting.clear()
        if self._later is not None:
            self._later.cancel()
        senders = list(self._senders)
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)


async def _answers(lot: Sequence[_Waiting]) -> Sequence[Answer]:
    post = lot[0].post
    if len(lot) == 1:
        return [await post(path_of(lot[0].step), lot[0].step.body)]
    together = Steps(steps=tuple(waiting.step for waiting in lot))
    answer = await post("/v1/rounds/steps", together.model_dump_json())
    if answer.status_code != 200:
        return [answer] * len(lot)
    try:
        found = StepAnswers.model_validate_json(answer.content).answers
    except ValidationError:
        found = ()
    if len(found) != len(lot):
        raise AggregatorUnreachable("an aggregator gives answers of another form")
    return [_answer(item) for item in found]


def _answer(item: StepAnswer) -> Answer:
    content = item.body.encode()
    if item.status < 400:
        return StepDone(item.status, content)
    return httpx.Response(item.status, content=content)
