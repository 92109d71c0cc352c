"""Budgets over many rounds: basic, the worst instant, and the tight figure."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import pytest

from tacit.accounting.amounts import Cost
from tacit.accounting.composition import RoundLoss, basic, laplace_round, tight

MILLIONTH = Fraction(1, 10**6)
FINE = 1000  # ring units to a sensitivity: near enough to the continuous Laplace


@pytest.mark.parametrize(
    ("rounds", "epsilon", "plain", "expected", "places"),
    [
        (100, "0.1", "10", 4.693, 1e-3),
        (365, "0.05", "18.25", 4.569, 1e-3),
        (30, "0.5", "15", 13.07, 1e-2),
        (365, "0.1", "36.5", 10.13, 1e-2),
    ],
)
def test_the_figures_of_the_specification(
    rounds: int, epsilon: str, plain: str, expected: float, places: float
) -> None:
    loss = laplace_round(FINE, FINE / Fraction(epsilon))
    assert basic([(loss.cost, rounds)]).epsilon == Fraction(plain)
    found = tight([(loss, rounds)], MILLIONTH)
    assert float(found) == pytest.approx(expected, abs=places)


def exact_response_delta(epsilon: float, each: float, rounds: int) -> float:
    """delta of randomised response, `rounds` times: the binomial sum, in logarithms."""
    likely = -math.log1p(math.exp(-each))
    total = 0.0
    for flips in range(rounds + 1):
        loss = (rounds - 2 * flips) * each
        if loss <= epsilon:
            break
        ways = math.lgamma(rounds + 1) - math.lgamma(flips + 1) - math.lgamma(rounds - flips + 1)
        total += math.exp(ways + rounds * likely - flips * each) * -math.expm1(epsilon - loss)
    return total


@pytest.mark.parametrize("cells", [1 << 10, 1 << 16])
@pytest.mark.parametrize(("each", "rounds"), [(Fraction(1, 4), 40), (Fraction(7, 10), 90)])
def test_never_below_the_truth_of_randomised_response(
    each: Fraction, rounds: int, cells: int
) -> None:
    """One ring unit of sensitivity is randomised response, whose composition is known exactly."""
    found = tight([(laplace_round(1, 1 / each), rounds)], MILLIONTH, cells)
    assert exact_response_delta(float(found), float(each), rounds) <= 1e-6
    if cells > 1 << 10:
        assert exact_response_delta(0.999 * float(found), float(each), rounds) > 1e-6
    generic = tight([(RoundLoss(Cost(each, Fraction(0))), rounds)], MILLIONTH, cells)
    assert generic == pytest.approx(found, rel=1e-9)


@pytest.mark.parametrize("places", [4, 6, 8])
def test_a_year_of_rounds_stays_above_the_truth_in_spite_of_the_transforms(places: int) -> None:
    """35,040 rounds of randomised response at 0.01: transforms err by less than the margin."""
    found = tight([(laplace_round(1, Fraction(100)), 35_040)], Fraction(1, 10**places))
    assert exact_response_delta(float(found), 0.01, 35_040) <= 10**-places
    assert exact_response_delta(0.98 * float(found), 0.01, 35_040) > 10**-places


def test_a_huge_sensitivity_is_taken_on_a_coarser_grid_and_costs_hardly_more() -> None:
    fine = tight([(laplace_round(10**5, Fraction(10**6)), 100)], MILLIONTH)
    coarse = tight([(laplace_round(10**9 + 1, Fraction(10**10 + 10)), 100)], MILLIONTH)
    assert float(coarse or 0) == pytest.approx(float(fine), rel=1e-4)


def test_the_library_is_imported_only_where_it_is_used() -> None:
    import subprocess

    code = "import sys, tacit.accounting.composition; sys.exit('dp_accounting' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
