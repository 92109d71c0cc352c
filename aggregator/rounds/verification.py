"""Verification of a frozen proved round: which contributions count.

     frozen -> (candidates fixed -> shares out, shares in) -> verified

The candidates are fixed before the first of them is evaluated. Each aggregator decides for itself,
from the verifier shares of all aggregators.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from aggregator.context import (
    Aggregator,
    RoundContext,
    refuse_aborted,
    stored_round,
    wire_json,
)
from aggregator.errors import (
    CandidatesFixed,
    RoundClosed,
    RoundNotFrozen,
    RoundNotVerified,
)
from aggregator.pieces.intake import Intake, TransitionItem
from aggregator.pieces.peer_seals import verify_key
from aggregator.rounds.verifier_shares import (
    Chunks,
    Evaluated,
    Evaluations,
    demand_all,
    evaluation_of,
    held_chunks,
    opened,
    own_chunk,
    put_chunk,
    short_chunk,
    take_chunk,
    travels_along,
)
from aggregator.store import rounds
from aggregator.store import rounds as store
from aggregator.store.rounds import RoundRow
from common.store.transactions import Transaction
from tacit.crypto.signing import Signed
from tacit.protocol.proved_rounds import (
    CandidateList,
    Candidates,
    VerificationRefused,
    candidates_of,
    check_verifications,
    chunk_key,
    seal_chunk,
    verdict_of,
)
from tacit.protocol.round.agreement import ManifestRefused
from tacit.protocol.round.messages import (
    VERDICT_LABEL,
    VERIFICATION_LABEL,
    AcceptedSet,
    Verdict,
    VerdictRequest,
    Verification,
    VerificationRequest,
)
from tacit.protocol.round.pieces import proof_context
from tacit.protocol.round.state import RoundState
from tacit.validity.field import Elements, Rows
from tacit.wire import encode_binary


async def outcomes_of(
    aggregator: Aggregator,
    context: RoundContext,
    candidates: Candidates,
    verifications: Sequence[Verification],
    evaluated: Evaluated,
    brought: Mapping[int, bytes],
) -> NDArray[np.uint8]:
    """What is decided on each candidate, (items,): values of `Outcome`. `brought`: first chunks of
    other aggregators, by index, that came with the request; they replace the stored ones.

    Raises SharesMissing; VerificationRefused for shares that were not signed.
    """
    chunks = Chunks(context, candidates)
    await demand_all(aggregator, context, chunks, brought)
    key = await verify_key(aggregator, context)
    entries = context.descriptor.aggregators
    keys = [chunk_key(key, context.digest, entry.id) for entry in entries]
    hashes = [hashlib.sha256() for _ in entries]
    outcomes = np.zeros(candidates.items, np.uint8)

    def decide(number: int, bodies: Sequence[bytes]) -> None:
        places = [chunks.place(index, number) for index in range(len(entries))]
        contents = opened(keys, places, bodies)
        for entry, digest, content in zip(entries, hashes, contents, strict=True):
            digest.update(content)
            if len(content) != chunks.bytes_of(number):
                raise VerificationRefused(f"the shares of {entry.id} have not their length")
        items = chunks.slices[number]
        outcomes[items] = _decided(context, candidates, items, contents, evaluated)

    for number in range(len(chunks)):
        bodies = await held_chunks(aggregator, context, number, {} if number else brought)
        await asyncio.to_thread(decide, number, bodies)
    for item, digest in zip(verifications, hashes, strict=True):
        if digest.digest() != item.shares_hash:
            raise VerificationRefused(
                f"the shares of {item.aggregator} are not those that it signed"
            )
    return outcomes


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
        own_items = evaluated.own(slice(at, until))
        outcomes[at - items.start : until - items.start] = prio3.outcomes(own_items, decision)
        offset, at = end, until
    return outcomes


HOLD_S: Final = 5.0
"""How long a request waits for a verification."""


@dataclass(frozen=True)
class Verifying:
    """The steps of proved rounds between freeze and commitment."""

    aggregator: Aggregator
    intake: Intake
    evaluations: Evaluations

    # --- the own shares ---

    async def verify(self, round_id: str, request: VerificationRequest) -> str:
        """Fix the candidates, compute this aggregator's verifier shares, and sign their hash; the
        JSON of a `Verified`.

        Raises RoundNotFrozen, CandidatesFixed, ManifestRefused, TooFewParticipants;
        StillVerifying if that takes longer than a request should: it continues, and the same
        request asks for it again.
        """
        context = await self.aggregator.round(round_id)
        stored = await self._read(context, "accepted", "verification")
        accepted, signed = stored.documents
        if accepted is None:
            raise RoundNotFrozen
        candidates = await asyncio.to_thread(_checked, context, accepted, request)
        if stored.row.candidates_hash not in (None, candidates.hash):
            raise CandidatesFixed
        if signed is None:
            await self._fix(context, candidates)
            await self.evaluations.work(
                round_id, lambda: self._verified(context, candidates), HOLD_S
            )
        evaluated = self.evaluations.get(round_id)
        if evaluated is not None and evaluated.answer is not None:
            return evaluated.answer
        signed = (await self._read(context, "verification")).documents[0]
        assert signed is not None
        return _answer(signed, await short_chunk(self.aggregator, context, candidates))

    async def _verified(self, context: RoundContext, candidates: Candidates) -> None:
        """Not under the round's lock: an abort does not wait for it."""
        try:
            evaluated, shares_hash = await self._evaluate(context, candidates)
        except Exception:
            await self._read(context)  # says so after an abort
            raise
        self.evaluations.put(context.id, evaluated)
        signed = await self._sign(context, candidates, shares_hash, evaluated.shares)
        evaluated.answer = _answer(signed, evaluated.shares)

    async def remember(self, context: RoundContext, state: RoundState) -> None:
        """Compute again, after a restart, what the verification had computed, for a step out of
        `state`; not under the round's lock. Raises StillVerifying; the step itself reports any
        other error."""
        if context.proofs is None or self.evaluations.get(context.id) is not None:
            return
        stored = await self._read(context, "verification")
        if stored.row.state is not state or stored.documents == (None,):
            return
        if stored.candidates is not None:
            await self.evaluations.work(
                context.id, partial(self._again, context, stored.candidates), HOLD_S
            )

    async def _again(self, context: RoundContext, candidates: Candidates) -> None:
        try:
            await self._evaluated(context, candidates)
        except Exception:
            await self._read(context)  # says so after an abort
            raise

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

    async def _sign(
        self,
        context: RoundContext,
        candidates: Candidates,
        shares_hash: bytes,
        shares: bytes | None,
    ) -> str:
        """Sign the hash of the verifier shares; a short chunk of them is stored with it."""
        statement = Verification(
            round=context.id,
            descriptor_hash=context.digest,
            aggregator=self.aggregator.id,
            candidates_hash=candidates.hash,
            items=candidates.items,
            shares_hash=shares_hash,
        )
        signed = wire_json(context.identity.sign(VERIFICATION_LABEL, statement))
        return await self._keep(context, RoundState.FROZEN, "verification", signed, shares)

    async def _keep(
        self,
        context: RoundContext,
        state: RoundState,
        document: Literal["verification", "verdict"],
        signed: str,
        shares: bytes | None = None,
    ) -> str:
        """Store what was signed, and this aggregator's chunk, unless they are stored already;
        returns the stored ones."""

        async def run(transaction: Transaction) -> str:
            row = await store.round_by_key(transaction, context.key)
            stored = await store.document(transaction, context.key, document)
            if stored is not None:
                return stored
            await _advance(transaction, row, state, **{document: signed})
            if shares is not None:
                await rounds.put_chunk(transaction, context.key, context.index, 0, shares)
            return signed

        answer: str = await self.intake.submit(TransitionItem(context, run))
        return answer

    async def _evaluate(
        self, context: RoundContext, candidates: Candidates
    ) -> tuple[Evaluated, bytes]:
        """Verify all candidates. This aggregator's chunks are stored sealed, a single short one
        in memory."""
        evaluation = await evaluation_of(self.aggregator, context, candidates)
        key = chunk_key(
            await verify_key(self.aggregator, context), context.digest, self.aggregator.id
        )
        chunks = Chunks(context, candidates)
        digest, waiting, number = hashlib.sha256(), bytearray(), 0
        short: bytes | None = None

        async def taken(shares: Rows) -> None:
            nonlocal number, short
            await asyncio.to_thread(digest.update, shares.data)
            waiting.extend(shares.data.cast("B"))
            while number < len(chunks) and len(waiting) >= chunks.bytes_of(number):
                content = bytes(waiting[: chunks.bytes_of(number)])
                del waiting[: len(content)]
                place = chunks.place(context.index, number)
                body = await asyncio.to_thread(seal_chunk, key, place, content)
                if travels_along(chunks, body):
                    short = body
                else:
                    await put_chunk(self.intake, context, context.index, number, body)
                number += 1

        evaluated = await evaluation.run(np.ones(candidates.items, np.bool_), taken)
        assert (number, len(waiting)) == (len(chunks), 0), "shares have their lengths"
        evaluated.shares = short
        return evaluated, digest.digest()

    # --- chunks, out and in ---

    async def chunk(self, round_id: str, number: int) -> bytes:
        """An own chunk. Raises UnknownChunk."""
        return await own_chunk(self.aggregator, await self.aggregator.round(round_id), number)

    async def take_chunk(self, round_id: str, index: int, number: int, body: bytes) -> None:
        """Store another aggregator's chunk as received; a later one replaces it.

        Raises UnknownChunk, SealBrokenHere, RoundNotVerified before there are candidates,
        RoundClosed.
        """
        context = await self.aggregator.round(round_id)
        candidates = (await self._read(context)).candidates
        if candidates is None:
            raise RoundNotVerified("no candidates are fixed yet")
        await take_chunk(self.intake, context, candidates, index, number, body)

    # --- the decision ---

    async def decide(self, round_id: str, request: VerdictRequest) -> str:
        """frozen -> verified: open the others' shares, decide on each contribution, and sign.

        Raises SharesMissing; VerificationRefused for verifications that are not those of all,
        for other shares than were signed, or after a verdict over other shares; StillVerifying
        after a restart.
        """
        context = await self.aggregator.round(round_id)
        await self.remember(context, RoundState.FROZEN)
        async with self.aggregator.lock(round_id):
            stored = await self._read(context, "verification", "verdict")
            candidates, (own_document, verdict) = stored.candidates, stored.documents
            if own_document is None or candidates is None:
                raise RoundNotVerified("no verification is signed yet")
            verifications = await asyncio.to_thread(
                check_verifications, context.descriptor, candidates, request.verifications
            )
            if Signed[Verification].model_validate_json(own_document) not in request.verifications:
                raise VerificationRefused("the own verification is not the one that was signed")
            if verdict is not None:
                before = Signed[Verdict].model_validate_json(verdict).statement
                if before.shares_hashes != tuple(item.shares_hash for item in verifications):
                    raise VerificationRefused("decided over other shares already")
                return verdict
            evaluated = await self._evaluated(context, candidates)
            places = range(len(context.descriptor.aggregators))
            brought = {
                index: body
                for index, body in zip(places, request.shares, strict=False)
                if body is not None and index != context.index
            }
            if evaluated.shares is not None:
                brought[context.index] = evaluated.shares
            outcomes = await outcomes_of(
                self.aggregator, context, candidates, verifications, evaluated, brought
            )
            statement = verdict_of(
                context.descriptor, self.aggregator.id, candidates, verifications, outcomes
            )
            signed = wire_json(context.identity.sign(VERDICT_LABEL, statement))
            return await self._keep(context, RoundState.VERIFIED, "verdict", signed)

    # --- what the commitment needs ---

    async def output_shares(
        self, context: RoundContext, candidates: Candidates, counted: NDArray[np.bool_]
    ) -> Elements:
        """The sum (limbs, d) of the output shares of the counted candidates, without noise."""
        assert context.proofs is not None
        evaluation = await evaluation_of(self.aggregator, context, candidates)
        evaluated = self.evaluations.get(context.id)
        if evaluated is None or 2 * int((~counted).sum()) > candidates.items:
            return (await evaluation.run(counted)).output
        left_out = await evaluation.run(~counted)
        field = context.proofs.of(1).prio3.circuit.field
        return field.subtract(evaluated.output, left_out.output)

    # --- reading ---

    async def _evaluated(self, context: RoundContext, candidates: Candidates) -> Evaluated:
        """What was computed for the verification, or the same once more."""
        cached = self.evaluations.get(context.id)
        if cached is None:
            evaluation = await evaluation_of(self.aggregator, context, candidates)
            cached = await evaluation.run(np.ones(candidates.items, np.bool_))
            self.evaluations.put(context.id, cached)
        return cached

    async def _read(self, context: RoundContext, *names: store.Document) -> _Stored:
        """Raises VerificationRefused, or RoundClosed after an abort."""
        async with self.aggregator.database.reading() as transaction:
            row = await stored_round(transaction, context.id)
            documents = [await store.document(transaction, context.key, name) for name in names]
            candidates = await self.fixed(transaction, context, row)
        if context.proofs is None:
            raise VerificationRefused("the round's contributions carry no proofs")
        refuse_aborted(row)
        return _Stored(row, candidates, tuple(documents))

    async def fixed(
        self, transaction: Transaction, context: RoundContext, row: RoundRow
    ) -> Candidates | None:
        """What is or was verified, as it was fixed."""
        if row.candidates_hash is None:
            return None
        evaluated = self.evaluations.get(context.id)
        if evaluated is not None and evaluated.candidates.hash == row.candidates_hash:
            return evaluated.candidates
        listed = await store.document(transaction, context.key, "candidates")
        fixed_list = CandidateList.model_validate_json(listed or "")
        return Candidates.of(fixed_list, context.descriptor.roster_size, row.candidates_hash)


@dataclass(frozen=True)
class _Stored:
    """A round as it is stored, its candidates, and the documents that were asked for."""

    row: RoundRow
    candidates: Candidates | None
    documents: tuple[str | None, ...]


def _answer(signed: str, shares: bytes | None) -> str:
    """The JSON of a `Verified`."""
    riding = "null" if shares is None else f'"{encode_binary(shares)}"'
    return f'{{"verification":{signed},"shares":{riding}}}'


def _checked(context: RoundContext, accepted: str, request: VerificationRequest) -> Candidates:
    """The candidates of all signed sets, this aggregator's own among them."""
    if Signed[AcceptedSet].model_validate_json(accepted) not in request.accepted:
        raise ManifestRefused("the accepted set of this aggregator is not the one it signed")
    return candidates_of(context.descriptor, request.accepted)


async def _advance(
    transaction: Transaction, row: RoundRow, after: RoundState, **values: object
) -> None:
    """From `frozen`. Raises RoundClosed after an abort."""
    if not await store.advance(transaction, row.key, RoundState.FROZEN, after, **values):
        raise RoundClosed("the round was aborted", extra={"state": row.state.value})
