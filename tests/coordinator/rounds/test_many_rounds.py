"""Rounds in progress at the same time: they share requests and transactions, and a bad one holds up
no other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from common.store.transactions import Database
from common.web.dependencies import part_of
from coordinator.registry.peer_requests import StepQueue
from coordinator.rounds.conductor import FEW, MOST_PACE_S, pace_s
from coordinator.store import rounds as store
from tacit.protocol.round.messages import Step, StepName
from tacit.wire import encode_binary
from tests.coordinator.conftest import Houses
from tests.coordinator.double import House, integers, query

MANY = 8
DEADLINE_S = 120


async def opened(it: House) -> list[Any]:
    """Rounds in progress, to which a host has contributed."""
    host = await it.host("gateway", 4)
    names = [f"feeder-{number}" for number in range(MANY)]
    rounds = [await it.open(query(name=name, deadline_s=DEADLINE_S)) for name in names]
    await asyncio.gather(*(each.contribute(host, integers(4)) for each in rounds))
    return rounds


async def states(it: House, rounds: list[Any]) -> dict[str, str]:
    return {each.id: (await it.finish(each))["state"] for each in rounds}


async def test_many_rounds_share_requests_and_transactions(house: Houses) -> None:
    async with house(3) as it:
        rounds = await opened(it)
        counts = part_of(it.app, Database).counts
        before, asked = counts.writing, [len(wire.ended) for wire in it.wires]
        assert set((await states(it, rounds)).values()) == {"released"}
        assert counts.writing - before < 2 * MANY  # committed, released: some together
        for wire, earlier in zip(it.wires, asked, strict=True):
            assert len(wire.ended) - earlier < 2 * MANY


async def test_a_bad_round_leaves_the_others(
    house: Houses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An aggregator lies in one, and the change of another fails, and with it the transaction that
    it shares, as often as it is tried."""
    spoilt: list[str] = []
    bad: list[str] = []
    honest = store.change

    def lie(path: str, answer: Any) -> Any:
        if path.endswith("/reveal") and path.split("/")[-2] in spoilt:
            answer["partial"] = encode_binary(bytes(8))
        return answer

    async def broken(transaction: Any, round_id: str, *rest: Any, **values: Any) -> bool:
        if round_id in bad and "commitments" in values:
            raise RuntimeError("planted")
        return await honest(transaction, round_id, *rest, **values)

    monkeypatch.setattr(store, "change", broken)
    async with house(3) as it:
        it.wires[1].lie = lie
        rounds = await opened(it)
        bad.append(rounds[3].id)
        spoilt.append(rounds[7].id)
        found = await states(it, [each for each in rounds if each is not rounds[3]])
        assert found.pop(rounds[7].id) == "aborted"
        assert set(found.values()) == {"released"}
        bad.clear()
        assert (await it.finish(rounds[3]))["state"] == "released"


@pytest.mark.parametrize(
    ("rounds", "expected"), [(0, 0), (FEW, 0), (FEW + 10, 0.05), (10_000, MOST_PACE_S)]
)
def test_a_few_rounds_wait_for_nothing(rounds: int, expected: float) -> None:
    assert pace_s(rounds) == pytest.approx(expected)


async def test_requests_with_steps_follow_each_other_at_a_pace() -> None:
    sent: list[int] = []
    pace = [3600.0]

    async def post(path: str, body: str) -> Any:
        sent.append(body.count('"name"'))
        raise ValueError  # who asks hears of it

    queue = StepQueue(lambda: pace[0])
    step = Step(name=StepName.REVEAL, round="019a0c2e-8f00-7000-8000-000000000001", body='{"name"')
    with pytest.raises(ValueError):
        await queue.ask(step, post)
    waiting = [asyncio.create_task(queue.ask(step, post)) for _ in range(3)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(sent) == 1
    pace[0] = 0.0
    answers = await asyncio.gather(*waiting, queue.ask(step, post), return_exceptions=True)
    assert all(isinstance(answer, ValueError) for answer in answers)
    assert len(sent) == 2
    await queue.aclose()
