"""One figure for a guarantee: between a coin flip and knowing, and never below what holds."""

import json
import math
from fractions import Fraction
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tacit.accounting.amounts import pure_rho
from tacit.noise.gaussian_privacy import gaussian_right, zcdp_right
from tacit.report.figures import of_a_hundred
from tacit.report.model import CurvePoint, VerifiedStatement, guess, most_right

Floats = NDArray[np.float64]


def statement(
    epsilon: str | None, delta: str | None = "0", *curve: tuple[str, str]
) -> VerifiedStatement:
    return VerifiedStatement(
        scenario="recipient",
        model="approximate-dp",
        epsilon=epsilon,
        delta=delta,
        curve=tuple(CurvePoint(epsilon=each, delta=of) for each, of in curve),
    )


@pytest.mark.parametrize(
    ("epsilon", "delta", "cases"),
    [
        ("0", "0", 50),
        ("2.5", "0", 93),
        ("1", "0", 74),
        ("10", "0", 100),
        ("0", "0.5", 75),
        ("inf", "1", 100),
        (None, None, 100),
    ],
)
def test_cases_of_a_hundred(epsilon: str | None, delta: str | None, cases: int) -> None:
    assert of_a_hundred(statement(epsilon, delta).guess) == cases


def test_the_best_point_of_the_curve_counts() -> None:
    """At epsilon 0 the curve is exact: (1 + delta) / 2."""
    found = statement("2.5", "0", ("0", "0.4"), ("1", "0.2"))
    assert found.guess == "0.7"
    assert most_right([("0", "0.4")]) == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("epsilon", "share"),
    [("0.001", "0.5003"), ("0.0000001", "0.5001"), ("0", "0.5"), ("9", "0.9999"), (None, None)],
)
def test_it_is_rounded_against_us(epsilon: str | None, share: str | None) -> None:
    assert statement(epsilon).guess == share


def test_a_guess_that_is_told_is_not_believed() -> None:
    told = json.dumps(statement("2.5").model_dump(mode="json") | {"guess": "0.5"})
    assert VerifiedStatement.model_validate_json(told).guess == "0.9242"
    assert VerifiedStatement.model_validate_json(told) == statement("2.5")


@given(st.integers(0, 2000), st.integers(0, 1000))
def test_it_is_the_total_variation_that_epsilon_and_delta_allow(
    hundredths: int, thousandths: int
) -> None:
    """Two coins with exactly this (epsilon, delta): the best guess between them is right as often
    as the figure says."""
    epsilon, delta = hundredths / 100, thousandths / 1000
    found = most_right([(str(epsilon), str(delta))])
    odds = math.exp(epsilon)
    ones = delta + (1 - delta) * odds / (1 + odds), (1 - delta) / (1 + odds)
    assert 0.5 <= found <= 1
    assert found == pytest.approx(0.5 + abs(ones[0] - ones[1]) / 2, abs=1e-12)


# --- of rho (spec: profiles, section 3) ----------------------------------------------------------


def discrete_gaussian(variance: float) -> Floats:
    """Probabilities of -reach..reach, of a discrete Gaussian up to far below 1e-16."""
    reach = math.ceil(12 * math.sqrt(variance))
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * variance))
    return np.asarray(weights / weights.sum())


def best_guess(one: Floats, other: Floats) -> float:
    """How often the best guess between two laws is right."""
    return 0.5 + float(np.abs(one - other).sum()) / 4


def shifted(law: Floats, shift: int) -> tuple[Floats, Floats]:
    nothing = np.zeros(shift)
    return np.concatenate([law, nothing]), np.concatenate([nothing, law])


@pytest.mark.parametrize("releases", [1, 2, 7])
@pytest.mark.parametrize("sensitivity", [1, 3, 10, 31])
def test_gaussian_noise_in_whole_numbers_is_guessed_as_often_as_is_said(
    sensitivity: int, releases: int
) -> None:
    """The least deviation, 10, where whole numbers differ most from reals: what was released is
    told apart by its total, whose law is computed in full."""
    total = reduce(np.convolve, [discrete_gaussian(100.0)] * releases)
    exact = best_guess(*shifted(total, releases * sensitivity))
    stated = gaussian_right(releases * sensitivity**2 / 200)
    assert exact <= stated <= exact + 0.005


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(0.1, 3), (0.5, 10), (1.0, 10), (3.0, 1)])
def test_a_mixed_ledger_is_guessed_no_more_often_than_is_said(
    epsilon: float, sensitivity: int
) -> None:
    """A randomised answer with this epsilon, then Gaussian noise: all outcomes are summed."""
    zero, one = shifted(discrete_gaussian(100.0), sensitivity)
    odds = math.exp(epsilon) / (1 + math.exp(epsilon))
    both = np.concatenate([odds * zero, (1 - odds) * zero])
    neighbour = np.concatenate([(1 - odds) * one, odds * one])
    exact = best_guess(both, neighbour)
    rho = float(pure_rho(Fraction(epsilon))) + sensitivity**2 / 200
    assert exact <= zcdp_right(rho) <= exact + 0.09
    assert gaussian_right(sensitivity**2 / 200) < exact


@pytest.mark.parametrize("rho", [1e-6, 0.0029, 0.1, 1.0524, 4.0])
def test_the_figure_of_a_mixed_ledger_is_the_furthest_pair_of_coins(rho: float) -> None:
    right = zcdp_right(rho)
    orders = 1 + np.logspace(-6, 4, 2000)

    def worst(share: float) -> float:
        powers = orders * math.log(share) + (1 - orders) * math.log(1 - share)
        others = orders * math.log(1 - share) + (1 - orders) * math.log(share)
        divergences = np.logaddexp(powers, others) / (orders - 1)
        return float((divergences / orders).max())

    assert worst(right) == pytest.approx(rho, rel=2e-3)
    assert worst(right + 1e-3 * (1 - right)) > rho
    assert right <= 0.5 + min(math.sqrt(rho / 2), math.sqrt(-math.expm1(-rho))) / 2 + 1e-12


def test_the_figures_of_the_specification() -> None:
    """(8, 10^-6) a year: rho 1.0524."""
    assert gaussian_right(1.0524) == pytest.approx(0.7681, abs=1e-4)
    assert zcdp_right(1.0524) == pytest.approx(0.8308, abs=1e-4)
    assert guess([("8", "0.000001")], ("1.0524", "0.01")) == "0.8358"
    assert guess([("0.1", "0")], ("inf", "0")) == guess([("0.1", "0")])
    line = statement("8", "0.000001").model_copy(update={"rho": "1.0524"})
    assert line.guess == "0.7682"
