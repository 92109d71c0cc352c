"""Identities of the coordinator and of parties: followed link by link from the pinned key.

Spec: keys, section 5.2. The coordinator hands over its chain before each round; a party shows its
links when it replaces its identity, and a fork revokes it. The routes of this aggregator's own
identity and of the pairing with its one coordinator are at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request, Response
from fastapi import Query as Parameter

from aggregator import examples
from aggregator.context import Aggregator
from aggregator.errors import CuratorEnrolled, NotPaired, SessionRefusedHere, UnknownParty
from aggregator.roster import enrolment
from aggregator.roster.enrolment import (
    ROSTER,
    CoordinatorAnswer,
    CoordinatorRequest,
    PairedCoordinator,
    paired_answer,
)
from aggregator.store import roster, tables
from aggregator.store.roster import CoordinatorRow, Party
from aggregator.web import Operator, Watcher
from common.bodies import CBOR
from common.identity import own_identity
from common.identity.own_identity import ConfirmationRequest, IdentityAnswer
from common.principals import Scope
from common.runtime.logs import get_logger
from common.store import identities, tokens
from common.store.database import exclusive
from common.store.tokens import (
    Holder,
    RenewalRefused,
    check_ended,
    check_request,
    expire_holder,
    revoke_subject,
)
from common.store.transactions import Transaction
from common.web.auth import Authenticator
from common.web.dependencies import part
from common.web.openapi import api_router, gives, takes
from common.web.wire import answer, etag_response, read_body
from tacit.answers.registry import AggregatorIdentity
from tacit.crypto.signing import HybridPublicKey, fingerprint
from tacit.errors import DomainError
from tacit.protocol.identities import (
    CoordinatorRenewal,
    IdentityChain,
    IdentityForked,
    IdentitySuperseded,
    KeyNotAnchored,
    Pin,
    Reason,
    Role,
)
from tacit.protocol.party_identities import PartyChain
from tacit.wire import encode_binary

_COORDINATOR = "aggregator coordinator"


async def follow_coordinator(aggregator: Aggregator, shown: IdentityChain) -> None:
    """Follow the chain of the paired coordinator's identities.

    After a compromised key the coordinator's tokens end, as a thief may have them; the
    coordinator renews its own. Raises NotPaired; IdentityForked, which lasts until the operator
    confirms one document; and what else invalidates the last link. The chain is stored for the
    operator.
    """
    refused: DomainError | None = None
    async with aggregator.database.begin() as transaction:
        paired = await _paired(transaction)
        try:
            row = _along(aggregator, paired, shown)
        except IdentityForked as error:
            row, refused = _pinned(paired, paired.pin.forking(), shown), error
        except DomainError as error:
            row, refused = replace(paired, shown=shown), error
        if row != paired:
            await roster.set_followed(transaction, row)
        if _compromised(row.pin) > _compromised(paired.pin):
            now = aggregator.clock.now()
            await expire_holder(transaction, tables.tokens, Scope.COORDINATOR, None, now)
    if refused is not None:
        raise refused


async def renew_coordinator(aggregator: Aggregator, request: CoordinatorRenewal) -> None:
    """Replace the coordinator's revoked token.

    A chain is stored only if the identity at its end signed the request. Raises NotPaired,
    RenewalRefused, and what invalidates the chain.
    """
    clock, holder = aggregator.clock, Holder(Scope.COORDINATOR)
    async with aggregator.database.reading() as transaction:
        paired = await roster.coordinator(transaction)
        if paired is None:
            raise NotPaired
        statement = request.renewal.statement
        await check_ended(transaction, tables.tokens, statement, holder, clock.now())
    row = paired if request.chain is None else _along(aggregator, paired, request.chain)
    row.pin.check_key(row.identity_key, clock.now())
    asked = check_request(
        request.renewal,
        service=aggregator.id,
        party=row.deployment,
        identity_key=row.identity_key,
        now=clock.now(),
    )
    async with aggregator.database.begin() as transaction:
        if await _paired(transaction) != paired:
            raise RenewalRefused("the pairing changed meanwhile")
        if row != paired:
            await roster.set_followed(transaction, row)
        await tokens.renew(transaction, tables.tokens, asked, holder, clock)


async def confirm_paired(aggregator: Aggregator, compared: bytes) -> PairedCoordinator:
    """Pin the document whose fingerprint the operator compared out of band, in place of the
    earlier one. Raises NotPaired, KeyNotAnchored if no such document was shown."""
    async with aggregator.database.begin() as transaction:
        paired = await _paired(transaction)
        if paired.shown is None:
            raise KeyNotAnchored("the coordinator has shown no document")
        pin = paired.pin.confirmed(paired.deployment, paired.shown, compared)
        row = _pinned(paired, pin, paired.shown)
        await roster.set_followed(transaction, row)
    return paired_answer(row)


async def _paired(transaction: Transaction) -> CoordinatorRow:
    await exclusive(transaction, _COORDINATOR)
    paired = await roster.coordinator(transaction)
    if paired is None:
        raise NotPaired
    return paired


def _along(aggregator: Aggregator, known: CoordinatorRow, shown: IdentityChain) -> CoordinatorRow:
    """The coordinator after following a chain. Raises what invalidates the chain."""
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
    """How many replaced keys of the coordinator may have been stolen, according to its chain. A
    coordinator that revoked its identity renews no token: it keeps its own, to end its rounds."""
    links = () if pin.anchored is None else pin.anchored.links
    statements = [link.statement for link in links if link.statement.document is not None]
    return sum(statement.reason is Reason.COMPROMISED for statement in statements)


def _pinned(known: CoordinatorRow, pin: Pin, shown: IdentityChain) -> CoordinatorRow:
    current = None if pin.anchored is None else pin.anchored.current
    key = known.identity_key if current is None else current.ed25519
    return replace(known, identity_key=key, pin=pin, shown=shown)


# A party replaces its identity: the roster follows the links that it shows.
#
# Spec: keys, section 5.2. Sessions that the key before signed are accepted until the link's overlap
# is over, as what was sealed under them may still be on its way. A fork shows that a key was
# stolen: the party's tokens end, so that neither holder continues, until the operators of all
# services grant it another identity.

Found = TypeVar("Found")
_logger = get_logger("tacit.aggregator.parties")


async def follow_party(aggregator: Aggregator, party: str, shown: PartyChain) -> bytes:
    """Follow a party's links; its current key. A repetition changes nothing. Raises what
    `follow_party` raises, UnknownParty, NotPaired, and CuratorEnrolled for a key that a party
    has."""
    now = aggregator.clock.now()
    async with aggregator.database.begin() as transaction:
        await exclusive(transaction, ROSTER)
        row = await roster.active_party(transaction, party)
        coordinator = await roster.coordinator(transaction)
        if row is None:
            raise UnknownParty
        if coordinator is None:
            raise NotPaired
        deployment, key_held = coordinator.deployment, row.identity_key
        try:
            key = await identities.follow_replacements(
                transaction, tables.replaced_keys, deployment, party, key_held, shown, now
            )
        except IdentityForked:
            await revoke_subject(transaction, tables.tokens, party, now)
            key = None
        if key is not None and key != key_held:
            if await roster.has_identity(transaction, key):
                raise CuratorEnrolled("the identity is enrolled")
            await roster.set_identity(transaction, row.key, key)
    if key is None:
        _logger.warning("party_identity_forked")
        raise IdentityForked("two successors of one key: the party's tokens have ended")
    return key


async def by_any_key(
    aggregator: Aggregator, sender: Party, begin: Callable[[bytes], Found]
) -> Found:
    """What `begin` returns for one of a sender's keys: the known one, the current one on the
    roster, or a replaced one. Raises what `begin` raises for the first, IdentitySuperseded for a
    key whose overlap is over."""
    try:
        return begin(sender.identity_key)
    except SessionRefusedHere as refused:
        async with aggregator.database.reading() as transaction:
            current = await roster.active_party(transaction, sender.id)
            replaced = await identities.replaced_keys(transaction, tables.replaced_keys, sender.id)
        ends = {key.identity_key: key.until for key in replaced}
        for key in (*(() if current is None else (current.identity_key,)), *ends):
            try:
                begun = begin(key)
            except SessionRefusedHere:
                continue
            if key in ends and ends[key] <= aggregator.clock.now():
                raise IdentitySuperseded from None
            return begun
        raise refused


# Routes of this aggregator's identity, and of the pairing with its one coordinator.

AggregatorPart = Annotated[Aggregator, Depends(part(Aggregator))]
AuthenticatorPart = Annotated[Authenticator, Depends(part(Authenticator))]
Overlap = Annotated[
    int,
    Parameter(ge=0, le=604_800, description="Seconds for which an earlier token stays good."),
]
Replace = Annotated[bool, Parameter(description="Unpin the coordinator that is pinned now.")]


router = api_router("identity")


@router.get(
    "/.well-known/tacit-aggregator",
    **gives(AggregatorIdentity),
    summary="Who this is",
)
async def get_identity(request: Request, aggregator: AggregatorPart) -> dict[str, Any]:
    settings, key = aggregator.settings, aggregator.identities.public_keys[0]
    return {
        "id": settings.aggregator_id,
        "operator": settings.operator,
        "identity_key": encode_binary(key),
        "fingerprint": fingerprint(key).hex(),
        "fingerprint_base64url": encode_binary(fingerprint(key)),
        "policy": {
            "min_participants": settings.policy_min_participants,
            "max_curators": settings.policy_max_curators,
            "max_roster": settings.policy_max_roster,
            "max_dimension": settings.policy_max_dimension,
            "max_round_s": settings.policy_max_round_s,
            "exact_rule": settings.exact_rule,
            "allow_paper": settings.allow_paper,
        },
        "self_test": "passed" if aggregator.samplers_passed else "failed",
        "version": request.app.version,
    }


@router.get(
    "/.well-known/tacit-aggregator/identity",
    **gives(IdentityChain),
    summary="The chain of its identities: documents, and the links between them",
)
async def get_identity_chain(request: Request, aggregator: AggregatorPart) -> Response:
    chain_shown = await own_identity.shown(aggregator.identities)
    return etag_response(request, chain_shown.model_dump_json(exclude_none=True).encode())


@router.put(
    "/v1/identity/next",
    **gives(IdentityAnswer, also=[CBOR]),
    summary="Commit to the next pair of keys, of which the service gets the public halves",
    openapi_extra=takes(HybridPublicKey),
)
async def commit_identity(request: Request, aggregator: AggregatorPart, _: Operator) -> Response:
    following = await read_body(request, HybridPublicKey)
    own = aggregator.identities
    done = await own_identity.commit(own, Role.AGGREGATOR, aggregator.id, following)
    return answer(request, done)


@router.get(
    "/v1/coordinator",
    **gives(PairedCoordinator, also=[CBOR]),
    summary="The coordinator that this aggregator is paired with",
)
async def get_coordinator(request: Request, aggregator: AggregatorPart, _: Operator) -> Response:
    return answer(request, await enrolment.paired(aggregator))


@router.put(
    "/v1/coordinator",
    **gives(CoordinatorAnswer, also=[CBOR]),
    summary="Pair with the one coordinator",
    openapi_extra=takes(CoordinatorRequest, examples.COORDINATOR),
)
async def pair_coordinator(
    request: Request,
    aggregator: AggregatorPart,
    authenticator: AuthenticatorPart,
    _: Operator,
    replace: Replace = False,
    overlap_s: Overlap = 0,
) -> Response:
    body = await read_body(request, CoordinatorRequest)
    answered = await enrolment.pair(aggregator, body, replace=replace, overlap_s=overlap_s)
    authenticator.forget()
    return answer(request, answered)


@router.put(
    "/v1/coordinator/identity",
    status_code=204,
    summary="Show the chain of the coordinator's identities",
    openapi_extra=takes(IdentityChain),
)
async def follow_coordinator_identity(
    request: Request,
    aggregator: AggregatorPart,
    authenticator: AuthenticatorPart,
    _: Watcher,
) -> None:
    try:
        await follow_coordinator(aggregator, await read_body(request, IdentityChain))
    finally:  # after a compromised key its tokens ended
        authenticator.forget()


@router.post(
    "/v1/coordinator/token",
    status_code=204,
    summary="Put another token in the place of the coordinator's ended one, by its identity",
    openapi_extra=takes(CoordinatorRenewal),
)
async def renew_coordinator_token(request: Request, aggregator: AggregatorPart) -> None:
    await renew_coordinator(aggregator, await read_body(request, CoordinatorRenewal))


@router.get(
    "/v1/coordinator/identity",
    **gives(IdentityChain),
    summary="The chain of the coordinator's identities, as it was followed last",
)
async def get_coordinator_identity(request: Request, aggregator: AggregatorPart) -> Response:
    async with aggregator.database.reading() as transaction:
        paired = await roster.coordinator(transaction)
    if paired is None or paired.shown is None:
        raise NotPaired("no chain of a coordinator is known")
    return etag_response(request, paired.shown.model_dump_json(exclude_none=True).encode())


@router.post(
    "/v1/coordinator/confirmation",
    **gives(PairedCoordinator, also=[CBOR]),
    summary="Confirm the coordinator's new identity, compared out of band",
    openapi_extra=takes(ConfirmationRequest, examples.CONFIRMATION),
)
async def confirm_coordinator(
    request: Request, aggregator: AggregatorPart, _: Operator
) -> Response:
    body = await read_body(request, ConfirmationRequest)
    return answer(request, await confirm_paired(aggregator, body.fingerprint))


@router.delete(
    "/v1/coordinator",
    status_code=204,
    name="part",  # clients see it in the operation's id
    summary="End the pairing: no coordinator may speak here",
)
async def unpair_coordinator(
    aggregator: AggregatorPart, authenticator: AuthenticatorPart, _: Operator
) -> None:
    await enrolment.unpair(aggregator)
    authenticator.forget()
