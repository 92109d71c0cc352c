"""Curves and a test from counts: a published table by hand, `lifelines`, and the test's level."""

from __future__ import annotations

import numpy as np
import pytest

from examples.survival import ARMS, OUTCOMES, WEEKS, Floats, compare, survival

# Freireich and others, Blood 21, 1963: weeks in remission; + is censored.
TREATED = "6 6 6 7 10 13 16 22 23 6+ 9+ 10+ 11+ 17+ 19+ 20+ 25+ 32+ 32+ 34+ 35+"
CONTROL = "1 1 2 2 3 4 4 5 5 8 8 8 8 11 11 12 12 15 17 22 23"


def patients(text: str) -> tuple[list[int], list[bool]]:
    """Weeks, and whether the event was seen."""
    items = text.split()
    return [int(item.rstrip("+")) for item in items], ["+" not in item for item in items]


def counted(*arms: tuple[list[int], list[bool]]) -> Floats:
    """Counts (arms, outcomes, weeks), as a table without noise has them."""
    counts = np.zeros((len(ARMS), len(OUTCOMES), WEEKS))
    for arm, (weeks, seen) in enumerate(arms):
        for week, event in zip(weeks, seen, strict=True):
            counts[arm, 0 if event else 1, week] += 1
    return counts


TRIAL = counted(patients(TREATED), patients(CONTROL))


def test_the_published_curve_and_test() -> None:
    """The table of the textbooks (Kleinbaum and Klein, Survival Analysis, chapter 2)."""
    curve = survival(TRIAL)
    published = {5: 1, 6: 0.8571, 7: 0.8067, 10: 0.7529, 13: 0.6902, 16: 0.6275, 22: 0.5378}
    for week, share in published.items():
        assert curve[0, week] == pytest.approx(share, abs=5e-5)
    assert curve[0, 35] == pytest.approx(0.4482, abs=5e-5)
    assert curve[1, [0, 1, 8, 22, 23]] == pytest.approx([1, 19 / 21, 8 / 21, 1 / 21, 0])
    statistic, p_value = compare(TRIAL)
    assert statistic == pytest.approx(16.79, abs=5e-3)
    assert p_value == pytest.approx(4.17e-5, rel=5e-3)


def test_against_lifelines() -> None:
    """`pip install lifelines`: on the published data, and on others."""
    lifelines = pytest.importorskip("lifelines")
    statistics = pytest.importorskip("lifelines.statistics")
    source = np.random.default_rng(5)
    trials = [[patients(TREATED), patients(CONTROL)]]
    for _ in range(5):
        weeks = source.integers(0, WEEKS, (2, 40))
        seen = source.random((2, 40)) < 0.7
        trials.append([(weeks[arm].tolist(), seen[arm].tolist()) for arm in range(2)])
    for arms in trials:
        counts = counted(*arms)
        for (weeks_of_arm, seen_of_arm), curve in zip(arms, survival(counts), strict=True):
            fitted = lifelines.KaplanMeierFitter().fit(weeks_of_arm, seen_of_arm)
            theirs = fitted.survival_function_at_times(range(WEEKS)).to_numpy()
            assert curve == pytest.approx(theirs, abs=1e-9)
        (one, seen_one), (other, seen_other) = arms
        theirs = statistics.logrank_test(one, other, seen_one, seen_other)
        assert compare(counts) == pytest.approx((theirs.test_statistic, theirs.p_value), rel=1e-9)


def test_the_test_keeps_its_level_with_noise() -> None:
    """300 trials of 2 times 300 patients whose arms are alike, with noise of deviation 4 on every
    count: 15 would be rejected at 5 of 100. More than 30 have a probability below 0.1 %. Without
    the variance of the noise there are far more."""
    source = np.random.default_rng(11)
    rejected = {0.0: 0, 4.0: 0}
    for _ in range(300):
        weeks = np.minimum(source.exponential(20, (2, 300)), WEEKS - 1).astype(int)
        seen = source.random((2, 300)) < 0.8
        counts = counted(*((weeks[arm].tolist(), seen[arm].tolist()) for arm in range(2)))
        noisy = counts + np.rint(source.laplace(0, 4 / np.sqrt(2), counts.shape))
        for deviation in rejected:
            rejected[deviation] += compare(noisy, deviation, draws=200)[1] < 0.05
    assert rejected[4.0] <= 30
    assert rejected[0.0] > 30


def test_counts_that_noise_made_impossible_give_a_curve_all_the_same() -> None:
    noisy = TRIAL - 3
    curve = survival(noisy)
    assert ((curve >= 0) & (curve <= 1)).all()
    assert compare(np.zeros_like(TRIAL)) == (0.0, 1.0)
    assert compare(noisy, 3.0)[1] <= 1
