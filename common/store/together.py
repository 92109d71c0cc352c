"""Work of many tasks in one transaction: what waits while one is in progress goes with the next.

There is no task and no timer: whoever comes first works for all who wait. If that transaction
fails, each is done alone, so that no item spoils another's; an item must therefore be harmless to
repeat. Nothing is answered before its commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from common.batches import batches
from common.runtime.logs import describe, get_logger
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


class Together(Generic[Item, Answer]):
    """One kind of work. `rows_of`: about how many rows an item reads and writes."""

    def __init__(
        self,
        transaction: Opening,
        work: Work[Item, Answer],
        *,
        rows_of: Callable[[Item], int] = lambda _: 0,
    ) -> None:
        self._transaction, self._work, self._rows_of = transaction, work, rows_of
        self._waiting: dict[asyncio.Future[Answer], Item] = {}
        self._turn = asyncio.Lock()

    async def submit(self, item: Item) -> Answer:
        """The answer to an item, after its commit. Raises what its work raises."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[answer] = item
        try:
            await asyncio.sleep(0)  # what is due at the same moment joins first
            async with self._turn:
                while answer in self._waiting:
                    await self._next()
            return await answer
        finally:
            self._waiting.pop(answer, None)

    async def _next(self) -> None:
        """Do what has waited longest, as much as fits."""
        waiting = self._waiting.items()
        batch = dict(next(batches(waiting, lambda each: self._rows_of(each[1]), ROWS, ITEMS)))
        for answer in batch:
            del self._waiting[answer]
        try:
            await self._all(batch)
        finally:  # who worked for all was cancelled
            for answer in batch:
                if not answer.done():
                    answer.set_exception(WriterStopped())
                    answer.exception()  # it is reported to whoever still waits

    async def _all(self, batch: dict[asyncio.Future[Answer], Item]) -> None:
        try:
            found = await self._done(list(batch.values()))
        except Exception as error:
            if len(batch) == 1:
                (answer,) = batch
                if not answer.done():
                    answer.set_exception(error)
                return
            _logger.info("done_one_by_one", items=len(batch), **describe(error))
            for answer, item in batch.items():
                await self._all({answer: item})
            return
        for answer, each in zip(batch, found, strict=True):
            if not answer.done():
                answer.set_result(each)

    async def _done(self, items: Sequence[Item]) -> Sequence[Answer]:
        large = any(self._rows_of(item) >= LARGE_ROWS for item in items)
        async with self._transaction(large=large) as transaction:
            return await self._work(transaction, items)
