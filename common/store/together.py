"""Group commit: tasks that arrive during a transaction share the next one.

There is no task and no timer: whoever comes first works for all who wait. If that transaction
fails, each is done alone, so that no item spoils another's; an item must therefore be harmless to
repeat. Nothing is answered before its commit.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar, cast

from common.batches import batches
from common.runtime.logs import describe, get_logger
from common.store.failures import store_failed
from common.store.transactions import LARGE_ROWS, Transaction
from common.store.writer import WriterStopped

Item = TypeVar("Item")
Answer = TypeVar("Answer")

ITEMS: Final = 64
"""Most items in a transaction: short ones are done in the loop's own thread."""
ROWS: Final = 1 << 18

Work: TypeAlias = Callable[[Transaction, Sequence[Item]], Awaitable[Sequence[Answer]]]
"""Answers for each item, in order; what it raises is tried again item by item."""


class Opening(Protocol):
    """Begins a transaction: `Database.begin` or `Database.reading`."""

    def __call__(self, *, large: bool = False) -> AbstractAsyncContextManager[Transaction]: ...


_logger = get_logger("tacit.together")


InTurn: TypeAlias = Callable[[Transaction], Awaitable[Any]]
"""A piece of work that needs nothing of the others."""


async def in_turn(transaction: Transaction, works: Sequence[InTurn]) -> list[Any]:
    """One after the other: the `work` of a `Together` whose items say themselves what they do."""
    answers = []
    for work in works:
        answers.append(await work(transaction))
        await asyncio.sleep(0)  # the loop serves others meanwhile
    return answers


@dataclass(eq=False)
class _Waiting(Generic[Item]):
    item: Item
    answer: asyncio.Future[Any]
    """Of the item; or `_TURN`, if its task is to work for all that wait."""


_TURN: Final = object()


class Together(Generic[Item, Answer]):
    """One kind of work. `rows_of`: about how many rows an item reads and writes; `is_large`: if a
    transaction with it is large, where that is no matter of its own rows."""

    def __init__(
        self,
        transaction: Opening,
        work: Work[Item, Answer],
        *,
        rows_of: Callable[[Item], int] = lambda _: 0,
        is_large: Callable[[Item], bool] | None = None,
    ) -> None:
        self._transaction, self._work, self._rows_of = transaction, work, rows_of
        self._is_large = is_large or (lambda item: rows_of(item) >= LARGE_ROWS)
        self._queue: deque[_Waiting[Item]] = deque()
        self._working = False

    async def submit(self, item: Item) -> Answer:
        """The answer to an item, after its commit. Raises what its work raises."""
        loop = asyncio.get_running_loop()
        own = _Waiting(item, loop.create_future())
        self._queue.append(own)
        if self._working:
            try:
                found = await own.answer
            except asyncio.CancelledError:
                if _is_turn(own.answer):
                    self._pass_on(own)
                raise
            if found is not _TURN:
                return cast(Answer, found)
            own.answer = loop.create_future()
        self._working = True
        try:
            await asyncio.sleep(0)  # what is due at the same moment joins first
            await self._next()
        finally:
            self._pass_on(own)
        return cast(Answer, await own.answer)

    def _pass_on(self, own: _Waiting[Item]) -> None:
        """Give the turn to whoever has waited longest."""
        while self._queue and (self._queue[0] is own or self._queue[0].answer.done()):
            self._queue.popleft()
        self._working = bool(self._queue)
        if self._queue:
            self._queue[0].answer.set_result(_TURN)

    async def _next(self) -> None:
        """Do what has waited longest, as much as fits."""
        batch = next(batches(self._queue, lambda each: self._rows_of(each.item), ROWS, ITEMS))
        for _ in batch:
            self._queue.popleft()
        batch = [each for each in batch if not each.answer.done()]
        try:
            await self._all(batch)
        finally:
            for each in batch:  # who worked for all was cancelled
                if not each.answer.done():
                    each.answer.set_exception(WriterStopped())
                    each.answer.exception()  # who waits hears of it all the same

    async def _all(self, batch: Sequence[_Waiting[Item]]) -> None:
        try:
            found = await self._done([each.item for each in batch])
        except Exception as error:
            if len(batch) > 1 and not store_failed(error):
                _logger.info("done_one_by_one", items=len(batch), **describe(error))
                for each in batch:
                    await self._all([each])
                return
            for each in batch:
                if not each.answer.done():
                    each.answer.set_exception(error)
            return
        for each, answer in zip(batch, found, strict=True):
            if not each.answer.done():
                each.answer.set_result(answer)

    async def _done(self, items: Sequence[Item]) -> Sequence[Answer]:
        large = any(map(self._is_large, items))
        async with self._transaction(large=large) as transaction:
            return await self._work(transaction, items)


def _is_turn(answer: asyncio.Future[Any]) -> bool:
    return not answer.cancelled() and answer.exception() is None and answer.result() is _TURN
