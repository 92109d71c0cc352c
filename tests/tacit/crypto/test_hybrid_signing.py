"""Hybrid signatures: both halves, one purpose, one statement."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.crypto.signing import (
    SECRET_BYTES,
    SIGNATURE_BYTES,
    HybridIdentity,
    HybridPublicKey,
    SignatureStripped,
    Signed,
    verify_hybrid,
)
from tacit.wire import WireModel
from tests.property_examples import examples

LABEL = "tacit test v1"


class Said(WireModel):
    text: str


OWNER, OTHER = HybridIdentity(bytes(range(64))), HybridIdentity(bytes(range(1, 65)))
SIGNED = OWNER.sign(LABEL, Said(text="hello"))


def refused(signed: Signed[Said], key: HybridPublicKey = OWNER.public, label: str = LABEL) -> None:
    with pytest.raises(SignatureStripped):
        verify_hybrid(label, signed, key)


def with_signature(signature: bytes) -> Signed[Said]:
    return Signed[Said](statement=SIGNED.statement, signature=signature)


def test_both_halves_verify() -> None:
    assert verify_hybrid(LABEL, SIGNED, OWNER.public) == Said(text="hello")
    assert len(SIGNED.signature) == SIGNATURE_BYTES == 3373
    again = HybridIdentity(OWNER.to_bytes())
    assert again.public == OWNER.public
    assert verify_hybrid(LABEL, again.sign(LABEL, Said(text="x")), OWNER.public).text == "x"


def test_a_half_alone_is_never_enough() -> None:
    classical, lasting = SIGNED.signature[:64], SIGNED.signature[64:]
    forged = OTHER.sign(LABEL, SIGNED.statement).signature
    for signature in (
        b"",
        classical,
        lasting,
        classical + bytes(len(lasting)),
        bytes(64) + lasting,
        classical + forged[64:],  # who broke Ed25519, or stole that half
        forged[:64] + lasting,  # who broke ML-DSA
        lasting + classical,
        SIGNED.signature + b"\0",
        SIGNED.signature[:-1],
    ):
        refused(with_signature(signature))


def test_label_statement_and_keys_are_bound() -> None:
    refused(SIGNED, label="tacit other v1")
    refused(Signed[Said](statement=Said(text="hellO"), signature=SIGNED.signature))
    for key in (
        OTHER.public,
        OWNER.public.model_copy(update={"ed25519": OTHER.public.ed25519}),
        OWNER.public.model_copy(update={"mldsa65": OTHER.public.mldsa65}),
    ):
        refused(SIGNED, key)


@examples(80)
@given(place=st.integers(0, SIGNATURE_BYTES - 1), bit=st.integers(0, 7))
def test_every_flipped_bit_shows(place: int, bit: int) -> None:
    signature = bytearray(SIGNED.signature)
    signature[place] ^= 1 << bit
    refused(with_signature(bytes(signature)))


def test_secrets_are_whole_and_stay_here() -> None:
    for secret in (b"", bytes(SECRET_BYTES - 1), bytes(SECRET_BYTES + 1)):
        with pytest.raises(ValueError):
            HybridIdentity(secret)
    assert OWNER.to_bytes().hex() not in repr(OWNER) + str(vars(HybridIdentity))
    assert HybridIdentity.generate().public != HybridIdentity.generate().public
    with pytest.raises(TypeError):
        pickle.dumps(OWNER)
