"""Group commit: many writes in one transaction, with no answer before the commit; and tasks that
share the next transaction.

The batching writer: many requests, one transaction, and no answer before the commit.

Requests put items on a queue and wait. One task takes everything that waits, applies it in the
order of arrival inside one transaction, and answers after the commit returned; what arrived
meanwhile is the next batch. There is no timer: alone, an item is written at once; under load,
the batches grow by themselves. The queue is bounded by count and by bytes.

An item that was submitted is applied even if its sender has disconnected. If a transaction fails,
none of its items was acknowledged; unless the store itself does not answer, each is then tried
alone, so that no item spoils another's. A sender whose item fails receives `Unavailable` (a retry
must therefore be harmless: items are idempotent).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar, cast

from common.batches import batches
from common.runtime.logs import describe, get_logger
from common.store.failures import store_failed
from common.store.transactions import LARGE_BYTES, LARGE_ROWS, Database, Transaction
from tacit.errors import DomainError, TooMany, Unavailable

Item = TypeVar("Item")
Answer = TypeVar("Answer")

Apply: TypeAlias = Callable[[Transaction, Sequence[Item]], Awaitable[Sequence[Answer | Exception]]]
"""Writes a batch and answers for each item, in order; an exception rejects that item alone."""

_writer_logger = get_logger("tacit.writer")


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


@dataclass(frozen=True, slots=True)
class _WaitingWrite(Generic[Item, Answer]):
    item: Item
    size: int
    answer: asyncio.Future[Answer]


class BatchingWriter(Generic[Item, Answer]):
    """One queue and the one task that drains it; make, `start`, `submit` from requests, `stop`."""

    def __init__(
        self,
        database: Database,
        apply: Apply[Item, Answer],
        *,
        max_items: int = 10_000,
        max_bytes: int = 64 * 1024 * 1024,
        size_of: Callable[[Item], int] = lambda _: 0,
        on_batch: Callable[[int, float], None] = lambda _items, _seconds: None,
    ) -> None:
        """`size_of` gives an item's bytes; `on_batch` is called per commit with items, seconds."""
        self._database = database
        self._apply = apply
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._size_of = size_of
        self._on_batch = on_batch
        self._queue: deque[_WaitingWrite[Item, Answer]] = deque()
        self._items = 0
        self._bytes = 0
        self._awake = asyncio.Event()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to drain the queue."""
        if self._task is not None or self._stopping:
            raise RuntimeError("a writer starts once")
        self._task = asyncio.create_task(self._run(), name="tacit-writer")

    async def submit(self, item: Item) -> Answer:
        """Queue an item and wait for its answer, which comes after the commit.

        Raises what `apply` answered for the item, `QueueFull` before anything is queued,
        `WriteFailed` if the transaction failed, `WriterStopped` while shutting down.
        """
        return await self._queued(item)

    async def submit_all(self, items: Sequence[Item]) -> list[Answer | BaseException]:
        """The same for several items that wait together: an answer for each, or what `submit`
        would raise."""
        waiting: list[asyncio.Future[Answer]] = []
        for item in items:
            try:
                waiting.append(self._queued(item))
            except DomainError as error:
                refused: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
                refused.set_exception(error)
                waiting.append(refused)
        return await asyncio.gather(*waiting, return_exceptions=True)

    def _queued(self, item: Item) -> asyncio.Future[Answer]:
        """Queue an item; its answer."""
        if self._stopping or self._task is None:
            raise WriterStopped
        size = self._size_of(item)
        if self._items >= self._max_items or (self._items and self._bytes + size > self._max_bytes):
            raise QueueFull(retry_after_s=1, extra={"quota": self._max_items})
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._queue.append(_WaitingWrite(item, size, answer))
        self._items += 1
        self._bytes += size
        self._awake.set()
        return answer

    async def stop(self) -> None:
        """Accept nothing more, write what waits, and end; calling it again does no harm."""
        self._stopping = True
        self._awake.set()
        if self._task is not None:
            await asyncio.shield(self._task)

    async def _run(self) -> None:
        try:
            while True:
                await self._awake.wait()
                self._awake.clear()
                while self._queue:
                    batch = list(self._queue)
                    self._queue.clear()
                    try:
                        await self._write(batch)
                    finally:
                        self._release(batch)
                if self._stopping:
                    return
        finally:
            self._stopping = True
            abandoned = list(self._queue)
            self._queue.clear()
            self._release(abandoned)

    async def _write(self, batch: Sequence[_WaitingWrite[Item, Answer]]) -> None:
        started = time.perf_counter()
        try:
            large = sum(waiting.size for waiting in batch) >= LARGE_BYTES
            async with self._database.begin(large=large) as transaction:
                answers = await self._apply(transaction, [waiting.item for waiting in batch])
                if len(answers) != len(batch):
                    raise RuntimeError("a batch needs one answer for each item")
        except Exception as error:
            _writer_logger.error("write_failed", items=len(batch), **describe(error))
            if len(batch) > 1 and not store_failed(error):
                for waiting in batch:
                    await self._write([waiting])
                return
            for waiting in batch:
                _settle(waiting.answer, WriteFailed())
            return
        for waiting, answer in zip(batch, answers, strict=True):
            _settle(waiting.answer, answer)
        self._on_batch(len(batch), time.perf_counter() - started)

    def _release(self, batch: Sequence[_WaitingWrite[Item, Answer]]) -> None:
        """Stop counting a batch; an item without an answer by now gets none."""
        for waiting in batch:
            self._items -= 1
            self._bytes -= waiting.size
            _settle(waiting.answer, WriterStopped())


def _settle(future: asyncio.Future[Answer], answer: Answer | Exception) -> None:
    if future.done():
        return
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)


# Group commit: tasks that arrive during a transaction share the next one.
#
# There is no task and no timer: whoever comes first works for all who wait. If that transaction
# fails, each is done alone, so that no item spoils another's; an item must therefore be harmless to
# repeat. Nothing is answered before its commit.

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
