"""Polya differences of weight above 1 against their definition, with 60-digit decimals.

Shares below one draw: brackets cell by cell, and delta against the sum over all values.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from tacit.accounting.loss import fractional as module
from tacit.accounting.loss.fractional import (
    Share,
    _fractional_law,
    _last_true,
    log_concave_delta,
    polya_law,
    share_delta,
    share_pure_epsilon,
)
from tacit.accounting.loss.rounding import capped
from tacit.accounting.loss.whole import (
    AddedLaws,
    half_line_delta,
    reach_of,
    tail_bound,
    whole_delta,
)
from tests.tacit.accounting.examples import hockey_stick

EXACT = Context(prec=80)
UNIT = 2.0**-53
SCALE = Fraction(2)


def decimal(value: Fraction) -> Decimal:
    return EXACT.divide(Decimal(value.numerator), Decimal(value.denominator))


@cache
def exact_law(weight: Fraction, scale: Fraction, reach: int) -> tuple[Decimal, ...]:
    """P(0..reach) = sum_y N(z + y) N(y), N(k) = (1-a)^R a^k R (R+1) ... (R+k-1) / k!."""
    a = EXACT.exp(decimal(-1 / scale))
    terms = math.ceil(100 * scale)
    one = EXACT.power(EXACT.subtract(1, a), decimal(weight))
    each = [one]
    for k in range(1, reach + terms):
        factor = EXACT.multiply(a, decimal((weight + k - 1) / k))
        each.append(EXACT.multiply(each[-1], factor))
    found = []
    for z in range(reach + 1):
        total = Decimal(0)
        for y in range(terms):
            total = EXACT.fma(each[z + y], each[y], total)
        found.append(total)
    return tuple(found)


@pytest.mark.parametrize("weight", ["1", "3/2", "7/3", "5"])
@pytest.mark.parametrize("scale", ["1/2", "2"])
def test_the_recurrence_gives_the_law_to_25_digits(weight: str, scale: str) -> None:
    """Where the window leaves out next to nothing."""
    law = polya_law(Fraction(weight), Fraction(scale), 150)
    assert len(law) == 151
    for found, exact in zip(
        law[:41], exact_law(Fraction(weight), Fraction(scale), 40), strict=True
    ):
        assert abs(found / exact - 1) < Decimal("1e-25")


def test_a_law_cut_short_is_normalised_on_its_window() -> None:
    weight = Fraction(3, 2)
    law, exact = polya_law(weight, SCALE, 5), exact_law(weight, SCALE, 40)
    window = 2 * sum(exact[1:6]) + exact[0]
    assert len(law) == 6
    for found, mass in zip(law, exact[:6], strict=True):
        assert abs(found * window / mass - 1) < Decimal("1e-25")
    assert polya_law(weight, SCALE, 0) == (1,)


def test_the_recurrence_begins_30_scales_beyond() -> None:
    """The first ratio lacks (R - 1) / z, which shrinks by a^2 a step: e^-60 of it is left."""
    weight, scale, reach = Fraction(3, 2), Fraction(10), 3
    law, exact = (
        [Fraction(mass) for mass in masses]
        for masses in (polya_law(weight, scale, reach), exact_law(weight, scale, reach))
    )
    error = abs((law[3] / law[2]) / (exact[3] / exact[2]) - 1)
    assert error < Fraction(math.exp(-60)) * (weight - 1) / (reach + 30 * scale)


def test_a_law_states_its_reach_its_tail_and_its_errors() -> None:
    weight, scale = Fraction(3, 2), Fraction(1, 2)
    law = _fractional_law(weight, scale)
    assert law.reach == reach_of(1.5, 0.5)
    assert law.tail == tail_bound(1.5, 0.5, law.reach)
    assert law.mass.shape == law.below.shape == (2 * law.reach + 1,)
    # One rounding for each point that is summed, and eight more; the tail on both sides.
    expected = (law.mass.size + 8) * UNIT + 2 * law.tail + 1e-24
    assert law.error == expected
    exact = exact_law(weight, scale, 40)
    for z in range(-40, 41):
        assert law.mass[law.reach + z] == pytest.approx(float(exact[abs(z)]), rel=1e-14, abs=0)
    assert law.below[law.reach] == pytest.approx(0.5 + float(exact[0]) / 2, rel=1e-14)
    assert law.below[-1] == pytest.approx(1, rel=1e-14)


def test_the_tail_of_a_law_is_in_its_error() -> None:
    """The tail alone weighs less than the rounding of the sums; 1e-24 is what the decimals lose."""
    for weight in (Fraction(3, 2), Fraction(61, 2)):
        law = _fractional_law(weight, SCALE)
        rounding = (law.mass.size + 8) * UNIT
        # The sum of the three is rounded, to far less than a tail.
        assert rounding * 2**-52 < law.tail / 10
        assert law.error - rounding == pytest.approx(2 * law.tail + 1e-24, rel=0.1, abs=0)


@pytest.mark.parametrize("weight", ["3/2", "13/5"])
@pytest.mark.parametrize("epsilon", ["0", "1/2", "3/2"])
@pytest.mark.parametrize("sensitivity", [1, 4])
def test_delta_is_the_sum_over_all_values(weight: str, epsilon: str, sensitivity: int) -> None:
    if Fraction(epsilon) >= sensitivity / SCALE:
        assert log_concave_delta(Fraction(epsilon), sensitivity, SCALE, Fraction(weight)) == 0
        return
    law = [float(mass) for mass in exact_law(Fraction(weight), SCALE, 90)]
    growth = math.exp(Fraction(epsilon))
    exact = math.fsum(
        max(0.0, law[abs(z)] - growth * law[abs(z - sensitivity)])
        for z in range(sensitivity - 90, 90)
    )
    found = float(log_concave_delta(Fraction(epsilon), sensitivity, SCALE, Fraction(weight)))
    assert exact - 1e-15 <= found <= exact + 1e-12


def test_whole_weights_are_whole_draws() -> None:
    epsilon = Fraction(1, 2)
    for draws in (1, 2, 5):
        expected = whole_delta(epsilon, 4, ((draws, SCALE),))
        assert log_concave_delta(epsilon, 4, SCALE, Fraction(draws)) == expected > 0


def test_a_weight_below_1_is_refused() -> None:
    with pytest.raises(ValueError, match="below 1"):
        log_concave_delta(Fraction(1), 4, SCALE, Fraction(99, 100))


def test_where_the_window_is_long_the_whole_part_is_taken() -> None:
    """From scale 25,000 / 90 on, and from 32 whole draws on."""
    epsilon, weight = Fraction(1, 2), Fraction(3, 2)
    edge = Fraction(25_000, 90)
    long = log_concave_delta(epsilon, 250, edge, weight)
    assert long == whole_delta(epsilon, 250, ((1, edge),))
    short = log_concave_delta(epsilon, 250, edge - Fraction(1, 100), weight)
    assert short < whole_delta(epsilon, 250, ((1, edge - Fraction(1, 100)),))
    scale = Fraction(1, 4)
    for weight, whole in ((Fraction(63, 2), False), (Fraction(65, 2), True)):
        found = log_concave_delta(Fraction(0), 1, scale, weight)
        assert (found == whole_delta(Fraction(0), 1, ((int(weight), scale),))) is whole


def test_delta_is_that_of_the_half_line() -> None:
    weight, epsilon = Fraction(3, 2), Fraction(1, 3)
    law = AddedLaws(None, _fractional_law(weight, SCALE))
    expected = capped(half_line_delta(law, epsilon, 3))
    assert log_concave_delta(epsilon, 3, SCALE, weight) == expected


HALF, TENTH, MOST = Fraction(1, 2), Fraction(1, 10), Fraction(99, 100)
ONE, TWO = Fraction(1), Fraction(2)
SLACK = 1e-10


@cache
def law(weight: Fraction, scale: Fraction) -> tuple[float, ...]:
    """P(0..W) = sum_y N(z + y) N(y), N(k) = (1-a)^R a^k R (R+1) ... (R+k-1) / k!; all positive."""
    a, r = math.exp(-1 / scale), float(weight)
    k = np.arange(1, math.ceil(90 * scale) + 1)
    one = (1 - a) ** r * np.cumprod(np.concatenate([[1.0], a * (r + k - 1) / k]))
    return tuple(np.correlate(one, one, "full")[one.size - 1 :].tolist())


def tail(weight: Fraction, scale: Fraction, start: int) -> float:
    """P(Z >= start), the small terms first."""
    return math.fsum(law(weight, scale)[: start - 1 : -1])


# ------------------------------------------------------------------------------------ brackets


@pytest.mark.parametrize("weight", [TENTH, HALF, MOST], ids=str)
@pytest.mark.parametrize("scale", [HALF, Fraction(7)], ids=str)
def test_brackets_hold_the_law_and_little_else(weight: Fraction, scale: Fraction) -> None:
    share, exact = Share(weight, scale), law(weight, scale)
    for w in (0, 1, 2, 9, 30):
        low, high = share.mass(w)
        assert low < math.log(exact[w]) < high < low + 2e-6
    for w in (1, 2, 9, 30):
        low, high = share.tail(w)
        assert low < math.log(tail(weight, scale, w)) < high < low + 2e-6


def plain_bracket(
    weight: Fraction, scale: Fraction, w: int, *, upper_tail: bool
) -> tuple[float, float]:
    """Logarithms of midpoints and trapezoids of fact 6, a cell at a time.

    Cells from 1e-12 on, each e^(1/500) times the one before, until the integrand is e^-50 of its
    start. Before them x^-R is integrated, times the least and the largest of the rest.
    """
    r, b, first = float(weight), float(scale), 1e-12

    def rest(near: float, far: float) -> float:
        """x^R g(x): the falling factors at `near`, the rising one at `far`."""
        value = math.exp(-(r + w) * near / b) * (-math.expm1(-(2 + near) / b)) ** -r
        if upper_tail:
            value /= -math.expm1(-(1 + near) / b)
        return value * (far / -math.expm1(-far / b) if far else b) ** r

    edges = [
        first * math.exp(k / 500) for k in range(17_270 + math.ceil(500 * math.log(b / r + 1)))
    ]
    values = [x**-r * rest(x, x) for x in edges]
    cell = first ** (1 - r) / (1 - r)
    lows, highs = [rest(first, 0.0) * cell], [rest(0.0, first) * cell]
    for x, y, at_x, at_y in zip(edges, edges[1:], values, values[1:], strict=False):
        middle = (x + y) / 2
        lows.append((y - x) * middle**-r * rest(middle, middle))
        highs.append((y - x) * (at_x + at_y) / 2)
    front = 2 * r * math.log(-math.expm1(-1 / b)) - w / b
    front += math.log(math.sin(math.pi * r) / (math.pi * b))
    return front + math.log(math.fsum(lows)), front + math.log(math.fsum(highs))


@pytest.mark.parametrize(
    ("weight", "scale", "w"),
    [
        (MOST, HALF, 0),
        (MOST, TWO, 1),
        (HALF, TWO, 3),
        (MOST, Fraction(1, 20), 3),
        (TENTH, Fraction(1, 20), 1),
        (TENTH, Fraction(100), 1),
    ],
    ids=str,
)
def test_brackets_are_midpoints_and_trapezoids(weight: Fraction, scale: Fraction, w: int) -> None:
    share = Share(weight, scale)
    for found, upper_tail in ((share.mass(w), False), (share.tail(w), True)):
        low, high = plain_bracket(weight, scale, w, upper_tail=upper_tail)
        assert found == pytest.approx((low - SLACK, high + SLACK), rel=0, abs=2e-14)


# -------------------------------------------------------------------------------------- search


@pytest.mark.parametrize("end", range(-3, 9))
def test_the_last_number_that_holds(end: int) -> None:
    asked: list[int] = []

    def holds(x: int) -> bool:
        asked.append(x)
        return x <= end

    assert _last_true(holds, -3, 8) == end
    assert len(asked) <= 4
    assert all(-3 < x <= 8 for x in asked)


def test_one_number_is_not_asked_about() -> None:
    assert _last_true(lambda x: bool(x // 0), 5, 5) == 5


# ---------------------------------------------------------------------------------------- delta


@pytest.mark.parametrize(
    ("weight", "scale", "sensitivity"), [(TENTH, TWO, 1), (HALF, ONE, 2), (MOST, TWO, 5)], ids=str
)
def test_the_pure_epsilon_is_the_ratio_at_0(
    weight: Fraction, scale: Fraction, sensitivity: int
) -> None:
    exact = law(weight, scale)
    expected = math.log(exact[0] / exact[sensitivity])
    found = share_pure_epsilon(sensitivity, scale, weight)
    assert expected < found < Decimal(expected) + Decimal("3e-6")
    assert share_delta(Fraction(found), sensitivity, scale, weight) == 0
    just_below = share_delta(Fraction(found) - Fraction(1, 10**8), sensitivity, scale, weight)
    assert 0 < just_below < Decimal("2e-8")


@pytest.mark.parametrize(
    ("weight", "scale", "sensitivity", "epsilon"),
    [
        (TENTH, ONE, 1, "0"),
        (TENTH, ONE, 1, "1/2"),
        (TENTH, TWO, 1, "3/2"),
        (TENTH, TWO, 3, "9/4"),
        (HALF, TWO, 2, "3/2"),
        (HALF, TWO, 2, "1"),
        (HALF, TWO, 8, "1/2"),
        (HALF, TWO, 8, "2"),
        (HALF, TWO, 9, "5"),
        (MOST, TWO, 8, "4"),
        (MOST, TWO, 8, "401/100"),
        (HALF, ONE, 2, "20001/10000"),  # on the left the ratio stays above for 600 scales
    ],
    ids=str,
)
def test_delta_of_a_share_is_the_sum_over_all_values(
    weight: Fraction, scale: Fraction, sensitivity: int, epsilon: str
) -> None:
    """The largest over all shifts, and at most 3e-6 above it."""
    level = Fraction(epsilon)
    half = law(weight, scale)
    whole = np.array(half[:0:-1] + half)
    exact = max(hockey_stick(whole, level, s) for s in range(1, sensitivity + 1))
    found = float(share_delta(level, sensitivity, scale, weight))
    assert exact < found < exact + 3e-6


# ------------------------------------------------------------------------ delta of wide brackets


class Wide:
    """Brackets of P(w) = c e^(-w/b) / sqrt(1 + w), a law as fact 6 has them, wider than needed."""

    def __init__(self, scale: int) -> None:
        rest = [1.0]  # T(w) / P(w)
        for w in range(620 * scale, -1, -1):
            rest.append(1 + math.exp(-1 / scale) * math.sqrt((1 + w) / (2 + w)) * rest[-1])
        self._rest, self._scale = rest[::-1], scale
        self._front = -math.log(2 * rest[-1] - 1)

    def _log(self, w: int) -> float:
        return self._front - w / self._scale - math.log1p(w) / 2

    def mass(self, w: int) -> tuple[float, float]:
        return self._log(w) - 0.05, self._log(w) + 0.1

    def tail(self, w: int) -> tuple[float, float]:
        log = self._log(w) + math.log(self._rest[w])
        return log - 0.03, log + 0.04

    def ratio(self, z: int, shift: int) -> tuple[float, float]:
        """Bounds of log P(z) / P(z - s)."""
        one, other = self.mass(abs(z)), self.mass(abs(z - shift))
        return one[0] - other[1], one[1] - other[0]


def plain_delta(law: Wide, epsilon: Fraction, sensitivity: int, scale: int) -> float:
    """What surely belongs to the half-lines summed, what may belong added, all rounded up."""
    level, factor = float(epsilon), math.exp(epsilon)
    pure = law.mass(0)[1] - law.mass(sensitivity)[0]
    steepest = 1 - math.exp(level - pure) + SLACK
    if law.ratio(0, sensitivity)[0] < level:
        return steepest

    def beyond(place: int, above: tuple[float, float]) -> float:
        return (1 - math.exp(-max(0.0, above[1] - level))) * math.exp(law.tail(place)[1])

    right = max(z for z in range(sensitivity // 2 + 1) if law.ratio(z, sensitivity)[0] >= level)
    first = 1 - math.exp(law.tail(right + 1)[0])
    second = factor * math.exp(law.tail(sensitivity - right)[0])
    doubt = beyond(right + 1, law.ratio(right + 1, sensitivity))
    if epsilon > Fraction(sensitivity, scale):
        left = 0
        while law.ratio(-left - 1, sensitivity)[0] >= level:
            left += 1
        first -= math.exp(law.tail(left + 1)[0])
        second -= factor * math.exp(law.tail(sensitivity + left + 1)[1])
        doubt += beyond(left + 1, law.ratio(-left - 1, sensitivity))
    return min(first - max(0.0, second) * (1 - SLACK) + doubt + SLACK, steepest)


WIDE = {scale: Wide(scale) for scale in (10, 50)}
AT_0 = Fraction(WIDE[50].ratio(0, 2)[0])
AT_3, AT_MINUS_3 = (Fraction(WIDE[10].ratio(z, 40)[0]) for z in (3, -3))


@pytest.mark.parametrize(
    ("scale", "sensitivity", "epsilon"),
    [
        (10, 40, Fraction(2)),
        (10, 40, Fraction(4)),  # Delta/b: the left has no end
        (10, 40, Fraction(43, 10)),
        (10, 41, Fraction(0)),
        (10, 40, Fraction(0)),
        (10, 40, Fraction(1, 100)),
        (50, 2, Fraction(42, 100)),  # nothing is left of the second sum
        (50, 2, Fraction(1, 2)),  # even 0 is in doubt
        (50, 100, Fraction(22, 10)),
        (50, 2, AT_0),
        (10, 2, Fraction(42, 100)),
        (10, 40, AT_3),
        (10, 40, AT_MINUS_3),
    ],
)
def test_each_bracket_is_taken_on_the_side_that_raises_delta(
    monkeypatch: pytest.MonkeyPatch, scale: int, sensitivity: int, epsilon: Fraction
) -> None:
    monkeypatch.setattr(module, "_share", lambda weight, scale: WIDE[scale])
    weight = Fraction(1, 997)  # of no other test: figures are remembered
    found = share_delta(epsilon, sensitivity, Fraction(scale), weight)
    expected = plain_delta(WIDE[scale], epsilon, sensitivity, scale)
    assert float(found) == pytest.approx(min(expected, 1.0), rel=0, abs=1e-14)
    pure = WIDE[scale].mass(0)[1] - WIDE[scale].mass(sensitivity)[0]
    assert float(share_pure_epsilon(sensitivity, Fraction(scale), weight)) == pytest.approx(
        pure, rel=1e-15
    )
