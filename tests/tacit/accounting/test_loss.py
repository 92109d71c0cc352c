"""Privacy profiles against tables and at extremes; never below exact.

Spec: aggregation, section 7.
"""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting.loss.coins import mixture_delta, revealed_delta
from tacit.accounting.loss.fractional import polya_law, share_delta, share_pure_epsilon
from tacit.accounting.loss.profile import delta_at
from tacit.accounting.loss.rounding import Draws
from tacit.accounting.loss.whole import (
    AddedLaws,
    Law,
    half_line_delta,
    laplace_delta,
    whole_delta,
    whole_law,
)
from tests.property_examples import examples
from tests.tacit.accounting.examples import hockey_stick

ONE_SHARE = {
    "0.9": (1.185, (0.0403, 0, 0)),
    "0.5": (2.765, (0.3066, 0.0327, 0)),
    "0.2": (5.563, (0.6618, 0.4417, 0.0738)),
    "0.1": (7.055, (0.8199, 0.6931, 0.3529)),
    "0.01": (10.12, (0.9810, 0.9669, 0.9140)),
}

TWO_LAYERS = [
    ("1e-4", "1e-2", 1, (0.9953, 0.9900, 0.9885, 0.9715, 0.7640), 11.48),
    ("1e-4", "1e-2", 4, (0.9812, 0.9605, 0.9549, 0.8871, 0.0604), 10.06),
    ("1", "1", 1, (0.4764, 0, 0, 0, 0), 2.5),
    ("1", "1", 0, (0.9613, 0.9180, 0.7137, 0, 0), 7.5),
    ("0.5", "0.5", 1, (0.7372, 0.3990, 0.1833, 0, 0), 6.18),
]
TWO_LAYER_EPSILONS = ("1", "2.5", "5", "7.5", "10")


def symmetric(weight: str, scale: int, reach: int) -> np.ndarray:
    """P(-W..W) in floats, from the decimal recurrence."""
    half = np.array([float(mass) for mass in polya_law(Fraction(weight), Fraction(scale), reach)])
    return np.concatenate([half[:0:-1], half])


def two_layers(pr_u: str, pr_s: str, honest: int) -> tuple[Draws, ...]:
    return (
        Draws(Fraction(100) / Fraction("7.5"), 1, probability=Fraction(pr_u)),
        Draws(Fraction(100) / Fraction("2.5"), honest, probability=Fraction(pr_s)),
    )


@pytest.mark.parametrize("weight", ["0.9", "0.5", "0.01"])
def test_table_of_a_single_share(weight: str) -> None:
    pure, deltas = ONE_SHARE[weight]
    assert float(share_pure_epsilon(100, Fraction(100), Fraction(weight))) == pytest.approx(
        pure, rel=5e-4
    )
    law = symmetric(weight, 100, 4000)
    for epsilon, expected in zip((1, 2, 5), deltas, strict=True):
        found = float(share_delta(Fraction(epsilon), 100, Fraction(100), Fraction(weight)))
        assert found == pytest.approx(expected, abs=6e-5)
        assert found >= hockey_stick(law, epsilon, 100) - 1e-13


@pytest.mark.parametrize(("pr_u", "pr_s", "honest", "deltas", "pure"), TWO_LAYERS)
def test_table_of_the_two_layers(
    pr_u: str, pr_s: str, honest: int, deltas: tuple[float, ...], pure: float
) -> None:
    draws = two_layers(pr_u, pr_s, honest)
    for epsilon, expected in zip(TWO_LAYER_EPSILONS, deltas, strict=True):
        found = delta_at(Fraction(epsilon), 100, draws)
        assert found.certified
        assert float(found.value) == pytest.approx(expected, abs=6e-5)
        assert revealed_delta(((Fraction(epsilon), 100, draws, 1),)) >= found.value * Decimal(
            "0.999999"
        )
    assert delta_at(Fraction(str(pure)) + Fraction("0.01"), 100, draws).value < Decimal("1e-12")
    assert delta_at(Fraction(str(pure)) - Fraction("0.02"), 100, draws).value > Decimal("1e-7")


# --------------------------------------------------------------------------------------- traps


def test_trap_the_window_without_its_tail_is_below_the_truth() -> None:
    full = whole_law(1, Fraction(100))
    reach = 30
    mass = full.mass[full.reach - reach : full.reach + reach + 1]
    tail = 1 - float(mass.sum())
    cut = Law(mass, np.cumsum(mass), reach, tail, full.error)
    bare = Law(mass, np.cumsum(mass), reach, 0.0, full.error)
    exact = float(laplace_delta(Fraction(0), 100, Fraction(100)))
    assert half_line_delta(AddedLaws(None, bare), Fraction(0), 100) < exact - 0.01
    assert half_line_delta(AddedLaws(None, cut), Fraction(0), 100) >= exact


def test_trap_an_fft_has_a_floor() -> None:
    b, delta, epsilon = 100, 250, Fraction("2.49")
    reach = 100 * b
    z = np.abs(np.arange(-reach, reach + 1))
    single = np.tanh(0.5 / b) * np.exp(-z / b)
    size = 1 << (4 * reach).bit_length()
    both = np.fft.irfft(np.fft.rfft(single, size) ** 2, size)[: 4 * reach + 1]
    assert hockey_stick(both, float(epsilon), delta) > 1e-17
    assert whole_delta(epsilon, delta, ((2, Fraction(b)),)) < Decimal("1e-20")


def test_trap_a_coarse_grid_does_not_bound_fractional_noise() -> None:
    weight, epsilon = "0.1", 0.5
    fine = hockey_stick(symmetric(weight, 100, 4000), epsilon, 100)
    coarse = hockey_stick(symmetric(weight, 5, 200), epsilon, 5)
    assert coarse == pytest.approx(0.862, abs=5e-4)
    assert fine == pytest.approx(0.863, abs=5e-4)
    assert coarse < fine - 1e-3
    assert float(share_delta(Fraction("0.5"), 100, Fraction(100), Fraction(weight))) >= fine - 1e-12
    assert float(share_delta(Fraction("0.5"), 10**6, Fraction(10**6), Fraction(weight))) >= fine


# --------------------------------------------------------------------------- against other oracles


# -------------------------------------------------------------------------------------- properties

epsilons = st.fractions(0, 4, max_denominator=50)


@examples(40)
@given(st.tuples(epsilons, epsilons), st.integers(1, 60), st.integers(1, 60), st.integers(1, 6))
def test_delta_falls_with_epsilon_and_with_noise(
    pair: tuple[Fraction, Fraction], sensitivity: int, scale: int, draws: int
) -> None:
    low, high = sorted(pair)
    slack = Decimal("1e-8")
    one = Draws(Fraction(scale), draws)
    more = Draws(Fraction(scale), draws + 1)
    share = Draws(Fraction(scale), draws, Fraction(1, 7))
    for layer in (one, share):
        first = delta_at(low, sensitivity, (layer,)).value
        assert 0 <= delta_at(high, sensitivity, (layer,)).value <= first + slack <= 1 + slack
    coarse = Decimal(1) / 64
    assert (
        delta_at(low, sensitivity, (more,)).value
        <= delta_at(low, sensitivity, (one,)).value + coarse
    )


def test_many_curators_with_coins() -> None:
    many = (Draws(Fraction(40), 10_000, probability=Fraction(1, 10_000)),)
    silent = (1 - Fraction(1, 10_000)) ** 10_000
    assert (
        float(delta_at(Fraction(40), 100, many).value) < 1e-12
    )  # one coordinate: the loss is finite
    revealed = float(mixture_delta(((Fraction(40), 100, many, 3),)))
    assert revealed == pytest.approx(float(silent), rel=1e-9)
    assert revealed >= float(silent)
    busy = (Draws(Fraction(40), 10_000, probability=Fraction(1, 2)),)
    assert delta_at(Fraction("2.5"), 100, busy).value < Decimal("1e-15")


@pytest.mark.parametrize(
    ("epsilon", "sensitivity", "scale", "weight"),
    [
        ("5", 1, "0.001", "0.5"),
        ("0.5", 10**7, "20000000", "1e-6"),
        ("0.5", 1000, "1000", "0.999999"),
        ("1.0000001", 10, "10", "0.3"),
        ("9000", 10**4, "1", "0.5"),
    ],
)
def test_extreme_shares(epsilon: str, sensitivity: int, scale: str, weight: str) -> None:
    found = share_delta(Fraction(epsilon), sensitivity, Fraction(scale), Fraction(weight))
    assert 0 < found <= 1
    pure = share_pure_epsilon(sensitivity, Fraction(scale), Fraction(weight))
    assert pure >= sensitivity / Fraction(scale)
    assert share_delta(Fraction(pure), sensitivity, Fraction(scale), Fraction(weight)) == 0


def test_extreme_whole_draws() -> None:
    assert whole_delta(Fraction(700), 1000, ((2, Fraction(1)),)) == 1
    assert whole_delta(Fraction(700), 600, ((2, Fraction(1)),)) == 0
    assert whole_delta(Fraction("1e-6"), 1, ((2, Fraction(10**6)),)) == 0
    assert 0 < whole_delta(Fraction("1e-7"), 1, ((2, Fraction(10**6)),)) < Decimal("1e-5")
    assert whole_delta(Fraction("0.5"), 1, ((2, Fraction("0.001")),)) == 1
    assert whole_delta(Fraction("0.5"), 1, ()) == 1
