"""The rules of the error forecast against exact sums on small cases."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tacit.accounting.error import (
    PartError,
    all_draws,
    forecast,
    laplace_mean_absolute,
    mean_absolute,
    relative_error,
    smallest_useful_group,
    standard_deviation,
    typical_contribution,
)
from tacit.accounting.loss.draws import Draws
from tacit.query.functions import parts
from tacit.query.words import MAX_CURATORS
from tests.tacit.accounting.examples import distributed, local, two_layer
from tests.tacit.examples import query


def laplace(scale: float, reach: int = 400) -> np.ndarray:
    """The masses of one discrete Laplace from -reach to reach."""
    return np.tanh(1 / (2 * scale)) * np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)


def moments(law: np.ndarray) -> tuple[float, float]:
    """E|X| and the standard deviation of a symmetric law on whole numbers around its middle."""
    values = np.arange(law.size) - law.size // 2
    return float(law @ np.abs(values)), math.sqrt(float(law @ values**2.0))


def test_the_mean_of_continuous_laplaces() -> None:
    """b, 3 b / 2 and 15 b / 8 for one, two and three; 2 b / pi for a half."""
    for total, expected in ((1.0, 1.0), (2.0, 1.5), (3.0, 15 / 8), (0.5, 2 / math.pi)):
        assert laplace_mean_absolute(total, 7.0) == pytest.approx(7 * expected, rel=1e-12)


@pytest.mark.parametrize("scale", [Fraction(1, 4), Fraction(1), Fraction(7, 2), Fraction(20)])
def test_one_laplace_exactly(scale: Fraction) -> None:
    mean, deviation = moments(laplace(float(scale), 1000))
    assert mean_absolute((Draws(scale, 1),)) == pytest.approx(mean, rel=2e-9)
    assert standard_deviation((Draws(scale, 1),)) == pytest.approx(deviation, rel=1e-12)


def test_noise_that_is_hardly_ever_drawn() -> None:
    """Scale 1/30: a = e^-30, and E|Z| = 2 a / (1 - a^2)."""
    found = mean_absolute((Draws(Fraction(1, 30), 1),))
    assert found == pytest.approx(2 * math.exp(-30), rel=1e-9, abs=0)


def test_layers_add_up() -> None:
    """Two draws of scale 2 and three of scale 5 with probability 1/3 each, by convolution."""
    one, other = laplace(2.0, 100), laplace(5.0, 200) / 3
    other[200] += 2 / 3
    law = np.convolve(one, one)
    for _ in range(3):
        law = np.convolve(law, other)
    mean, deviation = moments(law)
    layers = (Draws(Fraction(2), 2), Draws(Fraction(5), 3, probability=Fraction(1, 3)))
    assert mean_absolute(layers) == pytest.approx(mean, rel=1e-8)
    assert standard_deviation(layers) == pytest.approx(deviation, rel=1e-10)


def test_a_share_is_two_negative_binomials() -> None:
    """Two shares of weight 1/4: half a Laplace of scale 3, X - Y of NegativeBinomial(1/2, a)."""
    a = math.exp(-1 / 3)
    one = [math.sqrt(1 - a)]
    for k in range(1, 400):
        one.append(one[-1] * (k - 0.5) / k * a)
    mean, deviation = moments(np.convolve(one, one[::-1]))
    shares = (Draws(Fraction(3), 2, Fraction(1, 4)),)
    assert mean_absolute(shares) == pytest.approx(mean, rel=1e-8)
    assert standard_deviation(shares) == pytest.approx(deviation, rel=1e-10)


def test_noise_that_is_never_drawn_has_no_error() -> None:
    assert mean_absolute(()) == standard_deviation(()) == 0
    assert mean_absolute((Draws(Fraction(3), 5, probability=Fraction(0)),)) == 0


def test_the_mean_scales_with_large_noise() -> None:
    """Beyond 10^4 ring units the discrete laws are the continuous ones to 1e-8."""
    for parties in (1, 3, 1000):
        found = mean_absolute((Draws(Fraction(10**6), parties),))
        assert found == pytest.approx(laplace_mean_absolute(parties, 1e6), rel=2e-9)


def test_the_noise_of_everyone_is_counted() -> None:
    q = distributed(layer="both", collusion={"curators": 5, "aggregators": 3})
    scale = Fraction(100)
    assert all_draws(q, 77, 0) == (
        Draws(scale, 77, Fraction(1, 5)),
        Draws(scale, 5, Fraction(1, 2)),
    )
    assert all_draws(distributed(), 77, 0) == (Draws(scale, 5, Fraction(1, 5)),)
    assert all_draws(query(), 77, 0) == ()
    assert all_draws(two_layer("0", "0.5"), 9, 0) == (
        Draws(Fraction(40), 4, probability=Fraction(1, 2)),
    )
    mean = two_layer("1", "1", function="mean")
    first, second = (all_draws(mean, 9, index) for index in (0, 1))
    assert first[0].scale != second[0].scale


def test_a_forecast_is_in_the_units_of_its_parts() -> None:
    q = local(function="mean", bounds=["0", "4"], resolution="0.5")
    found = forecast(q, 9)
    assert [error.part for error in found] == [part.name for part in parts(q)]
    for index, (part, error) in enumerate(zip(parts(q), found, strict=True)):
        layers = all_draws(q, 9, index)
        assert error.dimension == part.dimension
        assert error.mean_absolute == pytest.approx(mean_absolute(layers) * float(part.value))
        assert error.standard_deviation == pytest.approx(
            standard_deviation(layers) * float(part.value)
        )


def test_a_typical_contribution_is_half_of_the_most() -> None:
    (part,) = parts(query(bounds=["0", "10"], resolution="0.5", max_readings=3))
    assert typical_contribution(part) == part.largest * part.value / 2 == 15
    (bins,) = parts(query(function="histogram", edges=["-1", "0.5", "2"]))
    assert bins.dimension == 2
    assert typical_contribution(bins) == bins.largest * bins.value / 4
    (vector,) = parts(query(function="vector_sum", dimension=2, coordinates="values", l1_bound="4"))
    assert typical_contribution(vector) == vector.largest * vector.value / 4
    assert typical_contribution(replace(part, largest=7, value=Fraction(3))) == Fraction(21, 2)


def test_the_relative_error_is_that_of_the_worst_part() -> None:
    q = local(function="mean", bounds=["0", "4"], max_readings=1)
    each = [
        error.mean_absolute / float(typical_contribution(part) * 50)
        for part, error in zip(parts(q), forecast(q, 50), strict=True)
    ]
    assert len(set(each)) == 2
    assert relative_error(q, 50) == max(each)
    first = forecast(q, 50)[0].mean_absolute / (0.25 * 50)
    assert relative_error(q, 50, Fraction(1, 4)) == max(first, each[1])
    assert relative_error(q, 50, Fraction(1, 1000)) == pytest.approx(250 * first)


def test_the_smallest_useful_group_is_the_first_that_suffices() -> None:
    q = local(min_participants=3, n_max=MAX_CURATORS)
    for share in (Fraction(1, 3), Fraction(1, 10), Fraction(1, 37)):
        found = smallest_useful_group(q, share)
        assert found is not None
        assert relative_error(q, found) <= share < relative_error(q, found - 1)
    assert smallest_useful_group(q, Fraction(100)) == 3
    edge = relative_error(q, 50)
    assert smallest_useful_group(q, Fraction(edge)) == 50
    typical = smallest_useful_group(q, Fraction(1, 10), Fraction(1, 2))
    assert typical is not None
    assert relative_error(q, typical, Fraction(1, 2)) <= 0.1


def test_beyond_the_most_curators_there_is_no_useful_group() -> None:
    q = local(n_max=MAX_CURATORS)
    most = relative_error(q, MAX_CURATORS)
    assert smallest_useful_group(q, Fraction(most)) == MAX_CURATORS
    assert smallest_useful_group(q, Fraction(most) * Fraction(999, 1000)) is None
    last = local(n_max=MAX_CURATORS, min_participants=MAX_CURATORS)
    assert smallest_useful_group(last, Fraction(1)) == MAX_CURATORS
    assert smallest_useful_group(last, Fraction(most) / 2) is None


@pytest.mark.parametrize(("share", "typical"), [(0, None), (-1, None), (1, 0), (1, -1)], ids=str)
def test_shares_and_contributions_are_above_0(share: int, typical: int | None) -> None:
    with pytest.raises(ValueError, match="above 0"):
        smallest_useful_group(
            local(), Fraction(share), None if typical is None else Fraction(typical)
        )
    assert smallest_useful_group(local(), Fraction(1, 2), Fraction(1, 2)) is not None


def test_an_error_cannot_be_changed() -> None:
    value: Any = PartError("sum", 1, 1.0, 1.0)
    with pytest.raises(FrozenInstanceError):
        value.part = "other"
