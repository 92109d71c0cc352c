"""What every word of a share's source decides, on tables small enough to follow by hand."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from tacit.noise.alias import BLOCK, PRECISE, AliasTable
from tacit.noise.discrete_laplace import DiscreteLaplace
from tacit.noise.polya import (
    PolyaShare,
    ShareTables,
    _dropping,
    _poisson,
    add_jumps,
    power_ratio_coins,
    share_tables,
)
from tacit.randomness import SeededRandom
from tests.tacit.noise.words import Words

LAST = (1 << 64) - 1
ANY = 1 << 40
"""A word that ties with no entry of the tables below."""


def always(entry: int) -> AliasTable:
    """A table of 16 entries that draws this one, whatever the word."""
    return AliasTable.from_law([Decimal(int(place == entry)) for place in range(16)])


def tables(
    proposals: int, bucket: int, high: np.ndarray | None = None, low: np.ndarray | None = None
) -> ShareTables:
    """So many proposals for every share, all in one bucket; nothing is dropped by default."""
    none = np.zeros((2, 256), np.uint64)
    return ShareTables(
        Fraction(1),
        always(proposals),
        always(bucket),
        none if high is None else high,
        none if low is None else low,
    )


def jumps(found: ShareTables, shares: int, *words: int) -> list[int]:
    """What `shares` shares are with these words, none of which is left."""
    total = np.zeros(shares, np.int64)
    source = Words(*words)
    add_jumps(total, found, source)  # type: ignore[arg-type]
    assert source.left == []
    return total.tolist()


def test_a_share_without_proposals_draws_no_further_words() -> None:
    assert jumps(tables(0, 3), 4, *[ANY] * 4) == [0, 0, 0, 0]


def test_a_jump_is_its_power_and_the_low_bits_of_its_word() -> None:
    """Bucket 3: 8 + the low three bits; the high bit is the sign. Word by word: proposals, then
    for each of them bucket, offset and sign, power ratio, and two thinning digits."""
    for offset, sign, jump in ((0, 0, 8), (5, 0, 13), (5, 1, -13), (8 + 7, 0, 15)):
        assert jumps(tables(1, 3), 1, ANY, ANY, sign << 63 | offset, 0, LAST, LAST) == [jump]
    assert jumps(tables(1, 0), 1, ANY, ANY, 1 << 63 | 7, 0, LAST, LAST) == [-1]


def test_jumps_add_up_at_their_owners() -> None:
    """Two proposals for each of two shares: rows of four words, in the order of the owners."""
    signs = [1, 2, 1 << 63 | 3, 4]
    assert jumps(tables(2, 3), 2, ANY, ANY, *[ANY] * 4, *signs, *[0] * 4, *[LAST] * 8) == [
        8 + 1 + 8 + 2,
        -(8 + 3) + 8 + 4,
    ]


def test_a_jump_whose_power_ratio_coin_fails_is_not_made() -> None:
    """8 / 13 = 0.615: a word of a half keeps the jump, one of two thirds does not."""
    for word, jump in ((1 << 63, 13), ((1 << 65) // 3, 0)):
        assert jumps(tables(1, 3), 1, ANY, ANY, 5, word, LAST, LAST) == [jump]


def test_every_place_thins_by_its_own_digit() -> None:
    """Bucket 9: 512 + an offset of two digits, the low one 3, the high one 1."""
    for place, digit in ((0, 3), (1, 1)):
        high = np.zeros((2, 256), np.uint64)
        high[place, digit] = 1000
        low = np.full((2, 256), 5, np.uint64)
        found = tables(1, 9, high, low)
        for word, rest, kept in ((999, (), False), (1000, (4,), False), (1000, (5,), True)):
            row = [LAST, LAST]
            row[place] = word
            expected = [512 + 256 + 3] if kept else [0]
            assert jumps(found, 1, ANY, ANY, 256 + 3, 0, *row, *rest) == expected
        assert jumps(found, 1, ANY, ANY, 256 + 3, 0, 1001, 1001) == [512 + 256 + 3]


def test_32_bits_of_a_word_are_compared() -> None:
    """2/3 = 0.1010...: these bits tie, and the next word continues."""
    powers, sizes = np.array([2], np.uint64), np.array([3], np.uint64)
    first = (2 << 32) // 3
    for low in (0, (1 << 32) - 1):
        for rest, kept in ((LAST // 3, True), (LAST // 3 * 2 + 2, False)):
            source = Words(rest)
            words = np.array([first << 32 | low], np.uint64)
            found = power_ratio_coins(powers, sizes, words, source)  # type: ignore[arg-type]
            assert found.tolist() == [kept]
            assert source.left == []


def test_the_bucket_is_chosen_by_its_own_word() -> None:
    even = AliasTable.from_law([Decimal(1)] * 16)
    found = ShareTables(
        Fraction(1), always(1), even, np.zeros((2, 256), np.uint64), np.zeros((2, 256), np.uint64)
    )
    assert jumps(found, 1, ANY, ANY | 6, 0, 0, LAST, LAST - 15) == [64]
    assert len({found, tables(1, 1), found}) == 2


def test_a_ratio_of_one_half_is_decided_without_a_tie() -> None:
    """4 / 8 with two bits, target 16: u = 1 ends at it exactly, u = 2 begins at it."""
    powers, sizes = np.full(4, 4, np.uint64), np.full(4, 8, np.uint64)
    words = np.arange(4, dtype=np.uint64) << np.uint64(62)
    found = power_ratio_coins(powers, sizes, words, Words(), 2)  # type: ignore[arg-type]
    assert found.tolist() == [True, True, False, False]


def test_dropping_is_rounded_and_stays_below_one() -> None:
    unit = PRECISE.power(Decimal(2), -128)
    three = PRECISE.subtract(1, PRECISE.multiply(unit, 3))
    less = PRECISE.subtract(1, PRECISE.multiply(unit, Decimal("0.4")))
    high, low = _dropping([[Decimal(1), Decimal("0.5"), Decimal(0), three, less]])
    assert high.tolist() == [[0, 1 << 63, LAST, 0, 0]]
    assert low.tolist() == [[0, 0, LAST, 3, 0]]
    assert (high.dtype, low.dtype) == (np.uint64, np.uint64)
    assert not high.flags.writeable
    assert not low.flags.writeable


def test_poisson_terms_reach_2_to_minus_131_and_past_twice_the_mean() -> None:
    terms = _poisson(Decimal("0.5"))
    exact = [math.exp(-0.5) * 0.5**k / math.factorial(k) for k in range(len(terms))]
    assert [float(term) for term in terms] == pytest.approx(exact, rel=1e-14)
    assert terms[-1] < Decimal(2) ** -131 <= terms[-2]
    # A mean so large that the first terms are below the cut, too.
    many = _poisson(Decimal(200))
    assert many[0] < Decimal(2) ** -131
    assert len(many) > 400
    total = Decimal(0)
    for term in many:
        total = PRECISE.add(total, term)
    assert abs(PRECISE.subtract(total, 1)) < Decimal("1e-39")
    few = _poisson(Decimal("1e-50"))
    assert len(few) == 2
    assert len(_poisson(Decimal(300))) == 601  # past twice the mean, where terms halve
    cut = PRECISE.power(Decimal(2), -131)
    for tenths in range(1, 60):
        terms = _poisson(Decimal(tenths) / 10)
        assert terms[-1] < cut <= terms[-2]


def test_the_tables_of_a_share() -> None:
    """b = 3: 2^9 is the first power that reaches 90.12 b, so that there are nine buckets."""
    found = share_tables(Fraction(3), Fraction(1, 4))
    assert found.buckets.size == 9
    assert found.thin_high.shape == found.thin_low.shape == (1, 256)
    total = sum(math.exp(-(2**j) / 3) for j in range(9))
    assert float(found.mean) == pytest.approx(total / 2, rel=1e-14)
    assert found.proposals.size == len(
        _poisson(Decimal(found.mean.numerator) / found.mean.denominator)
    )


@pytest.mark.parametrize(
    ("scale", "buckets", "places"),
    [
        ("0.01", 1, 1),
        (Fraction(200, 9012), 1, 1),
        (Fraction(200, 9012) + Fraction(1, 10**9), 2, 1),
        ("5.6", 9, 1),
        ("5.7", 10, 2),
        ("1400", 17, 2),
        ("1500", 18, 3),
        ("20000000", 31, 4),
    ],
    ids=str,
)
def test_how_many_buckets_and_places(scale: str | Fraction, buckets: int, places: int) -> None:
    """2^buckets >= 90.12 b; the largest offset has buckets - 1 bits, eight to a place."""
    found = share_tables(Fraction(scale), Fraction(1, 2))
    assert found.buckets.size == buckets
    assert len(found.thin_high) == places


def test_a_place_drops_by_the_digits_at_its_power() -> None:
    found = share_tables(Fraction(100), Fraction(1, 2))
    for place, digit in ((0, 1), (0, 255), (1, 1), (1, 3)):
        dropped = int(found.thin_high[place, digit]) / 2**64
        assert dropped == pytest.approx(-math.expm1(-digit * 256**place / 100), rel=1e-12)


@pytest.mark.parametrize(
    ("mean", "block"),
    [
        (Fraction(1), BLOCK),
        (Fraction(5, 2), BLOCK * 2 // 5),
        (Fraction(1, 2), 2 * BLOCK),
        (Fraction(1, 4), 4 * BLOCK),
        (Fraction(1, 8), 4 * BLOCK),
        (Fraction(0), 4 * BLOCK),
        (Fraction(10**9), 1),
    ],
    ids=str,
)
def test_a_block_holds_about_as_many_proposals(mean: Fraction, block: int) -> None:
    none = np.zeros((1, 256), np.uint64)
    assert ShareTables(mean, always(0), always(0), none, none).block == block


def test_the_stated_distance() -> None:
    """Entries of the proposals, and for (mean + 1) proposals buckets and two of each place."""
    none = np.zeros((2, 256), np.uint64)
    found = ShareTables(Fraction(3), always(0), always(0), none, none)
    assert found.distance() == Fraction(16 + 4 * (16 + 2 * 2), 2**129) + Fraction(1, 2**128)
    laplace = Fraction(1, 2**118)
    part = share_tables(Fraction(3), Fraction(1, 4)).distance()
    assert PolyaShare(Fraction(3), Fraction(2)).distance() == 2 * laplace
    assert PolyaShare(Fraction(3), Fraction(1, 4)).distance() == part
    assert PolyaShare(Fraction(3), Fraction(9, 4)).distance() == 2 * laplace + part


def test_a_weight_is_whole_laplaces_and_a_part() -> None:
    """The same words as the laws drawn one after another."""
    scale = Fraction(3)
    source = SeededRandom(1)
    expected = sum(DiscreteLaplace(scale).draw(source, 100) for _ in range(2))
    found = SeededRandom(1)
    assert np.array_equal(PolyaShare(scale, Fraction(2)).draw(found, 100), expected)
    assert found.words(1) == source.words(1)
    source, found = SeededRandom(1), SeededRandom(1)
    expected = sum(DiscreteLaplace(scale).draw(source, 100) for _ in range(2))
    expected += PolyaShare(scale, Fraction(1, 4)).draw(source, 100)
    assert np.array_equal(PolyaShare(scale, Fraction(9, 4)).draw(found, 100), expected)


def test_shares_of_several_blocks_are_all_drawn() -> None:
    """A mean of some 4.6: two blocks and one share more."""
    share = PolyaShare(Fraction(3), Fraction(99, 100))
    block = share_tables(Fraction(3), Fraction(99, 100)).block
    drawn = share.draw(SeededRandom(2), 2 * block + 500)
    source, parts = SeededRandom(2), []
    for size in (block, block, 500):
        parts.append(share.draw(source, size))
    assert np.array_equal(drawn, np.concatenate(parts))
    assert drawn[-500:].any()
    assert drawn[:block].any()


def test_what_a_share_refuses() -> None:
    with pytest.raises(ValueError, match="scale"):
        PolyaShare(Fraction(0), Fraction(1, 2))
    with pytest.raises(TypeError, match="weight"):
        PolyaShare(Fraction(1), 0.5)  # type: ignore[arg-type]
    for weight in (Fraction(0), Fraction(-1, 2)):
        with pytest.raises(ValueError, match="weight"):
            PolyaShare(Fraction(1), weight)
