"""Steps share requests as long as others are under way, and each gets its own answer."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from common.web.client import ServiceResponse
from coordinator.errors import AggregatorUnreachable
from coordinator.registry import peer_requests
from coordinator.registry.peer_requests import AT_ONCE, MOST_BYTES, StepQueue
from tacit.protocol.round.messages import MOST_STEPS, Step, StepAnswer, StepAnswers, StepName


def step(number: int, body: str = "") -> Step:
    return Step(name=StepName.FREEZE, round=f"019a0c2e-8f00-7000-8000-{number:012x}", body=body)


class Aggregator:
    """Answers each step with its round, once the gate is open."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.lots: list[int] = []
        self.fails: Exception | None = None
        self.tells: ServiceResponse | None = None

    async def post(self, path: str, content: str) -> ServiceResponse:
        together = path == "/v1/rounds/steps"
        asked = json.loads(content)["steps"] if together else [{"round": path.split("/")[3]}]
        self.lots.append(len(asked))
        await self.gate.wait()
        if self.fails is not None:
            raise self.fails
        if together and self.tells is not None:
            return self.tells
        if not together:
            return ServiceResponse(200, {}, asked[0]["round"].encode())
        answers = tuple(StepAnswer(status=200, body=item["round"]) for item in asked)
        return ServiceResponse(200, {}, StepAnswers(answers=answers).model_dump_json().encode())


async def under_way(it: Aggregator) -> None:
    """As many turns of the loop as it takes for what can be sent to be sent."""
    for _ in range(20):
        await asyncio.sleep(0)
    assert it.lots


async def ask(queue: StepQueue, it: Aggregator, *steps: Step) -> list[Any]:
    """The answers to steps that are all asked for before the first is answered."""
    asking = [asyncio.create_task(queue.ask(each, it.post)) for each in steps]
    await under_way(it)
    it.gate.set()
    return await asyncio.gather(*asking, return_exceptions=True)


async def test_what_waits_goes_together_and_answers_are_not_mixed_up() -> None:
    queue, it = StepQueue(), Aggregator()
    steps = [step(number) for number in range(MOST_STEPS + 20)]
    answers = await ask(queue, it, *steps)
    assert [item.body.decode() for item in answers] == [item.round for item in steps]
    assert it.lots == [MOST_STEPS, 20]
    await queue.aclose()


async def test_what_is_asked_as_an_answer_comes_does_not_wait_for_ever() -> None:
    queue, it = StepQueue(), Aggregator()
    it.gate.set()
    async with asyncio.timeout(60):
        for number in range(20):  # no turn of the loop between an answer and the next step
            await queue.ask(step(number), it.post)
    assert it.lots == [1] * 20


async def test_others_wait_for_a_slow_request_no_longer_than_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peer_requests, "SLOW_S", 0)
    queue, slow, quick = StepQueue(), Aggregator(), Aggregator()
    quick.gate.set()
    large = [asyncio.create_task(queue.ask(step(0), slow.post))]
    await under_way(slow)
    large += [asyncio.create_task(queue.ask(step(number), slow.post)) for number in (1, 2)]
    await under_way(slow)
    assert slow.lots == [1, 2]  # the second and third go together, and are slow as well
    async with asyncio.timeout(60):
        assert (await queue.ask(step(7), quick.post)).body == step(7).round.encode()
    for number in range(AT_ONCE + 3):
        large.append(asyncio.create_task(queue.ask(step(10 + number), slow.post)))
        await under_way(slow)
    assert len(slow.lots) == AT_ONCE  # no more than that at once, however slow they are
    slow.gate.set()
    assert len(await asyncio.gather(*large)) == AT_ONCE + 6
    await queue.aclose()


async def test_large_ones_are_not_joined() -> None:
    queue, it = StepQueue(), Aggregator()
    steps = [step(number, "x" * (MOST_BYTES // 2 + 1)) for number in range(6)]
    answers = await ask(queue, it, *steps)
    assert [item.body.decode() for item in answers] == [item.round for item in steps]
    assert it.lots == [1] * 6


async def test_who_waits_no_longer_is_left_out() -> None:
    queue, it = StepQueue(), Aggregator()
    asking = [asyncio.create_task(queue.ask(step(number), it.post)) for number in range(6)]
    await under_way(it)
    later = asyncio.create_task(queue.ask(step(7), it.post))
    gone = asyncio.create_task(queue.ask(step(8), it.post))
    await asyncio.sleep(0)
    gone.cancel()
    it.gate.set()
    answers = await asyncio.gather(*asking, later)
    assert [item.body.decode() for item in answers] == [
        step(n).round for n in (0, 1, 2, 3, 4, 5, 7)
    ]
    assert sum(it.lots) == 7


@pytest.mark.parametrize(
    "told",
    [
        ServiceResponse(200, {}, b"{}"),
        ServiceResponse(200, {}, b'{"answers": []}'),
        ServiceResponse(200, {}, b'{"answers": [{"status": 7, "body": ""}]}'),
        ServiceResponse(200, {}, b"nonsense"),
    ],
)
async def test_answers_of_another_form_are_none(told: ServiceResponse) -> None:
    queue, it = StepQueue(), Aggregator()
    it.tells = told
    answers = await ask(queue, it, *(step(number) for number in range(6)))
    assert sum(isinstance(item, AggregatorUnreachable) for item in answers) == sum(
        count for count in it.lots if count > 1
    )


async def test_a_silent_aggregator_is_so_for_each_and_asked_again() -> None:
    queue, it = StepQueue(), Aggregator()
    it.fails = AggregatorUnreachable("down")
    answers = await ask(queue, it, *(step(number) for number in range(6)))
    assert all(isinstance(item, AggregatorUnreachable) for item in answers)
    it.fails = None
    (answer,) = await ask(queue, it, step(3))
    assert answer.status == 200
