"""Signatures belong to one statement, one purpose and one key."""

import hashlib
from typing import Literal

import pytest

from tacit.crypto import signing
from tacit.crypto.signing import (
    Identity,
    SignatureBroken,
    Signed,
    checks_made,
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
    said = [ME.sign("promise", Word(said=str(number))) for number in range(600)]
    signing._HELD._held.clear()
    before = checks_made()
    verify("promise", SAID, ME.public_key)
    assert checks_made() == before + 1
    for each in said:
        assert verify_once("promise", each, ME.public_key)
    assert (len(signing._HELD._held), checks_made()) == (1, before + 601)
    verify("promise", SAID, ME.public_key)
    assert checks_made() == before + 601


def test_what_held_or_was_signed_here_is_not_checked_again_and_what_failed_is():
    """The own signature counts as checked, for its very bytes, purpose and key only."""
    other = Identity.from_bytes(bytes(range(1, 33)))
    before = checks_made()
    own = other.sign("promise", Word(said="mine"))
    assert verify("promise", own, other.public_key).said == "mine"
    assert checks_made() == before
    lies = [
        ("threat", own, other.public_key),
        ("promise", own, ME.public_key),
        ("promise", own.model_copy(update={"statement": Word(said="yours")}), other.public_key),
        ("promise", own.model_copy(update={"signature": SAID.signature}), other.public_key),
    ]
    for label, signed, key in lies * 2:
        with pytest.raises(SignatureBroken):
            verify(label, signed, key)
    assert checks_made() == before + 2 * len(lies)


def test_few_signatures_are_kept_and_no_long_ones(monkeypatch):
    held = signing._Held(3)
    monkeypatch.setattr(signing, "_HELD", held)
    for number in range(10):
        signed = ME.sign("promise", Word(said=str(number)))
        assert verify("promise", signed, ME.public_key)
        assert 1 <= len(held._held) <= 3
    kept, before = dict(held._held), checks_made()
    long = ME.sign("promise", Word(said="x" * signing.SHORT_BYTES))
    for _ in range(2):
        assert verify("promise", long, ME.public_key)
    assert (held._held, checks_made()) == (kept, before + 2)


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
