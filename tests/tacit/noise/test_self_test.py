"""The arithmetic of the samplers' check: cells, Pearson's statistic, its limit, what it draws."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tacit.noise.bits import Bernoulli
from tacit.noise.discrete_laplace import DiscreteLaplace
from tacit.noise.polya import PolyaShare
from tacit.noise.self_test import (
    FALSE_ALARM,
    SamplerCheck,
    SelfTest,
    _check,
    _half_share_cells,
    _laplace_cells,
    self_test,
)
from tacit.randomness import SeededRandom


def limit_of(freedom: int) -> float:
    """Laurent and Massart's bound for four checks at a rate of 1e-9."""
    x = math.log(4e9)
    return freedom + 2 * math.sqrt(freedom * x) + 2 * x


def test_pearsons_statistic_and_its_limit() -> None:
    """Of 100 draws 30, 30 and 40 where 25, 25 and 50 are expected: 1 + 1 + 2."""
    found = _check("three", np.array([30, 30, 40]), np.array([0.25, 0.25, 0.5]))
    assert (found.sampler, found.draws, found.statistic) == ("three", 100, 4.0)
    assert found.limit == pytest.approx(limit_of(2), rel=1e-12)


def test_a_check_passes_below_its_limit() -> None:
    below, at = SamplerCheck("x", 1, 1.5, 2.0), SamplerCheck("x", 1, 2.0, 2.0)
    assert below.passed
    assert not at.passed
    assert SelfTest((below, below)).passed
    assert not SelfTest((below, at)).passed
    assert not SelfTest((at, below)).passed


def test_cells_of_a_discrete_laplace() -> None:
    """Against sums of single masses, far into the tails; marks where a sixteenth is passed."""
    scale = 10.0
    edges, masses = _laplace_cells(scale)
    marks = sorted({math.ceil(-scale * math.log(k / 16)) for k in range(1, 16)})
    assert marks[0] == 1
    assert marks[-1] == 28
    assert edges.tolist() == [1 - mark for mark in reversed(marks)] + marks
    reach = 600
    values = np.arange(-reach, reach + 1)
    law = np.tanh(1 / (2 * scale)) * np.exp(-np.abs(values) / scale)
    cells = np.searchsorted(edges, values, side="right")
    assert masses == pytest.approx(np.bincount(cells, law, len(masses)), rel=1e-12)
    assert len(masses) == len(edges) + 1


@pytest.mark.parametrize("scale", [2.0, 10.0])
def test_cells_of_half_a_share(scale: float) -> None:
    """Against the convolution of two negative binomial laws, summed beyond the reach."""
    reach = 3
    a = math.exp(-1 / scale)
    one = [1 / math.sqrt(1 / (1 - a))]
    for k in range(1, 400):
        one.append(one[-1] * (k - 0.5) / k * a)
    law = np.convolve(one, one[::-1])  # X - Y from -399 to 399
    middle = law[399 - reach + 1 : 399 + reach]
    tail = law[: 399 - reach + 1].sum()
    found = _half_share_cells(scale, reach)
    assert found.size == 2 * reach + 1
    assert found[1:-1] == pytest.approx(middle, rel=1e-12)
    assert found[0] == found[-1] == pytest.approx(tail, rel=1e-10)


def test_what_is_drawn_and_counted() -> None:
    """50,000 words, coins of 1/3, draws of scale 1,000 and half shares of scale 3, in order."""
    source = SeededRandom(5)
    octets = source.words(50_000).view(np.uint8)
    coins = Bernoulli(Fraction(1, 3)).draw(source, 50_000)
    noise = DiscreteLaplace(Fraction(1000)).draw(source, 50_000)
    shares = PolyaShare(Fraction(3), Fraction(1, 2)).draw(source, 50_000)
    edges, masses = _laplace_cells(1000.0)
    cells = np.searchsorted(edges, noise, side="right")
    counted = [
        ("keystream", np.bincount(octets, minlength=256), np.full(256, 1 / 256)),
        ("bernoulli", np.bincount(coins), np.array([2 / 3, 1 / 3])),
        ("discrete_laplace", np.bincount(cells, minlength=31), masses),
        (
            "polya_share",
            np.array(
                [
                    (shares <= -6).sum(),
                    *((shares == z).sum() for z in range(-5, 6)),
                    (shares >= 6).sum(),
                ]
            ),
            _half_share_cells(3.0, 6),
        ),
    ]
    found = self_test(SeededRandom(5))
    assert found.passed
    assert found.false_alarm == FALSE_ALARM
    for check, (name, counts, law) in zip(found.checks, counted, strict=True):
        draws = int(counts.sum())
        statistic = (counts**2 / (law * draws)).sum() - draws
        assert (check.sampler, check.draws) == (name, draws)
        assert check.statistic == pytest.approx(statistic, rel=1e-8, abs=1e-6)
        assert check.limit == pytest.approx(limit_of(len(law) - 1), rel=1e-12)
    assert [check.draws for check in found.checks] == [400_000, 50_000, 50_000, 50_000]


def test_a_cell_that_nothing_fell_into_counts() -> None:
    """A source of zeros: every coin shows true, every word is of the first cell."""

    class Zeros:
        def words(self, count: int) -> np.ndarray:
            return np.zeros(count, np.uint64)

    found = self_test(Zeros())  # type: ignore[arg-type]
    assert not any(check.passed for check in found.checks)
    assert found.checks[0].statistic == pytest.approx(400_000 * 255, rel=1e-12)
    assert found.checks[1].statistic == pytest.approx(50_000 * 2, rel=1e-12)


def test_a_coin_that_never_shows_true_counts() -> None:
    """A source of ones: 50,000 where 33,333 and 1/3 are expected, none where the others are."""

    class Ones:
        def words(self, count: int) -> np.ndarray:
            return np.full(count, (1 << 64) - 1, np.uint64)

    found = self_test(Ones())  # type: ignore[arg-type]
    assert found.checks[1].statistic == pytest.approx(25_000, rel=1e-9)
