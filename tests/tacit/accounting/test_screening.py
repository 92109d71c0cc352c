"""Screening: outliers are proposed, honest curators are not.

The noise audit: honest curators are left alone, missing noise is found at the stated rounds.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting.screening import (
    NoiseAudit,
    Reason,
    far_values,
    missed_rounds,
    rounds_to_tell,
    threshold,
)
from tacit.noise.discrete_laplace import DiscreteLaplace
from tacit.randomness import SeededRandom
from tests.property_examples import examples


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


CURATORS = 10_000
SCALE = Fraction(1000)
ALPHA = 0.05


@examples(100)
@given(
    st.fractions(Fraction(1, 10), 10**7),
    st.lists(st.integers(-(2**61), 2**61), min_size=1, max_size=6),
)
def test_large_values_are_reduced_exactly(scale: Fraction, values: list[int]) -> None:
    audit = NoiseAudit.of_scales([scale])
    period = int(audit.period[0])
    small = audit
    for value in values:
        audit = audit.plus(np.array([value], np.int64))
        small = small.plus(np.array([value % period], np.int64))
    assert audit.strength[0] == small.strength[0] <= 1 + 1e-12
    assert audit.rounds[0] == len(values)
    assert 2 * math.pi / period == pytest.approx(3 / float(scale), rel=0.3) or period == 2


@pytest.mark.parametrize("data", ["constant", "drifting", "wild", "adaptive"])
def test_compliant_curators_are_left_alone(data: str) -> None:
    """10^4 curators, 40 rounds, a look after each ten: no flag at all but for alpha = 0.05.

    One seeded run of each kind of data: a false alarm of the test itself has at most that chance.
    """
    source = SeededRandom(31)
    rng = np.random.default_rng(32)
    noise = DiscreteLaplace(SCALE)
    audit = NoiseAudit.of_scales([SCALE] * CURATORS)
    values = np.zeros(CURATORS, np.int64)
    flags = np.zeros(CURATORS, np.bool_)
    for t in range(40):
        match data:
            case "constant":
                true = np.full(CURATORS, 12_345, np.int64)
            case "drifting":
                true = np.full(CURATORS, 77 * t, np.int64)
            case "wild":
                true = rng.integers(-(10**9), 10**9, CURATORS)
            case _:  # from all that went before: brings the last value back to the same phase
                true = -(values % audit.period)
        values = true + noise.draw(source, CURATORS)
        audit = audit.plus(values)
        if t % 10 == 9:
            flags |= audit.verdict(ALPHA, 1 + t // 10).flagged
    assert not flags.any()


def test_data_that_varies_by_a_quarter_of_the_scale_is_told_after_fifty_rounds() -> None:
    """Power 94 % at alpha 0.05 (spec): of 10^4 curators between 91 % and 97 % are above."""
    rng = np.random.default_rng(33)
    audit = NoiseAudit.of_scales([SCALE] * CURATORS)
    for _ in range(50):
        audit = audit.plus(np.rint(rng.normal(500, 250, CURATORS)).astype(np.int64))
    told = audit.strength > threshold(audit.phi, audit.rounds, ALPHA)
    assert 0.91 < told.mean() < 0.97


def test_noiseless_ones_are_found_among_many_and_no_other() -> None:
    """Alpha is divided among 10^4 curators and the looks: it takes more rounds, not more flags."""
    source = SeededRandom(34)
    silent = np.arange(CURATORS) % 1000 == 0
    audit = NoiseAudit.of_scales([SCALE] * CURATORS)
    needed = rounds_to_tell(ALPHA / (CURATORS * 2), float(audit.phi[0]))
    for _ in range(needed):
        drawn = DiscreteLaplace(SCALE).draw(source, CURATORS)
        audit = audit.plus(5000 + np.where(silent, 0, drawn))
    verdict = audit.verdict(ALPHA, 1)
    assert (verdict.flagged == silent).all()
    assert verdict.alpha_each == ALPHA / (CURATORS * 2)
    assert not audit.verdict(ALPHA, 1000).flagged.any()  # a thousandth look asks for more
