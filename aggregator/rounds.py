"""The state machine of a round (spec: aggregation, section 6).

    open -> frozen -> committed -> released
       \\_______\\________\\________-> aborted

One function per transition, one transaction each, durable before it is answered. A repeated
request gets the stored answer again, byte for byte; a different one is refused. This aggregator
signs one manifest per round, reveals only after it has seen the whole quorum's commitments to that
manifest, and after an abort never anything. Its noise is drawn once: under Shamir when the round
opens (sealed shares are stored), else with the sum, and is never stored apart from it.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Sequence
from datetime import timedelta
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncConnection

from aggregator import store
from aggregator.context import Aggregator, RoundContext, stored_round
from aggregator.errors import (
    ContributionRefused,
    NotPaired,
    PieceConflict,
    PolicyRefused,
    RoundClosed,
    RoundConflict,
    RoundNotCommitted,
    RoundNotFrozen,
    RoundReleased,
    WrongLength,
)
from aggregator.keys import EpochKeyGone, EpochSecret
from aggregator.pieces import ROUNDS_LOCK, Intake, TransitionItem, check_words
from aggregator.store import ContributionRow, RoundRow
from aggregator.summing import opened_contribution, sum_of
from common import sets
from common.accounting.headroom import headroom_problem
from common.accounting.scenarios import sound_refusal
from common.agreement import (
    CommitmentRefused,
    DescriptorRefused,
    ManifestRefused,
    check_commitments,
    check_descriptor,
    commitment_hash,
    manifest_of,
)
from common.functions import dimension
from common.mechanisms import aggregator_plan, draw, shares_its_noise
from common.models.base import WireModel, encode_binary, format_instant
from common.models.query import Identifier, Mechanism, Sharing, Stance
from common.models.round import (
    ABORT_LABEL,
    ACCEPTED_LABEL,
    COMMITMENT_LABEL,
    AbortRequest,
    AbortStatement,
    AcceptedSet,
    AggregatorEntry,
    Commitment,
    Contribution,
    Manifest,
    ManifestRequest,
    Piece,
    Reveal,
    RevealRequest,
    RoundDescriptor,
    RoundState,
)
from common.sealing import (
    TAG_BYTES,
    Direction,
    Ends,
    SealBroken,
    agree_key,
    piece_context,
    seal_words,
)
from common.service.database import exclusive, reading
from common.sharing import scheme
from common.signing import Signed

NONCE_BYTES = 32
Model = TypeVar("Model", bound=BaseModel)


class Opening(WireModel):
    """The answer to a descriptor. `contribution`: this aggregator's noise, shared (Shamir)."""

    round: str
    descriptor_hash: str
    contribution: Contribution | None = None


class RelayedPiece(WireModel):
    """Another aggregator's share of noise for this one, as the coordinator passes it on."""

    aggregator: Identifier
    piece: Piece


def _json(model: BaseModel) -> str:
    return model.model_dump_json(exclude_none=True)


# --- open ----------------------------------------------------------------------------------------


async def open_round(aggregator: Aggregator, signed: Signed[RoundDescriptor]) -> tuple[str, bool]:
    """Take part in a round: (the answer, whether it is new). Raises what forbids it."""
    async with reading(aggregator.engine) as connection:
        coordinator = await store.coordinator(connection)
        known = await store.round_row(connection, signed.statement.round)
    if coordinator is None:
        raise NotPaired
    descriptor = check_descriptor(signed, coordinator.identity_key)
    digest = descriptor.digest()
    if known is not None:
        return _opened_before(known, digest), False
    if descriptor.deployment != coordinator.deployment:
        raise DescriptorRefused("the round belongs to another deployment")
    own = await _own_entry(aggregator, descriptor)
    check_policy(aggregator, descriptor)
    await asyncio.to_thread(check_promise, descriptor)
    async with aggregator.lock(descriptor.round):
        return await _open(aggregator, signed, digest, own)


def _opened_before(row: RoundRow, digest: bytes) -> str:
    if row.descriptor_hash != digest:
        raise RoundConflict
    return _opening(row)


def _opening(row: RoundRow) -> str:
    shares = row.noise_shares
    answer = Opening(
        round=row.id,
        descriptor_hash=encode_binary(row.descriptor_hash),
        contribution=None if shares is None else Contribution.model_validate_json(shares),
    )
    return _json(answer)


async def _own_entry(aggregator: Aggregator, descriptor: RoundDescriptor) -> EpochSecret:
    """The epoch key that the descriptor names, if the entry is this aggregator's own."""
    try:
        entry: AggregatorEntry = descriptor.aggregators[descriptor.index_of(aggregator.id)]
    except KeyError:
        raise DescriptorRefused("this aggregator is not one of the round") from None
    identity = aggregator.keyring.identity.public_key
    if entry.identity_key != identity or entry.operator != aggregator.settings.operator:
        raise DescriptorRefused("the entry of this aggregator is not its own")
    try:
        own = await aggregator.keyring.of(entry.epoch_key.statement.epoch)
    except EpochKeyGone:
        raise DescriptorRefused("the epoch key of this aggregator is not in use") from None
    if own.signed.statement != entry.epoch_key.statement:
        raise DescriptorRefused("the epoch key of this aggregator is not its own")
    settings = aggregator.settings
    ends = (own.epoch + 1) * settings.epoch_s + settings.epoch_grace_s
    if aggregator.clock.now().timestamp() >= ends:
        raise DescriptorRefused("the epoch key of this aggregator has expired")
    return own


def check_policy(aggregator: Aggregator, descriptor: RoundDescriptor) -> None:
    """Raise unless this aggregator's own policy allows the round, whoever asks."""
    settings, query, now = aggregator.settings, descriptor.query, aggregator.clock.now()
    if descriptor.deadline <= now:
        raise DescriptorRefused("the deadline is over")
    refusals = {
        "exact rounds add no noise": query.mechanism is Mechanism.EXACT
        and not settings.insecure_allow_exact,
        "the paper stance is not allowed": query.stance is Stance.PAPER
        and not settings.allow_paper,
        "fewer participants than this aggregator's minimum": query.min_participants
        < settings.policy_min_participants,
        "n_max is above this aggregator's limit": query.n_max > settings.policy_max_curators,
        "the roster is larger than this aggregator's limit": descriptor.roster_size
        > settings.policy_max_roster,
        "the vector is longer than this aggregator's limit": dimension(query)
        > settings.policy_max_dimension,
        "the deadline is too far away": descriptor.deadline
        > now + timedelta(seconds=settings.policy_max_round_s),
    }
    for reason, refused in refusals.items():
        if refused:
            raise PolicyRefused(reason)


def check_promise(descriptor: RoundDescriptor) -> None:
    """Raise unless sums of the query cannot wrap and, if it is sound, its guarantee holds here.

    The coordinator checked the same; this aggregator believes its own arithmetic, and the operators
    of this very round. Verified figures are kept by `common.accounting`: about a millisecond.
    """
    query = descriptor.query
    problem = headroom_problem(query)
    if problem is not None:
        raise DescriptorRefused(problem)
    refusal = sound_refusal(query, tuple(entry.operator for entry in descriptor.aggregators))
    if refusal is not None:
        raise PolicyRefused(refusal)


async def _open(
    aggregator: Aggregator, signed: Signed[RoundDescriptor], digest: bytes, own: EpochSecret
) -> tuple[str, bool]:
    descriptor = signed.statement
    shares = None
    if shares_its_noise(descriptor.query):
        shares = await asyncio.to_thread(_share_noise, aggregator, descriptor, digest, own)
    async with aggregator.engine.begin() as connection:
        await exclusive(connection, ROUNDS_LOCK)
        known = await store.round_row(connection, descriptor.round)
        if known is not None:
            return _opened_before(known, digest), False
        key = await store.add_round(
            connection,
            descriptor.round,
            digest,
            signed.model_dump_json(),
            own.epoch,
            descriptor.deadline,
            None if shares is None else _json(shares),
        )
        if shares is not None:
            index = descriptor.index_of(aggregator.id)
            row = _contribution_row(index, shares.pieces[index])
            await store.add_contribution(connection, key, row)
        return _opening(await store.round_by_key(connection, key)), True


def _share_noise(
    aggregator: Aggregator, descriptor: RoundDescriptor, digest: bytes, own: EpochSecret
) -> Contribution:
    """This aggregator's noise, drawn once, split and sealed for every aggregator of the round."""
    query = descriptor.query
    plan = aggregator_plan(query)
    assert plan is not None
    noise = draw(plan, aggregator.random, 1)[0]
    shares = scheme(query.sharing, query.aggregators, query.threshold).split(
        noise, aggregator.random
    )
    pieces = []
    for index, (entry, words) in enumerate(zip(descriptor.aggregators, shares, strict=True)):
        receiver = entry.epoch_key.statement
        ends = Ends(
            aggregator.id,
            entry.id,
            own.public_key,
            receiver.public_key,
            receiver.epoch,
            Direction.AGGREGATOR_TO_AGGREGATOR,
        )
        place = piece_context(digest, aggregator.id, entry.id, index, noise.size)
        try:
            nonce, sealed = seal_words(agree_key(own.private_key, ends), words, place)
        except SealBroken as error:
            raise DescriptorRefused(f"{entry.id}: {error}") from None
        pieces.append(Piece(sender=aggregator.id, key_epoch=own.epoch, nonce=nonce, sealed=sealed))
    return Contribution(aggregator=aggregator.id, pieces=tuple(pieces))


def _contribution_row(position: int, piece: Piece) -> ContributionRow:
    return ContributionRow(position, piece.key_epoch, piece.nonce, piece.sealed)


async def add_contributions(
    aggregator: Aggregator, intake: Intake, round_id: str, relayed: Sequence[RelayedPiece]
) -> list[int]:
    """Open and store other aggregators' shares of noise; the places of all that are held."""
    context = await aggregator.round(round_id)
    if not shares_its_noise(context.descriptor.query):
        raise ContributionRefused("the round's aggregators do not share their noise")
    rows = [_checked_contribution(aggregator, context, item) for item in relayed]

    async def run(connection: AsyncConnection) -> list[int]:
        row = await store.round_by_key(connection, context.key)
        held = await store.held_contributions(connection, context.key)
        if row.state is not RoundState.OPEN:
            known = all(held.get(item.position) == item for item in rows)
            if known or _all_numbered(held, rows):
                return sorted(held)
            raise RoundClosed(extra={"included": False, "state": row.state.value})
        new = {item.position: item for item in rows if item.position not in held}
        if any({**held, **new}[item.position] != item for item in rows):
            raise PieceConflict("another share of this aggregator's noise is held")
        for item in new.values():
            await store.add_contribution(connection, context.key, item)
        return sorted({**held, **new})

    answer: list[int] = await intake.submit(TransitionItem(context, run))
    return answer


def _all_numbered(held: dict[int, ContributionRow], rows: Sequence[ContributionRow]) -> bool:
    """After the pieces were destroyed: the same nonces are the same shares."""
    return all(item.position in held and held[item.position].nonce == item.nonce for item in rows)


def _checked_contribution(
    aggregator: Aggregator, context: RoundContext, item: RelayedPiece
) -> ContributionRow:
    piece, descriptor = item.piece, context.descriptor
    try:
        index = descriptor.index_of(item.aggregator)
    except KeyError:
        raise ContributionRefused("the aggregator is not one of the round") from None
    if index == context.index or piece.sender != item.aggregator:
        raise ContributionRefused("the share is not another aggregator's")
    if piece.key_epoch != descriptor.aggregators[index].epoch_key.statement.epoch:
        raise ContributionRefused("the share was sealed with another epoch key")
    if len(piece.sealed) != 8 * context.dimension + TAG_BYTES:
        raise WrongLength(extra={"dimension": context.dimension})
    row = _contribution_row(index, piece)
    if context.own_key is not None:
        check_words(context, opened_contribution(aggregator, context, row))
    return row


# --- freeze --------------------------------------------------------------------------------------


async def freeze(aggregator: Aggregator, intake: Intake, round_id: str) -> str:
    """open -> frozen: close the round to pieces, then sign whose pieces are in."""
    context = await aggregator.round(round_id)

    async def close(connection: AsyncConnection) -> RoundRow:
        await store.advance(connection, context.key, RoundState.OPEN, RoundState.FROZEN)
        return await store.round_by_key(connection, context.key)

    async with aggregator.lock(round_id):
        row: RoundRow = await intake.submit(TransitionItem(context, close))
        if row.accepted is not None:
            return row.accepted
        if row.state is RoundState.ABORTED:
            raise RoundClosed(extra={"included": False, "state": row.state.value})
        return await _sign_accepted(aggregator, context)


async def _sign_accepted(aggregator: Aggregator, context: RoundContext) -> str:
    """Export and sign the set of a frozen round. Nothing can change it any more."""
    async with aggregator.engine.begin() as connection:
        await exclusive(connection, ROUNDS_LOCK)
        row = await store.round_by_key(connection, context.key)
        if row.accepted is not None:
            return row.accepted
        if row.state is not RoundState.FROZEN:
            raise RoundClosed(extra={"included": False, "state": row.state.value})
        held = await store.held_contributions(connection, context.key)
        statement = AcceptedSet(
            round=context.id,
            descriptor_hash=context.digest,
            aggregator=aggregator.id,
            members=await _members(connection, context),
            contributions=tuple(sorted(held)),
        )
        signed = _json(aggregator.keyring.identity.sign(ACCEPTED_LABEL, statement))
        await store.advance(
            connection, context.key, RoundState.FROZEN, RoundState.FROZEN, accepted=signed
        )
        return signed


async def _members(connection: AsyncConnection, context: RoundContext) -> bytes:
    """The bitmap over roster numbers of all pieces held, without parties that left."""
    size = context.descriptor.roster_size
    lone = np.zeros(size, np.bool_)
    for _, numbers in await store.piece_numbers(connection, context.key, 0):
        lone[np.frombuffer(numbers, "<u4")] = True
    bitmap = np.frombuffer(sets.pack(lone), np.uint8).copy()
    for batch in await store.round_batches(connection, context.key):
        presence = np.frombuffer(batch.presence, np.uint8)
        start = batch.first // 8
        bitmap[start : start + presence.size] |= presence
    left = await store.left_runs(connection, size)
    if left:
        members = sets.unpack(bitmap.tobytes(), size).copy()
        for first, count in left:
            members[first : first + count] = False
        return sets.pack(members)
    return bitmap.tobytes()


# --- commit --------------------------------------------------------------------------------------


async def commit(aggregator: Aggregator, round_id: str, request: ManifestRequest) -> str:
    """frozen -> committed: sum what the manifest lists, add the noise, sign a commitment."""
    context = await aggregator.round(round_id)
    async with aggregator.lock(round_id):
        async with reading(aggregator.engine) as connection:
            row = await stored_round(connection, round_id)
        if row.state is RoundState.ABORTED:
            raise RoundClosed("the round was aborted", extra={"state": row.state.value})
        if row.accepted is None:
            raise RoundNotFrozen
        manifest = await asyncio.to_thread(_checked_manifest, context, row.accepted, request)
        if row.commitment is not None:
            return _committed_before(row, manifest)
        partial = await _partial_sum(aggregator, context, manifest)
        return await _commit(aggregator, context, manifest, partial)


def _checked_manifest(context: RoundContext, accepted: str, request: ManifestRequest) -> Manifest:
    """The manifest, recomputed from all signed sets; refused unless everything agrees."""
    manifest = manifest_of(context.descriptor, request.accepted)
    if manifest != request.manifest:
        raise ManifestRefused
    own = Signed[AcceptedSet].model_validate_json(accepted)
    if context.index not in manifest.quorum or own not in request.accepted:
        raise ManifestRefused("the accepted set of this aggregator is not the one it signed")
    if not sets.is_subset(manifest.members, own.statement.members):
        raise ManifestRefused("the manifest lists curators whose pieces are not held")
    if not set(manifest.contributions) <= set(own.statement.contributions):
        raise ManifestRefused("the manifest lists noise that is not held")
    return manifest


def _committed_before(row: RoundRow, manifest: Manifest) -> str:
    if row.manifest_hash != manifest.digest():
        raise ManifestRefused("another manifest was committed to; there is never a second one")
    assert row.commitment is not None
    return row.commitment


async def _partial_sum(
    aggregator: Aggregator, context: RoundContext, manifest: Manifest
) -> NDArray[np.uint64]:
    """The sum of the listed pieces with this aggregator's noise inside."""
    total = await sum_of(aggregator, context, manifest)
    query = context.descriptor.query
    plan = aggregator_plan(query)
    if plan is None or query.sharing is Sharing.SHAMIR:
        return total
    noise = await asyncio.to_thread(draw, plan, aggregator.random, 1)
    return np.asarray(total + noise[0].astype(np.uint64), np.uint64)


async def _commit(
    aggregator: Aggregator,
    context: RoundContext,
    manifest: Manifest,
    partial: NDArray[np.uint64],
) -> str:
    """Nonce, partial sum, manifest and commitment in one transaction, once per round."""
    nonce, content = os.urandom(NONCE_BYTES), partial.astype("<u8").tobytes()
    manifest_hash = manifest.digest()
    statement = Commitment(
        round=context.id,
        descriptor_hash=context.digest,
        manifest_hash=manifest_hash,
        aggregator=aggregator.id,
        hash=commitment_hash(context.digest, manifest_hash, aggregator.id, nonce, content),
    )
    signed = _json(aggregator.keyring.identity.sign(COMMITMENT_LABEL, statement))
    async with aggregator.engine.begin() as connection:
        await exclusive(connection, ROUNDS_LOCK)
        done = await store.advance(
            connection,
            context.key,
            RoundState.FROZEN,
            RoundState.COMMITTED,
            manifest=_json(manifest),
            manifest_hash=manifest_hash,
            nonce=nonce,
            partial=content,
            commitment=signed,
        )
        if done:
            return signed
        row = await store.round_by_key(connection, context.key)
    if row.commitment is None or row.state is RoundState.ABORTED:
        raise RoundClosed("the round was aborted", extra={"state": row.state.value})
    return _committed_before(row, manifest)


# --- reveal --------------------------------------------------------------------------------------


async def reveal(aggregator: Aggregator, round_id: str, request: RevealRequest) -> str:
    """committed -> released: hand out the partial sum, and destroy the pieces at once."""
    context = await aggregator.round(round_id)
    async with aggregator.lock(round_id):
        async with reading(aggregator.engine) as connection:
            row = await stored_round(connection, round_id)
        if row.state is RoundState.ABORTED:
            raise RoundClosed("the round was aborted", extra={"state": row.state.value})
        if row.manifest is None or row.manifest_hash is None:
            raise RoundNotCommitted
        digest = _checked_commitments(context, row, request)
        if row.reveal is not None:
            return _revealed_before(row, digest)
        return await _reveal(aggregator, context, digest)


def _checked_commitments(context: RoundContext, row: RoundRow, request: RevealRequest) -> bytes:
    """The request's digest, if it holds the whole quorum's commitments to the own manifest."""
    assert row.manifest is not None
    assert row.manifest_hash is not None
    quorum = Manifest.model_validate_json(row.manifest).quorum
    check_commitments(context.descriptor, row.manifest_hash, quorum, request.commitments)
    own = Signed[Commitment].model_validate_json(row.commitment or "")
    if own not in request.commitments:
        raise CommitmentRefused("the commitment of this aggregator is not the one it signed")
    together = b"".join(sorted(item.digest() for item in request.commitments))
    return hashlib.sha256(together).digest()


def _revealed_before(row: RoundRow, digest: bytes) -> str:
    if row.reveal_request != digest:
        raise CommitmentRefused("the partial sum was revealed to other commitments")
    assert row.reveal is not None
    return row.reveal


async def _reveal(aggregator: Aggregator, context: RoundContext, digest: bytes) -> str:
    async with aggregator.engine.begin() as connection:
        await exclusive(connection, ROUNDS_LOCK)
        row = await store.round_by_key(connection, context.key)
        if row.reveal is not None:
            return _revealed_before(row, digest)
        if row.state is not RoundState.COMMITTED:
            raise RoundClosed("the round was aborted", extra={"state": row.state.value})
        assert row.nonce is not None
        assert row.partial is not None
        answer = _json(Reveal(aggregator=aggregator.id, nonce=row.nonce, partial=row.partial))
        await store.advance(
            connection,
            context.key,
            RoundState.COMMITTED,
            RoundState.RELEASED,
            reveal_request=digest,
            reveal=answer,
            finished=aggregator.clock.now(),
        )
        await store.destroy_pieces(connection, context.key)
        return answer


# --- abort ---------------------------------------------------------------------------------------


async def abort(
    aggregator: Aggregator, intake: Intake, round_id: str, request: AbortRequest
) -> str:
    """Any live state -> aborted, for good: destroy the pieces, sign that there is no sum."""
    context = await aggregator.round(round_id)

    async def run(connection: AsyncConnection) -> str:
        row = await store.round_by_key(connection, context.key)
        if row.abort_statement is not None:
            return row.abort_statement
        if row.state is RoundState.RELEASED:
            raise RoundReleased
        statement = AbortStatement(
            round=context.id,
            descriptor_hash=context.digest,
            aggregator=aggregator.id,
            frozen=row.state is not RoundState.OPEN,
            reason=request.reason,
        )
        signed = _json(aggregator.keyring.identity.sign(ABORT_LABEL, statement))
        await store.advance(
            connection,
            context.key,
            row.state,
            RoundState.ABORTED,
            abort_statement=signed,
            reason=request.reason,
            partial=None,
            nonce=None,
            finished=aggregator.clock.now(),
        )
        await store.destroy_pieces(connection, context.key)
        return signed

    async with aggregator.lock(round_id):
        answer: str = await intake.submit(TransitionItem(context, run))
        return answer


async def abort_unreleased(aggregator: Aggregator, intake: Intake, reason: str) -> int:
    """Abort every live round: what an aggregator that was restored from a backup must do."""
    async with reading(aggregator.engine) as connection:
        names = await store.live(connection)
    for round_id in names:
        await abort(aggregator, intake, round_id, AbortRequest(reason=reason))
    return len(names)


# --- reading and housekeeping --------------------------------------------------------------------


async def describe(aggregator: Aggregator, round_id: str) -> dict[str, object]:
    """Where a round stands, in public figures."""
    async with reading(aggregator.engine) as connection:
        row = await stored_round(connection, round_id)
        held = await store.held_contributions(connection, row.key)
    return {
        "round": row.id,
        "state": row.state.value,
        "accepted": row.received,
        "contributions": sorted(held),
        "descriptor_hash": encode_binary(row.descriptor_hash),
        "deadline": format_instant(row.deadline),
        "reason": row.reason,
    }


async def sweep(aggregator: Aggregator, intake: Intake) -> None:
    """Abort what was abandoned, forget what is old, make and destroy epoch keys."""
    settings, now = aggregator.settings, aggregator.clock.now()
    async with reading(aggregator.engine) as connection:
        abandoned = await store.overdue(connection, now - timedelta(seconds=settings.abandon_s))
    for round_id in abandoned:
        await abort(aggregator, intake, round_id, AbortRequest(reason="abandoned"))
    async with aggregator.engine.begin() as connection:
        await exclusive(connection, ROUNDS_LOCK)
        await store.purge(connection, now - timedelta(seconds=settings.retention_s))
        await store.forget_grants(connection, now - timedelta(seconds=settings.retention_s))
    await aggregator.keyring.current()
    if await aggregator.keyring.destroy_idle():
        aggregator.forget_rounds()
