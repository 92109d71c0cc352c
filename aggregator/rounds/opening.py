"""Opening a round: its checks, the noise that aggregators share, a proved round's verify key.

Spec: aggregation, section 6; validity, section 7. This aggregator does not participate in a round
that its policy forbids or that breaks its promise, regardless of the caller. The verify key is
fixed once, before the first contribution.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from pydantic import RootModel

from aggregator.context import Aggregator, RoundContext, refuse_expired, wire_json
from aggregator.errors import (
    ContributionRefused,
    KeyShareRefused,
    NotPaired,
    PieceConflict,
    PolicyRefused,
    RoundClosed,
    RoundConflict,
    SealKeyGone,
    VerifyKeyFixed,
    WrongLength,
)
from aggregator.pieces import peer_seals
from aggregator.pieces.intake import ROUNDS_LOCK, Intake, TransitionItem
from aggregator.pieces.peer_seals import PublicKeys, outgoing, public_keys, sealed_shares
from aggregator.pieces.unsealing import check_words
from aggregator.roster.peers import check_peers, pinned_peers
from aggregator.rounds.partial_sum import opened_contribution
from aggregator.seal_keys import SealSecret
from aggregator.store import roster
from aggregator.store import rounds as round_store
from aggregator.store import rounds as store
from aggregator.store import seal_keys as key_store
from aggregator.store.roster import CoordinatorRow, PeerRow
from aggregator.store.rounds import ContributionRow, RoundRow
from aggregator.store.seal_keys import KeyState
from common.store.database import exclusive
from common.store.transactions import Transaction
from tacit.accounting.charges import headroom_problem, sound_refusal
from tacit.crypto.sealing import TAG_BYTES, seal_words
from tacit.crypto.signing import Signed, signer_of
from tacit.protocol.proved_rounds import key_check_of
from tacit.protocol.round.agreement import DescriptorRefused, check_descriptor
from tacit.protocol.round.descriptor import DESCRIPTOR_LABEL, AggregatorEntry, RoundDescriptor
from tacit.protocol.round.messages import KeyCheck, RelayedKeyShares, SealedKeyShare
from tacit.protocol.round.pieces import Contribution, Piece
from tacit.protocol.round.state import RoundState
from tacit.protocol.sealing_sessions import piece_context
from tacit.query.functions import dimension
from tacit.query.mechanisms import aggregator_plan, draw, scheme, shares_its_noise
from tacit.query.proofs import is_proved, proof_plan
from tacit.query.terms import Identifier, Stance
from tacit.wire import WireModel, encode_binary

_KEPT_PROMISES: Final = 1024


class Opening(WireModel):
    """The answer to a descriptor. `contribution`: this aggregator's noise, shared (Shamir).
    `key_shares`: its share of the verify key, sealed to each other aggregator (proved rounds)."""

    round: str
    descriptor_hash: str
    contribution: Contribution | None = None
    key_shares: tuple[SealedKeyShare, ...] | None = None


class KeyShares(RootModel[tuple[SealedKeyShare, ...]]):
    """Shares of a verify key, as they are stored."""


class RelayedPiece(WireModel):
    """Another aggregator's share of noise for this one, relayed by the coordinator."""

    aggregator: Identifier
    piece: Piece


class RelayedPieces(RootModel[tuple[RelayedPiece, ...]]):
    """Those of several aggregators."""


async def open_round(aggregator: Aggregator, signed: Signed[RoundDescriptor]) -> tuple[str, bool]:
    """Participate in a round: (the answer, whether it is new). Raises the reason if it must not."""

    async def look(
        transaction: Transaction,
    ) -> tuple[CoordinatorRow | None, RoundRow | None, Mapping[str, PeerRow] | None]:
        row = await round_store.round_row(transaction, signed.statement.round)
        pinned = await pinned_peers(aggregator, transaction)
        return await roster.coordinator(transaction), row, pinned

    coordinator, row, pinned = await aggregator.looks.submit(look)
    if coordinator is None:
        raise NotPaired
    now = aggregator.clock.now()
    key = signer_of(DESCRIPTOR_LABEL, signed, coordinator.keys(now))
    descriptor = check_descriptor(signed, key, now)
    digest = descriptor.digest()
    if row is not None:
        async with aggregator.database.reading() as transaction:
            return await _opened_before(transaction, row, digest), False
    if descriptor.deployment != coordinator.deployment:
        raise DescriptorRefused("the round belongs to another deployment")
    own_entry = await _own_entry(aggregator, descriptor)
    check_peers(aggregator, descriptor, pinned)
    check_policy(aggregator, descriptor)
    await _check_promise_once(aggregator, descriptor)
    async with aggregator.lock(descriptor.round):
        return await _open(aggregator, signed, digest, own_entry)


async def _opened_before(transaction: Transaction, row: RoundRow, digest: bytes) -> str:
    if row.descriptor_hash != digest:
        raise RoundConflict
    shares = await round_store.document(transaction, row.key, "noise_shares")
    keys = await round_store.document(transaction, row.key, "key_shares")
    contribution = None if shares is None else Contribution.model_validate_json(shares)
    key_shares = None if keys is None else KeyShares.model_validate_json(keys).root
    return _opening(row.id, digest, contribution, key_shares)


def _opening(
    round_id: str,
    digest: bytes,
    contribution: Contribution | None,
    key_shares: tuple[SealedKeyShare, ...] | None,
) -> str:
    return wire_json(
        Opening(
            round=round_id,
            descriptor_hash=encode_binary(digest),
            contribution=contribution,
            key_shares=key_shares,
        )
    )


async def _own_entry(aggregator: Aggregator, descriptor: RoundDescriptor) -> SealSecret:
    """The key that the descriptor names, if the entry is this aggregator's own."""
    try:
        entry: AggregatorEntry = descriptor.aggregators[descriptor.index_of(aggregator.id)]
    except KeyError:
        raise DescriptorRefused("this aggregator is not one of the round") from None
    await aggregator.know(entry.identity_key)
    own_identities, now = aggregator.identities, aggregator.clock.now()
    is_own = own_identities.may_open(entry.identity_key, now)
    if not is_own or entry.operator != aggregator.settings.operator:
        raise DescriptorRefused("the entry of this aggregator is not its own")
    try:
        key_kept = await aggregator.seal_keyring.of(entry.seal.number)
    except SealKeyGone:
        raise DescriptorRefused("the seal key of this aggregator is not in use") from None
    if key_kept.signed.statement != entry.seal:
        raise DescriptorRefused("the seal key of this aggregator is not its own")
    refusal = aggregator.seal_keyring.may_open(key_kept, descriptor.deadline)
    if refusal is not None:
        raise DescriptorRefused(refusal)
    return key_kept


def check_policy(aggregator: Aggregator, descriptor: RoundDescriptor) -> None:
    """Raise unless this aggregator's own policy allows the round, regardless of the caller."""
    settings, query, now = aggregator.settings, descriptor.query, aggregator.clock.now()
    if descriptor.deadline <= now:
        raise DescriptorRefused("the deadline is over")
    refusals = {
        "this aggregator opens no sum without noise": query.rule is not None
        and settings.exact_rule is None,
        "the rule is weaker than this aggregator's": query.rule is not None
        and settings.exact_rule is not None
        and query.rule.weaker_than(settings.exact_rule) is not None,
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
    together = min(descriptor.segment_size, descriptor.roster_size)
    if is_proved(query):
        plan, index = proof_plan(query), descriptor.index_of(aggregator.id)
        longest = plan.of(plan.largest_part).share_bytes(index)
        refusals["a proved contribution is longer than this aggregator's limit of a body"] = (
            longest > settings.round_max_body_bytes
        )
    else:
        refusals["a host's batch is longer than this aggregator's limit of a body"] = (
            8 * dimension(query) * together > settings.round_max_body_bytes
        )
    for reason, refused in refusals.items():
        if refused:
            raise PolicyRefused(reason)


def check_promise(descriptor: RoundDescriptor) -> None:
    """Raise unless sums of the query cannot wrap and, if it is sound, its guarantee is verified
    here.

    The coordinator checked the same; this aggregator computes it for itself, for the operators
    of this round. `tacit.accounting` caches verified figures: about a millisecond.
    """
    query = descriptor.query
    problem = headroom_problem(query)
    if problem is not None:
        raise DescriptorRefused(problem)
    refusal = sound_refusal(query, tuple(entry.operator for entry in descriptor.aggregators))
    if refusal is not None:
        raise PolicyRefused(refusal)


async def _check_promise_once(aggregator: Aggregator, descriptor: RoundDescriptor) -> None:
    """The same check; it depends only on the query and the operators, which many rounds share."""
    promise = descriptor.query.digest(), descriptor.operators
    if promise not in aggregator.promises:
        await asyncio.to_thread(check_promise, descriptor)
        aggregator.promises[promise] = None
        while len(aggregator.promises) > _KEPT_PROMISES:
            aggregator.promises.popitem(last=False)


async def _open(
    aggregator: Aggregator, signed: Signed[RoundDescriptor], digest: bytes, secret: SealSecret
) -> tuple[str, bool]:
    descriptor = signed.statement
    shares, key_shares = None, None
    noisy, proved = shares_its_noise(descriptor.query), is_proved(descriptor.query)
    public = await public_keys(aggregator, descriptor) if noisy or proved else {}
    if noisy:
        shares = await asyncio.to_thread(
            _share_noise, aggregator, descriptor, digest, secret, public
        )
    if proved:
        key_shares = sealed_shares(aggregator, descriptor, digest, secret, public)

    async def run(transaction: Transaction) -> int | str:
        """The key of the new round, or the answer to a descriptor that is known by now."""
        await exclusive(transaction, ROUNDS_LOCK)
        opened_before = await round_store.round_row(transaction, descriptor.round)
        if opened_before is not None:
            return await _opened_before(transaction, opened_before, digest)
        await refuse_expired(transaction, descriptor.round)
        await _demand_published(transaction, secret)
        key = await round_store.add_round(
            transaction,
            descriptor.round,
            digest,
            signed.model_dump_json(),
            secret.number,
            descriptor.deadline,
            None if shares is None else wire_json(shares),
            None if key_shares is None else wire_json(KeyShares(key_shares)),
        )
        if shares is not None:
            index = descriptor.index_of(aggregator.id)
            row = _contribution_row(index, shares.pieces[index])
            await round_store.add_contribution(transaction, key, row)
        return key

    key = await aggregator.openings.submit(run)
    if isinstance(key, str):
        return key, False
    aggregator.remember(key, descriptor, digest, secret)
    return _opening(descriptor.round, digest, shares, key_shares), True


async def _demand_published(transaction: Transaction, secret: SealSecret) -> None:
    """Nobody destroys a key between its check and the commit of a round that names it."""
    row = await key_store.by_number(transaction, secret.number)
    if row is None or row.state is not KeyState.PUBLISHED:
        raise DescriptorRefused("the seal key of this aggregator is retired")


def _share_noise(
    aggregator: Aggregator,
    descriptor: RoundDescriptor,
    digest: bytes,
    secret: SealSecret,
    public: PublicKeys,
) -> Contribution:
    """This aggregator's noise, drawn once, split and sealed for every aggregator of the round."""
    query = descriptor.query
    plan = aggregator_plan(query)
    assert plan is not None
    noise = draw(plan, aggregator.random, 1)[0]
    shares = scheme(query).split(noise, aggregator.random)
    pieces = []
    for index, (entry, words) in enumerate(zip(descriptor.aggregators, shares, strict=True)):
        to = outgoing(aggregator, descriptor, secret, entry, public)
        place = piece_context(digest, aggregator.id, entry.id, index, noise.size)
        nonce, sealed = seal_words(to.key, words, place)
        pieces.append(
            Piece(
                sender=aggregator.id,
                session=to.session,
                nonce=nonce,
                sealed=sealed,
                announce=to.announce,
            )
        )
    return Contribution(aggregator=aggregator.id, pieces=tuple(pieces))


def _contribution_row(position: int, piece: Piece) -> ContributionRow:
    if piece.announce is None:
        raise ContributionRefused("the share announces no session")
    return ContributionRow(position, piece.nonce, piece.sealed, piece.announce.model_dump_json())


# --- contributions of noise ----------------------------------------------------------------------


async def add_contributions(
    aggregator: Aggregator, intake: Intake, round_id: str, relayed: Sequence[RelayedPiece]
) -> list[int]:
    """Open and store other aggregators' shares of noise; the indices of all that are stored."""
    context = await aggregator.round(round_id)
    if not shares_its_noise(context.descriptor.query):
        raise ContributionRefused("the round's aggregators do not share their noise")
    rows = [_checked_contribution(aggregator, context, item) for item in relayed]

    async def run(transaction: Transaction) -> list[int]:
        row = await round_store.round_by_key(transaction, context.key)
        stored = await round_store.held_contributions(transaction, context.key)
        if row.state is not RoundState.OPEN:
            repeated = all(stored.get(item.position) == item for item in rows)
            if repeated or _all_numbered(stored, rows):
                return sorted(stored)
            raise RoundClosed(extra={"included": False, "state": row.state.value})
        new = {item.position: item for item in rows if item.position not in stored}
        if any({**stored, **new}[item.position] != item for item in rows):
            raise PieceConflict("a different share of this aggregator's noise is stored")
        for item in new.values():
            await round_store.add_contribution(transaction, context.key, item)
        return sorted({**stored, **new})

    answer: list[int] = await intake.submit(TransitionItem(context, run))
    return answer


def _all_numbered(stored: dict[int, ContributionRow], rows: Sequence[ContributionRow]) -> bool:
    """After the pieces were destroyed: the same nonces are the same shares."""
    return all(
        item.position in stored and stored[item.position].nonce == item.nonce for item in rows
    )


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
    if len(piece.sealed) != 8 * context.dimension + TAG_BYTES:
        raise WrongLength(extra={"dimension": context.dimension})
    row = _contribution_row(index, piece)
    if context.own_key is not None:
        check_words(context, opened_contribution(aggregator, context, row))
    return row


# --- the verify key of a proved round (spec: validity, section 7) ---------------------------------


async def fix_key(
    aggregator: Aggregator, intake: Intake, round_id: str, relayed: RelayedKeyShares
) -> str:
    """Store the others' shares as received, with the check value of the resulting key.

    The same shares get the same answer. Raises VerifyKeyFixed for others, KeyShareRefused, and
    RoundClosed after the freeze.
    """
    context = await aggregator.round(round_id)
    if context.proofs is None:
        raise KeyShareRefused("the round's contributions carry no proofs")
    ordered = sorted(relayed.shares, key=lambda share: share.sender)
    stored = wire_json(RelayedKeyShares(shares=tuple(ordered)))

    async def run(transaction: Transaction) -> tuple[bytes, bytes | None]:
        """The check, and the key if it was made here."""
        row = await store.round_by_key(transaction, context.key)
        if row.key_check is not None:
            relayed_before = await store.document(transaction, context.key, "relayed_key_shares")
            if relayed_before != stored:
                raise VerifyKeyFixed
            return row.key_check, None
        if row.state is not RoundState.OPEN:
            raise RoundClosed(extra={"included": False, "state": row.state.value})
        key = await asyncio.to_thread(peer_seals.made_key, aggregator, context, ordered)
        check = key_check_of(context.digest, key)
        await store.advance(
            transaction,
            context.key,
            RoundState.OPEN,
            RoundState.OPEN,
            relayed_key_shares=stored,
            key_check=check,
        )
        return check, key

    async with aggregator.lock(round_id):
        check, key = await intake.submit(TransitionItem(context, run))
    if key is not None:  # it is fixed now: contributions need not make it again
        peer_seals.remember(aggregator, context, key)
    return wire_json(KeyCheck(round=context.id, descriptor_hash=context.digest, key_check=check))
