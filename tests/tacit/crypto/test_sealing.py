"""Seals open in one place only, and nothing but SealBroken leaves the readers of foreign bytes.

X-Wing through the library's HPKE: the official vector, and bytes that are no key or no seal.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import struct
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.bindings._rust import openssl
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, MLKEM768X25519PrivateKey, Suite
from hypothesis import given
from hypothesis import strategies as st

from tacit import sets
from tacit.crypto.sealing import (
    ENCAPSULATION_BYTES,
    MAX_SEGMENT,
    NONCE_BYTES,
    PUBLIC_KEY_BYTES,
    SEGMENT_BYTES,
    TAG_BYTES,
    BatchHeader,
    PartHeader,
    SealBroken,
    SealKey,
    SealKeyMalformed,
    SealPublicKey,
    Span,
    key_hash,
    length_prefixed,
    open_batch,
    open_octets,
    open_part,
    open_words,
    read_batch_header,
    read_part_header,
    seal_batch,
    seal_octets,
    seal_part,
    seal_words,
    segment_size,
    span_within,
    spans,
)
from tacit.protocol.sealing_sessions import piece_context
from tests.property_examples import examples

KEY = bytes(range(32))
PLACE = (b"d" * 32, "meter-1", "north", 0, 3)
WORDS = np.array([0, 1, 2**64 - 1], np.uint64)
SESSION = bytes(range(16))


@given(st.lists(st.binary(max_size=4), max_size=4), st.lists(st.binary(max_size=4), max_size=4))
def test_length_prefixes_keep_sequences_apart(one, two):
    assert (length_prefixed(*one) == length_prefixed(*two)) == (one == two)


def test_a_length_takes_four_octets():
    assert length_prefixed(b"one", b"") == b"\x00\x00\x00\x03one" + bytes(4)


# --- single pieces -------------------------------------------------------------------------------


def test_words_are_little_endian_and_of_fixed_width():
    sealed = {len(seal_words(KEY, np.array([v], np.uint64), b"")[1]) for v in (0, 2**64 - 1)}
    assert sealed == {8 + TAG_BYTES}
    swapped = WORDS.astype(">u8")
    nonce, body = seal_words(KEY, swapped, b"")
    assert open_words(KEY, nonce, body, b"").tolist() == WORDS.tolist()
    strided = np.arange(12, dtype=np.uint64).reshape(3, 4)[:, 1]
    nonce, body = seal_words(KEY, strided, b"")
    assert open_words(KEY, nonce, body, b"").tolist() == [1, 5, 9]


def test_each_seal_has_a_fresh_nonce():
    assert len({seal_words(KEY, WORDS, b"")[0] for _ in range(100)}) == 100


@pytest.mark.parametrize(
    ("field", "value"),
    [(0, b"e" * 32), (1, "meter-2"), (2, "south"), (3, 1), (4, 4)],
    ids=["round", "curator", "aggregator", "share index", "dimension"],
)
def test_a_readdressed_piece_does_not_open(field, value):
    nonce, sealed = seal_words(KEY, WORDS, piece_context(*PLACE))
    place = [*PLACE]
    place[field] = value
    with pytest.raises(SealBroken):
        open_words(KEY, nonce, sealed, piece_context(*place))


def test_neighbouring_fields_of_a_place_cannot_flow_together():
    assert piece_context(b"", "a", "bc", 1, 23) != piece_context(b"", "ab", "c", 12, 3)


@given(st.data())
def test_flipped_and_truncated_pieces_do_not_open(data):
    context = piece_context(*PLACE)
    nonce, sealed = seal_words(KEY, WORDS, context)
    parts = [bytearray(KEY), bytearray(nonce), bytearray(sealed), bytearray(context)]
    which = data.draw(st.integers(0, 3))
    at = data.draw(st.integers(0, len(parts[which]) - 1))
    if data.draw(st.booleans()):
        parts[which][at] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del parts[which][at:]
    key, nonce, sealed, context = map(bytes, parts)
    with pytest.raises(SealBroken):
        open_words(key, nonce, sealed, context)


def test_content_that_is_no_whole_number_of_words():
    nonce = bytes(NONCE_BYTES)
    odd = AESGCM(KEY).encrypt(nonce, b"thirteen byte", b"")
    with pytest.raises(SealBroken):
        open_words(KEY, nonce, odd, b"")
    body = BODY[:FIXED]
    odd = AESGCM(KEY).encrypt(body[-NONCE_BYTES:], b"thirteen byte", body)
    with pytest.raises(SealBroken):
        open_batch(KEY, body + odd, FIXED)


# --- segments and spans --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("d", "size"),
    [
        (1, 262_144),
        (2, 131_072),
        (96, 2048),
        (2048, 128),
        (2049, 64),
        (4096, 64),
        (65_536, 64),
        (65_537, 32),
        (131_072, 32),
        (131_073, 16),
        (1_000_000, 8),
    ],
)
def test_segment_sizes(d, size):
    assert segment_size(d) == size
    if d > 65_536:
        assert 8 * d * size <= 64 * 10**6
    elif size > 64:
        assert 8 * d * size <= SEGMENT_BYTES and (size == MAX_SEGMENT or 16 * d * size > 2**21)


@given(st.integers(0, 5000), st.integers(0, 5000), st.sampled_from([8, 64, 1024]))
def test_spans_cut_a_run_along_segments(first, length, size):
    cut = spans(first, length, size)
    numbers = [n for span in cut for n in range(span.first, span.first + span.length)]
    assert numbers == list(range(first, first + length))
    for span in cut:
        assert span.length >= 1
        assert span.first // size == span.segment == (span.first + span.length - 1) // size
    assert len({span.segment for span in cut}) == len(cut)


@given(
    st.integers(0, 5000),
    st.integers(0, 5000),
    st.sampled_from([8, 64, 1024]),
    st.integers(0, 200),
)
def test_a_span_within_a_segment_is_one_of_the_runs_spans_or_none(first, length, size, segment):
    cut = {span.segment: span for span in spans(first, length, size)}
    assert span_within(first, length, size, segment) == cut.get(segment)


def test_a_run_of_one_number_and_one_that_ends_with_a_segments_first():
    assert spans(5, 1, 64) == [Span(0, 5, 1)]
    assert spans(0, 65, 64) == [Span(0, 0, 64), Span(1, 64, 1)]
    assert spans(64, 64, 64) == [Span(1, 64, 64)]
    assert spans(64, 0, 64) == []


# --- batches, and parts of proved rounds ----------------------------------------------------------

D = 4096  # segments of 64 numbers, so that small spans have neighbours
SEGMENT = 4096
PRESENT = sets.pack(np.array([True, False, True] + [False] * 7))
HEADER = BatchHeader("gateway-1", b"d" * 32, 2, 0, Span(3, 192, 10), D, SESSION, PRESENT)
BATCH_WORDS = np.arange(2 * D, dtype=np.uint64).reshape(2, D)
BODY = seal_batch(KEY, HEADER, BATCH_WORDS)
PLAIN = bytes(range(77))
PART = PartHeader("gateway-1", b"d" * 32, 2, 1, Span(3, 12_288, 10), len(PLAIN), SESSION, PRESENT)
PART_BODY = seal_part(KEY, PART, PLAIN)
FIXED = 88
CONTEXT = FIXED + len("gateway-1") + 2
LAYOUT = struct.Struct("<4s32sBHIIIII16sB12s")
NAMES = (
    "magic",
    "digest",
    "share",
    "part",
    "segment",
    "first",
    "length",
    "count",
    "size",
    "session",
)


def receive(body, key=KEY):
    """What an aggregator does with a body."""
    header, offset = read_batch_header(body)
    return header, open_batch(key, body, offset)


def receive_part(body, key=KEY):
    header, offset = read_part_header(body, SEGMENT)
    return header, open_part(key, body, offset)


SEALED = {"batch": (BODY, receive), "part": (PART_BODY, receive_part)}
both = pytest.mark.parametrize(("sealed", "take"), SEALED.values(), ids=SEALED)


def test_octets_come_back():
    nonce, sealed = seal_octets(KEY, PLAIN, b"place")
    assert open_octets(KEY, nonce, sealed, b"place") == PLAIN
    with pytest.raises(SealBroken):
        open_octets(KEY, nonce, sealed, b"another")


def test_a_batch_and_a_part_come_back():
    header, words = receive(BODY)
    assert header == HEADER
    assert header.count == PART.count == 2
    assert (words == BATCH_WORDS.ravel()).all()
    assert len(BODY) == CONTEXT + 8 * 2 * D + TAG_BYTES
    assert receive_part(PART_BODY) == (PART, PLAIN)
    assert len(PART_BODY) == CONTEXT + len(PLAIN) + TAG_BYTES


def test_the_layout_of_a_part_is_that_of_the_specification():
    fields = LAYOUT.unpack_from(PART_BODY)
    assert fields[:-1] == (
        b"TCB1", b"d" * 32, 2, 1, 3, 12_288, 10, 2, len(PLAIN), SESSION, len("gateway-1")
    )  # fmt: skip
    assert PART_BODY[FIXED:CONTEXT] == b"gateway-1" + PRESENT
    plain = AESGCM(KEY).decrypt(fields[-1], PART_BODY[CONTEXT:], PART_BODY[:CONTEXT])
    assert plain == PLAIN


def test_each_is_fresh_bound_to_its_key_and_as_long_as_it_says():
    assert seal_batch(KEY, HEADER, BATCH_WORDS) != BODY
    assert seal_part(KEY, PART, PLAIN) != PART_BODY
    for sealed, take in SEALED.values():
        with pytest.raises(SealBroken):
            take(sealed, bytes(32))
    with pytest.raises(ValueError):
        seal_batch(KEY, HEADER, BATCH_WORDS[:1])
    with pytest.raises(ValueError):
        seal_part(KEY, PART, PLAIN[1:])
    for name in (b"", bytes(15), bytes(17)):
        with pytest.raises(ValueError):
            seal_batch(KEY, dataclasses.replace(HEADER, sealed_under=name), BATCH_WORDS)
        with pytest.raises(ValueError):
            seal_part(KEY, dataclasses.replace(PART, sealed_under=name), PLAIN)


@both
def test_every_bit_of_header_host_and_presence_is_protected(sealed, take):
    for at in range(CONTEXT):
        for bit in range(8):
            body = bytearray(sealed)
            body[at] ^= 1 << bit
            with pytest.raises(SealBroken):
                take(bytes(body))


@both
@given(data=st.data())
def test_content_and_length_are_protected(sealed, take, data):
    body = bytearray(sealed)
    body[data.draw(st.integers(CONTEXT, len(sealed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    length = data.draw(st.integers(0, len(sealed) - 1))
    for wrong in (bytes(body), sealed[:length], sealed + sealed[: length + 1]):
        with pytest.raises(SealBroken):
            take(wrong)


@both
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("digest", b"e" * 32), ("share", 1), ("part", 7), ("segment", 4), ("first", 200)],
        *[("first", 12_296), ("length", 11), ("length", 16), ("length", 0), ("length", 2**32 - 1)],
        *[("count", 1), ("count", 0), ("count", 2**32 - 1), ("size", 0), ("size", D // 2)],
        *[("size", 2**32 - 1), ("session", bytes(16))],
    ],
)
def test_manipulated_headers_are_refused(sealed, take, name, value):
    fields = list(LAYOUT.unpack_from(sealed))
    fields[NAMES.index(name)] = value
    with pytest.raises(SealBroken):
        take(LAYOUT.pack(*fields) + sealed[FIXED:])


def sent(header):
    """What an aggregator makes of a batch or part with this header."""
    if isinstance(header, PartHeader):
        return receive_part(seal_part(KEY, header, PLAIN))
    return receive(seal_batch(KEY, header, np.zeros(header.count * header.dimension, np.uint64)))


@pytest.mark.parametrize(("header", "size"), [(HEADER, 64), (PART, SEGMENT)], ids=SEALED)
def test_even_the_host_itself_cannot_send_what_is_misplaced(header, size):
    first = header.span.first
    for change in (
        {"span": Span(4, first, 10)},  # numbers of another segment than the header's
        {"span": Span(3, first + size - 8, 10)},  # runs over into the next segment
        {"span": Span(3, first + 1, 10)},  # not whole bytes in
        {"host": ""},
        {"host": "gäteway"},
        {"presence": b"\x01\x04"},  # a bit beyond the span
        {"presence": bytes(2)},  # nobody
        {"span": Span(3, first, size + 1), "presence": b"\x01" + bytes(size // 8)},
        *([{"span": Span(0, 192, 10), "dimension": 0}] if header is HEADER else []),
    ):
        moved = dataclasses.replace(header, **change)
        with pytest.raises(SealBroken):
            sent(moved)


def test_a_segment_may_be_filled_and_neither_is_the_other():
    full = dataclasses.replace(HEADER, span=Span(3, 192, 64), presence=b"\x81" + bytes(6) + b"\x80")
    header, words = receive(seal_batch(KEY, full, np.arange(3 * D, dtype=np.uint64)))
    assert (header, words.size) == (full, 3 * D)
    thin = dataclasses.replace(HEADER, span=Span(0, 192, 10), dimension=1)
    header, words = receive(seal_batch(KEY, thin, np.array([4, 5], np.uint64)))
    assert (header, words.tolist()) == (thin, [4, 5])
    whole = dataclasses.replace(PART, span=Span(3, 12_288, 4096), presence=b"\xff" * 512)
    assert receive_part(seal_part(KEY, whole, PLAIN)) == (whole, PLAIN)
    with pytest.raises(SealBroken):
        receive(PART_BODY)
    with pytest.raises(SealBroken):
        receive_part(BODY)


@both
def test_a_body_with_another_mark_is_refused_though_its_seal_opens(sealed, take):
    fields = list(LAYOUT.unpack_from(sealed))
    fields[0] = b"TCB2"
    context = LAYOUT.pack(*fields) + sealed[FIXED:CONTEXT]
    plain = AESGCM(KEY).decrypt(fields[-1], sealed[CONTEXT:], sealed[:CONTEXT])
    with pytest.raises(SealBroken, match="not a"):
        take(context + AESGCM(KEY).encrypt(fields[-1], plain, context))


FIELDS = st.tuples(
    st.sampled_from([b"TCB1", b"TCB2"]),
    st.just(b"d" * 32),
    st.integers(0, 255),
    st.integers(0, 2**16 - 1),
    *[st.one_of(st.integers(0, 70), st.integers(0, 2**32 - 1))] * 5,
    st.binary(min_size=16, max_size=16),
    st.integers(0, 255),
    st.just(bytes(12)),
)


@given(FIELDS, st.binary(max_size=300), st.integers(0, 300), st.binary(max_size=40))
def test_no_other_error_leaves_the_readers(fields, rest, offset, key):
    for body in (rest, LAYOUT.pack(*fields) + rest):
        for take in (receive, receive_part):
            with pytest.raises(SealBroken):
                take(body)
        with pytest.raises(SealBroken):
            open_batch(key, body, offset)


@given(st.integers(0, 20), st.integers(0, 3), st.integers(0, 3), st.data())
def test_no_other_error_leaves_the_readers_for_bodies_of_the_right_length(length, n, d, data):
    """Bodies that get past the check of lengths, with any content."""
    size = 3 + (length + 7) // 8 + 8 * n * d + TAG_BYTES
    fixed = LAYOUT.pack(b"TCB1", b"d" * 32, 0, 0, 0, 0, length, n, d, SESSION, 3, bytes(12))
    body = fixed + data.draw(st.binary(min_size=size, max_size=size))
    with pytest.raises(SealBroken):
        receive(body)


VECTOR = Path(__file__).parents[4] / "shared" / "data" / "keys" / "hpke_pq_xwing.json"
SEAL_KEY = SealKey(bytes(range(32)))


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
    sealed = SEAL_KEY.public.seal(plain, info)
    assert len(sealed) == len(plain) + ENCAPSULATION_BYTES + 16
    assert SEAL_KEY.open(sealed, info) == plain
    with pytest.raises(SealBroken):
        SEAL_KEY.open(sealed, info + b"x")


@pytest.mark.parametrize("place", [0, 500, 1087, 1088, 1119, 1120, 1151, 1152, 1167])
def test_one_bit_anywhere_breaks_the_seal(place: int) -> None:
    """In ML-KEM's ciphertext, X25519's key, the text, the tag."""
    sealed = bytearray(SEAL_KEY.public.seal(bytes(32), b"here"))
    sealed[place] ^= 1
    with pytest.raises(SealBroken):
        SEAL_KEY.open(bytes(sealed), b"here")


def test_another_keys_half_does_not_open_it() -> None:
    """The right X25519 with the wrong ML-KEM, and the reverse: each half alone is not enough."""
    mine, other = _halves(bytes(range(32))), _halves(bytes(32))
    sealed = SEAL_KEY.public.seal(b"secret", b"")
    for halves in ((mine[0], other[1]), (other[0], mine[1])):
        mixed = SealKey(bytes(range(32)))
        mixed._key = MLKEM768X25519PrivateKey(*halves)
        with pytest.raises(SealBroken):
            mixed.open(sealed, b"")
    with pytest.raises(SealBroken):
        SEAL_KEY.open(sealed[:-1], b"")
    with pytest.raises(SealBroken):
        SEAL_KEY.open(b"", b"")


def _halves(seed: bytes) -> tuple[MLKEM768PrivateKey, X25519PrivateKey]:
    expanded = hashlib.shake_256(seed).digest(96)
    return (
        MLKEM768PrivateKey.from_seed_bytes(expanded[:64]),
        X25519PrivateKey.from_private_bytes(expanded[64:]),
    )


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        bytes(PUBLIC_KEY_BYTES - 1),
        SEAL_KEY.public.raw + b"\x00",
        b"\xff" * PUBLIC_KEY_BYTES,
    ],
    ids=["nothing", "a byte less", "a byte more", "coefficients above q"],
)
def test_other_bytes_are_no_key(raw: bytes) -> None:
    with pytest.raises(SealKeyMalformed):
        SealPublicKey(raw)


def test_nobody_seals_to_an_x25519_half_of_zeros() -> None:
    key = SealPublicKey(SEAL_KEY.public.raw[:1184] + bytes(32))
    with pytest.raises(SealBroken):
        key.seal(b"secret", b"")


def test_a_sender_of_an_x25519_half_of_zeros_is_refused() -> None:
    sealed = bytearray(SEAL_KEY.public.seal(b"secret", b""))
    sealed[1088:1120] = bytes(32)
    with pytest.raises(SealBroken):
        SEAL_KEY.open(bytes(sealed), b"")


def test_the_hash_names_the_key() -> None:
    assert (
        SealPublicKey(SEAL_KEY.public.raw).hash
        == key_hash(SEAL_KEY.public.raw)
        == SEAL_KEY.public.hash
    )
    assert SealKey(SealKey.new_seed()).public.hash != SEAL_KEY.public.hash
    with pytest.raises(ValueError, match="32 bytes"):
        SealKey(bytes(31))
