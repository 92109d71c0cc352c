"""Accepting pieces: open the seal, store durably, then answer (spec: aggregation, section 6.4).

Everything goes through one queue and one writer per process, in the order of arrival: lone
pieces, batches, and the transitions that close a round (freeze, abort). What stands before the
freeze is in, what stands behind is answered 410, so no acknowledged piece is missing from the
signed set (spec: hot-path, section 2). State in memory is only a cache: `Held` is rebuilt from the
rows, and learns of new ones after their commit. An opened word is looked at (its length, its range)
and forgotten; nothing here logs or repeats one.
"""

from __future__ import annotations

import asyncio
import struct
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.ext.asyncio import AsyncConnection

from aggregator.context import Aggregator, RoundContext
from aggregator.errors import (
    BatchOverlaps,
    NotInGroup,
    NotInRound,
    NotYourPiece,
    OutOfField,
    PieceConflict,
    RoundClosed,
    SealBrokenHere,
    UnknownEpochKey,
    UnknownRound,
    UnknownSender,
    WrongLength,
    WrongRound,
)
from aggregator.store import pieces as piece_store
from aggregator.store import rounds as round_store
from aggregator.store.pieces import BatchRow
from aggregator.store.roster import Party
from common import sets
from common.errors import DomainError
from common.models.base import encode_binary
from common.models.enrolment import PartyKind
from common.models.round import Piece, RoundState
from common.sealing import (
    NONCE_BYTES,
    TAG_BYTES,
    BatchHeader,
    Direction,
    SealBroken,
    open_batch,
    open_words,
    piece_context,
    read_batch_header,
    spans,
)
from common.service.database import exclusive
from common.service.notice import Notice
from common.service.writer import BatchingWriter
from common.sharing import PRIME

Words = NDArray[np.uint64]

ROUNDS_LOCK = "aggregator rounds"
_EPOCH = struct.Struct("<I")
_PREFIX = _EPOCH.size + NONCE_BYTES
_NAMED = 10_000
_KEPT = 8
_INLINE_BYTES = 64 * 1024


class Outcome(IntEnum):
    """What became of an accepted piece, as its HTTP status."""

    KNOWN = 200
    STORED = 201


@dataclass(frozen=True, slots=True)
class LonePiece:
    """A piece that was opened: its record for the store, and whose it is."""

    sender: Party
    tag: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class PiecesItem:
    """Lone pieces of one request; answered one by one."""

    context: RoundContext
    pieces: tuple[LonePiece, ...]

    @property
    def size(self) -> int:
        return sum(len(piece.body) for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class BatchItem:
    """A batch that was opened."""

    context: RoundContext
    sender: Party
    header: BatchHeader
    body: bytes

    @property
    def size(self) -> int:
        return len(self.body)

    @property
    def tag(self) -> bytes:
        return self.body[-TAG_BYTES:]


@dataclass(frozen=True, slots=True)
class TransitionItem:
    """A change of a round's state that must keep its place among the pieces."""

    context: RoundContext
    run: Callable[[AsyncConnection], Awaitable[Any]]
    size: int = 0


Item: TypeAlias = PiecesItem | BatchItem | TransitionItem


# --- opening -------------------------------------------------------------------------------------


def open_lone(
    aggregator: Aggregator, context: RoundContext, sender: Party, piece: Piece
) -> LonePiece:
    """The piece as it will be stored, if it opens here and fits; raises its problem."""
    if piece.sender != sender.id:
        raise NotYourPiece
    if sender.kind is not PartyKind.CURATOR:
        raise UnknownSender("a host sends sealed batches, not lone pieces")
    if sender.first >= context.descriptor.roster_size:
        raise NotInRound
    if context.invited is not None and not context.invited[sender.first]:
        raise NotInGroup
    if len(piece.sealed) != 8 * context.dimension + TAG_BYTES:
        raise WrongLength(extra={"dimension": context.dimension})
    body = b"".join(
        (_EPOCH.pack(piece.key_epoch), piece.nonce, memoryview(piece.sealed)[:-TAG_BYTES])
    )
    lone = LonePiece(sender, piece.sealed[-TAG_BYTES:], body)
    if context.own_key is not None:  # destroyed only after the last round was closed
        check_words(context, words_of(aggregator, context, sender, lone.body, lone.tag))
    return lone


def words_of(
    aggregator: Aggregator, context: RoundContext, sender: Party, body: bytes, tag: bytes
) -> Words:
    """The words of a lone piece's record, (d,)."""
    (epoch,) = _EPOCH.unpack_from(body)
    seal_key = _seal_key(aggregator, context, sender, epoch)
    place = piece_context(
        context.digest, sender.id, aggregator.id, context.index, context.dimension
    )
    try:
        return open_words(seal_key, body[_EPOCH.size : _PREFIX], body[_PREFIX:] + tag, place)
    except SealBroken:
        raise SealBrokenHere from None


def open_sealed_batch(
    aggregator: Aggregator, context: RoundContext, sender: Party, body: bytes
) -> BatchItem:
    """The batch as it will be stored, if it opens here and fits; raises its problem."""
    try:
        header, offset = read_batch_header(body)
    except SealBroken as error:
        raise SealBrokenHere(str(error)) from None
    check_place(context, sender, header)
    if context.own_key is not None:
        check_words(context, batch_words(aggregator, context, sender, header, body, offset))
    return BatchItem(context, sender, header, body)


def batch_words(
    aggregator: Aggregator,
    context: RoundContext,
    sender: Party,
    header: BatchHeader,
    body: bytes,
    offset: int,
) -> Words:
    """The words of a batch, (count * d,)."""
    try:
        return open_batch(_seal_key(aggregator, context, sender, header.key_epoch), body, offset)
    except SealBroken:
        raise SealBrokenHere from None


def check_place(context: RoundContext, sender: Party, header: BatchHeader) -> None:
    """Raise unless the header belongs to this round, aggregator, host and run of numbers."""
    if header.host != sender.id:
        raise NotYourPiece
    if sender.kind is not PartyKind.HOST:
        raise UnknownSender("a lone curator sends pieces, not batches")
    if header.descriptor_hash != context.digest or header.share_index != context.index:
        raise WrongRound
    if header.dimension != context.dimension:
        raise WrongLength(extra={"dimension": context.dimension})
    if sender.first + sender.curators > context.descriptor.roster_size:
        raise NotInRound
    own = spans(sender.first, sender.curators, context.descriptor.segment_size)
    if header.span not in own:
        raise WrongRound("the span is not that of the host's run in one segment")
    if context.invited is not None:
        first, length = header.span.first, header.span.length
        outside = sets.unpack(header.presence, length) & ~context.invited[first : first + length]
        if outside.any():
            raise NotInGroup(extra={"count": int(outside.sum())})


def check_words(context: RoundContext, words: Words) -> None:
    """Raise OutOfField for a Shamir word that is no field element."""
    if context.in_field and words.size and int(words.max()) >= PRIME:
        raise OutOfField


def _seal_key(aggregator: Aggregator, context: RoundContext, sender: Party, epoch: int) -> bytes:
    public_key = sender.keys.get(epoch)
    if public_key is None:
        raise UnknownEpochKey(extra={"key_epoch": epoch})
    assert context.own_key is not None
    try:
        return aggregator.keyring.seal_key(
            context.own_key, sender.id, public_key, Direction.CURATOR_TO_AGGREGATOR
        )
    except SealBroken:
        raise SealBrokenHere from None


# --- the writer ----------------------------------------------------------------------------------


class Held:
    """Which row holds each lone number of a round: a uint32 per number, 0 for none."""

    def __init__(self, roster_size: int) -> None:
        self.last = 0
        self._rows: list[int] = []
        self._place = np.zeros(roster_size, np.uint32)

    def row_of(self, number: int) -> int | None:
        """The row that holds a number's piece."""
        place = int(self._place[number])
        return self._rows[place - 1] if place else None

    def add(self, row: int, numbers: NDArray[np.uint32]) -> None:
        """Learn of a committed row."""
        self._rows.append(row)
        self._place[numbers] = len(self._rows)
        self.last = max(self.last, row)


@dataclass
class _Round:
    """A round inside one transaction: its state, and lone pieces that are not written yet."""

    context: RoundContext
    held: Held
    state: RoundState | None
    lone: dict[int, LonePiece] = field(default_factory=dict)
    hosted: int = 0


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
        self.changed = Notice()
        """Rounds have got pieces, or were closed."""
        self._writer: BatchingWriter[Item, Any] = BatchingWriter(
            aggregator.engine,
            self.apply,
            max_items=aggregator.settings.queue_max_items,
            max_bytes=aggregator.settings.queue_max_bytes,
            size_of=lambda item: item.size,
            on_batch=self._committed,
        )

    async def start(self) -> None:
        """Begin to drain the queue."""
        await self._writer.start()

    async def stop(self) -> None:
        """Write what waits, and end."""
        await self._writer.stop()

    @property
    def waiting(self) -> int:
        """Items that have no answer yet."""
        return self._writer.waiting

    async def submit(self, item: Item) -> Any:
        """Queue an item; its answer comes after the commit."""
        return await self._writer.submit(item)

    async def apply(
        self, connection: AsyncConnection, items: Sequence[Item]
    ) -> Sequence[Any | Exception]:
        """Write a queue's items in order, inside the writer's transaction."""
        await exclusive(connection, ROUNDS_LOCK)
        self._staged = []
        contexts = {item.context.key: item.context for item in items}
        states = await round_store.states(connection, list(contexts))
        open_rounds: dict[int, _Round] = {}
        answers: list[Any | Exception] = []
        for item in items:
            key = item.context.key
            if key not in open_rounds:
                held = await self._refreshed(connection, item)
                open_rounds[key] = _Round(item.context, held, states.get(key))
            try:
                answers.append(await self._do(connection, open_rounds[key], item))
            except DomainError as error:
                answers.append(error)
        for state in open_rounds.values():
            await self._flush(connection, state)
        return answers

    async def _do(self, connection: AsyncConnection, state: _Round, item: Item) -> Any:
        if state.state is None:
            raise UnknownRound
        if isinstance(item, PiecesItem):
            return [await self._lone(connection, state, piece) for piece in item.pieces]
        if isinstance(item, BatchItem):
            return await self._batch(connection, state, item)
        await self._flush(connection, state)
        try:
            return await item.run(connection)
        finally:
            key = item.context.key
            state.state = (await round_store.states(connection, [key])).get(key)

    def _committed(self, items: int, seconds: float) -> None:
        # Called after the commit and before any sender runs on.
        for held, row, numbers in self._staged:
            held.add(row, numbers)
        self._staged = []
        self.changed.notify()
        self._on_batch(items, seconds)

    async def _refreshed(self, connection: AsyncConnection, item: Item) -> Held:
        """What a round holds, with the rows that others (or a start) brought."""
        key, name = item.context.key, item.context.descriptor.round
        held = self._held.get(name)  # by name: SQLite gives the key of a purged round again
        if held is None:
            held = self._held[name] = Held(item.context.descriptor.roster_size)
            while len(self._held) > _KEPT:
                self._held.popitem(last=False)
        self._held.move_to_end(name)
        if isinstance(item, PiecesItem):
            for row, numbers in await piece_store.piece_numbers(connection, key, held.last):
                held.add(row, np.frombuffer(numbers, "<u4"))
        return held

    async def _flush(self, connection: AsyncConnection, state: _Round) -> None:
        """Write the lone pieces of a round as one row."""
        if state.lone:
            numbers = np.fromiter(state.lone, np.uint32, len(state.lone))
            row = await piece_store.add_pieces(
                connection,
                state.context.key,
                numbers.astype("<u4").tobytes(),
                b"".join(piece.tag for piece in state.lone.values()),
                b"".join(piece.body for piece in state.lone.values()),
            )
            self._staged.append((state.held, row, numbers))
        if state.lone or state.hosted:
            await round_store.count_received(
                connection, state.context.key, len(state.lone) + state.hosted
            )
        state.lone, state.hosted = {}, 0

    # --- lone pieces ---

    async def _lone(
        self, connection: AsyncConnection, state: _Round, piece: LonePiece
    ) -> Outcome | DomainError:
        number = piece.sender.first
        earlier = state.lone.get(number) or await self._stored(connection, state, number, piece)
        if state.state is not RoundState.OPEN:
            return _closed(state, earlier is not None and earlier.tag == piece.tag)
        if earlier is None:
            state.lone[number] = piece
            return Outcome.STORED
        if (earlier.tag, earlier.body) == (piece.tag, piece.body):
            return Outcome.KNOWN
        if self._same_words(state.context, earlier, piece):
            return Outcome.KNOWN
        return PieceConflict()

    async def _stored(
        self, connection: AsyncConnection, state: _Round, number: int, piece: LonePiece
    ) -> LonePiece | None:
        row_id = state.held.row_of(number)
        if row_id is None:
            # written earlier in this very transaction, before a transition flushed it?
            staged = [row for held, row, at in self._staged if held is state.held and number in at]
            if not staged:
                return None
            row_id = staged[0]
        row = await piece_store.piece_row(connection, row_id)
        place = int(np.flatnonzero(np.frombuffer(row.numbers, "<u4") == number)[0])
        length = len(piece.body)
        return LonePiece(
            piece.sender,
            row.tags[TAG_BYTES * place : TAG_BYTES * (place + 1)],
            row.bodies[length * place : length * (place + 1)],
        )

    def _same_words(self, context: RoundContext, one: LonePiece, other: LonePiece) -> bool:
        opened = [
            words_of(self._aggregator, context, item.sender, item.body, item.tag)
            for item in (one, other)
        ]
        return bool(np.array_equal(opened[0], opened[1]))

    # --- batches ---

    async def _batch(self, connection: AsyncConnection, state: _Round, item: BatchItem) -> Outcome:
        header, key = item.header, item.context.key
        parts = await piece_store.batch_parts(connection, key, header.span.segment, item.sender.key)
        same = next((part for part in parts if part.part == header.part), None)
        if state.state is not RoundState.OPEN:
            raise _closed(state, same is not None and same.tag == item.tag)
        if same is not None:
            if not await self._same_content(connection, item, same):
                raise PieceConflict("another batch is held for this part")
            return Outcome.KNOWN
        _refuse_overlap(header, parts)
        row = BatchRow(
            0,
            header.span.segment,
            item.sender.key,
            header.part,
            header.span.first,
            item.tag,
            header.presence,
        )
        await piece_store.add_batch(connection, key, row, item.body)
        state.hosted += header.count
        return Outcome.STORED

    async def _same_content(
        self, connection: AsyncConnection, item: BatchItem, held: BatchRow
    ) -> bool:
        """Whether a batch is the held one, byte for byte or freshly sealed."""
        body = await piece_store.batch_body(connection, held.id)
        if body == item.body:
            return True
        if held.presence != item.header.presence:
            return False

        def opened(sealed: bytes) -> Words:
            header, offset = read_batch_header(sealed)
            context, sender = item.context, item.sender
            return batch_words(self._aggregator, context, sender, header, sealed, offset)

        def compare() -> bool:
            return bool(np.array_equal(opened(body), opened(item.body)))

        return await asyncio.to_thread(compare)


def _closed(state: _Round, included: bool) -> RoundClosed:
    assert state.state is not None
    return RoundClosed(extra={"included": included, "state": state.state.value})


def _refuse_overlap(header: BatchHeader, parts: Sequence[BatchRow]) -> None:
    """409 for the whole batch; `overlap` is a bitmap over the span."""
    mine = np.frombuffer(header.presence, np.uint8)
    meeting = np.zeros_like(mine)
    for part in parts:
        meeting |= mine & np.frombuffer(part.presence, np.uint8)
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


# --- what the routes call ------------------------------------------------------------------------


async def accept_batch(
    aggregator: Aggregator, intake: Intake, context: RoundContext, sender: Party, body: bytes
) -> Outcome:
    """Open and store one batch; raises its problem."""
    if len(body) > _INLINE_BYTES:
        item = await asyncio.to_thread(open_sealed_batch, aggregator, context, sender, body)
    else:
        item = open_sealed_batch(aggregator, context, sender, body)
    outcome: Outcome = await intake.submit(item)
    return outcome


async def accept_pieces(
    aggregator: Aggregator,
    intake: Intake,
    context: RoundContext,
    sender: Party,
    pieces: Sequence[Piece],
) -> list[Outcome | DomainError]:
    """Open and store lone pieces; an answer for each."""
    answers: list[Outcome | DomainError | None] = []
    opened: list[LonePiece] = []
    for piece in pieces:
        try:
            opened.append(open_lone(aggregator, context, sender, piece))
            answers.append(None)
        except DomainError as error:
            answers.append(error)
    stored = iter(await intake.submit(PiecesItem(context, tuple(opened))) if opened else ())
    return [next(stored) if answer is None else answer for answer in answers]
