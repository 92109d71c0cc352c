"""X-Wing through the library's HPKE: the official vector, and bytes that are no key or no seal."""

import hashlib
import json
from pathlib import Path

import pytest
from cryptography.hazmat.bindings._rust import openssl
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, MLKEM768X25519PrivateKey, Suite
from hypothesis import given
from hypothesis import strategies as st

from tacit.crypto.sealing import (
    ENCAPSULATION_BYTES,
    PUBLIC_KEY_BYTES,
    SealBroken,
    SealKey,
    SealKeyMalformed,
    SealPublicKey,
    key_hash,
)
from tests.property_examples import examples

VECTOR = Path(__file__).parents[4] / "shared" / "data" / "keys" / "hpke_pq_xwing.json"
KEY = SealKey(bytes(range(32)))


@pytest.mark.skipif(not VECTOR.exists(), reason="the official vectors are not here")
def test_the_working_groups_vector_opens_with_a_key_made_as_ours() -> None:
    """It pins what the library computes: KEM 0x647a with the key schedule of RFC 9180."""
    found = next(item for item in json.loads(VECTOR.read_text()) if item["kdf_id"] == 1)
    assert found["kem_id"] == 0x647A
    key = SealKey(bytes.fromhex(found["skRm"]))
    assert key.public.raw == bytes.fromhex(found["pkRm"])
    suite = Suite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
    first = found["encryptions"][0]
    sealed = bytes.fromhex(found["enc"]) + bytes.fromhex(first["ct"])
    plain = openssl.hpke._decrypt_with_aad(
        suite, sealed, key._key, bytes.fromhex(found["info"]), bytes.fromhex(first["aad"])
    )
    assert plain == bytes.fromhex(first["pt"])


@examples(30)
@given(st.binary(max_size=100), st.binary(max_size=100))
def test_what_is_sealed_opens_under_the_same_info_only(plain: bytes, info: bytes) -> None:
    sealed = KEY.public.seal(plain, info)
    assert len(sealed) == len(plain) + ENCAPSULATION_BYTES + 16
    assert KEY.open(sealed, info) == plain
    with pytest.raises(SealBroken):
        KEY.open(sealed, info + b"x")


@pytest.mark.parametrize("place", [0, 500, 1087, 1088, 1119, 1120, 1151, 1152, 1167])
def test_one_bit_anywhere_breaks_the_seal(place: int) -> None:
    """In ML-KEM's ciphertext, X25519's key, the text, the tag."""
    sealed = bytearray(KEY.public.seal(bytes(32), b"here"))
    sealed[place] ^= 1
    with pytest.raises(SealBroken):
        KEY.open(bytes(sealed), b"here")


def test_another_keys_half_does_not_open_it() -> None:
    """The right X25519 with the wrong ML-KEM, and the reverse: each half alone is not enough."""
    mine, other = _halves(bytes(range(32))), _halves(bytes(32))
    sealed = KEY.public.seal(b"secret", b"")
    for halves in ((mine[0], other[1]), (other[0], mine[1])):
        mixed = SealKey(bytes(range(32)))
        mixed._key = MLKEM768X25519PrivateKey(*halves)
        with pytest.raises(SealBroken):
            mixed.open(sealed, b"")
    with pytest.raises(SealBroken):
        KEY.open(sealed[:-1], b"")
    with pytest.raises(SealBroken):
        KEY.open(b"", b"")


def _halves(seed: bytes) -> tuple[MLKEM768PrivateKey, X25519PrivateKey]:
    expanded = hashlib.shake_256(seed).digest(96)
    return (
        MLKEM768PrivateKey.from_seed_bytes(expanded[:64]),
        X25519PrivateKey.from_private_bytes(expanded[64:]),
    )


@pytest.mark.parametrize(
    "raw",
    [b"", bytes(PUBLIC_KEY_BYTES - 1), KEY.public.raw + b"\x00", b"\xff" * PUBLIC_KEY_BYTES],
    ids=["nothing", "a byte less", "a byte more", "coefficients above q"],
)
def test_other_bytes_are_no_key(raw: bytes) -> None:
    with pytest.raises(SealKeyMalformed):
        SealPublicKey(raw)


def test_nobody_seals_to_an_x25519_half_of_zeros() -> None:
    key = SealPublicKey(KEY.public.raw[:1184] + bytes(32))
    with pytest.raises(SealBroken):
        key.seal(b"secret", b"")


def test_a_sender_of_an_x25519_half_of_zeros_is_refused() -> None:
    sealed = bytearray(KEY.public.seal(b"secret", b""))
    sealed[1088:1120] = bytes(32)
    with pytest.raises(SealBroken):
        KEY.open(bytes(sealed), b"")


def test_the_hash_names_the_key() -> None:
    assert SealPublicKey(KEY.public.raw).hash == key_hash(KEY.public.raw) == KEY.public.hash
    assert SealKey(SealKey.new_seed()).public.hash != KEY.public.hash
    with pytest.raises(ValueError, match="32 bytes"):
        SealKey(bytes(31))
