"""The one queue of an aggregator's process: it stores items in order before they are answered.

Everything goes through one writer per process, in the order of arrival: lone pieces, batches, and
the transitions that close a round (freeze, abort). What is queued before the freeze is included,
what is queued after it is answered 410, so no acknowledged piece is missing from the signed set
(spec: hot-path, section 2). State in memory is only a cache: `Held` is rebuilt from the rows, and
new rows are added after their commit.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from math import inf
from typing import Annotated, Any, TypeAlias

import numpy as np
from fastapi import Depends
from numpy.typing import NDArray

from aggregator.context import Aggregator, RoundContext
from aggregator.errors import (
    BatchOverlaps,
    PieceConflict,
    RoundClosed,
    RoundExpired,
    SealKeyGone,
)
from aggregator.pieces.unsealing import BatchItem, Beginning, LonePiece, batch_content, content_of
from aggregator.store import pieces as piece_store
from aggregator.store import rounds as round_store
from aggregator.store.pieces import BatchRow
from common.runtime.logs import describe, get_logger
from common.runtime.tasks import Notice
from common.store.database import exclusive
from common.store.group_commit import GroupCommit, WriteFailed
from common.store.transactions import LARGE_BYTES, Transaction
from common.web.dependencies import part
from tacit import sets
from tacit.crypto.sealing import TAG_BYTES, BatchHeader, PartHeader
from tacit.errors import DomainError
from tacit.protocol.round.state import RoundState
from tacit.wire import encode_binary

ROUNDS_LOCK = "aggregator rounds"
_NAMED = 10_000
_KEPT = 8
_logger = get_logger("tacit.writer")


class Outcome(IntEnum):
    """The outcome of an accepted piece, as its HTTP status."""

    KNOWN = 200
    STORED = 201


@dataclass(frozen=True, slots=True)
class PiecesItem:
    """Lone pieces of one request; answered one by one."""

    context: RoundContext
    pieces: tuple[LonePiece, ...]

    @property
    def size(self) -> int:
        return sum(len(piece.body) for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class TransitionItem:
    """A change of a round's state that must keep its place among the pieces."""

    context: RoundContext
    run: Callable[[Transaction], Awaitable[Any]]
    size: int = 0


Item: TypeAlias = PiecesItem | BatchItem | TransitionItem


class Held:
    """Which row has each lone number of a round: a uint32 per number, 0 for none."""

    def __init__(self, roster_size: int) -> None:
        self.last = 0
        self._rows: list[int] = []
        self._place = np.zeros(roster_size, np.uint32)

    def row_of(self, number: int) -> int | None:
        """The row that holds a number's piece."""
        place = int(self._place[number])
        return self._rows[place - 1] if place else None

    def add(self, row: int, numbers: NDArray[np.uint32]) -> None:
        """Add a committed row."""
        self._rows.append(row)
        self._place[numbers] = len(self._rows)
        self.last = max(self.last, row)


@dataclass(frozen=True, slots=True)
class _Part:
    """A batch of this round, with its body while it is not written yet."""

    row: BatchRow
    body: bytes | None = None
    count: int = 0


@dataclass
class _Round:
    """A round inside one transaction: its state, and pieces that are not written yet."""

    context: RoundContext
    state: RoundState | None
    moved: bool = False
    """Whether a transition may have changed the state since."""
    held: Held | None = None
    """Loaded with the first lone piece."""
    lone: dict[int, LonePiece] = field(default_factory=dict)
    hosts: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """The senders of batches in this transaction, by segment."""
    parts: dict[int, list[_Part]] = field(default_factory=dict)
    """The held batches of these senders, by segment; loaded with the first batch."""
    fresh: list[_Part] = field(default_factory=list)


def _shown(answer: Any) -> Any:
    """The error that a sender sees: of a failed write only that nothing was stored."""
    if isinstance(answer, Exception) and not isinstance(answer, DomainError):
        _logger.error("write_failed", **describe(answer))
        return WriteFailed()
    return answer


class Intake:
    """The one queue of this process, and the transaction that drains it."""

    def __init__(
        self,
        aggregator: Aggregator,
        *,
        on_batch: Callable[[int, float], None] = lambda _items, _seconds: None,
    ) -> None:
        self._aggregator = aggregator
        self._on_batch = on_batch
        self._held: OrderedDict[str, Held] = OrderedDict()
        self._staged: list[tuple[Held, int, NDArray[np.uint32]]] = []
        self._begun: dict[int, Beginning] = {}
        self._touched: set[str] = set()
        self.changed = Notice()
        """Rounds, by id, have got pieces, or were closed."""
        self._writer: GroupCommit[Item, Any] = GroupCommit(
            self._write,
            size_of=lambda item: item.size,
            batch_items=inf,
            max_items=aggregator.settings.queue_max_items,
            max_size=aggregator.settings.queue_max_bytes,
            abandoned=True,
        )

    async def stop(self) -> None:
        """Write what is queued, and stop."""
        await self._writer.stop()

    async def submit(self, item: Item) -> Any:
        """Queue an item; its answer comes after the commit. Raises the item's own error,
        QueueFull, WriteFailed, WriterStopped."""
        (answer,) = await self.submit_all([item])
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def submit_all(self, items: Sequence[Item]) -> list[Any]:
        """Queue items of one request; for each its answer or its error."""
        answers = await self._writer.submit_all(items)
        return [_shown(answer) for answer in answers]

    async def _write(self, items: Sequence[Item]) -> Sequence[Any | Exception]:
        """Write a batch in one transaction."""
        started = time.perf_counter()
        large = sum(item.size for item in items) >= LARGE_BYTES
        async with self._aggregator.database.begin(large=large) as transaction:
            answers = await self.apply(transaction, items)
        self._committed(len(items), time.perf_counter() - started)
        return answers

    async def apply(
        self, transaction: Transaction, items: Sequence[Item]
    ) -> Sequence[Any | Exception]:
        """Write a queue's items in order, inside the writer's transaction."""
        await exclusive(transaction, ROUNDS_LOCK)
        self._staged, self._touched = [], {item.context.id for item in items}
        self._begun = await _beginnings(transaction, items)
        contexts = {item.context.key: item.context for item in items}
        states = await round_store.states(transaction, list(contexts))
        open_rounds: dict[int, _Round] = {}
        answers: list[Any | Exception] = []
        for item in items:
            key = item.context.key
            if key not in open_rounds:
                open_rounds[key] = _Round(item.context, states.get(key))
            if isinstance(item, PiecesItem) and open_rounds[key].held is None:
                open_rounds[key].held = await self._refreshed(transaction, item)
            if isinstance(item, BatchItem):
                open_rounds[key].hosts[item.header.span.segment].add(item.sender.key)
        for item in items:
            try:
                answers.append(await self._do(transaction, open_rounds[item.context.key], item))
            except DomainError as error:
                answers.append(error)
        for state in open_rounds.values():
            await self._flush(transaction, state)
        for beginning in self._begun.values():
            await beginning.store(transaction)
        return answers

    async def _do(self, transaction: Transaction, state: _Round, item: Item) -> Any:
        if state.moved:
            key, state.moved = item.context.key, False
            state.state = (await round_store.states(transaction, [key])).get(key)
        if state.state is None:
            raise RoundExpired
        if isinstance(item, PiecesItem):
            return [await self._lone(transaction, state, piece) for piece in item.pieces]
        if isinstance(item, BatchItem):
            return await self._batch(transaction, state, item)
        await self._flush(transaction, state)
        state.moved = True
        return await item.run(transaction)

    def _committed(self, items: int, seconds: float) -> None:
        # After the commit and before any sender continues.
        for held_pieces, row, numbers in self._staged:
            held_pieces.add(row, numbers)
        for beginning in self._begun.values():
            beginning.remember()
        self._staged, self._begun = [], {}
        self.changed.notify(*self._touched)
        self._on_batch(items, seconds)

    async def _refreshed(self, transaction: Transaction, item: PiecesItem) -> Held:
        """The lone pieces of a round, including rows of other processes or from before a start."""
        key, name = item.context.key, item.context.descriptor.round
        held_pieces = self._held.get(name)  # by name: SQLite gives the key of a purged round again
        if held_pieces is None:
            held_pieces = self._held[name] = Held(item.context.descriptor.roster_size)
            while len(self._held) > _KEPT:
                self._held.popitem(last=False)
        self._held.move_to_end(name)
        for row, numbers in await piece_store.piece_numbers(transaction, key, held_pieces.last):
            held_pieces.add(row, np.frombuffer(numbers, "<u4"))
        return held_pieces

    async def _flush(self, transaction: Transaction, state: _Round) -> None:
        """Write the lone pieces of a round as one row."""
        if state.lone:
            assert state.held is not None
            numbers = np.fromiter(state.lone, np.uint32, len(state.lone))
            row = await piece_store.add_pieces(
                transaction,
                state.context.key,
                numbers.astype("<u4").tobytes(),
                b"".join(piece.tag for piece in state.lone.values()),
                b"".join(piece.body for piece in state.lone.values()),
            )
            self._staged.append((state.held, row, numbers))
        if state.fresh:
            received = [(part.row, part.body or b"") for part in state.fresh]
            await piece_store.add_batches(transaction, state.context.key, received)
        curators = len(state.lone) + sum(part.count for part in state.fresh)
        if curators:
            await round_store.count_received(transaction, state.context.key, curators)
        state.lone, state.fresh, state.parts = {}, [], {}

    # --- lone pieces ---

    async def _lone(
        self, transaction: Transaction, state: _Round, piece: LonePiece
    ) -> Outcome | DomainError:
        number = piece.sender.first
        earlier = state.lone.get(number) or await self._stored(transaction, state, number, piece)
        if state.state is not RoundState.OPEN:
            return _closed(state, earlier is not None and earlier.tag == piece.tag)
        if state.context.own_key is None:
            return SealKeyGone()
        if earlier is not None and not self._is_same(state.context, earlier, piece):
            return PieceConflict()
        if piece.session is not None and piece.session.fresh:
            try:
                self._begun[state.context.seal_secret.number].add(piece.sender, piece.session)
            except DomainError as error:
                return error
        if earlier is not None:
            return Outcome.KNOWN
        state.lone[number] = piece
        return Outcome.STORED

    def _is_same(self, context: RoundContext, earlier: LonePiece, piece: LonePiece) -> bool:
        """Whether a piece equals the stored one: the same bytes, or the same content sealed
        again."""
        if (earlier.tag, earlier.body) == (piece.tag, piece.body):
            return True
        return self._same_content_inside(context, earlier, piece)

    async def _stored(
        self, transaction: Transaction, state: _Round, number: int, piece: LonePiece
    ) -> LonePiece | None:
        assert state.held is not None
        row_id = state.held.row_of(number)
        if row_id is None:
            # written earlier in this very transaction, before a transition flushed it?
            staged = [
                row
                for held_pieces, row, at in self._staged
                if held_pieces is state.held and number in at
            ]
            if not staged:
                return None
            row_id = staged[0]
        row = await piece_store.piece_row(transaction, row_id)
        place = int(np.flatnonzero(np.frombuffer(row.numbers, "<u4") == number)[0])
        length = len(row.bodies) // (len(row.numbers) // 4)
        return LonePiece(
            piece.sender,
            row.tags[TAG_BYTES * place : TAG_BYTES * (place + 1)],
            row.bodies[length * place : length * (place + 1)],
        )

    def _same_content_inside(self, context: RoundContext, one: LonePiece, other: LonePiece) -> bool:
        first, second = (
            content_of(self._aggregator, context, item.sender, item.body, item.tag)
            for item in (one, other)
        )
        return first == second

    # --- batches ---

    async def _batch(self, transaction: Transaction, state: _Round, item: BatchItem) -> Outcome:
        header = item.header
        parts = [
            part
            for part in await self._parts(transaction, state, header.span.segment)
            if part.row.host == item.sender.key
        ]
        same = next((part for part in parts if part.row.part == header.part), None)
        if state.state is not RoundState.OPEN:
            raise _closed(state, same is not None and same.row.tag == item.tag)
        if item.context.own_key is None:
            raise SealKeyGone
        if same is not None:
            if not await self._same_content(transaction, item, same):
                raise PieceConflict("another batch is held for this part")
            return Outcome.KNOWN
        _refuse_overlap(header, [part.row for part in parts])
        row = BatchRow(
            0,
            header.span.segment,
            item.sender.key,
            header.part,
            header.span.first,
            item.tag,
            header.presence,
        )
        part = _Part(row, item.body, header.count)
        state.fresh.append(part)
        state.parts[header.span.segment].append(part)
        return Outcome.STORED

    async def _parts(self, transaction: Transaction, state: _Round, segment: int) -> list[_Part]:
        """What the senders of this transaction have sent in a segment so far."""
        if not state.parts:
            state.parts = {number: [] for number in state.hosts}
            hosts = sorted(set().union(*state.hosts.values()))
            key, segments = state.context.key, sorted(state.hosts)
            for row in await piece_store.batch_parts(transaction, key, segments, hosts):
                state.parts[row.segment].append(_Part(row))
        return state.parts[segment]

    async def _same_content(
        self, transaction: Transaction, item: BatchItem, earlier: _Part
    ) -> bool:
        """Whether a batch equals the stored one: the same bytes, or the same content sealed
        again."""
        body = earlier.body
        if body is None:
            body = (await piece_store.batch_bodies(transaction, [earlier.row.id]))[earlier.row.id]
        if body == item.body:
            return True
        if earlier.row.presence != item.header.presence:
            return False

        def opened(sealed: bytes) -> bytes:
            return batch_content(item.context, item.sender, sealed)

        def compare() -> bool:
            return opened(body) == opened(item.body)

        return await asyncio.to_thread(compare)


IntakePart = Annotated[Intake, Depends(part(Intake))]


async def _beginnings(transaction: Transaction, items: Sequence[Item]) -> dict[int, Beginning]:
    """What the new sessions of these items need, by the number of their seal key."""
    sessions: dict[int, tuple[RoundContext, set[int]]] = {}
    for item in items:
        if not isinstance(item, PiecesItem):
            continue
        fresh = {p.sender.key for p in item.pieces if p.session is not None and p.session.fresh}
        if fresh:
            number = item.context.seal_secret.number
            sessions.setdefault(number, (item.context, set()))[1].update(fresh)
    return {
        number: await Beginning.of(transaction, context.seal_secret, parties)
        for number, (context, parties) in sessions.items()
    }


def _closed(state: _Round, included: bool) -> RoundClosed:
    assert state.state is not None
    return RoundClosed(extra={"included": included, "state": state.state.value})


def _refuse_overlap(header: BatchHeader | PartHeader, parts: Sequence[BatchRow]) -> None:
    """409 for the whole batch; `overlap` is a bitmap over the span."""
    if not parts:
        return
    mine = np.frombuffer(header.presence, np.uint8)
    meeting = np.zeros_like(mine)
    for row in parts:
        meeting |= mine & np.frombuffer(row.presence, np.uint8)
    if not meeting.any():
        return
    bitmap = meeting.tobytes()
    numbers = np.flatnonzero(sets.unpack(bitmap, header.span.length)) + header.span.first
    raise BatchOverlaps(
        extra={
            "count": int(numbers.size),
            "numbers": numbers[:_NAMED].tolist(),
            "overlap": encode_binary(bitmap),
        }
    )
