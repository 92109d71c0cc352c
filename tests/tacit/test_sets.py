"""Bitmaps of roster numbers, against Python's sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit import sets

SIZES = st.integers(0, 70)


def bitmap(size, members):
    bits = np.zeros(size, np.bool_)
    bits[list(members)] = True
    return sets.pack(bits)


def members(packed, size):
    return set(np.flatnonzero(sets.unpack(packed, size)).tolist())


@st.composite
def families(draw):
    size = draw(st.integers(1, 70))
    numbers = st.sets(st.integers(0, size - 1))
    return size, draw(st.lists(numbers, min_size=1, max_size=4))


@given(families())
def test_operations_are_those_of_sets(family):
    size, groups = family
    packed = [bitmap(size, group) for group in groups]
    assert [members(item, size) for item in packed] == groups
    assert [sets.count(item) for item in packed] == [len(group) for group in groups]
    assert members(sets.intersection(packed), size) == set.intersection(*groups)
    assert sets.is_subset(packed[0], packed[-1]) == (groups[0] <= groups[-1])
    assert members(sets.difference(packed[0], packed[-1]), size) == groups[0] - groups[-1]
    assert {number for number in range(size) if sets.holds(packed[0], number)} == groups[0]
    assert all(len(item) == sets.byte_length(size) for item in packed)


def test_number_i_is_bit_i_mod_8_of_byte_i_div_8():
    assert bitmap(11, {0, 9}) == b"\x01\x02"


@given(SIZES, st.binary(max_size=10))
def test_only_whole_bitmaps_are_read(size, data):
    stray = int.from_bytes(data, "little") >> size
    if len(data) == sets.byte_length(size) and not stray:
        assert sets.pack(sets.unpack(data, size)) == data
    else:
        with pytest.raises(ValueError):
            sets.unpack(data, size)


def test_bitmaps_of_different_lengths_are_refused():
    with pytest.raises(ValueError):
        sets.intersection([b"\x00", b"\x00\x00"])
    with pytest.raises(ValueError):
        sets.is_subset(b"\x00", b"\x00\x00")
    with pytest.raises(ValueError):
        sets.difference(b"\x00", b"\x00\x00")
    with pytest.raises(ValueError):
        sets.intersection([])


@given(families())
def test_compressed_bitmaps_are_the_same_sets(family):
    size, groups = family
    for group in groups:
        packed = bitmap(size, group)
        assert sets.decompressed(sets.compressed(packed), size) == packed
        assert members(sets.resized(packed, size + 9), size + 9) == group
        assert sets.resized(sets.resized(packed, size + 9), size) == packed


def test_a_bitmap_is_told_by_its_length_and_stray_bits():
    for size in range(25):
        whole = sets.pack(np.ones(size, np.bool_))
        assert sets.is_bitmap(whole, size)
        assert not sets.is_bitmap(whole + b"\0", size)
        if size:
            assert not sets.is_bitmap(whole[:-1], size)
        for stray in range(size, 8 * len(whole)):
            data = bytearray(whole)
            data[stray // 8] |= 1 << stray % 8
            assert not sets.is_bitmap(bytes(data), size)
            with pytest.raises(ValueError, match="bits beyond"):
                sets.unpack(bytes(data), size)
