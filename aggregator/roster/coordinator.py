"""The coordinator's identity: followed from the key that was paired, link by link.

Spec: keys, section 5.2. The coordinator hands over its chain before each round. Nothing in it is
believed for that: each link is signed by the pair to which the document before committed.
"""

from __future__ import annotations

from dataclasses import replace

from aggregator.context import Aggregator
from aggregator.errors import NotPaired
from aggregator.roster.enrolment import PairedCoordinator, paired_answer
from aggregator.store import admission
from aggregator.store.admission import CoordinatorRow
from common.store.database import exclusive
from common.store.transactions import Transaction
from tacit.errors import DomainError
from tacit.protocol.identities import (
    IdentityChain,
    IdentityForked,
    KeyNotAnchored,
    Role,
)

_COORDINATOR = "aggregator coordinator"


async def follow(aggregator: Aggregator, shown: IdentityChain) -> None:
    """Go along the chain of the paired coordinator's identities.

    Raises NotPaired; IdentityForked, which stays so until the operator confirms one document; and
    what else stands against the last link. What is shown is kept for the operator.
    """
    refused: DomainError | None = None
    async with aggregator.database.begin() as transaction:
        known = await _paired(transaction)
        pin = known.pin
        try:
            pin = pin.follow(
                known.deployment,
                shown,
                aggregator.clock.now(),
                Role.COORDINATOR,
                known.deployment,
                aggregator.settings.confirmed_keys,
            )
        except IdentityForked as error:
            pin, refused = pin.forking(), error
        except DomainError as error:
            refused = error
        current = None if pin.anchored is None else pin.anchored.current
        key = known.identity_key if current is None else current.ed25519
        row = replace(known, identity_key=key, pin=pin, shown=shown)
        if row != known:
            await admission.set_followed(transaction, row)
    if refused is not None:
        raise refused


async def confirm(aggregator: Aggregator, compared: bytes) -> PairedCoordinator:
    """The operator compared the fingerprint of a document out of band: it is pinned, in place of
    what was. Raises NotPaired, KeyNotAnchored if no such document was shown."""
    async with aggregator.database.begin() as transaction:
        known = await _paired(transaction)
        if known.shown is None:
            raise KeyNotAnchored("the coordinator has shown no document")
        pin = known.pin.confirmed(known.deployment, known.shown, compared)
        assert pin.anchored is not None
        current = pin.anchored.current
        key = known.identity_key if current is None else current.ed25519
        row = replace(known, identity_key=key, pin=pin)
        await admission.set_followed(transaction, row)
    return paired_answer(row)


async def _paired(transaction: Transaction) -> CoordinatorRow:
    await exclusive(transaction, _COORDINATOR)
    known = await admission.coordinator(transaction)
    if known is None:
        raise NotPaired
    return known
