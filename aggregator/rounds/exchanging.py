"""Verifier shares are exchanged in sealed chunks, relayed by a coordinator that cannot read them.

An own chunk is stored as it travels; another aggregator's is kept as it came, and only the hash
that its aggregator signed decides on it. Spec: validity, section 10, step 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from aggregator.context import Aggregator, RoundContext, refuse_aborted
from aggregator.errors import SealBrokenHere, SharesMissing, UnknownChunk
from aggregator.pieces.intake import Intake, TransitionItem
from aggregator.store import rounds as store
from aggregator.store import share_chunks
from common.store.transactions import Transaction
from tacit.crypto.sealing import SealBroken
from tacit.protocol.candidates import Candidates
from tacit.protocol.round.descriptor import RoundState
from tacit.protocol.round.verdicts import SHORT_SHARES
from tacit.protocol.verifier_shares import (
    ChunkPlace,
    chunk_slices,
    open_chunk,
    share_lengths,
    stands_at,
)

_NAMED: Final = 100


class Chunks:
    """How the verifier shares of a round's candidates are cut."""

    def __init__(self, context: RoundContext, candidates: Candidates) -> None:
        assert context.proofs is not None
        self._context, self._candidates = context, candidates
        self._lengths = share_lengths(context.proofs, candidates)
        self.slices = chunk_slices(self._lengths)

    def __len__(self) -> int:
        return len(self.slices)

    def bytes_of(self, number: int) -> int:
        """Bytes of a chunk's shares."""
        return int(self._lengths[self.slices[number]].sum())

    def place(self, index: int, number: int) -> ChunkPlace:
        """Which chunk it is."""
        items = self.slices[number]
        return ChunkPlace(
            self._context.digest,
            self._candidates.hash,
            index,
            number,
            len(self.slices),
            items.stop - items.start,
        )


async def put_chunk(
    intake: Intake, context: RoundContext, index: int, number: int, body: bytes
) -> None:
    """Keep a chunk; a later one replaces it. Raises RoundClosed after an abort."""

    async def run(transaction: Transaction) -> None:
        row = await store.round_by_key(transaction, context.key)
        refuse_aborted(row)
        if row.state is RoundState.FROZEN:  # later it is decided already
            await share_chunks.put(transaction, context.key, index, number, body)

    await intake.submit(TransitionItem(context, run))


async def own_chunk(aggregator: Aggregator, context: RoundContext, number: int) -> bytes:
    """A chunk of this aggregator's. Raises UnknownChunk."""
    async with aggregator.database.reading() as transaction:
        body = await share_chunks.body(transaction, context.key, context.index, number)
    if body is None:
        raise UnknownChunk
    return body


async def short_chunk(
    aggregator: Aggregator, context: RoundContext, candidates: Candidates
) -> bytes | None:
    """All verifier shares of this aggregator's if they are one short chunk that is still kept."""
    chunks = Chunks(context, candidates)
    if len(chunks) != 1:
        return None
    async with aggregator.database.reading() as transaction:
        body = await share_chunks.body(transaction, context.key, context.index, 0)
    return body if body is not None and travels_along(chunks, body) else None


def travels_along(chunks: Chunks, body: bytes) -> bool:
    """Whether a chunk is all verifier shares, and short: it goes with the requests around it."""
    return len(chunks) == 1 and len(body) <= SHORT_SHARES


async def take_chunk(
    intake: Intake,
    context: RoundContext,
    candidates: Candidates,
    index: int,
    number: int,
    body: bytes,
) -> None:
    """Keep another aggregator's chunk as it came. Raises UnknownChunk, SealBrokenHere or
    RoundClosed."""
    chunks = Chunks(context, candidates)
    others = index != context.index and index < len(context.descriptor.aggregators)
    if not others or number >= len(chunks):
        raise UnknownChunk
    if not stands_at(chunks.place(index, number), body):
        raise SealBrokenHere("a chunk of another round, place or length")
    await put_chunk(intake, context, index, number, body)


async def demand_all(
    aggregator: Aggregator, context: RoundContext, chunks: Chunks, brought: Mapping[int, bytes]
) -> None:
    """Raise SharesMissing, which names them, unless every aggregator's chunks are held, or are
    first ones that were brought."""
    if len(chunks) == 1 and len(brought) == len(context.descriptor.aggregators):
        return
    async with aggregator.database.reading() as transaction:
        held = await share_chunks.held(transaction, context.key)
    held |= {(index, 0) for index in brought}
    missing = [
        {"index": index, "chunk": number}
        for number in range(len(chunks))
        for index in range(len(context.descriptor.aggregators))
        if (index, number) not in held
    ]
    if missing:
        raise SharesMissing(extra={"missing": missing[:_NAMED], "count": len(missing)})


async def held_chunks(
    aggregator: Aggregator, context: RoundContext, number: int, brought: Mapping[int, bytes]
) -> list[bytes]:
    """The chunk of this number of every aggregator, by index, sealed; those that were brought come
    before those held. Raises SharesMissing."""
    found = dict(brought)
    wanted = set(range(len(context.descriptor.aggregators))) - set(found)
    if wanted:
        async with aggregator.database.reading() as transaction:
            for index in wanted:
                body = await share_chunks.body(transaction, context.key, index, number)
                if body is None:  # the round was aborted meanwhile
                    raise SharesMissing
                found[index] = body
    return [found[index] for index in sorted(found)]


def opened(
    keys: Sequence[bytes], places: Sequence[ChunkPlace], bodies: Sequence[bytes]
) -> list[bytes]:
    """The verifier shares in the chunks of all aggregators, by index. Raises SharesMissing."""
    found = []
    for key, place, body in zip(keys, places, bodies, strict=True):
        try:
            found.append(open_chunk(key, place, body))
        except SealBroken:  # what is relayed wrongly can be relayed again
            missing = [{"index": place.index, "chunk": place.chunk}]
            raise SharesMissing("a chunk does not open", extra={"missing": missing}) from None
    return found
