"""What is wrapped opens in its place only; the cache of sessions is bounded and shows no key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.seal_keys import WRAPPED_BYTES, HeldSession, SessionCache, Wrapping
from tacit.crypto.sealing import SealBroken

KEY, SECRET = bytes(range(32)), bytes(range(32, 64))
PLACE = (KEY, "north", 7, b"h" * 32)


def test_a_secret_comes_back_under_its_name() -> None:
    wrapped = Wrapping(*PLACE).wrap("seed", SECRET)
    assert len(wrapped) == WRAPPED_BYTES
    assert SECRET not in wrapped
    assert Wrapping(*PLACE).unwrap("seed", wrapped) == SECRET
    assert Wrapping(*PLACE).wrap("seed", SECRET) != wrapped


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ((bytes(32), *PLACE[1:]), "seed"),
        ((KEY, "south", *PLACE[2:]), "seed"),
        ((KEY, "north", 8, b"h" * 32), "seed"),
        ((KEY, "north", 7, b"g" * 32), "seed"),
        (PLACE, "verification secret"),
        (PLACE, "session seed"),
        (PLACE, ""),
    ],
)
def test_it_opens_nowhere_else(place: tuple[bytes, str, int, bytes], name: str) -> None:
    wrapped = Wrapping(*PLACE).wrap("seed", SECRET)
    with pytest.raises(SealBroken):
        Wrapping(*place).unwrap(name, wrapped)


@given(st.integers(0, WRAPPED_BYTES - 1), st.integers(0, 7))
def test_every_bit_is_protected(at: int, bit: int) -> None:
    wrapped = bytearray(Wrapping(*PLACE).wrap("seed", SECRET))
    wrapped[at] ^= 1 << bit
    with pytest.raises(SealBroken):
        Wrapping(*PLACE).unwrap("seed", bytes(wrapped))


@given(st.binary(max_size=WRAPPED_BYTES - 1))
def test_what_is_shorter_opens_nothing(wrapped: bytes) -> None:
    with pytest.raises(SealBroken):
        Wrapping(*PLACE).unwrap("seed", wrapped)


def test_the_cache_keeps_the_last_sessions_of_each_party() -> None:
    cache = SessionCache(2)
    held = [HeldSession(bytes([n]) * 16, SECRET, bytes(60)) for n in range(3)]
    for party, session in enumerate(held):
        cache.put(party, session)
    assert cache.get(0, held[0].id) is None
    assert cache.get(1, held[1].id) is held[1]
    assert cache.get(1, held[2].id) is None
    assert cache.get(2, held[2].id) is held[2]


def test_no_key_is_shown() -> None:
    session = HeldSession(bytes(16), SECRET, bytes(60))
    assert repr(SECRET) not in repr(session)
    assert KEY.hex() not in repr(Wrapping(*PLACE)) and repr(KEY) not in repr(Wrapping(*PLACE))
