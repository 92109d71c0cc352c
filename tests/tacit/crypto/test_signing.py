"""Signatures belong to one statement, one purpose and one key."""

import hashlib
from typing import Literal

import pytest

from tacit.crypto import signing
from tacit.crypto.signing import (
    Identity,
    SignatureBroken,
    Signed,
    fingerprint,
    verify,
    verify_once,
)
from tacit.wire import Binary, WireModel


class Word(WireModel):
    format: Literal["word/1"] = "word/1"
    said: str
    mark: Binary = b"\x00\xff"


ME = Identity.from_bytes(bytes(range(32)))
SAID = ME.sign("promise", Word(said="yes"))


def test_a_signature_verifies_and_travels():
    assert verify("promise", SAID, ME.public_key) == Word(said="yes")
    back = Signed[Word].model_validate_json(SAID.model_dump_json())
    assert back == SAID
    assert verify("promise", back, ME.public_key).said == "yes"
    assert len(SAID.signature) == 64


@pytest.mark.parametrize(
    ("label", "signed", "key"),
    [
        ("threat", SAID, ME.public_key),
        ("promise", SAID.model_copy(update={"statement": Word(said="no")}), ME.public_key),
        ("promise", SAID.model_copy(update={"signature": bytes(64)}), ME.public_key),
        ("promise", SAID.model_copy(update={"signature": SAID.signature[:-1]}), ME.public_key),
        ("promise", SAID.model_copy(update={"signature": b""}), ME.public_key),
        ("promise", SAID, Identity.from_bytes(bytes(range(1, 33))).public_key),
        ("promise", SAID, bytes(32)),
        ("promise", SAID, b"no key"),
    ],
)
def test_anything_else_is_refused(label, signed, key):
    for check in (verify, verify_once):
        with pytest.raises(SignatureBroken):
            check(label, signed, key)


def test_what_is_checked_once_drives_nothing_out():
    verify("promise", SAID, ME.public_key)
    before = signing._check_short.cache_info()
    for number in range(600):
        assert verify_once("promise", ME.sign("promise", Word(said=str(number))), ME.public_key)
    assert signing._check_short.cache_info() == before
    verify("promise", SAID, ME.public_key)
    assert signing._check_short.cache_info().hits == before.hits + 1


def test_a_flipped_bit_anywhere_breaks_the_signature():
    for bit in range(512):
        flipped = (int.from_bytes(SAID.signature, "big") ^ (1 << bit)).to_bytes(64, "big")
        with pytest.raises(SignatureBroken):
            verify("promise", SAID.model_copy(update={"signature": flipped}), ME.public_key)


def test_identities_are_stored_as_32_bytes():
    again = Identity.from_bytes(ME.to_bytes())
    assert again.public_key == ME.public_key
    assert again.fingerprint == fingerprint(ME.public_key)
    assert ME.fingerprint == hashlib.sha256(ME.public_key).digest()
    assert Identity.generate().public_key != Identity.generate().public_key


def test_a_secret_is_not_shown():
    assert ME.to_bytes().hex() not in repr(ME)
