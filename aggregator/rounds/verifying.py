"""The contributions of a frozen proved round are verified, and decided on.

    frozen -> (candidates fixed -> shares out, shares in) -> verified

The candidates are fixed before the first of them is evaluated, once for a round: this aggregator
shows one point of each contribution, ever. What it computes is a function of stored rows, so that a
process that was killed goes on with the same verifier shares. Spec: validity, section 10.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from aggregator.context import Aggregator, RoundContext, stored_round, wire_json
from aggregator.errors import (
    CandidatesFixed,
    RoundClosed,
    RoundNotFrozen,
    RoundNotVerified,
    SealBrokenHere,
    SharesMissing,
    StillVerifying,
    UnknownChunk,
)
from aggregator.pieces.intake import Intake, TransitionItem
from aggregator.pieces.verify_keys import verify_key
from aggregator.rounds.evaluating import Evaluated, evaluation_of
from aggregator.store import rounds as store
from aggregator.store import share_chunks
from aggregator.store.rounds import RoundRow
from common.runtime.logs import describe, get_logger
from common.store.transactions import Transaction
from tacit.crypto.sealing import SealBroken
from tacit.crypto.signing import Signed
from tacit.protocol.agreement import ManifestRefused
from tacit.protocol.proved_pieces import proof_context
from tacit.protocol.round import (
    VERDICT_LABEL,
    VERIFICATION_LABEL,
    AcceptedSet,
    RoundState,
    Verdict,
    VerdictRequest,
    Verification,
    VerificationRequest,
)
from tacit.protocol.verification import (
    CandidateList,
    Candidates,
    ChunkPlace,
    VerificationRefused,
    candidates_of,
    check_verifications,
    chunk_key,
    chunk_slices,
    open_chunk,
    seal_chunk,
    share_lengths,
    stands_at,
    verdict_of,
)
from tacit.validity.field import Elements, Rows

_logger = get_logger("tacit.aggregator.rounds")
HOLD_S: Final = 5.0
"""How long a request waits for a verification."""
_KEPT: Final = 64
_NAMED: Final = 100


class Evaluations:
    """What this process remembers of rounds whose contributions it verified: a cache, as all of it
    can be computed again."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Evaluated] = OrderedDict()
        self._work: dict[str, asyncio.Task[str]] = {}

    def work(
        self, round_id: str, begin: Callable[[], Coroutine[Any, Any, str]]
    ) -> asyncio.Task[str]:
        """The verification of a round that is under way, or a new one."""
        if round_id not in self._work:
            task = asyncio.create_task(begin(), name=f"verify {round_id}")
            self._work[round_id] = task
            task.add_done_callback(partial(self._ended, round_id))
        return self._work[round_id]

    async def stop(self) -> None:
        """End what is under way: it is begun again after a start."""
        under_way = list(self._work.values())
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    def _ended(self, round_id: str, task: asyncio.Task[str]) -> None:
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
        """Forget it: the round goes on without."""
        self._kept.pop(round_id, None)


@dataclass(frozen=True)
class Verifying:
    """The steps of proved rounds between freeze and commitment."""

    aggregator: Aggregator
    intake: Intake
    evaluations: Evaluations

    # --- the own shares ---

    async def verify(self, round_id: str, request: VerificationRequest) -> str:
        """Fix the candidates, compute the own verifier shares, and sign their hash.

        Raises RoundNotFrozen, CandidatesFixed, ManifestRefused, TooFewParticipants; StillVerifying
        if that takes longer than a request should: it goes on, and the same request asks for it.
        """
        context = await self.aggregator.round(round_id)
        row, accepted, signed = await self._read(context, "accepted", "verification")
        if accepted is None:
            raise RoundNotFrozen
        candidates = await asyncio.to_thread(_checked, context, accepted, request)
        if row.candidates_hash not in (None, candidates.hash):
            raise CandidatesFixed
        if signed is not None:
            return signed
        await self._fix(context, candidates)
        work = self.evaluations.work(round_id, lambda: self._verified(context, candidates))
        done, _ = await asyncio.wait({work}, timeout=HOLD_S)
        if not done:
            raise StillVerifying
        return work.result()

    async def _verified(self, context: RoundContext, candidates: Candidates) -> str:
        """Not under the round's lock: an abort does not wait for it."""
        try:
            evaluated, shares_hash = await self._evaluate(context, candidates)
        except Exception:
            await self._read(context, "accepted", "verification")  # says so after an abort
            raise
        self.evaluations.put(context.id, evaluated)
        return await self._sign(context, candidates, shares_hash)

    async def _fix(self, context: RoundContext, candidates: Candidates) -> None:
        """Durable before anything is evaluated."""

        async def run(transaction: Transaction) -> None:
            row = await store.round_by_key(transaction, context.key)
            if row.candidates_hash == candidates.hash:
                return
            if row.candidates_hash is not None:
                raise CandidatesFixed
            await _advance(
                transaction,
                row,
                RoundState.FROZEN,
                candidates_hash=candidates.hash,
                candidates=wire_json(candidates.listed()),
            )

        await self.intake.submit(TransitionItem(context, run))

    async def _sign(self, context: RoundContext, candidates: Candidates, shares_hash: bytes) -> str:
        statement = Verification(
            round=context.id,
            descriptor_hash=context.digest,
            aggregator=self.aggregator.id,
            candidates_hash=candidates.hash,
            items=candidates.items,
            shares_hash=shares_hash,
        )
        signed = wire_json(self.aggregator.keyring.identity.sign(VERIFICATION_LABEL, statement))
        return await self._keep(context, RoundState.FROZEN, "verification", signed)

    async def _keep(
        self,
        context: RoundContext,
        state: RoundState,
        document: Literal["verification", "verdict"],
        signed: str,
    ) -> str:
        """Store what was signed, unless one is stored: there is one of each ever. That one."""

        async def run(transaction: Transaction) -> str:
            row = await store.round_by_key(transaction, context.key)
            known = await store.document(transaction, context.key, document)
            if known is not None:
                return known
            await _advance(transaction, row, state, **{document: signed})
            return signed

        answer: str = await self.intake.submit(TransitionItem(context, run))
        return answer

    async def _evaluate(
        self, context: RoundContext, candidates: Candidates
    ) -> tuple[Evaluated, bytes]:
        """Verify all candidates; the own chunks are kept, sealed as they travel."""
        evaluation = await evaluation_of(self.aggregator, context, candidates)
        key = chunk_key(
            await verify_key(self.aggregator, context), context.digest, self.aggregator.id
        )
        chunks = Chunks(context, candidates)
        digest, waiting, number = hashlib.sha256(), bytearray(), 0

        async def taken(shares: Rows) -> None:
            nonlocal number
            await asyncio.to_thread(digest.update, shares.data)
            waiting.extend(shares.data.cast("B"))
            while number < len(chunks) and len(waiting) >= chunks.bytes_of(number):
                content = bytes(waiting[: chunks.bytes_of(number)])
                del waiting[: len(content)]
                place = chunks.place(context.index, number)
                body = await asyncio.to_thread(seal_chunk, key, place, content)
                await self._put(context, context.index, number, body)
                number += 1

        evaluated = await evaluation.run(np.ones(candidates.items, np.bool_), taken)
        assert (number, len(waiting)) == (len(chunks), 0), "shares have their lengths"
        return evaluated, digest.digest()

    async def _put(self, context: RoundContext, index: int, number: int, body: bytes) -> None:
        async def run(transaction: Transaction) -> None:
            row = await store.round_by_key(transaction, context.key)
            if row.state is RoundState.ABORTED:
                raise _aborted(row)
            if row.state is RoundState.FROZEN:  # later it is decided already
                await share_chunks.put(transaction, context.key, index, number, body)

        await self.intake.submit(TransitionItem(context, run))

    # --- chunks, out and in ---

    async def chunk(self, round_id: str, number: int) -> bytes:
        """An own chunk. Raises UnknownChunk."""
        context = await self.aggregator.round(round_id)
        async with self.aggregator.database.reading() as transaction:
            body = await share_chunks.body(transaction, context.key, context.index, number)
        if body is None:
            raise UnknownChunk
        return body

    async def take_chunk(self, round_id: str, index: int, number: int, body: bytes) -> None:
        """Keep another aggregator's chunk as it came; a later one replaces it.

        Only the hash that its aggregator signed decides on it. Raises UnknownChunk,
        SealBrokenHere, CandidatesFixed before there are candidates, RoundClosed.
        """
        context = await self.aggregator.round(round_id)
        _row, candidates = await self._candidates(context)
        if candidates is None:
            raise RoundNotVerified("no candidates are fixed yet")
        chunks = Chunks(context, candidates)
        others = index != context.index and index < len(context.descriptor.aggregators)
        if not others or number >= len(chunks):
            raise UnknownChunk
        if not stands_at(chunks.place(index, number), body):
            raise SealBrokenHere("a chunk of another round, place or length")
        await self._put(context, index, number, body)

    # --- the decision ---

    async def decide(self, round_id: str, request: VerdictRequest) -> str:
        """frozen -> verified: open the others' shares, decide on each contribution, and sign.

        Raises SharesMissing; VerificationRefused for verifications that are not those of all, whose
        shares are others, or after a verdict over other shares.
        """
        context = await self.aggregator.round(round_id)
        async with self.aggregator.lock(round_id):
            _row, own, verdict = await self._read(context, "verification", "verdict")
            _, candidates = await self._candidates(context)
            if own is None or candidates is None:
                raise RoundNotVerified("no verification is signed yet")
            found = await asyncio.to_thread(
                check_verifications, context.descriptor, candidates, request.verifications
            )
            if Signed[Verification].model_validate_json(own) not in request.verifications:
                raise VerificationRefused("the own verification is not the one that was signed")
            if verdict is not None:
                known = Signed[Verdict].model_validate_json(verdict).statement
                if known.shares_hashes != tuple(item.shares_hash for item in found):
                    raise VerificationRefused("decided over other shares already")
                return verdict
            evaluated = await self._evaluated(context, candidates)
            outcomes = await self._outcomes(context, candidates, found, evaluated)
            statement = verdict_of(
                context.descriptor, self.aggregator.id, candidates, found, outcomes
            )
            signed = wire_json(self.aggregator.keyring.identity.sign(VERDICT_LABEL, statement))
            return await self._keep(context, RoundState.VERIFIED, "verdict", signed)

    async def _outcomes(
        self,
        context: RoundContext,
        candidates: Candidates,
        verifications: Sequence[Verification],
        evaluated: Evaluated,
    ) -> NDArray[np.uint8]:
        """What is decided on each candidate, (items,); a chunk of each aggregator at a time."""
        chunks, count = Chunks(context, candidates), len(verifications)
        async with self.aggregator.database.reading() as transaction:
            held = await share_chunks.held(transaction, context.key)
        missing = [
            {"index": index, "chunk": number}
            for number in range(len(chunks))
            for index in range(count)
            if (index, number) not in held
        ]
        if missing:
            raise SharesMissing(extra={"missing": missing[:_NAMED], "count": len(missing)})
        key = await verify_key(self.aggregator, context)
        keys = [
            chunk_key(key, context.digest, entry.id) for entry in context.descriptor.aggregators
        ]
        hashes = [hashlib.sha256() for _ in range(count)]
        outcomes = np.zeros(candidates.items, np.uint8)
        for number, items in enumerate(chunks.slices):
            bodies = []
            async with self.aggregator.database.reading() as transaction:
                for index in range(count):
                    body = await share_chunks.body(transaction, context.key, index, number)
                    if body is None:  # the round was aborted meanwhile
                        raise SharesMissing
                    bodies.append(body)

            def decide() -> None:
                contents = []
                for index, body in enumerate(bodies):  # noqa: B023
                    place = chunks.place(index, number)  # noqa: B023
                    contents.append(_opened(keys[index], place, body))
                    hashes[index].update(contents[index])
                    if len(contents[index]) != chunks.bytes_of(number):  # noqa: B023
                        name = context.descriptor.aggregators[index].id
                        raise VerificationRefused(f"the shares of {name} have not their length")
                outcomes[items] = _decided(context, candidates, items, contents, evaluated)  # noqa: B023

            await asyncio.to_thread(decide)
        for item, found in zip(verifications, hashes, strict=True):
            if found.digest() != item.shares_hash:
                raise VerificationRefused(
                    f"the shares of {item.aggregator} are not those that it signed"
                )
        return outcomes

    # --- what the commitment needs ---

    async def output_shares(
        self, context: RoundContext, candidates: Candidates, counted: NDArray[np.bool_]
    ) -> Elements:
        """The sum (limbs, d) of the output shares of the counted candidates, without noise."""
        assert context.proofs is not None
        evaluation = await evaluation_of(self.aggregator, context, candidates)
        known = self.evaluations.get(context.id)
        if known is None or 2 * int((~counted).sum()) > candidates.items:
            return (await evaluation.run(counted)).output
        left_out = await evaluation.run(~counted)
        field = context.proofs.of(1).prio3.circuit.field
        return field.subtract(known.output, left_out.output)

    # --- reading ---

    async def _evaluated(self, context: RoundContext, candidates: Candidates) -> Evaluated:
        """What was computed for the verification, or the same once more."""
        known = self.evaluations.get(context.id)
        if known is None:
            evaluation = await evaluation_of(self.aggregator, context, candidates)
            known = await evaluation.run(np.ones(candidates.items, np.bool_))
            self.evaluations.put(context.id, known)
        return known

    async def _read(
        self, context: RoundContext, *names: store.Document
    ) -> tuple[RoundRow, str | None, str | None]:
        async with self.aggregator.database.reading() as transaction:
            row = await stored_round(transaction, context.id)
            first, second = [await store.document(transaction, context.key, name) for name in names]
        if context.proofs is None:
            raise VerificationRefused("the round's contributions carry no proofs")
        if row.state is RoundState.ABORTED:
            raise _aborted(row)
        return row, first, second

    async def _candidates(self, context: RoundContext) -> tuple[RoundRow, Candidates | None]:
        async with self.aggregator.database.reading() as transaction:
            row = await stored_round(transaction, context.id)
            listed = await store.document(transaction, context.key, "candidates")
        if row.state is RoundState.ABORTED:
            raise _aborted(row)
        if listed is None or row.candidates_hash is None:
            return row, None
        found = CandidateList.model_validate_json(listed)
        size = context.descriptor.roster_size
        return row, Candidates.of(found, size, row.candidates_hash)


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


def _checked(context: RoundContext, accepted: str, request: VerificationRequest) -> Candidates:
    """The candidates of all signed sets, this aggregator's own among them."""
    if Signed[AcceptedSet].model_validate_json(accepted) not in request.accepted:
        raise ManifestRefused("the accepted set of this aggregator is not the one it signed")
    return candidates_of(context.descriptor, request.accepted)


def _opened(key: bytes, place: ChunkPlace, body: bytes) -> bytes:
    try:
        return open_chunk(key, place, body)
    except SealBroken:  # what is relayed wrongly can be relayed again
        missing = [{"index": place.index, "chunk": place.chunk}]
        raise SharesMissing("a chunk does not open", extra={"missing": missing}) from None


def _decided(
    context: RoundContext,
    candidates: Candidates,
    items: slice,
    contents: Sequence[bytes],
    evaluated: Evaluated,
) -> NDArray[np.uint8]:
    """Outcomes of the contributions of one chunk, from the shares (one text per aggregator)."""
    assert context.proofs is not None
    bound = proof_context(context.digest)
    outcomes = np.zeros(items.stop - items.start, np.uint8)
    offset, at = 0, items.start
    while at < items.stop:
        curators, until = candidates.alike(at, items.stop)
        prio3 = context.proofs.of(curators).prio3
        width = prio3.verifier_share_bytes
        end = offset + width * (until - at)
        rows = [
            np.frombuffer(text[offset:end], np.uint8).reshape(until - at, width)
            for text in contents
        ]
        decision = prio3.decide(bound, rows)
        own = evaluated.own(slice(at, until))
        outcomes[at - items.start : until - items.start] = prio3.outcomes(own, decision)
        offset, at = end, until
    return outcomes


async def _advance(
    transaction: Transaction, row: RoundRow, after: RoundState, **values: object
) -> None:
    """From `frozen`. Raises RoundClosed after an abort."""
    if not await store.advance(transaction, row.key, RoundState.FROZEN, after, **values):
        raise _aborted(row)


def _aborted(row: RoundRow) -> RoundClosed:
    return RoundClosed("the round was aborted", extra={"state": row.state.value})
