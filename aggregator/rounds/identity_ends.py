"""The identity is replaced by command, and the one before ends. Spec: keys, section 5.2.

The new identity is durable in one transaction, before anybody sees it. New rounds name it as
soon as the coordinator looks; rounds that name the old one end with it. The old private key is
destroyed when no live round names it, at the latest when its overlap is over; what names it then is
aborted, never with "never frozen". All that follows from what is stored, so a sweep does again what
a crash left.
"""

from __future__ import annotations

from typing import Final

from aggregator.context import Aggregator
from aggregator.errors import NotPaired
from aggregator.pieces.intake import Intake
from aggregator.rounds import key_sweep, state_machine
from aggregator.store import admission
from aggregator.store import rounds as store
from aggregator.store.tables import identities as table
from aggregator.store.tables import tokens
from common.runtime.logs import describe, get_logger
from common.store.identities import OwnIdentity, destroy_identity, identities, replace, revoke
from common.web.own_identity import (
    IdentityAnswer,
    RevocationAnswer,
    RevocationRequest,
    SuccessorRequest,
    answer_of,
    revoked_answer,
)
from common.web.tokens import end_renewable
from tacit.crypto.hybrid_signing import HybridIdentity
from tacit.protocol.round.descriptor import AbortRequest

REASON: Final = "identity_superseded"
_logger = get_logger("tacit.aggregator.identity")


async def rotate(
    aggregator: Aggregator, intake: Intake, request: SuccessorRequest
) -> IdentityAnswer:
    """Replace the identity; the same request again finishes what a crash left, and changes nothing
    else. Raises KeyChangeUnconfirmed, SuccessionRefused, NextKeyCommitted, NotPaired."""
    asked = request.replacement()
    async with aggregator.database.begin() as transaction:
        coordinator = await admission.coordinator(transaction)
        if coordinator is None:
            raise NotPaired
        now, before = aggregator.clock.now(), (await identities(transaction, table))[-1].serial
        new = await replace(transaction, table, coordinator.deployment, asked, now)
        if request.compromised and new.serial != before:
            await end_renewable(transaction, tokens, now)
    await sweep(aggregator, intake)
    assert new.document is not None
    return answer_of(new.document.statement)


async def end(
    aggregator: Aggregator, intake: Intake, request: RevocationRequest
) -> RevocationAnswer:
    """Revoke the identity: its rounds abort, its keys are destroyed, and it opens no round any
    more. The same request again finishes what a crash left. Raises as `rotate`."""
    async with aggregator.database.begin() as transaction:
        coordinator = await admission.coordinator(transaction)
        if coordinator is None:
            raise NotPaired
        successor, now = HybridIdentity(request.secret), aggregator.clock.now()
        ended = await revoke(
            transaction, table, coordinator.deployment, successor, request.reason, now
        )
    await sweep(aggregator, intake)
    return revoked_answer(ended)


async def sweep(aggregator: Aggregator, intake: Intake) -> int:
    """Destroy every replaced identity that nothing needs any more; how many. Learn what another
    process replaced."""
    own = aggregator.identities
    await own.load()
    destroyed = 0
    for old in own.replaced():
        assert old.until is not None
        over = aggregator.clock.now() >= old.until
        left = await _rounds_of(aggregator, old)
        if over:
            left = await _aborted(aggregator, intake, left)
        if left or old in own.in_grace(aggregator.clock.now()):
            continue
        if over:
            keys = await aggregator.seal_keyring.signed_by(old.public_key)
            await key_sweep.destroy(aggregator, intake, keys)
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
        names = await store.live(transaction)
    found = []
    for name in names:
        context = await aggregator.round(name)
        if context.descriptor.aggregators[context.index].identity_key == old.public_key:
            found.append(name)
    return found


async def _aborted(aggregator: Aggregator, intake: Intake, names: list[str]) -> list[str]:
    """Abort rounds; those that could not be aborted now."""
    left = []
    for name in names:
        try:
            await state_machine.abort(
                aggregator, intake, name, AbortRequest(reason=REASON), may_have_frozen=True
            )
        except Exception as error:
            _logger.warning("round_not_aborted", round=name, **describe(error))
            left.append(name)
    return left
