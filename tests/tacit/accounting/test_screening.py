"""Screening: outliers are proposed, honest curators are not."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tacit.accounting.screening import Reason, far_values, missed_rounds
from tacit.noise.discrete_laplace import DiscreteLaplace
from tacit.randomness import SeededRandom


def test_random_misses_propose_nobody_and_a_selective_curator_is_seen() -> None:
    """1,000 curators, 200 rounds, 5 % missed at random; alpha 10^-3 is the chance of any proposal
    (one seeded run)."""
    missed = np.random.default_rng(42).binomial(200, 0.05, 1000)
    invited = np.full(1000, 200)
    assert missed_rounds(invited, missed) == ()
    missed[11] = 45
    found = missed_rounds(invited, missed)
    assert [proposal.curator for proposal in found] == [11]
    assert found[0].figures["missed"] == 45


def test_false_proposals_stay_within_alpha() -> None:
    """2,000 deployments of 20 curators at alpha = 0.05: 100 expected at most, and a count above
    145 has probability below 1e-5 (binomial); fixed seed."""
    rng = np.random.default_rng(43)
    invited = np.full(20, 30)
    proposing = sum(
        bool(missed_rounds(invited, rng.binomial(30, 0.2, 20), alpha=0.05)) for _ in range(2000)
    )
    assert proposing <= 145


def test_noise_alone_proposes_nobody_and_a_lie_is_seen() -> None:
    """Data alike, wide noise for some: only what noise cannot explain (alpha 10^-3, fixed seed)."""
    rng = np.random.default_rng(44)
    source = SeededRandom(45)
    scales = np.where(np.arange(2000) % 100 == 0, 5000.0, 50.0)
    noisy = rng.normal(1000, 100, 2000).astype(np.int64)
    for scale in (5000, 50):
        rows = np.flatnonzero(scales == scale)
        noisy[rows] += DiscreteLaplace(Fraction(scale)).draw(source, rows.size)
    plain = np.abs(noisy - np.median(noisy))
    spread = 1.4826 * np.median(plain)
    assert (plain > 6 * spread).any()  # without the noise scale honest ones would be proposed
    assert far_values(noisy, scales) == ()
    noisy[[1, 100]] += 30_000
    found = far_values(noisy, scales)
    assert [proposal.curator for proposal in found] == [1]  # 30,000 is within the noise of 100
    assert found[0].reason is Reason.FAR_VALUE
    assert far_values(np.array([], np.int64), np.array([])) == ()
    with pytest.raises(ValueError):
        far_values(noisy, scales * 0)
