"""Group commit: items that arrive while others are being worked on share the next batch.

Senders put items on a queue and wait. One task takes what waits, in the order of arrival, works on
it (in one transaction, see `in_transaction`), and answers only after that returned; what arrived
meanwhile is the next batch. There is no timer: alone, an item is done at once; under load, batches
grow by themselves. If a batch fails, nobody was answered; unless the store itself does not answer,
each item is then tried alone, so that no item spoils another's. Items must therefore be harmless to
repeat.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from math import inf
from operator import attrgetter
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from common.runtime.logs import describe, get_logger
from common.store.failures import store_failed
from common.store.transactions import Database, Transaction
from tacit.errors import DomainError, TooMany, Unavailable

Item = TypeVar("Item")
Answer = TypeVar("Answer")

Work: TypeAlias = Callable[[Sequence[Item]], Awaitable[Sequence[Answer | Exception]]]
"""Answers for each item, in order; an exception among them rejects that item alone."""
Apply: TypeAlias = Callable[[Transaction, Sequence[Item]], Awaitable[Sequence[Answer | Exception]]]
"""The same inside a transaction."""
InTurn: TypeAlias = Callable[[Transaction], Awaitable[Any]]
"""A piece of work that needs nothing of the others."""

BATCH_ITEMS: Final = 64
"""Most items in a batch, by default: short ones are done in the loop's own thread."""
_ITEM: Final = attrgetter("item")
_SIZE: Final = attrgetter("size")
_logger = get_logger("tacit.group_commit")


class QueueFull(TooMany):
    """More items wait to be written than the memory limit allows."""

    name = "queue_full"
    title = "Too much is waiting to be written"


class WriteFailed(Unavailable):
    """The transaction failed; nothing was acknowledged."""

    name = "write_failed"
    title = "The write could not be made durable"


class WriterStopped(Unavailable):
    """The service is shutting down."""

    name = "writer_stopped"
    title = "The service is shutting down"


class Opening(Protocol):
    """Begins a transaction: `Database.begin` or `Database.reading`."""

    def __call__(self, *, large: bool = False) -> AbstractAsyncContextManager[Transaction]: ...


def in_transaction(
    opening: Opening,
    apply: Apply[Item, Answer],
    is_large: Callable[[Item], bool] | None = None,
) -> Work[Item, Answer]:
    """Work on a batch in one transaction, which is large if one of its items is."""

    async def work(items: Sequence[Item]) -> Sequence[Answer | Exception]:
        large = is_large is not None and any(map(is_large, items))
        async with opening(large=large) as transaction:
            return await apply(transaction, items)

    return work


def reading(database: Database, apply: Apply[Item, Answer]) -> Work[Item, Answer]:
    """Work on a batch that is read by one statement, as a rule (`Database.read`)."""
    return lambda items: database.read(lambda transaction: apply(transaction, items))


async def in_turn(transaction: Transaction, works: Sequence[InTurn]) -> list[Any]:
    """One after the other: for items that are the work themselves."""
    answers = []
    for work in works:
        answers.append(await work(transaction))
        await asyncio.sleep(0)  # the loop serves others meanwhile
    return answers


def reading_in_turn(database: Database) -> Work[InTurn, Any]:
    """Pieces of reading work, each of one statement as a rule (`Database.read`)."""
    several = in_transaction(database.reading, in_turn)

    async def work(works: Sequence[InTurn]) -> Sequence[Any]:
        return await several(works) if len(works) > 1 else [await database.read(works[0])]

    return work


@dataclass(slots=True, eq=False)
class _Waiting(Generic[Item, Answer]):
    item: Item
    size: int
    answer: asyncio.Future[Answer]


class GroupCommit(Generic[Item, Answer]):
    """A queue of items for one kind of work.

    A batch has at most `batch_items`, and `batch_size` by `size_of`; an item that is larger is a
    batch of its own. `max_items` and `max_size` include the items in progress. `before` is
    awaited before a batch is taken. An item whose sender no longer waits is still done if
    `abandoned`.
    """

    def __init__(
        self,
        work: Work[Item, Answer],
        *,
        size_of: Callable[[Item], int] | None = None,
        batch_items: float = BATCH_ITEMS,
        batch_size: float = inf,
        max_items: float = inf,
        max_size: float = inf,
        before: Callable[[], Awaitable[None]] | None = None,
        abandoned: bool = False,
    ) -> None:
        self._work, self._size_of, self._before = work, size_of, before
        self._batch_items, self._batch_size = batch_items, batch_size
        self._max_items, self._max_size = max_items, max_size
        self._abandoned = abandoned
        self._queue: deque[_Waiting[Item, Answer]] = deque()
        self._items = self._size = 0
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    @property
    def waiting(self) -> int:
        """How many items wait for the next batch."""
        return len(self._queue)

    async def submit(self, item: Item) -> Answer:
        """Queue an item and wait for its answer, which comes after the commit.

        Raises the item's error that the work returns or raises, `QueueFull` before anything is
        queued, `WriterStopped` while shutting down.
        """
        return await self._queued(item)

    async def submit_all(self, items: Sequence[Item]) -> list[Answer | BaseException]:
        """The same for several items that wait together: an answer for each, or what `submit`
        would raise."""
        answers: list[asyncio.Future[Answer]] = []
        for item in items:
            try:
                answers.append(self._queued(item))
            except DomainError as error:
                refused: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
                refused.set_exception(error)
                answers.append(refused)
        return await asyncio.gather(*answers, return_exceptions=True)

    def _queued(self, item: Item) -> asyncio.Future[Answer]:
        if self._stopping:
            raise WriterStopped
        size = 0 if self._size_of is None else self._size_of(item)
        if self._items >= self._max_items or (self._items and self._size + size > self._max_size):
            quota = min(self._max_items, self._max_size)
            raise QueueFull(retry_after_s=1, extra={"quota": quota})
        waiting = _Waiting(item, size, asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        self._items += 1
        self._size += size
        if self._task is None:
            self._task = asyncio.create_task(self._drain(), name="tacit-group-commit")
        return waiting.answer

    async def stop(self) -> None:
        """Accept nothing more, do what is queued, and end; a repetition does no harm."""
        self._stopping = True
        if self._task is not None:
            await asyncio.shield(self._task)

    async def cancel(self) -> None:
        """Accept nothing more, and end; what waits is answered `WriterStopped`."""
        self._stopping = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _drain(self) -> None:
        batch: list[_Waiting[Item, Answer]] = []
        try:
            while self._queue:
                if self._before is not None:
                    await self._before()
                batch = self._taken()
                await self._do(
                    [task for task in batch if self._abandoned or not task.answer.done()]
                )
                self._items -= len(batch)
                self._size -= sum(map(_SIZE, batch))
                batch = []
        finally:
            self._task = None
            for waiting in (*batch, *self._queue):  # where the task was cancelled
                _settle(waiting.answer, WriterStopped())
            self._queue.clear()
            self._items = self._size = 0

    def _taken(self) -> list[_Waiting[Item, Answer]]:
        """What goes next: at least one item."""
        batch = [self._queue.popleft()]
        size = batch[0].size
        while (
            self._queue
            and len(batch) < self._batch_items
            and size + self._queue[0].size <= self._batch_size
        ):
            batch.append(self._queue.popleft())
            size += batch[-1].size
        return batch

    async def _do(self, batch: Sequence[_Waiting[Item, Answer]]) -> None:
        if not batch:
            return
        answers: Sequence[Answer | Exception]
        try:
            answers = await self._work(list(map(_ITEM, batch)))
            if len(answers) != len(batch):
                raise RuntimeError("a batch needs one answer for each item")
        except Exception as error:
            if len(batch) > 1 and not store_failed(error):
                _logger.info("done_one_by_one", items=len(batch), **describe(error))
                for waiting in batch:
                    await self._do([waiting])
                return
            answers = [error] * len(batch)
        for waiting, answer in zip(batch, answers, strict=True):
            _settle(waiting.answer, answer)


def _settle(future: asyncio.Future[Answer], answer: Answer | Exception) -> None:
    if future.done():
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
