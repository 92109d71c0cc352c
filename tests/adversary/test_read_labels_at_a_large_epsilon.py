"""A coordinator asks for labels at an epsilon so large that rounding makes the coin one-sided: then
each label is the truth, whatever its report says of epsilon.
"""

from __future__ import annotations

import json
import math
from decimal import Context, Decimal
from fractions import Fraction

import pytest

from algorithms import catalogue
from tacit.encoders.crowd_tasking import truth_probability
from tests.algorithms.crowd_tasking.test_algorithm import CLS

PRECISE = Context(prec=60)
EPSILONS = ["1/1000", "1", "21", "22", "23", "35", "36", "37", "40", "63.9", "64"]


def rounded_before(epsilon: Fraction, classes: int) -> Fraction:
    """The probability as it was: in doubles, to a multiple of 2^-32."""
    odds = math.exp(min(float(epsilon), 40.0)) * (1 - 1e-12)
    return Fraction(math.floor(odds / (odds + classes - 1) * 2**32), 2**32)


@pytest.mark.parametrize("classes", [2, 3, 1000])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_no_label_is_certain_and_the_ratio_is_within_epsilon(epsilon: str, classes: int) -> None:
    told = truth_probability(Fraction(epsilon), classes)
    assert Fraction(1, classes) <= told < 1
    ratio = told / ((1 - told) / (classes - 1))
    exact = PRECISE.exp(Decimal(Fraction(epsilon).numerator) / Fraction(epsilon).denominator)
    assert ratio <= Fraction(exact) * (1 + Fraction(1, 10**50))


def test_the_old_rounding_made_it_certain() -> None:
    """The control: at epsilon 40 the coin had one side, and every answer was the truth."""
    assert rounded_before(Fraction(40), 2) == 1
    assert rounded_before(Fraction(1), 2) == truth_probability(Fraction(1), 2)


def test_the_report_states_the_coin_that_is_drawn() -> None:
    algorithm = catalogue.find("crowd-tasking")
    asked = {**CLS, "labels_are_public": False, "label_epsilon": "40", "epsilon": "1"}
    params = algorithm.params.model_validate_json(json.dumps(asked))
    (coin,) = [
        each
        for each in algorithm.preview(params, "sound").noise
        if each.distribution == "randomised-response"
    ]
    assert coin.probability == "0.999999999768"  # 1 - 2^-32, to 12 digits, rounded up
