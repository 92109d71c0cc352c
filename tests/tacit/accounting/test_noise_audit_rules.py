"""The rules of the noise audit, with exact figures."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tacit.accounting.screening import NoiseAudit, characteristic, rounds_to_tell, threshold


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
