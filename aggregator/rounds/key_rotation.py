"""Rotation of this aggregator's seal keys and identity: by its clock, or by command.

A period's seal key is destroyed when no live round names it, and at the latest
`TACIT_SEAL_KEY_HOLD_S` after its period: rounds that still name it are aborted. A replaced identity
is durable before anyone sees it, and the previous one ends. The operator's routes are at the end.
Spec: keys, sections 2.4, 5.2 and 5.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from fastapi import Request, Response

from aggregator import examples
from aggregator.context import Aggregator, AggregatorPart
from aggregator.errors import NotPaired
from aggregator.pieces.intake import Intake, IntakePart
from aggregator.pieces.peer_seals import KEPT
from aggregator.roster.enrolment import DirectoryPart
from aggregator.rounds import state_machine
from aggregator.rounds import state_machine as key_ends
from aggregator.store import roster, rounds
from aggregator.store import seal_keys as store
from aggregator.store.tables import identities as table
from aggregator.store.tables import tokens
from aggregator.web import AuthenticatorPart, Operator
from common.bodies import CBOR
from common.identity.own_identity import (
    IdentityAnswer,
    RevocationAnswer,
    RevocationRequest,
    SuccessorRequest,
    answer_of,
    revoked_answer,
)
from common.runtime.logs import describe, get_logger
from common.store.identities import OwnIdentity, destroy_identity, identities, replace, revoke
from common.store.tokens import end_renewable
from common.web.openapi import api_router, gives, takes
from common.web.wire import answer, read_body
from tacit.answers.registry import RotatedSealKey
from tacit.crypto.signing import HybridIdentity
from tacit.protocol.round.descriptor import AbortRequest
from tacit.wire import WireModel

KEY_REASON: Final = "seal_key_gone"
_logger = get_logger("tacit.aggregator.keys")


async def sweep_keys(aggregator: Aggregator, intake: Intake) -> int:
    """Destroy every key whose time is over, or whose wrapping file is gone; returns how many.
    Also delete what is no longer needed of destroyed keys and of other aggregators' keys."""
    keyring, now = aggregator.seal_keyring, aggregator.clock.now()
    if await keyring.tidy():
        aggregator.forget_rounds()
    numbers = sorted({*await keyring.due(), *await keyring.lost()})
    await destroy_keys(aggregator, intake, numbers)
    async with aggregator.database.begin() as transaction:
        await store.forget_peer_keys(transaction, now - KEPT)
        await store.purge(transaction, now - timedelta(seconds=aggregator.settings.retention_s))
    return len(numbers)


@dataclass(frozen=True)
class Rotated:
    """A new key of a period that replaces others. `destroyed`: their numbers, on request."""

    number: int
    retired: tuple[int, ...]
    destroyed: tuple[int, ...]


async def rotate_keys(aggregator: Aggregator, intake: Intake, *, destroying: bool) -> Rotated:
    """Retire the keys of periods and make the next, by an operator's command.

    `destroying`: live rounds that name the old keys abort, and these are destroyed now. If the
    process ends meanwhile, the same command again, or the end of their time, destroys them.
    Spec: keys, section 5.3.
    """
    new_key, retired = await aggregator.seal_keyring.rotate()
    if destroying:
        await destroy_keys(aggregator, intake, retired)
    return Rotated(new_key.statement.number, retired, retired if destroying else ())


async def destroy_keys(aggregator: Aggregator, intake: Intake, numbers: Sequence[int]) -> None:
    """Abort the rounds that still name these keys, and destroy them. A round that cannot be
    aborted now delays nothing: the next sweep aborts it."""
    await _abort_rounds(aggregator, intake, numbers)
    if not numbers:
        return
    aggregator.seal_keyring.forget(numbers)
    aggregator.forget_rounds()
    for number in numbers:
        await key_ends.destroy_key(aggregator, number)


async def _abort_rounds(aggregator: Aggregator, intake: Intake, numbers: Sequence[int]) -> None:
    async with aggregator.database.reading() as transaction:
        names = await store.live_rounds(transaction, numbers)
    for round_id in names:
        try:
            await state_machine.abort(aggregator, intake, round_id, AbortRequest(reason=KEY_REASON))
        except Exception as error:
            _logger.warning("round_not_aborted", round=round_id, **describe(error))


# --- identities (spec: keys, section 5.2) --------------------------------------------------------
#
# The new identity is durable before anyone sees it. New rounds name it; rounds that name the old
# one end with it. The old private key is destroyed when no live round names it, at the latest when
# its overlap is over; rounds that still name it are aborted, never with "never frozen". A sweep
# repeats what a crash left undone.

IDENTITY_REASON: Final = "identity_superseded"
_identity_ends_logger = get_logger("tacit.aggregator.identity")


async def rotate_identity(
    aggregator: Aggregator, intake: Intake, request: SuccessorRequest
) -> IdentityAnswer:
    """Replace the identity; a repetition completes what a crash interrupted, and changes nothing
    else. Raises KeyChangeUnconfirmed, SuccessionRefused, NextKeyCommitted, NotPaired."""
    replacement = request.replacement()
    async with aggregator.database.begin() as transaction:
        coordinator = await roster.coordinator(transaction)
        if coordinator is None:
            raise NotPaired
        now, before = aggregator.clock.now(), (await identities(transaction, table))[-1].serial
        new = await replace(transaction, table, coordinator.deployment, replacement, now)
        if request.compromised and new.serial != before:
            await end_renewable(transaction, tokens, now)
    await sweep_identities(aggregator, intake)
    assert new.document is not None
    return answer_of(new.document.statement)


async def end_identity(
    aggregator: Aggregator, intake: Intake, request: RevocationRequest
) -> RevocationAnswer:
    """Revoke the identity: its rounds abort, its keys are destroyed, and it opens no round any
    more. A repetition completes what a crash interrupted. Raises as `rotate`."""
    async with aggregator.database.begin() as transaction:
        coordinator = await roster.coordinator(transaction)
        if coordinator is None:
            raise NotPaired
        successor, now = HybridIdentity(request.secret), aggregator.clock.now()
        ended = await revoke(
            transaction, table, coordinator.deployment, successor, request.reason, now
        )
    await sweep_identities(aggregator, intake)
    return revoked_answer(ended)


async def sweep_identities(aggregator: Aggregator, intake: Intake) -> int:
    """Destroy every replaced identity that is no longer needed; returns how many. Also load what
    another process replaced."""
    own = aggregator.identities
    await own.load()
    destroyed = 0
    for old in own.replaced():
        assert old.until is not None
        over = aggregator.clock.now() >= old.until
        rounds_left = await _rounds_of(aggregator, old)
        if over:
            rounds_left = await _aborted(aggregator, intake, rounds_left)
        if rounds_left or old in own.in_grace(aggregator.clock.now()):
            continue
        if over:
            keys = await aggregator.seal_keyring.signed_by(old.public_key)
            await destroy_keys(aggregator, intake, keys)
        async with aggregator.database.begin() as transaction:
            await destroy_identity(transaction, table, old.serial, aggregator.clock.now())
        aggregator.forget_rounds()
        destroyed += 1
    if destroyed:
        await own.load()
    await aggregator.erasure.erase()  # also what a crash left in the log
    return destroyed


async def _rounds_of(aggregator: Aggregator, old: OwnIdentity) -> list[str]:
    """Live rounds that name an identity."""
    async with aggregator.database.reading() as transaction:
        names = await rounds.live(transaction)
    naming = []
    for name in names:
        context = await aggregator.round(name)
        if context.descriptor.aggregators[context.index].identity_key == old.public_key:
            naming.append(name)
    return naming


async def _aborted(aggregator: Aggregator, intake: Intake, names: list[str]) -> list[str]:
    """Abort rounds; those that could not be aborted now."""
    names_left = []
    for name in names:
        try:
            await state_machine.abort(
                aggregator, intake, name, AbortRequest(reason=IDENTITY_REASON), may_have_frozen=True
            )
        except Exception as error:
            _identity_ends_logger.warning("round_not_aborted", round=name, **describe(error))
            names_left.append(name)
    return names_left


# The route by which an operator replaces seal keys before their time. Spec: keys, section 5.3.


class RotationRequest(WireModel):
    """A new seal key; `destroy`: the old ones are destroyed now, which ends the rounds that name
    them."""

    destroy: bool = False


router = api_router("identity")


@router.post(
    "/v1/identity/successor",
    **gives(IdentityAnswer, also=[CBOR]),
    summary="Replace the identity by the pair that it committed to",
    openapi_extra=takes(SuccessorRequest),
)
async def succeed_identity(
    request: Request,
    aggregator: AggregatorPart,
    intake: IntakePart,
    authenticator: AuthenticatorPart,
    directory: DirectoryPart,
    _: Operator,
) -> Response:
    request_body = await read_body(request, SuccessorRequest)
    try:
        return answer(request, await rotate_identity(aggregator, intake, request_body))
    finally:  # after a compromised key tokens ended
        authenticator.forget()
        directory.forget()


@router.post(
    "/v1/identity/revocation",
    **gives(RevocationAnswer, also=[CBOR]),
    summary="End the identity without a successor, by the pair that it committed to",
    openapi_extra=takes(RevocationRequest),
)
async def revoke_identity(
    request: Request, aggregator: AggregatorPart, intake: IntakePart, _: Operator
) -> Response:
    request_body = await read_body(request, RevocationRequest)
    return answer(request, await end_identity(aggregator, intake, request_body))


@router.post(
    "/v1/seal-keys/rotation",
    summary="Make a new seal key now; the old one opens no new round, or is destroyed now",
    openapi_extra=takes(RotationRequest, examples.ROTATION),
)
async def rotate_seal_key(
    request: Request, aggregator: AggregatorPart, intake: IntakePart, _: Operator
) -> RotatedSealKey:
    request_body = await read_body(request, RotationRequest)
    done = await rotate_keys(aggregator, intake, destroying=request_body.destroy)
    return RotatedSealKey(number=done.number, retired=done.retired, destroyed=done.destroyed)
