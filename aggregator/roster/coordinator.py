"""The coordinator's identity: followed from the key that was paired, link by link.

Spec: keys, section 5.2. The coordinator hands over its chain before each round. Nothing in it is
believed for that: each link is signed by the pair to which the document before committed.
"""

from __future__ import annotations

from dataclasses import replace

from aggregator.context import Aggregator
from aggregator.errors import NotPaired
from aggregator.roster.enrolment import PairedCoordinator, paired_answer
from aggregator.store import admission, tables
from aggregator.store.admission import CoordinatorRow
from common.store.database import exclusive
from common.store.transactions import Transaction
from common.web import renewals
from common.web.renewals import Holder, RenewalRefused, check_ended, check_request
from common.web.tokens import Scope, expire_holder
from tacit.errors import DomainError
from tacit.protocol.identities import (
    CoordinatorRenewal,
    IdentityChain,
    IdentityForked,
    KeyNotAnchored,
    Pin,
    Reason,
    Role,
)

_COORDINATOR = "aggregator coordinator"


async def follow(aggregator: Aggregator, shown: IdentityChain) -> None:
    """Go along the chain of the paired coordinator's identities.

    After a compromised key the coordinator's tokens end, which may be a thief's; it renews its own.
    Raises NotPaired; IdentityForked, which stays so until the operator confirms one document; and
    what else stands against the last link. What is shown is kept for the operator.
    """
    refused: DomainError | None = None
    async with aggregator.database.begin() as transaction:
        known = await _paired(transaction)
        try:
            row = _along(aggregator, known, shown)
        except IdentityForked as error:
            row, refused = _pinned(known, known.pin.forking(), shown), error
        except DomainError as error:
            row, refused = replace(known, shown=shown), error
        if row != known:
            await admission.set_followed(transaction, row)
        if _compromised(row.pin) > _compromised(known.pin):
            now = aggregator.clock.now()
            await expire_holder(transaction, tables.tokens, Scope.COORDINATOR, None, now)
    if refused is not None:
        raise refused


async def renew(aggregator: Aggregator, request: CoordinatorRenewal) -> None:
    """Put another token in the place of the coordinator's ended one. A chain is kept only if what
    it leads to signed the request.

    Raises NotPaired, RenewalRefused, and what stands against the chain.
    """
    clock, holder = aggregator.clock, Holder(Scope.COORDINATOR)
    async with aggregator.database.reading() as transaction:
        known = await admission.coordinator(transaction)
        if known is None:
            raise NotPaired
        statement = request.renewal.statement
        await check_ended(transaction, tables.tokens, statement, holder, clock.now())
    row = known if request.chain is None else _along(aggregator, known, request.chain)
    row.pin.check_key(row.identity_key, clock.now())
    asked = check_request(
        request.renewal,
        service=aggregator.id,
        party=row.deployment,
        identity_key=row.identity_key,
        now=clock.now(),
    )
    async with aggregator.database.begin() as transaction:
        if await _paired(transaction) != known:
            raise RenewalRefused("the pairing changed meanwhile")
        if row != known:
            await admission.set_followed(transaction, row)
        await renewals.renew(transaction, tables.tokens, asked, holder, clock)


async def confirm(aggregator: Aggregator, compared: bytes) -> PairedCoordinator:
    """The operator compared the fingerprint of a document out of band: it is pinned, in place of
    what was. Raises NotPaired, KeyNotAnchored if no such document was shown."""
    async with aggregator.database.begin() as transaction:
        known = await _paired(transaction)
        if known.shown is None:
            raise KeyNotAnchored("the coordinator has shown no document")
        pin = known.pin.confirmed(known.deployment, known.shown, compared)
        row = _pinned(known, pin, known.shown)
        await admission.set_followed(transaction, row)
    return paired_answer(row)


async def _paired(transaction: Transaction) -> CoordinatorRow:
    await exclusive(transaction, _COORDINATOR)
    known = await admission.coordinator(transaction)
    if known is None:
        raise NotPaired
    return known


def _along(aggregator: Aggregator, known: CoordinatorRow, shown: IdentityChain) -> CoordinatorRow:
    """The coordinator as a chain leads to it. Raises what stands against the chain."""
    pin = known.pin.follow(
        known.deployment,
        shown,
        aggregator.clock.now(),
        Role.COORDINATOR,
        known.deployment,
        aggregator.settings.confirmed_keys,
    )
    return _pinned(known, pin, shown)


def _compromised(pin: Pin) -> int:
    """How many replaced keys of the coordinator may have been stolen, as it says. Who revoked
    its identity renews no token: it keeps its own, to end its rounds."""
    links = () if pin.anchored is None else pin.anchored.links
    said = [link.statement for link in links if link.statement.document is not None]
    return sum(each.reason is Reason.COMPROMISED for each in said)


def _pinned(known: CoordinatorRow, pin: Pin, shown: IdentityChain) -> CoordinatorRow:
    current = None if pin.anchored is None else pin.anchored.current
    key = known.identity_key if current is None else current.ed25519
    return replace(known, identity_key=key, pin=pin, shown=shown)
