"""The discrete Laplace sampler against its exact law.

Chi-square checks use fixed seeds of `SeededRandom`; with fresh seeds each would fail at the rate
`ALARM` though all is well.
"""

import math
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from tacit.noise.discrete_laplace import DiscreteLaplace, fill_laplace, laplace_tables
from tacit.randomness import SeededRandom

ALARM = 1e-6
DRAWS = 10**6
SCALES = [Fraction(text) for text in ("0.5", "3", "1000", "12345.678", "10000000")]
EXACT = Context(prec=120, Emin=-(10**9), Emax=10**9)


def cells(scale: float, parts: int = 128):
    """Edges and masses of cells of roughly equal mass (single values where b is small)."""
    wanted = -scale * np.log(np.arange(1, parts) / parts)
    marks = np.unique(np.ceil(wanted).astype(np.int64))
    tails = np.exp(-marks / scale) / (1 + math.exp(-1 / scale))
    edges = np.concatenate([1 - marks[::-1], marks])
    return edges, np.diff(np.concatenate([[0], tails[::-1], 1 - tails, [1]]))


def goodness(drawn, scale: Fraction) -> float:
    edges, masses = cells(float(scale))
    counts = np.bincount(np.searchsorted(edges, drawn, side="right"), minlength=len(masses))
    assert (masses * len(drawn)).min() > 5
    return stats.chisquare(counts, masses * len(drawn)).pvalue


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_draws_follow_the_law(scale):
    drawn = DiscreteLaplace(scale).draw(SeededRandom(20), DRAWS)
    assert drawn.dtype == np.int64 and drawn.shape == (DRAWS,)
    assert goodness(drawn, scale) > ALARM


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(3)], ids=str)
def test_every_single_value_has_its_mass(scale):
    drawn = DiscreteLaplace(scale).draw(SeededRandom(21), DRAWS)
    reach = int(float(scale) * 10)
    law = DiscreteLaplace(scale).pmf(np.arange(-reach, reach + 1))
    counts = np.bincount(np.clip(drawn, -reach - 1, reach + 1) + reach + 1)
    law = np.concatenate([[(1 - law.sum()) / 2], law, [(1 - law.sum()) / 2]])
    assert stats.chisquare(counts, law * DRAWS).pvalue > ALARM


@pytest.mark.parametrize("scale", SCALES[2:], ids=str)
def test_the_low_digits_have_their_masses_too(scale):
    """|z| mod 256: a wrong digit table would hide in the coarse cells."""
    drawn = DiscreteLaplace(scale).draw(SeededRandom(22), DRAWS)
    a = math.exp(-1 / float(scale))
    residue = np.arange(256)
    one_side = a**residue / -math.expm1(-256 / float(scale))
    law = 2 * one_side - (residue == 0)
    law *= (1 - a) / (1 + a)
    counts = np.bincount(np.abs(drawn) % 256, minlength=256)
    assert law.sum() == pytest.approx(1, abs=1e-9)
    assert stats.chisquare(counts, law / law.sum() * DRAWS).pvalue > ALARM


@pytest.mark.parametrize("scale", SCALES[1:3], ids=str)
def test_the_tie_branch_follows_the_law(scale):
    """The comparison cut to 4 bits: every sixteenth digit takes a second word."""
    digits, sign = laplace_tables(scale, 4)
    drawn, source = np.empty(DRAWS, dtype=np.int64), SeededRandom(23)
    for block in np.split(drawn, 100):
        fill_laplace(block, digits, sign, source)
    assert goodness(drawn, scale) > ALARM


@pytest.mark.parametrize("scale", [*SCALES[1:], Fraction(20_000_000)], ids=str)
def test_tables_are_within_2_to_minus_120_of_the_law(scale):
    """Every digit and the sign, against weights computed independently with 120 digits."""
    digits, sign = laplace_tables(scale)
    tables = [(table, 256**place, 256) for place, table in enumerate(digits)] + [(sign, 1, 2)]
    total = Fraction(0)
    for table, step, size in tables:
        rate = EXACT.divide(
            Decimal(-step * scale.denominator), Decimal(scale.numerator)
        )  # log a^step
        law = [Fraction(EXACT.exp(EXACT.multiply(rate, Decimal(d)))) for d in range(size)]
        whole = sum(law)
        weights = table.weights()
        assert sum(weights) == 1 << 128
        distance = sum(
            abs(Fraction(w, 1 << 128) - p / whole) for w, p in zip(weights, law, strict=True)
        )
        assert distance / 2 < Fraction(1, 1 << 120)
        total += distance / 2
    # the tail: a^(256^J) <= 2^-129
    assert 256 ** len(digits) >= scale * 129 * Fraction(math.log(2))
    assert total + Fraction(1, 1 << 129) < Fraction(1, 1 << 118)


def test_a_tiny_scale_gives_no_noise():
    assert not DiscreteLaplace(Fraction("0.01")).draw(SeededRandom(3), 10**5).any()
    assert not DiscreteLaplace(Fraction(1, 10**12)).draw(SeededRandom(3), 10).any()
    small = DiscreteLaplace(Fraction("0.1")).draw(SeededRandom(3), DRAWS)
    expected = DRAWS * (1 - float(DiscreteLaplace(Fraction("0.1")).pmf(0)))
    assert 0.3 * expected < np.count_nonzero(small) < 2 * expected
