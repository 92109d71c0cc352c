"""The table implies its integer weights exactly and draws as they say, ties included."""

from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tacit.noise.alias import AliasTable, decay, decimal, integer_weights
from tacit.randomness import SeededRandom
from tests.tacit.noise.words import Counting, Recording, Words

ALARM = 1e-6
"""Chi-square rate; the seeds are fixed, so a pass stays a pass."""


UNIT = 1 << 126
"""What one of four cells holds."""


def quarters(*halves):
    """The table of four weights, in halves of a cell."""
    return AliasTable.from_weights([half * UNIT // 2 for half in halves])


def cells_of(table):
    """(threshold in halves of a cell, alias) of each cell."""
    shift, mask = table.cell_bits, len(table.packed) - 1
    return [
        (Fraction(((packed >> shift) << 64 | low) * 2, UNIT), packed & mask)
        for packed, low in zip(table.packed.tolist(), table.low.tolist(), strict=True)
    ]


def test_a_full_cell_gives_and_takes_nothing():
    assert cells_of(quarters(1, 3, 2, 2)) == [(1, 1), (0, 1), (0, 2), (0, 3)]


def test_a_donor_that_is_used_up_exactly_gives_no_more():
    assert cells_of(quarters(1, 3, 1, 3)) == [(1, 1), (0, 1), (1, 3), (0, 3)]


def test_a_donor_below_its_cell_takes_from_the_next():
    assert cells_of(quarters(1, 0, 2, 5)) == [(1, 3), (0, 3), (0, 2), (0, 3)]
    assert cells_of(quarters(5, 0, 0, 3)) == [(0, 0), (0, 0), (0, 3), (1, 0)]


@pytest.mark.parametrize(("size", "bits"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (256, 8)])
def test_cells_are_the_least_power_of_two(size, bits):
    table = AliasTable.from_law([Decimal(1)] * size)
    assert (table.size, table.cell_bits, table.comparison_bits) == (size, bits, 64 - bits)
    assert len(table.packed) == len(table.low) == 1 << bits


def test_a_comparison_takes_between_one_bit_and_the_rest_of_a_word():
    assert AliasTable.from_weights([1 << 66], 1).comparison_bits == 1
    assert AliasTable.from_weights([1 << 128], 63).comparison_bits == 63
    for weights, bits in (([1 << 65], 0), ([1 << 129], 64)):
        with pytest.raises(ValueError, match="share one word"):
            AliasTable.from_weights(weights, bits)


def test_a_law_of_nothing_is_refused():
    with pytest.raises(ValueError, match="needs an entry"):
        AliasTable.from_law([])


def test_a_word_next_to_a_threshold_is_no_tie():
    """Two full cells: thresholds 0. High part 1 takes no further word, high part 0 does."""
    table = AliasTable.from_law([Decimal(1)] * 2)
    for cell in (0, 1):
        assert table.draw(Words(1 << 1 | cell), 1).tolist() == [cell]
        source = Words(cell, 7)
        assert table.draw(source, 1).tolist() == [cell]
        assert source.left == []
    one_tie = Words(0, 2, 7)
    assert table.draw(one_tie, 2).tolist() == [0, 0]
    assert one_tie.left == []


def test_draws_are_made_by_the_block():
    table, source = AliasTable.from_law([Decimal(1)] * 2), Recording(1 << 40)
    assert table.draw(source, 20_000).shape == (20_000,)
    assert source.asked == [8192, 8192, 3616]


def test_no_words_are_no_draws():
    table = AliasTable.from_law([Decimal(1)] * 2)
    assert table.select(np.empty(0, np.uint64), Words()).shape == (0,)


def test_a_table_cannot_be_changed_and_is_its_own():
    table, other = (AliasTable.from_law([Decimal(1)] * 2) for _ in range(2))
    for array in (table.packed, table.low):
        assert not array.flags.writeable
    assert len({table, other, table}) == 2


def test_rationals_have_80_digits_and_decays_their_length():
    assert str(decimal(Fraction(1, 3))) == "0." + 80 * "3"
    assert decay(Fraction(1, 7), 1) == (1,)
    powers = decay(Fraction(1, 7), 50)
    assert len(powers) == 50
    assert float(powers[49]) == pytest.approx(np.exp(-7), rel=1e-14)


laws = st.lists(
    st.one_of(st.integers(0, 100), st.integers(0, 10**40)), min_size=1, max_size=300
).filter(any)


@given(laws, st.sampled_from([None, 4, 1]))
def test_a_table_implies_its_integer_weights_exactly(law, comparison_bits):
    table = AliasTable.from_law([Decimal(p) for p in law], comparison_bits)
    bits = table.cell_bits + table.comparison_bits + 64
    assert comparison_bits is not None or bits == 128
    assert table.weights() == integer_weights([Decimal(p) for p in law], bits)
    assert sum(table.weights()) == 1 << bits
    assert not table.packed.flags.writeable


@given(laws)
def test_integer_weights_are_within_their_rounding(law):
    weights = integer_weights([Decimal(p) for p in law])
    exact = [Fraction(p, sum(law)) * (1 << 128) for p in law]
    distance = sum(abs(w - e) for w, e in zip(weights, exact, strict=True)) / 2
    assert sum(weights) == 1 << 128 and min(weights) >= 0
    assert distance <= Fraction(len(law), 2)


@given(laws, st.data())
def test_every_threshold_decides_at_its_exact_word(law, data):
    """At u = t - 1 (128 bits, over two words) the cell is drawn, at u = t its alias."""
    table = AliasTable.from_law([Decimal(p) for p in law])
    cell = data.draw(st.integers(0, len(table.packed) - 1))
    shift, mask = table.cell_bits, len(table.packed) - 1
    packed, low = int(table.packed[cell]), int(table.low[cell])
    threshold, alias = (packed >> shift) << 64 | low, packed & mask
    for u, expected in ((threshold - 1, cell), (threshold, alias)):
        if u < 0:
            continue
        high, rest = divmod(u, 1 << 64)
        source = Words(high << shift | cell, rest)
        assert table.draw(source, 1).tolist() == [expected]


@pytest.mark.parametrize("comparison_bits", [None, 4])
@pytest.mark.parametrize("size", [1, 2, 3, 200, 256])
def test_draws_follow_the_weights(size, comparison_bits):
    law = [Decimal(1 + (7 * i) % 11) for i in range(size)]
    table = AliasTable.from_law(law, comparison_bits)
    drawn = table.draw(SeededRandom(size), 10**6)
    counts = np.bincount(drawn, minlength=size)
    expected = np.array([float(p) for p in law])
    assert drawn.dtype == np.int64 and len(counts) == size
    if size > 1:
        assert stats.chisquare(counts, expected * (10**6 / expected.sum())).pvalue > ALARM


def test_ties_are_as_frequent_as_the_comparison_is_short():
    """4 bits of comparison: one draw in 16 asks for a second word."""
    source = Counting(1)
    AliasTable.from_law([Decimal(1 + i % 7) for i in range(256)], 4).draw(source, 160_000)
    assert 9_000 < source.asked - 160_000 < 11_000


def test_an_impossible_entry_is_never_drawn():
    drawn = AliasTable.from_law([Decimal(0), Decimal(1), Decimal(0)]).draw(SeededRandom(2), 10**5)
    assert set(drawn.tolist()) == {1}


def test_the_ambient_decimal_context_does_not_matter():
    import decimal

    expected = decay(Fraction(1, 7), 50)
    with decimal.localcontext(Context(prec=5)):
        assert decay(Fraction(1, 7), 50) == expected
    exact = Context(prec=120)
    for k, value in enumerate(expected):
        reference = exact.exp(exact.divide(Decimal(-k), Decimal(7)))
        assert abs(exact.divide(exact.subtract(value, reference), reference)) < Decimal("1e-75")


@pytest.mark.parametrize(
    ("weights", "bits"), [([], None), ([1, 2], None), ([-1, (1 << 128) + 1], None), ([1], 64)]
)
def test_malformed_tables_are_refused(weights, bits):
    with pytest.raises(ValueError):
        AliasTable.from_weights(weights, bits)
