"""Verifier shares of a proved round: this aggregator's own are evaluated, all are exchanged sealed.

Each contribution has one verifier share, however often it is computed: it is a function of stored
rows and of the round's verify key. Shares travel in sealed chunks, relayed by a coordinator that
cannot read them; another aggregator's chunk is stored as received.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aggregator.context import Aggregator, RoundContext, refuse_aborted
from aggregator.errors import SealBrokenHere, SharesMissing, StillVerifying, UnknownChunk
from aggregator.pieces.intake import Intake, TransitionItem
from aggregator.pieces.peer_seals import verify_key
from aggregator.pieces.unsealing import LONE_PREFIX_BYTES, batch_content, content_of
from aggregator.store import pieces as piece_store
from aggregator.store import roster, rounds
from aggregator.store import rounds as store
from aggregator.store.pieces import BatchRow, PieceRow
from aggregator.store.roster import Party
from common.arrays import batches
from common.runtime.logs import describe, get_logger
from common.store.transactions import Transaction
from tacit.crypto.sealing import TAG_BYTES, SealBroken, span_within
from tacit.protocol.proved_rounds import (
    Candidates,
    ChunkPlace,
    chunk_slices,
    open_chunk,
    share_lengths,
    stands_at,
)
from tacit.protocol.round.messages import SHORT_SHARES, ProvedPart
from tacit.protocol.round.pieces import proof_context, rows_of, unpack
from tacit.protocol.round.state import RoundState
from tacit.query.proofs import ContributionProof, ProofPlan, fastest_arithmetic, proof_plan
from tacit.sets import Bits
from tacit.validity.field import Elements, Mask, Rows
from tacit.validity.prio3 import Verification

_logger = get_logger("tacit.aggregator.rounds")
_KEPT: Final = 64
TABLE_BYTES: Final = 64 << 20
"""Verifier shares that are put in order at a time."""
READ_BYTES: Final = 16 << 20
"""Sealed contributions that are in memory at a time, but for a row that is longer."""
AT_ONCE: Final = 4096
"""Contributions that are verified in one call."""
MANY: Final = 500_000
"""Elements of measurements from which on compiled arithmetic saves more than compiling takes: a
process does it once, in one to five seconds."""

PartPlace: TypeAlias = tuple[int, int, int, int]
"""As `ProvedPart.place`."""
Taken: TypeAlias = Callable[[Rows], Awaitable[None]]
"""Called with verifier shares (n, bytes) of the next n contributions, in their order."""


@dataclass(eq=False)
class Evaluated:
    """What an aggregator stores of the contributions that it verified.

    `output`: (limbs, d), the sum of their output shares. `seeds` (items, 32 or 0) and
    `permitted` (items,): as in the engine's `Verification`; zeros for those that were not
    requested. `shares`: the verifier shares, sealed, if they are one short chunk; `answer`: the
    signed verification with them, once it is stored.
    """

    candidates: Candidates
    output: Elements
    seeds: Rows
    permitted: Mask
    shares: bytes | None = None
    answer: str | None = None

    def own(self, items: slice) -> Verification:
        """Of these contributions, what a decision needs."""
        nothing = np.zeros((0, 0, 0), np.uint64)
        empty = np.zeros((items.stop - items.start, 0), np.uint8)
        return Verification(empty, nothing, self.seeds[items], self.permitted[items])


class Evaluations:
    """A cache of what this process verified in its rounds; all of it can be computed again."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Evaluated] = OrderedDict()
        self._work: dict[str, asyncio.Task[None]] = {}

    async def work(
        self, round_id: str, begin: Callable[[], Coroutine[Any, Any, None]], hold_s: float
    ) -> None:
        """Wait for the verification of a round that is in progress, or for a new one.

        Raises StillVerifying if it takes longer than `hold_s`: it continues, and the same request
        asks for it again.
        """
        if round_id not in self._work:
            task = asyncio.create_task(begin(), name=f"verify {round_id}")
            self._work[round_id] = task
            task.add_done_callback(partial(self._ended, round_id))
        work = self._work[round_id]
        done, _ = await asyncio.wait({work}, timeout=hold_s)
        if not done:
            raise StillVerifying
        work.result()

    async def stop(self) -> None:
        """End what is in progress: it is begun again after a start."""
        in_progress = list(self._work.values())
        for task in in_progress:
            task.cancel()
        await asyncio.gather(*in_progress, return_exceptions=True)

    def _ended(self, round_id: str, task: asyncio.Task[None]) -> None:
        del self._work[round_id]
        error = None if task.cancelled() else task.exception()
        if error is not None:  # the next request begins again
            _logger.warning("verification_failed", round=round_id, **describe(error))

    def get(self, round_id: str) -> Evaluated | None:
        """Of a round."""
        return self._kept.get(round_id)

    def put(self, round_id: str, evaluated: Evaluated) -> None:
        """Remember it."""
        self._kept[round_id] = evaluated
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)

    def drop(self, round_id: str) -> None:
        """Forget it: the round continues without it."""
        self._kept.pop(round_id, None)


class Evaluation:
    """The shares of one round's candidates, read from the store and verified."""

    def __init__(
        self,
        aggregator: Aggregator,
        context: RoundContext,
        candidates: Candidates,
        key: bytes,
        plan: ProofPlan,
    ) -> None:
        """`plan`: of the round, in whichever arithmetic; all give the same bytes."""
        self._aggregator, self._context, self._candidates = aggregator, context, candidates
        self._key, self._plan = key, plan

    async def run(self, chosen: Bits, sink: Taken | None = None) -> Evaluated:
        """Verify the chosen ones among the candidates (items,)."""
        prio3, items = self._plan.of(1).prio3, self._candidates.items
        field_ = prio3.circuit.field
        seed_bytes = 32 if prio3.joint else 0
        evaluated = Evaluated(
            self._candidates,
            field_.small(np.zeros(prio3.circuit.output_length)),
            np.zeros((items, seed_bytes), np.uint8),
            np.zeros(items, np.bool_),
        )
        await self._lone(chosen, evaluated, sink)
        await self._parts(chosen, evaluated, sink)
        return evaluated

    # --- lone curators ---

    async def _lone(self, chosen: Bits, evaluated: Evaluated, sink: Taken | None) -> None:
        places = np.flatnonzero(chosen[: len(self._candidates.lone)])
        width = self._plan.of(1).prio3.verifier_share_bytes
        step = max(1, TABLE_BYTES // width)
        for start in range(0, len(places), step):
            block = places[start : start + step]
            table = np.zeros((len(block), width), np.uint8)
            await self._fill(block, table, evaluated)
            if sink is not None:
                await sink(table)

    async def _fill(self, block: NDArray[np.int64], table: Rows, evaluated: Evaluated) -> None:
        """Write the verifier shares of the lone candidates at these indices into the table's
        rows."""
        numbers = self._candidates.lone[block]
        place_of = np.full(self._candidates.roster_size, -1, np.int64)
        place_of[numbers] = np.arange(len(block))
        database, context = self._aggregator.database, self._context
        async with database.reading() as transaction:
            rows = [
                (row, len(held_numbers) // 4)
                for row, held_numbers in await piece_store.piece_numbers(
                    transaction, context.key, 0
                )
                if (place_of[np.frombuffer(held_numbers, "<u4")] >= 0).any()
            ]
        record = LONE_PREFIX_BYTES + self._plan.of(1).share_bytes(context.index)

        def size(row: tuple[int, int]) -> int:
            return row[1] * record

        filled = 0
        waiting: list[tuple[int, bytes]] = []
        for some in batches(rows, size, READ_BYTES):
            async with database.reading() as transaction:
                read = await piece_store.rows_by_id(transaction, [row for row, _ in some])
                lone_numbers = [int(number) for row in read for number in _numbers(row, place_of)]
                senders = await roster.lone_by_number(transaction, lone_numbers)
            waiting += await asyncio.to_thread(self._opened, read, senders, place_of)
            while len(waiting) >= AT_ONCE or record * len(waiting) >= READ_BYTES:
                now, waiting = waiting[:AT_ONCE], waiting[AT_ONCE:]
                await asyncio.to_thread(self._verified, block, now, table, evaluated)
                filled += len(now)
        if waiting:
            await asyncio.to_thread(self._verified, block, waiting, table, evaluated)
        assert filled + len(waiting) == len(block), "every candidate has one piece"

    def _opened(
        self, rows: Iterable[PieceRow], senders: dict[int, Party], place_of: NDArray[np.int64]
    ) -> list[tuple[int, bytes]]:
        """(place in the table, plaintext) of the wanted pieces."""
        plaintexts = []
        for row in rows:
            numbers = np.frombuffer(row.numbers, "<u4")
            length = len(row.bodies) // numbers.size
            for at in np.flatnonzero(place_of[numbers] >= 0).tolist():
                number = int(numbers[at])
                body = row.bodies[length * at : length * (at + 1)]
                tag = row.tags[TAG_BYTES * at : TAG_BYTES * (at + 1)]
                plain = content_of(self._aggregator, self._context, senders[number], body, tag)
                plaintexts.append((int(place_of[number]), plain))
        return plaintexts

    def _verified(
        self,
        block: NDArray[np.int64],
        opened: Sequence[tuple[int, bytes]],
        table: Rows,
        evaluated: Evaluated,
    ) -> None:
        at = np.array([place for place, _ in opened])
        done = self._verify(self._plan.of(1), [plain for _, plain in opened], evaluated)
        table[at] = done.verifier_shares
        evaluated.seeds[block[at]] = done.seeds
        evaluated.permitted[block[at]] = done.permitted

    # --- parts of hosts ---

    async def _parts(self, chosen: Bits, evaluated: Evaluated, sink: Taken | None) -> None:
        listed = self._candidates.parts_of(chosen)
        first = len(self._candidates.lone)
        places = (first + np.flatnonzero(chosen[first:])).tolist()
        database, context = self._aggregator.database, self._context
        rows: dict[PartPlace, tuple[BatchRow, Party]] = {}
        for some in batches(zip(places, listed, strict=True), self._size, READ_BYTES, AT_ONCE):
            async with database.reading() as transaction:
                if not rows:
                    parts_held = await held_parts(transaction, context)
                    rows = {part.place: held_part for part, held_part in parts_held.items()}
                rows_of_parts = [rows[part.place] for _, part in some]
                bodies = await piece_store.batch_bodies(
                    transaction, [row.id for row, _ in rows_of_parts]
                )
            sealed = [
                (place, part.curators, host, bodies[row.id])
                for (place, part), (row, host) in zip(some, rows_of_parts, strict=True)
            ]
            alike = [list(same_host) for _, same_host in groupby(sealed, key=lambda item: item[1])]
            for shares in await asyncio.to_thread(self._verified_parts, alike, evaluated):
                if sink is not None:
                    await sink(shares)

    def _size(self, listed: tuple[int, ProvedPart]) -> int:
        """Bytes of a part's share."""
        return self._plan.of(listed[1].curators).share_bytes(self._context.index)

    def _verified_parts(
        self, alike: Sequence[Sequence[tuple[int, int, Party, bytes]]], evaluated: Evaluated
    ) -> list[Rows]:
        """The verifier shares of parts, (index, curators, host, sealed), grouped by their number
        of curators."""
        verified = []
        for group in alike:
            plain = [batch_content(self._context, host, body) for _, _, host, body in group]
            done = self._verify(self._plan.of(group[0][1]), plain, evaluated)
            at = np.array([place for place, *_ in group])
            evaluated.seeds[at] = done.seeds
            evaluated.permitted[at] = done.permitted
            verified.append(done.verifier_shares)
        return verified

    # --- both ---

    def _verify(
        self, proof: ContributionProof, plaintexts: Sequence[bytes], evaluated: Evaluated
    ) -> Verification:
        """Verify shares, and add what they give to the sum."""
        context, prio3 = self._context, proof.prio3
        shares = unpack(prio3, context.index, rows_of(prio3, context.index, plaintexts))
        done = prio3.verify(
            self._key,
            proof_context(context.digest),
            context.index,
            shares.nonces,
            shares.public_shares,
            shares.input_shares,
        )
        field_ = prio3.circuit.field
        evaluated.output = field_.add(evaluated.output, field_.sum(done.output_shares, axis=2))
        return done


async def evaluation_of(
    aggregator: Aggregator, context: RoundContext, candidates: Candidates
) -> Evaluation:
    """With the round's verify key. Raises RoundNotKeyed or RoundClosed."""
    plan = context.proofs
    assert plan is not None
    if candidates.items * plan.of(1).prio3.circuit.measurement_length >= MANY:
        fastest = await asyncio.to_thread(fastest_arithmetic)
        plan = proof_plan(context.descriptor.query, fastest)
    key = await verify_key(aggregator, context)
    return Evaluation(aggregator, context, candidates, key, plan)


async def held_parts(
    transaction: Transaction, context: RoundContext
) -> dict[ProvedPart, tuple[BatchRow, Party]]:
    """The parts that a proved round holds, with their rows and hosts."""
    rows = await piece_store.round_batches(transaction, context.key)
    hosts = await roster.parties_by_key(transaction, sorted({row.host for row in rows}))
    parts, size = {}, context.descriptor.segment_size
    for row in rows:
        host = hosts[row.host]
        span = span_within(host.first, host.curators, size, row.segment)
        assert span is not None, "it was checked when the part was accepted"
        parts[ProvedPart.of(span, row.part, row.presence)] = row, host
    return parts


def _numbers(row: PieceRow, place_of: NDArray[np.int64]) -> Iterator[int]:
    """The wanted numbers of a row."""
    numbers = np.frombuffer(row.numbers, "<u4")
    yield from numbers[place_of[numbers] >= 0].tolist()


# --- chunks, relayed by a coordinator that cannot read them --------------------------------------
#
# An own chunk is stored as it is sent; another aggregator's as received, and only the hash that its
# aggregator signed decides on it. Spec: validity, section 10, step 2.

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
            await rounds.put_chunk(transaction, context.key, index, number, body)

    await intake.submit(TransitionItem(context, run))


async def own_chunk(aggregator: Aggregator, context: RoundContext, number: int) -> bytes:
    """A chunk of this aggregator's. Raises UnknownChunk."""
    async with aggregator.database.reading() as transaction:
        body = await rounds.chunk_body(transaction, context.key, context.index, number)
    if body is None:
        raise UnknownChunk
    return body


async def short_chunk(
    aggregator: Aggregator, context: RoundContext, candidates: Candidates
) -> bytes | None:
    """All verifier shares of this aggregator, if they are one short chunk that is still stored."""
    chunks = Chunks(context, candidates)
    if len(chunks) != 1:
        return None
    async with aggregator.database.reading() as transaction:
        body = await rounds.chunk_body(transaction, context.key, context.index, 0)
    return body if body is not None and travels_along(chunks, body) else None


def travels_along(chunks: Chunks, body: bytes) -> bool:
    """Whether a chunk contains all verifier shares and is short: it is then sent with the
    neighbouring requests."""
    return len(chunks) == 1 and len(body) <= SHORT_SHARES


async def take_chunk(
    intake: Intake,
    context: RoundContext,
    candidates: Candidates,
    index: int,
    number: int,
    body: bytes,
) -> None:
    """Store another aggregator's chunk as received. Raises UnknownChunk, SealBrokenHere or
    RoundClosed."""
    chunks = Chunks(context, candidates)
    from_peer = index != context.index and index < len(context.descriptor.aggregators)
    if not from_peer or number >= len(chunks):
        raise UnknownChunk
    if not stands_at(chunks.place(index, number), body):
        raise SealBrokenHere("a chunk of another round, place or length")
    await put_chunk(intake, context, index, number, body)


async def demand_all(
    aggregator: Aggregator, context: RoundContext, chunks: Chunks, brought: Mapping[int, bytes]
) -> None:
    """Raise SharesMissing, which names the aggregators, unless the chunks of all are stored, or
    are first ones that came with the request."""
    if len(chunks) == 1 and len(brought) == len(context.descriptor.aggregators):
        return
    async with aggregator.database.reading() as transaction:
        stored = await rounds.held_chunks(transaction, context.key)
    stored |= {(index, 0) for index in brought}
    missing = [
        {"index": index, "chunk": number}
        for number in range(len(chunks))
        for index in range(len(context.descriptor.aggregators))
        if (index, number) not in stored
    ]
    if missing:
        raise SharesMissing(extra={"missing": missing[:_NAMED], "count": len(missing)})


async def held_chunks(
    aggregator: Aggregator, context: RoundContext, number: int, brought: Mapping[int, bytes]
) -> list[bytes]:
    """The chunk of this number of every aggregator, by index, sealed; chunks that came with the
    request precede stored ones. Raises SharesMissing."""
    sealed_chunks = dict(brought)
    awaited = set(range(len(context.descriptor.aggregators))) - set(sealed_chunks)
    if awaited:
        async with aggregator.database.reading() as transaction:
            for index in awaited:
                body = await rounds.chunk_body(transaction, context.key, index, number)
                if body is None:  # the round was aborted meanwhile
                    raise SharesMissing
                sealed_chunks[index] = body
    return [sealed_chunks[index] for index in sorted(sealed_chunks)]


def opened(
    keys: Sequence[bytes], places: Sequence[ChunkPlace], bodies: Sequence[bytes]
) -> list[bytes]:
    """The verifier shares in the chunks of all aggregators, by index. Raises SharesMissing."""
    shares = []
    for key, place, body in zip(keys, places, bodies, strict=True):
        try:
            shares.append(open_chunk(key, place, body))
        except SealBroken:  # what is relayed wrongly can be relayed again
            missing = [{"index": place.index, "chunk": place.chunk}]
            raise SharesMissing("a chunk does not open", extra={"missing": missing}) from None
    return shares
