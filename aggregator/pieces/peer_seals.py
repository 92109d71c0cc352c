"""What the aggregators of a round seal to each other: shares of noise, and of the verify key.

The sender begins a session and announces it with what it seals; the receiver keeps it as received.
The verify key of a proved round is fixed before the first contribution and never stored: it is made
again from this aggregator's secret and the others' sealed shares. The routes at the end serve this
aggregator's seal key and take those that it needs of others (spec: keys, section 2.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Final

from fastapi import Request, Response

from aggregator import examples
from aggregator.context import Aggregator, AggregatorPart, RoundContext, stored_round
from aggregator.errors import (
    KeyShareRefused,
    PeerKeyMissing,
    RoundClosed,
    RoundNotKeyed,
    SealKeyMalformed,
    SealKeyUnavailable,
    TooManySealKeys,
    UnknownSealKey,
)
from aggregator.seal_keys import SealSecret
from aggregator.store import rounds
from aggregator.store import seal_keys as store
from aggregator.web import Coordinator
from common.bodies import encode
from common.store.database import exclusive
from common.web.openapi import api_router, gives, gives_octets, takes, takes_octets
from common.web.wire import content_type, etag_response, json_response, read_body
from tacit.answers.registry import KeptSealKey
from tacit.crypto import sealing
from tacit.crypto.sealing import Direction, SealBroken, SealPublicKey, open_octets, seal_octets
from tacit.crypto.signing import Signed
from tacit.errors import UnsupportedForm
from tacit.protocol.proved_rounds import key_share, key_share_context, verify_key_of
from tacit.protocol.round.agreement import DescriptorRefused
from tacit.protocol.round.descriptor import AggregatorEntry, RoundDescriptor, RoundId
from tacit.protocol.round.messages import RelayedKeyShares, SealedKeyShare
from tacit.protocol.sealing_sessions import (
    SealKeyStatement,
    Session,
    SessionEnds,
    SessionRefused,
    begin_session,
    open_session,
)
from tacit.wire import WireModel, encode_binary, parse_binary

KEPT: Final = timedelta(days=1)
"""How long another aggregator's public key waits for the rounds that name it."""
MOST_KEPT: Final = 10_000
_DIRECTION: Final = Direction.AGGREGATOR_TO_AGGREGATOR

PublicKeys = Mapping[bytes, SealPublicKey]
"""Seal keys by hash."""


@dataclass(frozen=True)
class Outgoing:
    """The session under which an aggregator seals to another."""

    key: bytes
    announce: Signed[Session]

    @property
    def session(self) -> bytes:
        """The session's id."""
        return self.announce.statement.session


async def add_public_key(aggregator: Aggregator, key_hash: bytes, raw: bytes) -> bool:
    """Store another aggregator's public seal key; returns whether it is new. Raises
    SealKeyMalformed."""
    try:
        public_key = SealPublicKey(raw)
    except sealing.SealKeyMalformed as error:
        raise SealKeyMalformed(str(error)) from None
    if public_key.hash != key_hash:
        raise SealKeyMalformed("the key has another hash than the path's")
    now = aggregator.clock.now()
    async with aggregator.database.begin() as transaction:
        await exclusive(transaction, "peer seal keys")
        if await store.count_peer_keys(transaction) >= MOST_KEPT:
            raise TooManySealKeys(extra={"most": MOST_KEPT})
        return await store.add_peer_key(transaction, key_hash, raw, now)


async def public_keys(aggregator: Aggregator, descriptor: RoundDescriptor) -> PublicKeys:
    """The seal keys of a round's other aggregators. Raises PeerKeyMissing."""
    other_entries = (entry for entry in descriptor.aggregators if entry.id != aggregator.id)
    key_hashes = [entry.seal.public_key_hash for entry in other_entries]
    async with aggregator.database.reading() as transaction:
        stored = await store.peer_keys(transaction, key_hashes)
    missing = [encode_binary(key_hash) for key_hash in key_hashes if key_hash not in stored]
    if missing:
        raise PeerKeyMissing(extra={"key_hashes": missing})
    return {key_hash: _public_key(raw) for key_hash, raw in stored.items()}


_public_key = lru_cache(maxsize=256)(SealPublicKey)
"""Every round of an hour names the same keys."""


def outgoing(
    aggregator: Aggregator,
    descriptor: RoundDescriptor,
    secret: SealSecret,
    receiver: AggregatorEntry,
    public: PublicKeys,
) -> Outgoing:
    """The session under which this aggregator seals to another one of the round, or to itself.
    Raises DescriptorRefused for a key that yields no shared secret."""
    try:
        own_entry = descriptor.aggregators[descriptor.index_of(aggregator.id)]
        identity = aggregator.identities.signer(own_entry.identity_key)
        if identity is None:
            raise DescriptorRefused("the identity of this aggregator is not in use")
        ends = SessionEnds(
            deployment=descriptor.deployment,
            party=aggregator.id,
            party_key=identity.public_key,
            aggregator=receiver.id,
            aggregator_key=receiver.identity_key,
            direction=_DIRECTION,
        )
        to_itself = receiver.id == aggregator.id
        key = secret.key.public if to_itself else public[receiver.seal.public_key_hash]
        begun = begin_session(identity, ends, key)
    except SealBroken as error:
        raise DescriptorRefused(f"{receiver.id}: {error}") from None
    return Outgoing(begun.key, begun.announce)


def incoming_key(
    aggregator: Aggregator,
    context: RoundContext,
    sender: AggregatorEntry,
    announce: Signed[Session] | None,
) -> bytes:
    """The key under which an aggregator of the round sealed to this one. Raises SealBroken, or
    SealKeyGone after the own key's end."""
    round_key = context.seal_secret
    if announce is None:
        raise SealBroken("it announces no session")
    ends = SessionEnds(
        deployment=context.descriptor.deployment,
        party=sender.id,
        party_key=sender.identity_key,
        aggregator=aggregator.id,
        aggregator_key=round_key.identity_key,
        direction=_DIRECTION,
    )
    try:
        return open_session(announce, ends, round_key.key)
    except SessionRefused as error:
        raise SealBroken(str(error)) from None


# --- the verify key of a proved round (spec: validity, section 7) ---------------------------------

_KEPT: Final = 256


async def demand_key(aggregator: Aggregator, context: RoundContext) -> None:
    """Raise RoundNotKeyed for a proved round that has no verify key yet."""
    if context.proofs is None or context.id in aggregator.verify_keys:
        return
    async with aggregator.database.reading() as transaction:
        row = await stored_round(transaction, context.id)
    if row.key_check is None:
        raise RoundNotKeyed
    if context.own_key is not None:
        await verify_key(aggregator, context)  # kept: the next piece asks no store


async def verify_key(aggregator: Aggregator, context: RoundContext) -> bytes:
    """The 32 bytes of a round's verify key. Raises RoundNotKeyed, or RoundClosed once this
    aggregator's part of it is destroyed."""
    cached = aggregator.verify_keys.get(context.id)
    if cached is not None:
        return cached
    async with aggregator.database.reading() as transaction:
        shares = await rounds.document(transaction, context.key, "relayed_key_shares")
    if shares is None:
        raise RoundNotKeyed
    round_verify_key = made_key(
        aggregator, context, RelayedKeyShares.model_validate_json(shares).shares
    )
    remember(aggregator, context, round_verify_key)
    return round_verify_key


def remember(aggregator: Aggregator, context: RoundContext, key: bytes) -> None:
    """Keep a verify key that is fixed, in memory."""
    aggregator.verify_keys[context.id] = key
    while len(aggregator.verify_keys) > _KEPT:
        aggregator.verify_keys.popitem(last=False)


def made_key(
    aggregator: Aggregator, context: RoundContext, shares: Sequence[SealedKeyShare]
) -> bytes:
    """The verify key from this aggregator's share and one share of each other. Raises
    KeyShareRefused; RoundClosed, or SealKeyUnavailable, if its own secret is missing."""
    secret, descriptor = context.own_key, context.descriptor
    if context.elsewhere:
        raise SealKeyUnavailable
    if secret is None or secret.verification_secret is None:
        raise RoundClosed("the round's keys are destroyed", extra={"included": False})
    key_shares = {
        context.index: key_share(secret.verification_secret, context.digest, aggregator.id)
    }
    for share in shares:
        try:
            index = descriptor.index_of(share.sender)
        except KeyError:
            raise KeyShareRefused("a share is of no aggregator of the round") from None
        if index in key_shares or share.receiver != aggregator.id:
            raise KeyShareRefused("a share is for another aggregator, or listed twice")
        entry = descriptor.aggregators[index]
        place = key_share_context(context.digest, share.sender, aggregator.id, context.index)
        try:
            key = incoming_key(aggregator, context, entry, share.announce)
            key_shares[index] = open_octets(key, share.nonce, share.sealed, place)
        except SealBroken:
            raise KeyShareRefused(f"the share of {share.sender} does not open here") from None
    if len(key_shares) != len(descriptor.aggregators):
        raise KeyShareRefused("the share of an aggregator is missing")
    return verify_key_of(context.digest, [key_shares[index] for index in sorted(key_shares)])


def sealed_shares(
    aggregator: Aggregator,
    descriptor: RoundDescriptor,
    digest: bytes,
    secret: SealSecret,
    public: PublicKeys,
) -> tuple[SealedKeyShare, ...]:
    """This aggregator's share of a round's verify key, sealed to each other aggregator."""
    if secret.verification_secret is None:
        raise DescriptorRefused("the seal key of this aggregator is not in use")
    content = key_share(secret.verification_secret, digest, aggregator.id)
    shares = []
    for index, entry in enumerate(descriptor.aggregators):
        if entry.id == aggregator.id:
            continue
        to = outgoing(aggregator, descriptor, secret, entry, public)
        place = key_share_context(digest, aggregator.id, entry.id, index)
        nonce, sealed = seal_octets(to.key, content, place)
        shares.append(
            SealedKeyShare(
                sender=aggregator.id,
                receiver=entry.id,
                session=to.session,
                announce=to.announce,
                nonce=nonce,
                sealed=sealed,
            )
        )
    return tuple(shares)


# --- routes of seal keys -------------------------------------------------------------------------

OCTETS: Final = "application/octet-stream"
_FOREVER: Final = {"Cache-Control": "public, max-age=31536000, immutable"}


class RoundKeyRequest(WireModel):
    """A request for the key of one round, before its descriptor is made."""

    round: RoundId


router = api_router("identity")


@router.get(
    "/v1/seal-keys/current",
    **gives(Signed[SealKeyStatement]),
    summary="The current signed seal key",
)
async def get_current_seal_key(request: Request, aggregator: AggregatorPart) -> Response:
    return etag_response(request, _json(await aggregator.seal_keyring.current()))


@router.post(
    "/v1/seal-keys",
    **gives(Signed[SealKeyStatement]),
    summary="A signed seal key for one round",
    openapi_extra=takes(RoundKeyRequest, examples.ROUND_KEY),
)
async def create_round_seal_key(
    request: Request, aggregator: AggregatorPart, _: Coordinator
) -> Response:
    body = await read_body(request, RoundKeyRequest)
    return json_response(_json(await aggregator.seal_keyring.for_round(body.round)))


@router.get(
    "/v1/seal-keys/{key_hash}",
    summary="A public seal key, 1,216 bytes, by its hash",
    **gives_octets(),
)
async def get_seal_key(key_hash: str, aggregator: AggregatorPart) -> Response:
    async with aggregator.database.reading() as transaction:
        raw = await store.public_key(transaction, _hash(key_hash))
    if raw is None:
        raise UnknownSealKey
    return Response(raw, media_type=OCTETS, headers=_FOREVER)


@router.get(
    "/v1/seal-keys/{key_hash}/signature",
    summary="The statement of a seal key, signed with Ed25519 and ML-DSA-65",
    responses={200: {"model": Signed[SealKeyStatement]}},
)
async def get_seal_key_signature(key_hash: str, aggregator: AggregatorPart) -> Response:
    signed = await aggregator.seal_keyring.lasting(_hash(key_hash))
    if signed is None:
        raise UnknownSealKey("no such key, or its identity has no ML-DSA key: keys next")
    return json_response(_json(signed))


@router.put(
    "/v1/seal-keys/{key_hash}",
    **gives(KeptSealKey, 200, 201),
    summary="Hand over the public seal key of another aggregator of a round",
    openapi_extra=takes_octets(),
)
async def put_peer_seal_key(
    request: Request, key_hash: str, aggregator: AggregatorPart, _: Coordinator
) -> Response:
    if content_type(request) != OCTETS:
        raise UnsupportedForm(extra={"supported": [OCTETS]})
    body = await request.body()
    new = await add_public_key(aggregator, _hash(key_hash), body)
    return json_response(encode(KeptSealKey()), 201 if new else 200)


def _hash(text: str) -> bytes:
    try:
        return parse_binary(text)
    except ValueError:
        raise UnknownSealKey from None


def _json(signed: Signed[SealKeyStatement]) -> bytes:
    return signed.model_dump_json(exclude_none=True).encode()
