"""The rules of the screens at their edges, with exact figures."""

from __future__ import annotations

import math

import numpy as np
import pytest

# The screen of missed rounds imports it where it is used; here it is imported once.
from scipy.stats import hypergeom

from tacit.accounting.screening import (
    NORMAL,
    Proposal,
    Reason,
    far_bounds,
    far_values,
    missed_rounds,
    upper_tail,
)


def curators(found: tuple[Proposal, ...]) -> list[int]:
    return [proposal.curator for proposal in found]


def test_bounds_beyond_six_robust_deviations() -> None:
    """Logarithms -1, 0, 1 and a fourth: the middle of them, and 6 x 1.4826 x 1 from it."""
    assert NORMAL == 1.4826
    for distance, far in ((8.8, []), (8.95, [4])):
        declared = np.exp(np.array([-1.0, -1.0, 0.0, 1.0, distance]))
        found = far_bounds(declared)
        assert curators(found) == far
    (proposal,) = found
    assert proposal.reason is Reason.FAR_BOUNDS
    assert proposal.figures == pytest.approx(
        {
            "declared": math.exp(8.95),
            "median": 1.0,
            "factor": math.exp(8.95),
            "robust_deviation": 1.4826,
        }
    )
    below = far_bounds(np.exp(np.array([-8.95, -1.0, 0.0, 1.0, 1.0])))
    assert curators(below) == [0]
    assert below[0].figures["factor"] == pytest.approx(math.exp(-8.95))


def test_bounds_beyond_the_factor_where_all_declare_the_same() -> None:
    for odd, far in ((9.999, []), (10.001, [2]), (1 / 9.999, []), (1 / 10.001, [2])):
        assert curators(far_bounds(np.array([1.0, 1.0, odd]))) == far
    assert curators(far_bounds(np.array([1.0, 1.0, 3.0]), factor=2.9)) == [2]
    four = np.exp(np.array([-1.0, -1.0, 0.0, 1.0, 4.0]))
    assert curators(far_bounds(four, deviations=2.6, factor=2.0)) == [4]
    assert curators(far_bounds(four, deviations=2.8, factor=2.0)) == []


def test_bounds_around_another_middle() -> None:
    """The same logarithms, all larger by 5."""
    (proposal,) = far_bounds(np.exp(np.array([4.0, 4.0, 5.0, 6.0, 13.95])))
    assert proposal.curator == 4
    assert proposal.figures["median"] == pytest.approx(math.exp(5))
    assert proposal.figures["factor"] == pytest.approx(math.exp(8.95))
    # At the factor itself nothing is far.
    assert far_bounds(np.ones(3), factor=1.0) == ()


def test_bounds_that_cannot_be_are_refused() -> None:
    for wrong in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="above 0 and finite"):
            far_bounds(np.array([1.0, wrong, 2.0]))
    assert far_bounds(np.array([])) == ()
    assert far_bounds(np.array([1e-300])) == ()


def test_the_chance_of_as_many_misses() -> None:
    """P(X >= 3) of 4 invitations among 12 of which 3 were missed, times 3: 3 C(9, 1) / C(12, 4)."""
    invited, missed = np.full(3, 4), np.array([0, 3, 0])
    chance = 3 * math.comb(9, 1) / math.comb(12, 4)
    assert missed_rounds(invited, missed) == ()
    (found,) = missed_rounds(invited, missed, alpha=chance * 1.0001)
    assert found.curator == 1
    assert found.reason is Reason.MISSED_ROUNDS
    assert found.figures == pytest.approx(
        {"invited": 4, "missed": 3, "deployment_rate": 0.25, "probability": chance}, rel=1e-9
    )
    assert missed_rounds(invited, missed, alpha=chance * 0.9999) == ()


def test_the_least_chance_that_is_no_proposal() -> None:
    """10 of 10 misses among 100 invitations of which 30 were missed: far below 1e-3."""
    invited, missed = np.full(10, 10), np.array([8, 3, 3, 3, 3, 2, 2, 2, 2, 2])
    tail = hypergeom.sf(7, 100, 30, 10) * 10
    assert 1e-4 < tail < 1e-2
    assert curators(missed_rounds(invited, missed, alpha=float(tail) * (1 + 1e-9))) == [0]
    assert curators(missed_rounds(invited, missed)) == ([0] if tail <= 1e-3 else [])
    assert curators(missed_rounds(np.full(10, 30), np.array([25, *[3] * 9]))) == [0]


def test_alpha_is_a_thousandth_if_none_is_passed() -> None:
    """Both misses of n curators, invited twice each, are of one: n / C(2 n, 2) = 1 / (2 n - 1)."""
    for size, far in ((500, []), (501, [0])):
        invited, missed = np.full(size, 2), np.array([2] + [0] * (size - 1))
        assert (1 / (2 * size - 1) <= 1e-3) is (size == 501)
        assert curators(missed_rounds(invited, missed)) == far


def test_no_miss_is_never_proposed() -> None:
    assert missed_rounds(np.full(2, 3), np.zeros(2, np.int64)) == ()
    # Only the second missed any; at an alpha of 1 it alone is proposed, though all chances are 1.
    assert curators(missed_rounds(np.full(2, 3), np.array([0, 1]), alpha=0.9)) == []
    found = missed_rounds(np.full(2, 3), np.array([0, 1]), alpha=1.0)
    assert [each.curator for each in found] == [0, 1]
    assert [each.figures["probability"] for each in found] == pytest.approx([1.0, 1.0])


def test_a_single_miss_is_proposed_where_it_is_unlikely() -> None:
    """One of 10^5 invitations was missed, by the curator that had one: 2 / 10^5."""
    (found,) = missed_rounds(np.array([1, 99_999]), np.array([1, 0]))
    assert found.curator == 0
    assert found.figures["probability"] == pytest.approx(2e-5)


def test_a_chance_is_at_most_1() -> None:
    """Of two that each missed one of three: 2 (1 - C(3, 2) / C(6, 2)) = 1.6."""
    found = missed_rounds(np.full(2, 3), np.ones(2, np.int64), alpha=1.0)
    assert [each.figures["probability"] for each in found] == [1.0, 1.0]


@pytest.mark.parametrize(("invited", "missed"), [(3, 4), (3, -1)])
def test_misses_that_cannot_be_are_refused(invited: int, missed: int) -> None:
    with pytest.raises(ValueError, match="no more rounds"):
        missed_rounds(np.array([3, invited]), np.array([0, missed]))
    assert missed_rounds(np.array([3, 3]), np.array([3, 3])) == ()


def test_a_value_beyond_its_noise_and_six_deviations() -> None:
    """Values -10, 0, 10 around 0: 6 x 14.826 = 88.956, and 2 ln(2 n / alpha) of noise."""
    scales = np.full(5, 2.0)
    explained = 2 * math.log(2 * 5 / 1e-3)
    edge = 6 * 14.826 + explained
    for value, far in ((math.floor(edge), []), (math.ceil(edge), [4]), (-math.ceil(edge), [4])):
        found = far_values(
            np.array([-10, 10, 0, math.copysign(10, -value), value], np.int64), scales
        )
        assert curators(found) == far
    (proposal,) = found
    assert proposal.reason is Reason.FAR_VALUE
    assert proposal.figures == pytest.approx(
        {
            "distance": math.ceil(edge),
            "explained_by_noise": explained,
            "robust_deviation": 14.826,
        }
    )


def test_values_around_another_middle() -> None:
    values = np.array([990, 1010, 1000, 990, 1130], np.int64)
    assert curators(far_values(values, np.full(5, 2.0))) == [4]
    assert far_values(values, np.full(5, 4.5)) == ()
    # Where noise explains nothing and all are alike, nothing is far.
    assert far_values(np.full(3, 5), np.ones(3), alpha=6.0) == ()


def test_alpha_and_deviations_of_far_values() -> None:
    values, scales = np.array([-10, 10, 0, -10, 60], np.int64), np.full(5, 2.0)
    assert far_values(values, scales) == ()
    assert curators(far_values(values, scales, alpha=0.1, deviations=3.4)) == [4]
    assert far_values(values, scales, alpha=0.1, deviations=3.5) == ()
    assert far_values(values, scales, alpha=0.01, deviations=3.4) == ()


def test_noisy_values_that_cannot_be_are_refused() -> None:
    for scales in (np.array([1.0]), np.array([1.0, 0.0]), np.array([-1.0, 1.0])):
        with pytest.raises(ValueError, match="one noise scale above 0"):
            far_values(np.array([1, 2]), scales)
    assert far_values(np.array([], np.int64), np.array([])) == ()
    assert far_values(np.array([5]), np.array([0.5])) == ()


def test_the_tail_is_that_of_the_hypergeometric_law_far_from_its_middle_too() -> None:
    cases = [
        (total, lost, drawn, least)
        for total, lost in ((20, 0), (20, 7), (20, 20), (10**6, 4000), (10**8, 10**6))
        for drawn in (0, 1, 9, 20, 3000)
        for least in (0, 1, 5, 14, 40, 3000)
        if least <= drawn <= total
    ]
    found = [upper_tail(*case) for case in cases]
    expected = [float(hypergeom.sf(least - 1, *rest)) for *rest, least in cases]
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-300)
