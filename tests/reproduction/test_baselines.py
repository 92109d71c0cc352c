"""The schemes' noise: fast draws against literal ones, and both against closed forms."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from reproduction.baselines import (
    Layers,
    distributed,
    exact_total,
    expected_absolute,
    literal_noise,
    local_laplace,
    orig,
    paste,
    paste_dlpa,
    privada,
    sampling_error,
    this_work,
    total_noise,
)
from tacit.accounting.loss.rounding import Draws
from tacit.randomness import SeededRandom

S, EPSILON, RATIO = Fraction(500), Fraction(10), Fraction(3, 4)
N, C = 10_000, 5
FALSE_ALARM = 1e-6
"""Of each statistical test below, were its seed not fixed."""

SMALL: dict[str, Layers] = {
    "ThisWork": this_work(S, EPSILON, RATIO, Fraction(1, 50), Fraction(1, 10), 60, C),
    "ThisWork, rarely any noise": this_work(
        S, EPSILON, RATIO, Fraction(1, 500), Fraction(0), 60, C
    ),
    "Orig": orig(S, EPSILON, RATIO, 60, C),
    "PrivaDA": privada(S, EPSILON, C),
    "PASTE": paste(S, EPSILON, 60),
    "one Laplace": paste_dlpa(S, EPSILON),
    "distributed": distributed(S, EPSILON, C, 2),
    "shares with a coin": (Draws(Fraction(50), 8, Fraction(1, 4), Fraction(1, 3)),),
}


@pytest.mark.parametrize("name", SMALL)
def test_the_fast_draw_has_the_law_of_the_literal_one(name: str) -> None:
    fast = total_noise(SMALL[name], SeededRandom(1), 40_000)
    slow = literal_noise(SMALL[name], SeededRandom(2), 40_000)
    # The continuous part by Kolmogorov-Smirnov, the atom at 0 (nobody drew) by its share.
    assert stats.ks_2samp(fast[fast != 0], slow[slow != 0]).pvalue > FALSE_ALARM
    silent = [int((noise == 0).sum()) for noise in (fast, slow)]
    table = [silent, [40_000 - count for count in silent]]
    if sum(silent):
        assert stats.fisher_exact(table).pvalue > FALSE_ALARM


def test_the_comparison_of_laws_can_fail() -> None:
    right = literal_noise(SMALL["PrivaDA"], SeededRandom(2), 40_000)
    for wrong in (privada(S, EPSILON * Fraction(9, 10), C), privada(S, EPSILON, C + 1)):
        noise = total_noise(wrong, SeededRandom(1), 40_000)
        assert stats.ks_2samp(noise, right).pvalue < FALSE_ALARM


@pytest.mark.parametrize("name", SMALL)
def test_drawn_errors_are_the_expected_ones(name: str) -> None:
    repetitions = 200_000
    drawn = np.abs(total_noise(SMALL[name], SeededRandom(3), repetitions)).mean()
    allowed = 6 * sampling_error(SMALL[name], repetitions)
    assert drawn == pytest.approx(expected_absolute(SMALL[name]), rel=allowed)


@pytest.mark.parametrize("epsilon", [1, 100])
def test_the_table_of_the_thesis(epsilon: int) -> None:
    e = Fraction(epsilon)
    rare = (Fraction(1, 10**4), Fraction(1, 100))
    for layers, expected in (
        (this_work(S, e, RATIO, *rare, N, C), 615),
        (orig(S, e, RATIO, N, C), 75_390),
        (privada(S, e, C), 1_231),
        (paste(S, e, N), 56_420),
        (paste_dlpa(S, e), 500),
        (distributed(S, e, C, 0), 500),
        (distributed(S, e, C, 4), 1_230),
    ):
        assert expected_absolute(layers) == pytest.approx(expected / epsilon, rel=1.5e-3)


def test_curators_of_equal_sensitivity_share_a_layer() -> None:
    layers = local_laplace(np.array([5, 4, 5, 0, 5]), Fraction(10))
    assert layers == (Draws(Fraction(2, 5), 1), Draws(Fraction(1, 2), 3))


def test_the_services_sampler_draws_the_distributed_noise() -> None:
    layers = distributed(S, EPSILON, C, 2)
    exact = exact_total(layers, Fraction(1, 100), SeededRandom(4), 40_000)
    units = exact * 100
    assert np.allclose(units, np.round(units))
    continuous = literal_noise(layers, SeededRandom(5), 40_000)
    assert stats.ks_2samp(exact, continuous).pvalue > FALSE_ALARM
    with pytest.raises(ValueError, match="without a coin"):
        exact_total(SMALL["ThisWork"], Fraction(1), SeededRandom(1), 1)
