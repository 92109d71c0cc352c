"""From the manifest to the partial sum (spec: aggregation, section 6).

This aggregator commits to one manifest per round, which it recomputed from all signed sets, and
reveals only after it has seen the whole quorum's commitments to that manifest. The sum is stored
with its noise inside, never without. A local round adds to the noise audit in the transaction of
its commitment.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import os
from collections.abc import Sequence
from typing import Final

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
)
from aggregator.pieces.intake import Intake, TransitionItem
from aggregator.rounds import differencing
from aggregator.rounds.partial_sum import sum_of
from aggregator.rounds.state_machine import end_round
from aggregator.rounds.verification import Verifying
from aggregator.store import rounds as store
from aggregator.store.rounds import RoundRow
from common.store.transactions import LARGE_ROWS, Transaction
from tacit import sets
from tacit.crypto.signing import Signed
from tacit.protocol.round.agreement import ManifestRefused, manifest_hash, manifest_of
from tacit.protocol.round.messages import (
    COMMITMENT_LABEL,
    AcceptedSet,
    Commitment,
    Manifest,
    ManifestRequest,
    Reveal,
    RevealRequest,
    Verdict,
)
from tacit.protocol.round.opening import CommitmentRefused, check_commitments, commitment_hash
from tacit.protocol.round.state import RoundState
from tacit.protocol.verification import (
    Candidates,
    candidates_of,
    check_verdicts,
    counted_by_all,
    offset_of,
    proved_manifest_of,
)
from tacit.query.mechanisms import aggregator_plan, draw
from tacit.query.terms import Sharing

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

        row, accepted, verdict, candidates = await aggregator.looks.submit(look)
        refuse_aborted(row)
        if context.proofs is None:
            check = functools.partial(_checked_manifest, context, accepted, request)
        else:
            check = functools.partial(
                _checked_proved, context, candidates, accepted, verdict, request
            )
        large = context.descriptor.roster_size >= LARGE_ROSTER
        manifest, digest = await asyncio.to_thread(check) if large else check()
        if row.commitment is not None:
            return _committed_before(row, digest)
        listener = Listener(audited(context.descriptor.query))
        if candidates is None:
            partial = await _partial_sum(aggregator, context, manifest, listener)
        else:
            partial = await _proved_sum(aggregator, context, candidates, request, verifying)
        noisy = listener.heard()

        async def run(transaction: Transaction) -> str:
            return await _commit(aggregator, transaction, context, manifest, digest, partial, noisy)

        answer: str = await intake.submit(TransitionItem(context, run))
        verifying.evaluations.drop(round_id)
        return answer


def _checked_proved(
    context: RoundContext,
    fixed: Candidates | None,
    accepted: str | None,
    verdict: str | None,
    request: ManifestRequest,
) -> tuple[Manifest, bytes]:
    """The manifest of a proved round with its hash, made from the candidates that were fixed and
    all verdicts; refused unless everything agrees. The signed sets, of which the candidates were
    made, need not come again."""
    if fixed is None or verdict is None:
        raise RoundNotVerified
    salt, verdicts = request.salt, request.verdicts
    if verdicts is None:
        raise ManifestRefused("without all verdicts it is no manifest of a proved round")
    if request.accepted:
        if candidates_of(context.descriptor, request.accepted).hash != fixed.hash:
            raise ManifestRefused("the signed sets are not those whose candidates were verified")
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
        raise ManifestRefused("without a salt nobody could check how many took part")
    manifest, digest = _agreed(request, manifest_of(context.descriptor, request.accepted, salt))
    own = Signed[AcceptedSet].model_validate_json(accepted or "")
    if context.index not in manifest.quorum or own not in request.accepted:
        raise ManifestRefused("the accepted set of this aggregator is not the one it signed")
    if not sets.is_subset(manifest.members, own.statement.members or b""):
        raise ManifestRefused("the manifest lists curators whose pieces are not held")
    if not set(manifest.contributions) <= set(own.statement.contributions):
        raise ManifestRefused("the manifest lists noise that is not held")
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
    """What this aggregator adds, (d,) ring units; in a thread where it is much."""
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
    manifest: Manifest,
    digest: bytes,
    partial: NDArray[np.uint64],
    noisy: Noisy,
) -> str:
    """Nonce, partial sum, manifest, commitment and audit in one transaction, once per round.

    Raises DifferenceRefused before anything of it is written.
    """
    row = await store.round_by_key(transaction, context.key)
    before = RoundState.FROZEN if context.proofs is None else RoundState.VERIFIED
    if row.state is not before:
        if row.commitment is None or row.state is RoundState.ABORTED:
            raise RoundClosed("the round was aborted", extra={"state": row.state.value})
        return _committed_before(row, digest)
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
        before,
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

        row, manifest = await aggregator.looks.submit(look)
        refuse_aborted(row)
        if row.manifest_hash is None:
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
    """The request's digest, if it holds the whole quorum's commitments to the own manifest."""
    assert row.manifest_hash is not None
    check_commitments(context.descriptor, row.manifest_hash, quorum, request.commitments)
    own = Signed[Commitment].model_validate_json(row.commitment or "")
    if own not in request.commitments:
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
