r"""The state machine of a round (spec: aggregation, section 6).

    open -> frozen -> (proved rounds: verified ->) committed -> released
       \_______\__________________________\________-> aborted

One function per transition, one transaction each, durable before it is answered. `opening` begins a
round, `verification` is a step of proved rounds, `commitment` sums and reveals; here it is frozen,
ended and swept. A repeated request gets the stored answer again, byte for byte; a different one is
refused. A round's own seal key is destroyed with the round's end (spec: keys, section 2.4).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import numpy as np

from aggregator.context import Aggregator, RoundContext, stored_round, wire_json
from aggregator.errors import RoundClosed, RoundNotKeyed, RoundReleased
from aggregator.pieces.intake import ROUNDS_LOCK, Intake, TransitionItem
from aggregator.rounds import differencing
from aggregator.rounds.verifier_shares import held_parts
from aggregator.store import pieces as piece_store
from aggregator.store import roster
from aggregator.store import rounds as round_store
from aggregator.store.rounds import RoundRow
from aggregator.store.tables import grants
from common.runtime.logs import describe as logs_describe
from common.runtime.logs import get_logger
from common.store.database import exclusive
from common.store.transactions import Transaction
from common.web.grants import forget_grants
from tacit import sets
from tacit.answers.registry import RoundProgress
from tacit.errors import Invalid
from tacit.protocol.round.descriptor import ABORT_LABEL, AbortRequest, AbortStatement, Frozen
from tacit.protocol.round.messages import AcceptedSet, Manifest, ProvedPart
from tacit.protocol.round.state import RoundState
from tacit.wire import encode_binary, format_instant

_logger = get_logger("tacit.aggregator.rounds")
MAX_WAIT_S: Final = 30.0
GATHER_S: Final = 0.01
FORGOTTEN_AT_ONCE: Final = 50
"""Rounds that are deleted in one transaction, for which pieces wait."""
STEPS_AT_MOST: Final = 20
REST_S: Final = 0.05
LOOK_S: Final = 0.5
"""Another process on the same database may have accepted pieces without a notification here."""

# --- freeze --------------------------------------------------------------------------------------


async def freeze(aggregator: Aggregator, intake: Intake, round_id: str) -> str:
    """open -> frozen: close the round to pieces, and sign the set of accepted curators."""
    context = await aggregator.round(round_id)

    async def run(transaction: Transaction) -> str:
        return await _sign_accepted(aggregator, transaction, context)

    async with aggregator.lock(round_id):
        answer: str = await intake.submit(TransitionItem(context, run))
        return answer


async def _sign_accepted(
    aggregator: Aggregator, transaction: Transaction, context: RoundContext
) -> str:
    """Sign the set of a round, which closes it: the set cannot change any more. A manifest that
    was committed to without signed sets is then not revealed until the sets of all are signed."""
    row = await round_store.round_by_key(transaction, context.key)
    accepted = await round_store.document(transaction, context.key, "accepted")
    if accepted is not None:
        return accepted
    if context.proofs is not None and row.key_check is None:
        raise RoundNotKeyed
    state = RoundState.FROZEN
    proved = context.proofs is not None
    if row.state in (RoundState.COMMITTED, RoundState.RELEASED):  # before any set was asked for
        manifest = await round_store.document(transaction, context.key, "manifest")
        committed = Manifest.model_validate_json(manifest or "")
        members, contributions = committed.members, committed.contributions
        state = RoundState.FROZEN if row.state is RoundState.COMMITTED else row.state
    elif row.state is RoundState.OPEN:
        members = b"" if proved else await held_members(transaction, context)
        contributions = await round_store.held_places(transaction, context.key)
    else:
        raise RoundClosed(extra={"included": False, "state": row.state.value})
    statement = AcceptedSet(
        round=context.id,
        descriptor_hash=context.digest,
        aggregator=aggregator.id,
        members=None if proved else members,
        contributions=contributions,
        lone=sets.compressed(await _lone(transaction, context)) if proved else None,
        parts=await _parts(transaction, context) if proved else None,
    )
    signed = wire_json(context.identity.sign(statement.label, statement))
    await round_store.advance(transaction, context.key, row.state, state, accepted=signed)
    return signed


async def held_members(transaction: Transaction, context: RoundContext) -> bytes:
    """The bitmap over roster numbers of all stored pieces, without parties that left."""
    size = context.descriptor.roster_size
    bitmap = np.frombuffer(await _sent_alone(transaction, context), np.uint8).copy()
    for batch in await piece_store.round_batches(transaction, context.key):
        presence = np.frombuffer(batch.presence, np.uint8)
        start = batch.first // 8
        bitmap[start : start + presence.size] |= presence
    return await _without_left(transaction, bitmap.tobytes(), size)


async def _lone(transaction: Transaction, context: RoundContext) -> bytes:
    """The same of lone pieces alone."""
    bitmap = await _sent_alone(transaction, context)
    return await _without_left(transaction, bitmap, context.descriptor.roster_size)


async def _sent_alone(transaction: Transaction, context: RoundContext) -> bytes:
    lone = np.zeros(context.descriptor.roster_size, np.bool_)
    for _, numbers in await piece_store.piece_numbers(transaction, context.key, 0):
        lone[np.frombuffer(numbers, "<u4")] = True
    return sets.pack(lone)


async def _without_left(transaction: Transaction, bitmap: bytes, size: int) -> bytes:
    departed = await roster.left_runs(transaction, size)
    if not departed:
        return bitmap
    members = sets.unpack(bitmap, size).copy()
    for first, count in departed:
        members[first : first + count] = False
    return sets.pack(members)


async def _parts(transaction: Transaction, context: RoundContext) -> tuple[ProvedPart, ...]:
    """All parts held, sorted, without those of hosts that left."""
    parts = await held_parts(transaction, context)
    present = (part for part, (_, host) in parts.items() if host.left is None)
    return tuple(sorted(present, key=lambda part: part.order))


# --- abort ---------------------------------------------------------------------------------------


async def abort(
    aggregator: Aggregator,
    intake: Intake,
    round_id: str,
    request: AbortRequest,
    *,
    may_have_frozen: bool = False,
) -> str:
    """Any live state -> aborted, permanently: destroy the pieces, sign that there is no sum.

    `may_have_frozen`: the round may have advanced after this state, unknown to the store.
    """
    context = await aggregator.round(round_id)

    async def run(transaction: Transaction) -> str:
        row = await round_store.round_by_key(transaction, context.key)
        if row.abort_statement is not None:
            return row.abort_statement
        if row.state is RoundState.RELEASED:
            raise RoundReleased
        statement = AbortStatement(
            round=context.id,
            descriptor_hash=context.digest,
            aggregator=aggregator.id,
            frozen=_frozen(row.state, may_have_frozen),
            reason=request.reason,
        )
        signed = wire_json(context.identity.sign(ABORT_LABEL, statement))
        await round_store.advance(
            transaction,
            context.key,
            row.state,
            RoundState.ABORTED,
            abort_statement=signed,
            reason=request.reason,
            partial=None,
            nonce=None,
            finished=aggregator.clock.now(),
        )
        await differencing.withdraw(transaction, context)
        await round_store.destroy_pieces(transaction, context.key)
        return signed

    async with aggregator.lock(round_id):
        answer: str = await intake.submit(TransitionItem(context, run))
    await end_round(aggregator, context)
    return answer


def _frozen(state: RoundState, may_have: bool) -> Frozen:
    """What an abort statement states about the freeze."""
    if state is not RoundState.OPEN:
        return Frozen.YES
    return Frozen.MAYBE if may_have else Frozen.NEVER


async def abort_unreleased(aggregator: Aggregator, intake: Intake, reason: str) -> int:
    """Abort every live round: required after a restore from a backup.

    A round that is open in the restored store may have been frozen, or even released, after the
    backup. So "never frozen" is signed for none of them, as it would give curators budget back.
    """
    async with aggregator.database.reading() as transaction:
        names = await round_store.live(transaction)
    for round_id in names:
        await abort(aggregator, intake, round_id, AbortRequest(reason=reason), may_have_frozen=True)
    return len(names)


# --- reading and housekeeping --------------------------------------------------------------------


@dataclass(frozen=True)
class Awaited:
    """When to answer about an open round: once pieces of this many curators are stored, it is no
    longer open, or the time is over."""

    accepted: int
    wait_s: float


async def describe(
    aggregator: Aggregator, intake: Intake, round_id: str, awaited: Awaited
) -> RoundProgress:
    """The state of a round, in public figures. Raises UnknownRound."""
    row, _ = await _after_waiting(aggregator, intake, round_id, awaited)
    async with aggregator.database.reading() as transaction:
        noise_of = await round_store.held_places(transaction, row.key)
    return RoundProgress(
        round=row.id,
        state=row.state.value,
        accepted=row.received,
        contributions=noise_of,
        descriptor_hash=encode_binary(row.descriptor_hash),
        deadline=format_instant(row.deadline),
        reason=row.reason,
    )


async def held(
    aggregator: Aggregator, intake: Intake, round_id: str, awaited: Awaited
) -> int | None:
    """How many curators' pieces are stored, if they are too few and the round is open; else
    None. Raises UnknownRound."""
    row, waits = await _after_waiting(aggregator, intake, round_id, awaited)
    return row.received if waits else None


async def _after_waiting(
    aggregator: Aggregator, intake: Intake, round_id: str, awaited: Awaited
) -> tuple[RoundRow, bool]:
    """The round, and whether it is open and still lacks pieces."""

    async def look() -> tuple[tuple[RoundRow, bool], bool]:
        row: RoundRow = await aggregator.lookups.submit(partial(stored_round, round_id=round_id))
        waits = row.received < awaited.accepted and row.state is RoundState.OPEN
        if waits and awaited.wait_s:
            await asyncio.sleep(GATHER_S)  # one query for many arrivals
        return (row, waits), waits

    return await intake.changed.poll(look, awaited.wait_s, LOOK_S, key=round_id)


async def missing(aggregator: Aggregator, round_id: str, members: bytes) -> int:
    """How many curators of a bitmap over the roster have no stored piece. Raises Invalid."""
    context = await aggregator.round(round_id)
    size = context.descriptor.roster_size
    try:
        awaited_numbers = sets.unpack(members, size)
    except ValueError as error:
        raise Invalid(str(error), pointer="/members") from None
    async with aggregator.database.reading() as transaction:
        accepted = sets.unpack(await held_members(transaction, context), size)
    return int((awaited_numbers & ~accepted).sum())


async def sweep(aggregator: Aggregator, intake: Intake) -> int:
    """Abort abandoned rounds, delete old ones, erase; how many rounds
    were deleted."""
    settings, now = aggregator.settings, aggregator.clock.now()
    async with aggregator.database.reading() as transaction:
        abandoned = await round_store.overdue(
            transaction, now - timedelta(seconds=settings.abandon_s)
        )
    for round_id in abandoned:
        await abort(aggregator, intake, round_id, AbortRequest(reason="abandoned"))
    before = now - timedelta(seconds=settings.retention_s)
    forgotten = await _forget_rounds(aggregator, before)
    async with aggregator.database.begin() as transaction:
        await forget_grants(transaction, grants, before)
    if forgotten:
        aggregator.forget_rounds()
    if not await aggregator.erasure.erase():
        _logger.warning("log_not_emptied")
    return forgotten


async def _forget_rounds(aggregator: Aggregator, before: datetime) -> int:
    """Delete finished rounds whose deadline is before an instant; returns how many. A later
    sweep deletes those that this one leaves."""
    total = 0
    for _ in range(STEPS_AT_MOST):
        async with aggregator.database.begin() as transaction:
            await exclusive(transaction, ROUNDS_LOCK)
            forgotten = await round_store.purge(transaction, before, FORGOTTEN_AT_ONCE)
        total += forgotten
        if forgotten < FORGOTTEN_AT_ONCE:
            break
        await asyncio.sleep(REST_S)
    return total


# A round's own seal key dies with the round. Spec: keys, section 2.4.

_key_ends_logger = get_logger("tacit.aggregator.keys")


async def end_round(aggregator: Aggregator, context: RoundContext) -> None:
    """The round is over: destroy the key that was made for it. If that fails, a sweep does it."""
    seal = context.descriptor.aggregators[context.index].seal
    if seal.round is None:
        return
    aggregator.seal_keyring.forget([seal.number])
    aggregator.forget_round(context.id)
    await destroy_key(aggregator, seal.number)


async def destroy_key(aggregator: Aggregator, number: int) -> None:
    """Destroy a key; a file that cannot be removed now is removed by the next sweep."""
    try:
        await aggregator.seal_keyring.destroy(number)
    except OSError as error:
        _key_ends_logger.warning("key_not_destroyed", number=number, **logs_describe(error))
