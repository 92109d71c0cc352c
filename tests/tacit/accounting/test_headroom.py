"""No sum may wrap: the Chernoff tail, and the rule at its border."""

import math
from fractions import Fraction
from typing import Any

import pytest

from tacit.accounting.charges import headroom_problem, noise_tail
from tacit.accounting.loss.rounding import Draws
from tests.tacit.examples import query


@pytest.mark.parametrize("scale", [1, 1000, 10**7])
def test_tail_of_one_draw_is_close_to_the_exact_one(scale: int) -> None:
    exact = scale * 64 * math.log(2)  # P(|Z| >= t) is about e^(-t/b)
    assert exact <= noise_tail((Draws(Fraction(scale), 1),)) <= 1.15 * exact + 70


def problem(largest: int, **sharing: Any) -> str | None:
    """A query whose contributions alone just fit; its noise has a scale of largest / epsilon."""
    given = {"privacy_unit": "record", "mechanism": "distributed", "epsilon": "100"}
    return headroom_problem(
        query(
            **{**given, **sharing},
            bounds=["0", str(largest)],
            max_readings=1000,
            layer="curator",
            n_max=10**7,
        )
    )


def test_the_noise_needs_room_too() -> None:
    fits = (2**63 - 1) // 10**10
    refusal = problem(fits)
    assert refusal is not None
    assert "part sum" in refusal
    assert problem(fits - 1000) is None


def test_shamir_has_less_room() -> None:
    fits = (2**57 - 13) // 2 // 10**10
    assert problem(fits) is None
    assert problem(fits, sharing="shamir", threshold=2, epsilon="10") is not None
    assert problem(fits - 1000, sharing="shamir", threshold=2) is None


def chernoff(*layers: tuple[float, float]) -> int:
    """The module's bound of (scale, total) layers, from its formula as it is written."""
    widest = max(scale for scale, _ in layers)
    found = []
    for step in range(1, 100):
        theta = step / 100 / widest
        exponent = 65 * math.log(2)
        for scale, total in layers:
            a = math.exp(-1 / scale)
            moment = (1 - a) ** 2 / ((1 - a * math.exp(theta)) * (1 - a * math.exp(-theta)))
            exponent += total * math.log(moment)
        found.append(exponent / theta)
    return math.ceil(min(found) * 1.0001)


@pytest.mark.parametrize(
    "layers",
    [
        (Draws(Fraction(1), 1),),
        (Draws(Fraction(50), 1, Fraction(1, 1000)),),
        (Draws(Fraction(50), 10**7),),
        (Draws(Fraction(7, 2), 40, Fraction(1, 4)), Draws(Fraction(90), 3)),
    ],
    ids=["one", "thousandth", "many", "two layers"],
)
def test_the_tail_is_chernoffs_over_99_thetas(layers: tuple[Draws, ...]) -> None:
    expected = chernoff(*((float(layer.scale), float(layer.total)) for layer in layers))
    assert noise_tail(layers) == pytest.approx(expected, rel=1e-9, abs=1)


def test_no_coin_and_no_party_make_no_tail() -> None:
    one = Draws(Fraction(100), 3)
    assert noise_tail((one, Draws(Fraction(1000), 0))) == noise_tail((one,))
    assert noise_tail((one, Draws(Fraction(1000), 5, probability=Fraction(0)))) == noise_tail(
        (one,)
    )


def test_a_refusal_names_where_sums_wrap() -> None:
    refusal = problem((2**63 - 1) // 10**10)
    assert refusal is not None
    assert f"could pass {2**63}, where sums wrap" in refusal
