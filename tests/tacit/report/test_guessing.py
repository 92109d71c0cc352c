"""One figure for a guarantee: between a coin flip and knowing, and never below what holds."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.report.model import CurvePoint, VerifiedStatement, most_right, of_a_hundred


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
