"""The rules of the screens at their edges, with exact figures.

The rules of the noise audit, with exact figures.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import hypergeom

from tacit.accounting.screening import (
    NORMAL,
    NoiseAudit,
    Proposal,
    Reason,
    characteristic,
    far_bounds,
    far_values,
    missed_rounds,
    rounds_to_tell,
    threshold,
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


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def test_the_characteristic_function_in_closed_form() -> None:
    frequency, scale = np.array([0.5, 2.0, math.pi]), np.array([1.0, 3.0, 0.4])
    a = np.exp(-1 / scale)
    expected = (1 - a) ** 2 / (1 - 2 * a * np.cos(frequency) + a**2)
    assert characteristic(frequency, scale) == pytest.approx(expected, rel=1e-12)


def test_what_compliant_noise_may_show() -> None:
    """phi + sqrt(4 ln(4 / alpha) / T) + 1e-9; anything before a first round."""
    found = threshold(np.array([0.1, 0.2, 0.3]), ints(1, 4, 0), 0.04)
    root = math.sqrt(4 * math.log(100))
    assert found[:2] == pytest.approx([0.1 + root + 1e-9, 0.2 + root / 2 + 1e-9], rel=1e-15)
    assert found[2] == math.inf
    for alpha in (0.0, 1.0, -0.1, 1.5):
        with pytest.raises(ValueError, match="alpha"):
            threshold(np.array([0.1]), ints(1), alpha)
    assert threshold(np.array([0.1]), ints(1), 0.999).size == 1


@pytest.mark.parametrize(
    ("scale", "period"), [("0.1", 2), ("1", 2), ("1.19", 2), ("1.2", 3), ("10", 21), ("1000", 2094)]
)
def test_the_period_is_next_to_two_pi_scales_thirds(scale: str, period: int) -> None:
    audit = NoiseAudit.of_scales([Fraction(scale)])
    assert audit.period.tolist() == [period]
    assert audit.period.dtype == np.int64
    expected = characteristic(np.array([2 * math.pi / period]), np.array([float(scale)]))
    assert audit.phi.tolist() == expected.tolist()
    assert (audit.rounds.tolist(), audit.cosines.tolist(), audit.sines.tolist()) == ([0], [0], [0])
    assert audit.rounds.dtype == np.int64
    assert audit.strength.tolist() == [0]


def audit_of(*periods: int) -> NoiseAudit:
    zeros = np.zeros(len(periods))
    return NoiseAudit(
        ints(*periods), np.full(len(periods), 0.1), np.zeros(len(periods), np.int64), zeros, zeros
    )


def test_a_round_adds_the_vector_of_its_value() -> None:
    """A twelfth and a quarter of a turn; values far out count by their rest."""
    audit = audit_of(12, 4).plus(ints(1 + 12 * 10**15, 1))
    assert audit.rounds.tolist() == [1, 1]
    assert audit.cosines == pytest.approx([math.cos(math.pi / 6), 0], abs=1e-15)
    assert audit.sines == pytest.approx([0.5, 1], abs=1e-15)
    assert audit.strength == pytest.approx([1, 1])
    opposite = audit.plus(ints(7, -1))
    assert opposite.rounds.tolist() == [2, 2]
    assert opposite.strength == pytest.approx([0, 0], abs=1e-15)
    quarter = audit_of(4).plus(ints(0)).plus(ints(1))
    assert quarter.strength == pytest.approx([math.sqrt(2) / 2])
    assert (quarter.period.tolist(), quarter.phi.tolist()) == ([4], [0.1])


def test_only_what_was_seen_counts() -> None:
    audit = audit_of(4, 4).plus(ints(1, 1), np.array([True, False]))
    assert audit.rounds.tolist() == [1, 0]
    assert audit.sines == pytest.approx([1, 0])
    assert audit.cosines == pytest.approx([0, 0], abs=1e-15)
    assert audit.plus(ints(0, 0), np.array([False, True])).cosines == pytest.approx(
        [0, 1], abs=1e-15
    )


def test_a_look_takes_its_share_of_alpha() -> None:
    """alpha / (n look (look + 1)): over three rows and looks 1, 2, 3."""
    audit = audit_of(4, 4, 4)
    for look, share in ((1, 6), (2, 18), (3, 36)):
        assert audit.verdict(0.36, look).alpha_each == pytest.approx(0.36 / share, rel=1e-12)
    assert audit_of().verdict(0.5, 1).alpha_each == 0.25
    for look in (0, -1):
        with pytest.raises(ValueError, match="from 1"):
            audit.verdict(0.36, look)


def test_a_flag_is_a_strength_above_the_threshold() -> None:
    """One row at phi = 0.1: alpha 0.1 for the first look is 0.05, and 22 rounds are enough."""
    audit = audit_of(4)
    for rounds, flagged in ((21, False), (22, True)):
        seen = audit
        for _ in range(rounds):
            seen = seen.plus(ints(3))
        verdict = seen.verdict(0.1, 1)
        assert verdict.flagged.tolist() == [flagged]
        assert verdict.strength == pytest.approx([1])
        expected = 0.1 + math.sqrt(4 * math.log(80) / rounds) + 1e-9
        assert verdict.threshold == pytest.approx([expected], rel=1e-12)


def test_rounds_until_a_constant_value_passes() -> None:
    """4 ln(4 / alpha) / 0.81 = 21.6 at 0.05; with phi 0.5 it is 70.1."""
    assert [rounds_to_tell(0.05), rounds_to_tell(0.05, 0.5), rounds_to_tell(1e-6)] == [22, 71, 76]


def test_what_cannot_be_audited_is_refused() -> None:
    for scales in ([Fraction(1), Fraction(0)], [Fraction(-1)]):
        with pytest.raises(ValueError, match="above 0"):
            NoiseAudit.of_scales(scales)
    for wrong in (ints(1, 2), np.array([1.0]), np.array([1], np.int32)):
        with pytest.raises(ValueError, match="one whole value"):
            audit_of(4).plus(wrong)
