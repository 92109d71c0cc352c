"""The table implies its integer weights exactly and draws as they say, ties included."""

from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from common.noise.alias import AliasTable, decay, integer_weights
from common.randomness import SeededRandom

ALARM = 1e-6
"""Chi-square rate; the seeds are fixed, so a pass stays a pass."""


class Words:
    """A source whose words are chosen by the test."""

    def __init__(self, *words):
        self.left = list(words)

    def words(self, count):
        head, self.left = self.left[:count], self.left[count:]
        assert len(head) == count, "more words were drawn than foreseen"
        return np.array(head, dtype=np.uint64)


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

    class Counting:
        asked = 0

        def words(self, count):
            self.asked += count
            return inner.words(count)

    inner, source = SeededRandom(1), Counting()
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


def test_no_draw():
    assert AliasTable.from_law([Decimal(1), Decimal(2)]).draw(SeededRandom(1), 0).shape == (0,)
