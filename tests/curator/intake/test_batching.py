"""Small requests share a transaction: each gets its own answers, and none spoils another."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from typing import Any

import pytest

from common.principals import Principal, Scope
from common.store.group_commit import QueueFull
from curator.intake import routes as batching
from curator.intake.intake import Answer, Status
from curator.intake.routes import Batching

CALLER = Principal("test", frozenset({Scope.OPERATOR}))


class Store:
    """Stands in the place of the intake: says which items came together, and may fail."""

    def __init__(self) -> None:
        self.lots: list[list[Any]] = []
        self.go = asyncio.Event()

    async def take(self, raws: Sequence[Any], caller: Principal) -> list[Answer]:
        return await self.take_sent([(raw, caller) for raw in raws])

    async def take_sent(self, sent: Sequence[tuple[Any, Principal]]) -> list[Answer]:
        items = [raw for raw, _ in sent]
        self.lots.append(items)
        await self.go.wait()
        if "gone" in items:
            raise OSError(errno.ENOSPC, "the disk is full")
        if "poison" in items:
            raise ValueError("cannot be stored")
        return [
            Answer(index, Status.DUPLICATE if raw == "again" else Status.ACCEPTED)
            for index, raw in enumerate(items)
        ]


def made() -> tuple[Store, Batching]:
    store = Store()
    return store, Batching(store)  # type: ignore[arg-type]


async def asked(it: Batching, *requests: list[Any]) -> list[Any]:
    tasks = []
    for raws in requests:
        tasks.append(asyncio.create_task(it.take(raws, CALLER)))
        await asyncio.sleep(0)
    return tasks


async def test_what_waits_is_written_together_and_answered_apart() -> None:
    store, it = made()
    first = await asked(it, ["a"])
    await asyncio.sleep(0)
    others = await asked(it, ["b", "again"], [], ["c"])
    store.go.set()
    found = await asyncio.gather(*first, *others)
    assert store.lots == [["a"], ["b", "again", "c"]]
    assert [[(each.index, each.status.value) for each in own] for own in found] == [
        [(0, "accepted")],
        [(0, "accepted"), (1, "duplicate")],
        [],
        [(0, "accepted")],
    ]


async def test_a_request_that_cannot_be_stored_fails_alone() -> None:
    store, it = made()
    tasks = await asked(it, ["a"], ["b"], ["poison"], ["c"])
    store.go.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(each, ValueError) for each in found] == [False, False, True, False]


async def test_a_store_that_is_gone_is_not_asked_again_for_each() -> None:
    store, it = made()
    tasks = await asked(it, ["a"], ["b"], ["gone"], ["c"])
    store.go.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(each, OSError) for each in found] == [False, True, True, True]
    assert len(store.lots) == 2


async def test_who_goes_away_is_stored_all_the_same() -> None:
    store, it = made()
    first, second = await asked(it, ["a"], ["b"])
    second.cancel()
    await asyncio.sleep(0)
    store.go.set()
    await first
    while len(store.lots) < 2:
        await asyncio.sleep(0)
    assert store.lots == [["a"], ["b"]]


async def test_the_queue_is_bounded_and_large_requests_go_by_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batching, "MOST_WAITING", 5)  # one of them is being written
    store, it = made()
    tasks = await asked(it, ["a"])
    await asyncio.sleep(0)
    tasks += await asked(it, ["b", "c"], ["d", "e"])
    with pytest.raises(QueueFull):
        await it.take(["f"], CALLER)
    large = await asked(it, list(range(batching.SMALL + 1)))
    store.go.set()
    await asyncio.gather(*tasks, *large)
    assert [len(lot) for lot in store.lots] == [1, batching.SMALL + 1, 4]
