"""Long polls: nobody misses a change, and those who wake together look together."""

from __future__ import annotations

import asyncio

from common.runtime.tasks import Notice


class Store:
    """What is looked at; counts the looks."""

    def __init__(self) -> None:
        self.value, self.looks, self.fails = 0, 0, False

    async def look(self) -> int:
        self.looks += 1
        await asyncio.sleep(0)
        if self.fails:
            raise OSError
        return self.value


async def poll(notice: Notice, store: Store, known: int, seconds: float = 10.0) -> int:
    looked = notice.shared("value", store.look)

    async def look() -> tuple[int, bool]:
        found = await looked()
        return found, found == known

    return await notice.poll(look, seconds)


async def settled(store: Store, looks: int) -> None:
    while store.looks < looks:
        await asyncio.sleep(0)
    for _ in range(5):
        await asyncio.sleep(0)


async def test_those_who_wake_together_share_a_look() -> None:
    notice, store = Notice(), Store()
    polls = [asyncio.create_task(poll(notice, store, 0)) for _ in range(50)]
    await settled(store, 50)
    for change in (1, 2):  # the first is undone before anybody looks
        store.value = change if change == 2 else 0
        notice.notify()
        await settled(store, 50 + change)
    assert await asyncio.gather(*polls) == [2] * 50
    assert store.looks == 52


async def test_a_first_look_is_its_own() -> None:
    """Who wrote and asks must see it, though nobody was notified yet."""
    notice, store = Notice(), Store()
    waiting = asyncio.create_task(poll(notice, store, 0))
    await settled(store, 1)
    notice.notify()
    await settled(store, 2)
    store.value = 1
    assert await poll(notice, store, 0) == 1
    notice.notify()
    assert await waiting == 1


async def test_a_look_that_failed_is_not_kept() -> None:
    notice, store = Notice(), Store()
    polls = [asyncio.create_task(poll(notice, store, 0)) for _ in range(3)]
    await settled(store, 3)
    store.fails = True
    notice.notify()
    assert {type(found) for found in await asyncio.gather(*polls, return_exceptions=True)} == {
        OSError
    }
    store.fails = False
    late = notice.shared("value", store.look)
    await late()
    assert await late() == 0


async def test_the_end_of_the_time_is_an_answer() -> None:
    assert await poll(Notice(), Store(), 0, 0.01) == 0
