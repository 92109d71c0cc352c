"""Record everything, and learn every X25519 private key later: what opens?

The recorder has all that a curator sent, all public keys, and, of a later day, the X25519 half of
every seal key, and opens nothing; nor does a recorder that has the ML-KEM half alone. Who has both
opens everything: the control (spec: keys, sections 2 and 9, check 3).
"""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, MLKEM768X25519PrivateKey, Suite

from common.bodies import parse_cbor
from tacit.crypto.sealing import Direction, SealBroken, SealKey, open_words
from tacit.protocol import sealing_sessions
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.protocol.round.pieces import Piece
from tacit.protocol.sealing_sessions import SessionEnds, session_key
from tests.curator.conftest import OPEN, OpenSite, query
from tests.curator.double import DEPLOYMENT, FakeAggregator, FakeWorld

SUITE = Suite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)


def recorded(aggregator: FakeAggregator, descriptor: RoundDescriptor) -> Piece:
    """The one piece that went to an aggregator in a round."""
    (body,) = [body for name, body in aggregator.bodies if name == descriptor.round]
    return parse_cbor(body, Piece)


def halves(aggregator: FakeAggregator, seed: bytes) -> tuple[MLKEM768PrivateKey, X25519PrivateKey]:
    expanded = hashlib.shake_256(seed).digest(96)
    mlkem = MLKEM768PrivateKey.from_seed_bytes(expanded[:64])
    return mlkem, X25519PrivateKey.from_private_bytes(expanded[64:])


def secret_of(piece: Piece, ends: SessionEnds, key: MLKEM768X25519PrivateKey) -> bytes:
    """The session's key, by a private key that may be right in one half only."""
    assert piece.announce is not None
    statement = piece.announce.statement
    info = ends.info(statement.key, statement.session)
    return session_key(SUITE.decrypt(statement.sealed, key, info), statement)


@pytest.fixture
async def run(site: OpenSite, world: FakeWorld) -> Any:
    """A round, and the seeds of all seal keys."""
    seeds = {}
    for item in world.aggregators:
        seeds[item.id] = SealKey.new_seed()
        item.seal_key = SealKey(seeds[item.id])
    async with site() as s:
        await s.policy(**OPEN)
        await s.enrol("house")
        await s.reading("house", "1.234")
        descriptor = s.open(query())
        await s.take_part()
        assert world.total(descriptor).tolist() == [1234]
        yield descriptor, seeds


def world_words(item: FakeAggregator, descriptor: RoundDescriptor) -> list[int]:
    """What the aggregator itself opened."""
    (words,) = item.words[descriptor.round].values()
    return [int(word) for word in words]


@pytest.mark.parametrize("broken", ["x25519", "mlkem", "both"])
async def test_a_piece_opens_for_who_breaks_both_halves_only(
    run: Any, world: FakeWorld, broken: str
) -> None:
    descriptor, seeds = run
    for index, item in enumerate(world.aggregators):
        mlkem, x25519 = halves(item, seeds[item.id])
        if broken == "x25519":
            mlkem = MLKEM768PrivateKey.generate()
        if broken == "mlkem":
            x25519 = X25519PrivateKey.generate()
        known = MLKEM768X25519PrivateKey(mlkem, x25519)
        piece = recorded(item, descriptor)
        ends = SessionEnds(
            DEPLOYMENT,
            "house",
            item.parties["house"].identity_key,
            item.id,
            item.identity.public_key,
            Direction.CURATOR_TO_AGGREGATOR,
        )
        place = sealing_sessions.piece_context(descriptor.digest(), "house", item.id, index, 1)
        if broken == "both":
            words = open_words(secret_of(piece, ends, known), piece.nonce, piece.sealed, place)
            assert words.tolist() == world_words(item, descriptor)
            continue
        with pytest.raises((InvalidTag, ValueError)):
            secret_of(piece, ends, known)
        # What the X25519 half alone agrees on is no key of the piece either.
        assert piece.announce is not None
        ephemeral = piece.announce.statement.sealed[1088:1120]
        shared = x25519.exchange(X25519PublicKey.from_public_bytes(ephemeral))
        for guess in (shared, hashlib.sha3_256(shared).digest()):
            with pytest.raises(SealBroken):
                open_words(guess, piece.nonce, piece.sealed, place)
            with pytest.raises(InvalidTag):
                AESGCM(guess).decrypt(piece.nonce, piece.sealed, place)
