"""Screening: outliers are proposed, honest curators are not."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting.screening import Reason, far_bounds, far_values, missed_rounds
from tacit.noise.discrete_laplace import DiscreteLaplace
from tacit.randomness import SeededRandom
from tests.property_examples import examples


def test_bounds_far_out_are_proposed_on_both_sides() -> None:
    rng = np.random.default_rng(41)
    declared = np.exp(rng.normal(3, 0.2, 1000))
    declared[[7, 500]] = [1e6, 1e-4]
    found = far_bounds(declared)
    assert [proposal.curator for proposal in found] == [7, 500]
    assert {proposal.reason for proposal in found} == {Reason.FAR_BOUNDS}
    assert found[0].figures["factor"] == pytest.approx(1e6 / found[0].figures["median"])


def test_where_all_declare_the_same_only_a_large_factor_stands_out() -> None:
    declared = np.full(50, 5.0)
    assert far_bounds(declared) == ()
    declared[3] = 20
    assert far_bounds(declared) == ()
    declared[3] = 51
    assert [proposal.curator for proposal in far_bounds(declared)] == [3]
    assert far_bounds(np.array([])) == ()
    with pytest.raises(ValueError):
        far_bounds(np.array([1.0, 0.0]))


@examples(50)
@given(st.floats(1e-6, 1e6), st.integers(0, 2**32 - 1))
def test_the_unit_of_bounds_does_not_matter(unit: float, seed: int) -> None:
    declared = np.exp(np.random.default_rng(seed).normal(0, 3, 40))
    plain, scaled = far_bounds(declared), far_bounds(declared * unit)
    distance = [abs(math.log(p.figures["factor"])) for p in plain]
    if all(abs(d - math.log(10)) > 1e-6 for d in distance):
        assert [p.curator for p in plain] == [p.curator for p in scaled]


def test_the_tail_of_missed_rounds_is_exact() -> None:
    """Four curators of ten invitations, seven misses, all of one: C(10,7) / C(40,7), times 4."""
    found = missed_rounds(np.full(4, 10), np.array([7, 0, 0, 0]))
    assert [proposal.curator for proposal in found] == [0]
    expected = 4 * Fraction(math.comb(10, 7), math.comb(40, 7))
    assert found[0].figures["probability"] == pytest.approx(float(expected), rel=1e-9)
    assert found[0].figures["deployment_rate"] == 7 / 40
    assert missed_rounds(np.full(4, 10), np.array([2, 2, 2, 1])) == ()
    assert missed_rounds(np.full(4, 10), np.zeros(4, np.int64)) == ()
    with pytest.raises(ValueError):
        missed_rounds(np.array([3]), np.array([4]))


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
