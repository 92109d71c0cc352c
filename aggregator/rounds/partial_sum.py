"""The partial sum: every listed piece opened once and added (spec: hot-path, section 2).

Rows are streamed: memory holds one batch, or a few small ones. Opening and adding run in a thread,
so that uploads of other rounds continue. The result is a share of the total and is used only in the
transaction of its commitment. The noise audit of local rounds also needs the opened words: it
receives each block once, during this pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from aggregator.context import Aggregator, RoundContext
from aggregator.errors import SealBrokenHere
from aggregator.pieces.peer_seals import incoming_key
from aggregator.pieces.unsealing import batch_words, header_of, received, words_of
from aggregator.store import pieces as piece_store
from aggregator.store import roster
from aggregator.store import rounds as round_store
from aggregator.store.pieces import BatchRow, PieceRow
from aggregator.store.roster import Party
from aggregator.store.rounds import ContributionRow
from common.batches import batches
from common.store.transactions import LARGE_BYTES, LARGE_ROWS
from tacit import sets
from tacit.crypto.sealing import (
    TAG_BYTES,
    SealBroken,
    open_words,
)
from tacit.crypto.sharing import Words
from tacit.crypto.signing import Signed
from tacit.protocol import sealing_sessions
from tacit.protocol.round.messages import Manifest
from tacit.protocol.sealing_sessions import Session

_BLOCK_WORDS = 1 << 18
_ROWS = 64

Heard: TypeAlias = Callable[[NDArray[np.int64], Words], None]
"""Called with each opened block: roster numbers (n,), words (n, d); valid during the call only."""


async def sum_of(
    aggregator: Aggregator, context: RoundContext, manifest: Manifest, heard: Heard
) -> Words:
    """The sum of the manifest's pieces and contributions of noise, (d,)."""
    listed = sets.unpack(manifest.members, context.descriptor.roster_size)
    total = np.zeros(context.dimension, np.uint64)
    total, batched = await _add_batches(aggregator, context, listed, heard, total)
    lone = 0
    if batched < manifest.count:
        total, lone = await _add_lone(aggregator, context, listed, heard, total)
    assert batched + lone == manifest.count, "every listed curator is summed exactly once"
    return await _add_contributions(aggregator, context, manifest.contributions, total)


async def _add_batches(
    aggregator: Aggregator, context: RoundContext, listed: sets.Bits, heard: Heard, total: Words
) -> tuple[Words, int]:
    count = 0
    long = 8 * int(listed.sum()) * context.dimension >= LARGE_BYTES
    async with aggregator.database.reading(large=long) as transaction:
        rows = await piece_store.round_batches(transaction, context.key)
        hosts = await roster.parties_by_key(transaction, sorted({row.host for row in rows}))

        def words(row: BatchRow) -> int:
            return sets.count(row.presence) * context.dimension

        # opened in one go: one batch, or several of not more than a block's words
        for block in batches(rows, words, _BLOCK_WORDS):
            bodies = await piece_store.batch_bodies(transaction, [row.id for row in block])
            sealed = [(hosts[row.host], bodies[row.id]) for row in block]
            add = partial(_add_sealed, context, sealed, listed, heard, total)
            large = 8 * sum(map(words, block)) >= LARGE_BYTES
            total, added = await asyncio.to_thread(add) if large else add()
            count += added
    return total, count


def _add_sealed(
    context: RoundContext,
    sealed: Iterable[tuple[Party, bytes]],
    listed: sets.Bits,
    heard: Heard,
    total: Words,
) -> tuple[Words, int]:
    count = 0
    for host, body in sealed:
        total, added = _add_batch(context, host, body, listed, heard, total)
        count += added
    return total, count


def _add_batch(
    context: RoundContext,
    host: Party,
    body: bytes,
    listed: sets.Bits,
    heard: Heard,
    total: Words,
) -> tuple[Words, int]:
    header, _ = header_of(context, received(body))
    span = header.span
    present = sets.unpack(header.presence, span.length)
    chosen = listed[span.first : span.first + span.length][present]
    if not chosen.any():
        return total, 0
    pieces = batch_words(context, host, body, header)
    if not chosen.all():
        pieces = pieces[chosen]
    heard(span.first + np.flatnonzero(present)[chosen], pieces)
    return context.scheme.add(total, pieces), int(chosen.sum())


async def _add_lone(
    aggregator: Aggregator, context: RoundContext, listed: sets.Bits, heard: Heard, total: Words
) -> tuple[Words, int]:
    count = 0
    large = int(listed.sum()) * context.dimension >= LARGE_ROWS
    async with aggregator.database.reading(large=large) as transaction:
        held = await piece_store.piece_numbers(transaction, context.key, 0)

        def words(row: tuple[int, bytes]) -> int:
            return len(row[1]) // 4 * context.dimension

        # read in one go: one row, or several of not more than a block's words
        for block in batches(held, words, _BLOCK_WORDS, _ROWS):
            rows = await piece_store.rows_by_id(transaction, [row for row, _ in block])
            numbers = np.concatenate([np.frombuffer(row.numbers, "<u4") for row in rows])
            wanted = numbers[listed[numbers]].tolist()
            senders = await roster.lone_by_number(transaction, wanted)
            total = await asyncio.to_thread(
                _add_rows, aggregator, context, rows, senders, listed, heard, total
            )
            count += len(wanted)
    return total, count


def _add_rows(
    aggregator: Aggregator,
    context: RoundContext,
    rows: Iterable[PieceRow],
    senders: dict[int, Party],
    listed: sets.Bits,
    heard: Heard,
    total: Words,
) -> Words:
    d = context.dimension
    block = np.empty((max(1, min(4096, _BLOCK_WORDS // d)), d), np.uint64)
    whose = np.empty(block.shape[0], np.int64)
    filled = 0
    for row in rows:
        numbers: NDArray[np.uint32] = np.frombuffer(row.numbers, "<u4")
        length = len(row.bodies) // numbers.size
        for place in np.flatnonzero(listed[numbers]).tolist():
            body = row.bodies[length * place : length * (place + 1)]
            tag = row.tags[TAG_BYTES * place : TAG_BYTES * (place + 1)]
            sender = senders[int(numbers[place])]
            block[filled] = words_of(aggregator, context, sender, body, tag)
            whose[filled] = numbers[place]
            filled += 1
            if filled == block.shape[0]:
                heard(whose, block)
                total, filled = context.scheme.add(total, block), 0
    heard(whose[:filled], block[:filled])
    return context.scheme.add(total, block[:filled])


async def _add_contributions(
    aggregator: Aggregator, context: RoundContext, places: tuple[int, ...], total: Words
) -> Words:
    if not places:
        return total
    async with aggregator.database.reading() as transaction:
        contributions = await round_store.held_contributions(transaction, context.key)
    shares = [opened_contribution(aggregator, context, contributions[place]) for place in places]
    return context.scheme.add(total, np.stack(shares))


def opened_contribution(
    aggregator: Aggregator, context: RoundContext, row: ContributionRow
) -> Words:
    """An aggregator's share of noise, opened. Raises SealBrokenHere."""
    entry = context.descriptor.aggregators[row.position]
    place = sealing_sessions.piece_context(
        context.digest, entry.id, aggregator.id, context.index, context.dimension
    )
    announce = Signed[Session].model_validate_json(row.announce)
    try:
        key = incoming_key(aggregator, context, entry, announce)
        return open_words(key, row.nonce, row.sealed, place)
    except SealBroken:
        raise SealBrokenHere from None
