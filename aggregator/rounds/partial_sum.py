"""From the manifest to the partial sum (spec: aggregation, section 6).

This aggregator commits to one manifest per round, which it recomputed from all signed sets, and
reveals only after it has seen the whole quorum's commitments to that manifest. The sum is stored
with its noise inside, never without. A local round adds to the noise audit in the transaction of
its commitment.

The partial sum: every listed piece opened once and added (spec: hot-path, section 2).

Rows are streamed: memory holds one batch, or a few small ones. Opening and adding run in a thread,
so that uploads of other rounds continue. The result is a share of the total and is used only in the
transaction of its commitment. The noise audit of local rounds also needs the opened words: it
receives each block once, during this pass.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aggregator import audit
from aggregator.audit import Listener, Noisy, audited
from aggregator.context import (
    Aggregator,
    RoundContext,
    refuse_aborted,
    stored_round,
    wire_json,
)
from aggregator.errors import (
    RoundClosed,
    RoundNotCommitted,
    RoundNotFrozen,
    RoundNotVerified,
    SealBrokenHere,
)
from aggregator.pieces.intake import Intake, TransitionItem
from aggregator.pieces.peer_seals import incoming_key
from aggregator.pieces.unsealing import batch_words, header_of, received, words_of
from aggregator.rounds import differencing
from aggregator.rounds.state_machine import end_round, held_members
from aggregator.rounds.verification import Verifying
from aggregator.store import pieces as piece_store
from aggregator.store import roster
from aggregator.store import rounds as round_store
from aggregator.store import rounds as store
from aggregator.store.pieces import BatchRow, PieceRow
from aggregator.store.roster import Party
from aggregator.store.rounds import ContributionRow, RoundRow
from common.arrays import batches
from common.store.transactions import LARGE_BYTES, LARGE_ROWS, Transaction
from tacit import sets
from tacit.crypto.sealing import (
    TAG_BYTES,
    SealBroken,
    open_words,
)
from tacit.crypto.sharing import Words
from tacit.crypto.signing import Signed
from tacit.errors import Conflict
from tacit.protocol import sealing_sessions
from tacit.protocol.proved_rounds import (
    Candidates,
    candidates_of,
    check_verdicts,
    counted_by_all,
    offset_of,
    proved_manifest_of,
)
from tacit.protocol.round.agreement import (
    ManifestRefused,
    manifest_hash,
    manifest_of,
    whole_manifest,
)
from tacit.protocol.round.messages import (
    COMMITMENT_LABEL,
    AcceptedSet,
    Commitment,
    FreezeRequest,
    Manifest,
    ManifestRequest,
    Reveal,
    RevealRequest,
    Verdict,
)
from tacit.protocol.round.opening import CommitmentRefused, check_commitments, commitment_hash
from tacit.protocol.round.state import RoundState
from tacit.protocol.sealing_sessions import Session
from tacit.query.mechanisms import aggregator_plan, draw
from tacit.query.terms import Sharing

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
        lone_pieces = await piece_store.piece_numbers(transaction, context.key, 0)

        def words(row: tuple[int, bytes]) -> int:
            return len(row[1]) // 4 * context.dimension

        # read in one go: one row, or several of not more than a block's words
        for block in batches(lone_pieces, words, _BLOCK_WORDS, _ROWS):
            rows = await piece_store.rows_by_id(transaction, [row for row, _ in block])
            numbers = np.concatenate([np.frombuffer(row.numbers, "<u4") for row in rows])
            lone_numbers = numbers[listed[numbers]].tolist()
            senders = await roster.lone_by_number(transaction, lone_numbers)
            total = await asyncio.to_thread(
                _add_rows, aggregator, context, rows, senders, listed, heard, total
            )
            count += len(lone_numbers)
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


NONCE_BYTES = 32
LARGE_ROSTER: Final = 1 << 17
"""From this roster on a manifest is checked in a thread."""


# --- commit --------------------------------------------------------------------------------------


async def commit(
    aggregator: Aggregator,
    intake: Intake,
    round_id: str,
    request: ManifestRequest,
    verifying: Verifying,
) -> str:
    """frozen (in a proved round verified) -> committed: sum what the manifest lists, add the noise,
    sign a commitment."""
    context = await aggregator.round(round_id)
    await verifying.remember(context, RoundState.VERIFIED)
    async with aggregator.lock(round_id):

        async def look(
            transaction: Transaction,
        ) -> tuple[RoundRow, str | None, str | None, Candidates | None]:
            row, accepted = await stored_round(transaction, round_id), None
            if context.proofs is None or request.accepted or row.state is RoundState.OPEN:
                accepted = await store.document(transaction, row.key, "accepted")
                if accepted is None:
                    refuse_aborted(row)
                    raise RoundNotFrozen
            if context.proofs is None:
                return row, accepted, None, None
            verdict = await store.document(transaction, row.key, "verdict")
            return row, accepted, verdict, await verifying.fixed(transaction, context, row)

        row, accepted, verdict, candidates = await aggregator.lookups.submit(look)
        refuse_aborted(row)
        if context.proofs is None:
            check = functools.partial(_checked_manifest, context, accepted, request)
        else:
            check = functools.partial(
                _checked_proved, context, candidates, accepted, verdict, request
            )
        large = context.descriptor.roster_size >= LARGE_ROSTER
        manifest, digest = await asyncio.to_thread(check) if large else check()
        if row.commitment is not None and row.state is not RoundState.FROZEN:
            return _committed_before(row, digest)
        listener = Listener(audited(context.descriptor.query))
        if candidates is None:
            partial = await _partial_sum(aggregator, context, manifest, listener)
        else:
            partial = await _proved_sum(aggregator, context, candidates, request, verifying)
        noisy = listener.heard()

        async def run(transaction: Transaction) -> str:
            return await _commit(
                aggregator, transaction, context, row, manifest, digest, partial, noisy
            )

        answer: str = await intake.submit(TransitionItem(context, run))
        verifying.evaluations.drop(round_id)
        return answer


async def commit_whole(
    aggregator: Aggregator, intake: Intake, round_id: str, request: FreezeRequest
) -> str | None:
    """open -> committed, if the accepted pieces give the manifest that the coordinator expects;
    None if they do not, and a signed set is needed.

    Every aggregator of the quorum commits to the same manifest, or nobody reveals: so each may
    commit before it has seen the sets of the others. Spec: aggregation, section 6, step 6.
    """
    context, salt = await aggregator.round(round_id), request.salt
    query = context.descriptor.query
    if salt is None or context.proofs is not None or query.sharing is Sharing.NONE:
        return None  # what a local round adds to the noise audit, it adds once
    async with aggregator.lock(round_id):

        async def look(transaction: Transaction) -> tuple[RoundRow, bytes, tuple[int, ...]]:
            row = await stored_round(transaction, round_id)
            if row.state is not RoundState.OPEN:
                return row, b"", ()
            members = await held_members(transaction, context)
            return row, members, await store.held_places(transaction, row.key)

        row, members, contributions = await aggregator.looks.submit(look)
        if row.state is not RoundState.OPEN:
            committed = row.state in (RoundState.COMMITTED, RoundState.RELEASED)
            same = committed and row.manifest_hash == request.manifest_hash
            return row.commitment if same else None
        listener = Listener(())
        try:
            manifest = whole_manifest(context.descriptor, members, contributions, salt)
            digest = manifest_hash(manifest)
            if digest != request.manifest_hash:
                return None
            partial = await _partial_sum(aggregator, context, manifest, listener)
            noisy = listener.heard()

            async def run(transaction: Transaction) -> str:
                return await _commit(
                    aggregator, transaction, context, row, manifest, digest, partial, noisy
                )

            answer: str | None = await intake.submit(TransitionItem(context, run))
        except (Conflict, RoundClosed):  # too few, or too close to another sum: the freeze is for
            return None  # all cases, and the step after it says what is wrong
        return answer


def _checked_proved(
    context: RoundContext,
    fixed: Candidates | None,
    accepted: str | None,
    verdict: str | None,
    request: ManifestRequest,
) -> tuple[Manifest, bytes]:
    """The manifest of a proved round with its hash, made from the fixed candidates and all
    verdicts; refused unless everything agrees. The signed sets, from which the candidates were
    made, need not be sent again."""
    if fixed is None or verdict is None:
        raise RoundNotVerified
    salt, verdicts = request.salt, request.verdicts
    if verdicts is None:
        raise ManifestRefused("without all verdicts it is no manifest of a proved round")
    if request.accepted:
        if candidates_of(context.descriptor, request.accepted).hash != fixed.hash:
            raise ManifestRefused("the candidates of other signed sets were verified")
        if Signed[AcceptedSet].model_validate_json(accepted or "") not in request.accepted:
            raise ManifestRefused("the accepted set of this aggregator is not the one it signed")
    if Signed[Verdict].model_validate_json(verdict) not in verdicts:
        raise ManifestRefused("the verdict of this aggregator is not the one it signed")
    checked = check_verdicts(context.descriptor, fixed, verdicts)
    return _agreed(request, proved_manifest_of(context.descriptor, fixed, checked, salt))


def _agreed(request: ManifestRequest, manifest: Manifest) -> tuple[Manifest, bytes]:
    """The manifest that this aggregator made, with its hash, if the coordinator made the same."""
    digest = manifest_hash(manifest)
    if request.manifest_hash != digest:
        raise ManifestRefused
    return manifest, digest


async def _proved_sum(
    aggregator: Aggregator,
    context: RoundContext,
    candidates: Candidates,
    request: ManifestRequest,
    verifying: Verifying,
) -> NDArray[np.uint64]:
    """The sum of what all verdicts count, with this aggregator's noise inside: words of the field,
    (limbs * d,)."""
    assert context.proofs is not None
    verdicts = [signed.statement for signed in request.verdicts or ()]
    counted = counted_by_all(candidates, verdicts)
    field = context.proofs.of(1).prio3.circuit.field
    total = await verifying.output_shares(context, candidates, counted)
    noise = await _own_noise(aggregator, context)
    if noise is not None:
        total = field.add(total, field.elements(noise))
    return np.frombuffer(field.encode(total[:, :, np.newaxis]).tobytes(), "<u8")


def _checked_manifest(
    context: RoundContext, accepted: str | None, request: ManifestRequest
) -> tuple[Manifest, bytes]:
    """The manifest with its hash, made from all signed sets; refused unless everything agrees."""
    salt = request.salt
    if salt is None:
        raise ManifestRefused("without a salt nobody could check how many participated")
    manifest, digest = _agreed(request, manifest_of(context.descriptor, request.accepted, salt))
    own_set = Signed[AcceptedSet].model_validate_json(accepted or "")
    if context.index not in manifest.quorum or own_set not in request.accepted:
        raise ManifestRefused("the accepted set of this aggregator is not the one it signed")
    if not sets.is_subset(manifest.members, own_set.statement.members or b""):
        raise ManifestRefused(
            "the manifest lists curators whose pieces this aggregator does not have"
        )
    if not set(manifest.contributions) <= set(own_set.statement.contributions):
        raise ManifestRefused("the manifest lists noise that this aggregator does not have")
    return manifest, digest


def _committed_before(row: RoundRow, digest: bytes) -> str:
    if row.manifest_hash != digest:
        raise ManifestRefused("another manifest was committed to; there is never a second one")
    assert row.commitment is not None
    return row.commitment


async def _partial_sum(
    aggregator: Aggregator, context: RoundContext, manifest: Manifest, listener: Listener
) -> NDArray[np.uint64]:
    """The sum of the listed pieces with this aggregator's noise inside."""
    total = await sum_of(aggregator, context, manifest, listener)
    if context.descriptor.query.sharing is Sharing.SHAMIR:
        return total
    noise = await _own_noise(aggregator, context)
    return total if noise is None else np.asarray(total + noise.astype(np.uint64), np.uint64)


async def _own_noise(aggregator: Aggregator, context: RoundContext) -> NDArray[np.int64] | None:
    """What this aggregator adds, (d,) ring units; drawn in a thread if it is much."""
    plan = aggregator_plan(context.descriptor.query)
    if plan is None:
        return None
    drawn = functools.partial(draw, plan, aggregator.random, 1)
    large = context.dimension >= LARGE_ROWS
    noise: NDArray[np.int64] = (await asyncio.to_thread(drawn) if large else drawn())[0]
    return noise


async def _commit(
    aggregator: Aggregator,
    transaction: Transaction,
    context: RoundContext,
    row: RoundRow,
    manifest: Manifest,
    digest: bytes,
    partial: NDArray[np.uint64],
    noisy: Noisy,
) -> str:
    """Store nonce, partial sum, manifest, commitment and audit in one transaction, if the round
    is unchanged since it was summed; replaces a commitment without signed sets. Raises
    DifferenceRefused before anything is written."""
    now = await store.round_by_key(transaction, context.key)
    if (now.state, now.received) != (row.state, row.received):
        if now.commitment is None or now.state is RoundState.ABORTED:
            raise RoundClosed("the round was closed", extra={"state": now.state.value})
        return _committed_before(now, digest)
    if now.commitment is not None and now.manifest_hash == digest:
        await store.advance(transaction, context.key, now.state, RoundState.COMMITTED)
        return now.commitment
    if now.commitment is not None:
        await store.forget_revealed(transaction, context.id)
    await differencing.admit(transaction, aggregator, context, manifest)
    nonce, content = os.urandom(NONCE_BYTES), partial.astype("<u8").tobytes()
    statement = Commitment(
        round=context.id,
        descriptor_hash=context.digest,
        manifest_hash=digest,
        aggregator=aggregator.id,
        hash=commitment_hash(context.digest, digest, aggregator.id, nonce, content),
        offset=None if context.proofs is None else offset_of(context.proofs, manifest),
    )
    signed = wire_json(context.identity.sign(COMMITMENT_LABEL, statement))
    await store.advance(
        transaction,
        context.key,
        row.state,
        RoundState.COMMITTED,
        manifest=wire_json(manifest),
        manifest_hash=digest,
        nonce=nonce,
        partial=content,
        commitment=signed,
    )
    await audit.add_round(transaction, audited(context.descriptor.query), noisy)
    return signed


# --- reveal --------------------------------------------------------------------------------------


async def reveal(
    aggregator: Aggregator, intake: Intake, round_id: str, request: RevealRequest
) -> str:
    """committed -> released: return the partial sum, and destroy the pieces immediately."""
    context = await aggregator.round(round_id)
    async with aggregator.lock(round_id):
        shamir = context.descriptor.query.sharing is Sharing.SHAMIR

        async def look(transaction: Transaction) -> tuple[RoundRow, str | None]:
            row = await stored_round(transaction, round_id)
            manifest = await store.document(transaction, row.key, "manifest") if shamir else None
            return row, manifest

        row, manifest = await aggregator.lookups.submit(look)
        refuse_aborted(row)
        if row.manifest_hash is None or row.state is RoundState.FROZEN:
            raise RoundNotCommitted
        quorum = tuple(range(len(context.descriptor.aggregators)))  # but where some suffice
        if manifest is not None:
            quorum = Manifest.model_validate_json(manifest).quorum
        digest = _checked_commitments(context, row, quorum, request)

        async def run(transaction: Transaction) -> str:
            return await _reveal(aggregator, transaction, context, digest)

        answer: str = await intake.submit(TransitionItem(context, run))
        await end_round(aggregator, context)
        return answer


def _checked_commitments(
    context: RoundContext, row: RoundRow, quorum: Sequence[int], request: RevealRequest
) -> bytes:
    """The request's digest, if it has the whole quorum's commitments to this aggregator's
    manifest."""
    assert row.manifest_hash is not None
    check_commitments(context.descriptor, row.manifest_hash, quorum, request.commitments)
    own_commitment = Signed[Commitment].model_validate_json(row.commitment or "")
    if own_commitment not in request.commitments:
        raise CommitmentRefused("the commitment of this aggregator is not the one it signed")
    together = b"".join(sorted(item.digest() for item in request.commitments))
    return hashlib.sha256(together).digest()


async def _reveal(
    aggregator: Aggregator, transaction: Transaction, context: RoundContext, digest: bytes
) -> str:
    row = await store.round_by_key(transaction, context.key)
    revealed = await store.document(transaction, context.key, "reveal")
    if revealed is not None:
        if row.reveal_request != digest:
            raise CommitmentRefused("the partial sum was revealed to other commitments")
        return revealed
    if row.state is RoundState.FROZEN:
        raise RoundNotCommitted
    if row.state is not RoundState.COMMITTED:
        raise RoundClosed("the round was aborted", extra={"state": row.state.value})
    partial = await store.partial_sum(transaction, context.key)
    assert row.nonce is not None
    assert partial is not None
    answer = wire_json(Reveal(aggregator=aggregator.id, nonce=row.nonce, partial=partial))
    await store.advance(
        transaction,
        context.key,
        RoundState.COMMITTED,
        RoundState.RELEASED,
        reveal_request=digest,
        reveal=answer,
        finished=aggregator.clock.now(),
    )
    await store.destroy_pieces(transaction, context.key)
    return answer
