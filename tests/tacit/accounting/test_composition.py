"""Budgets over many rounds: basic, the worst instant, and the tight figure."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting.composition import (
    FIXED_SCHEDULE,
    RoundLoss,
    basic,
    laplace_round,
    round_loss,
    tight,
    tight_at_worst_instant,
)
from tacit.accounting.costs import UNVERIFIED, Cost
from tacit.accounting.scenarios import Scenario
from tacit.accounting.sweep import worst_instant
from tacit.query.words import PrivacyUnit
from tests.property_examples import examples
from tests.tacit.examples import query

MILLIONTH = Fraction(1, 10**6)
RECORD, CURATOR = PrivacyUnit.RECORD, PrivacyUnit.CURATOR
LOCAL = {"mechanism": "local", "sharing": "none", "aggregators": 1}
FINE = 1000  # ring units to a sensitivity: near enough to the continuous Laplace


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


# ------------------------------------------------------------------------------------------ basic


def test_basic_adds_up_exactly() -> None:
    third, tiny = Cost(Fraction(1, 3), Fraction(0)), Cost(Fraction(1, 10), Fraction(1, 10**30))
    assert basic([(third, 3), (tiny, 10)]) == Cost(Fraction(2), Fraction(1, 10**29))
    assert basic([]) == Cost(Fraction(0), Fraction(0))
    assert basic([(third, 1), (UNVERIFIED, 1)]) == UNVERIFIED
    assert basic([(third, 1), (UNVERIFIED, 0)]) == third
    assert basic([(Cost(Fraction(1), Fraction(1, 2)), 2)]) == UNVERIFIED


# ------------------------------------------------------------------------------------------ tight


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
    assert found is not None
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
    assert found is not None
    assert exact_response_delta(float(found), float(each), rounds) <= 1e-6
    if cells > 1 << 10:
        assert exact_response_delta(0.999 * float(found), float(each), rounds) > 1e-6
    generic = tight([(RoundLoss(Cost(each, Fraction(0))), rounds)], MILLIONTH, cells)
    assert generic == pytest.approx(found, rel=1e-9)


@pytest.mark.parametrize("places", [4, 6, 8])
def test_a_year_of_rounds_stays_above_the_truth_in_spite_of_the_transforms(places: int) -> None:
    """35,040 rounds of randomised response at 0.01: transforms err by less than the margin."""
    found = tight([(laplace_round(1, Fraction(100)), 35_040)], Fraction(1, 10**places))
    assert found is not None
    assert exact_response_delta(float(found), 0.01, 35_040) <= 10**-places
    assert exact_response_delta(0.98 * float(found), 0.01, 35_040) > 10**-places


def test_the_generic_pair_of_an_approximate_round() -> None:
    """(epsilon, delta) rounds: infinite with delta each, randomised response otherwise."""
    each, rounds, delta = Fraction(1, 4), 40, Fraction(1, 10**8)
    loss = RoundLoss(Cost(each, delta))
    found = tight([(loss, rounds)], MILLIONTH)
    assert found is not None
    infinite = -math.expm1(rounds * math.log1p(-float(delta)))
    truth = infinite + (1 - infinite) * exact_response_delta(float(found), float(each), rounds)
    assert truth <= 1e-6
    assert found < basic([(loss.cost, rounds)]).epsilon  # type: ignore[operator]
    # Deltas that reach the one asked for leave nothing.
    assert tight([(loss, 101)], MILLIONTH) is None


def test_never_above_basic() -> None:
    loss = laplace_round(FINE, Fraction(FINE, 3))
    assert tight([(loss, 1)], MILLIONTH) == 3
    assert 5.99 < (tight([(loss, 2)], MILLIONTH) or 0) <= 6
    # A delta below what numerical composition resolves: basic stands.
    small = laplace_round(FINE, Fraction(10 * FINE))
    assert tight([(small, 100)], Fraction(1, 10**16)) == 10
    assert tight([(small, 100)], Fraction(0)) == 10
    assert tight([], MILLIONTH) == 0
    assert tight([(laplace_round(1, Fraction(1, 10**4)), 2)], MILLIONTH) == 20_000


def test_different_rounds_compose_and_equal_ones_are_merged() -> None:
    tenth, fifth = laplace_round(FINE, Fraction(10 * FINE)), laplace_round(FINE, Fraction(5 * FINE))
    found = tight([(tenth, 60), (fifth, 30)], MILLIONTH)
    apart = tight([(tenth, 20), (fifth, 30), (tenth, 40)], MILLIONTH)
    assert found == apart
    alone = tight([(tenth, 60)], MILLIONTH)
    whole = tight([(fifth, 90)], MILLIONTH)
    assert found is not None
    assert alone is not None
    assert whole is not None
    assert alone < found < whole
    assert tight([(tenth, 1), (RoundLoss(UNVERIFIED), 1)], MILLIONTH) is None


@examples(25)
@given(st.integers(1, 300), st.integers(1, 300), st.integers(2, 200))
def test_more_rounds_and_more_sensitivity_never_cost_less(few: int, more: int, units: int) -> None:
    low, high = sorted((few, more))
    scale = Fraction(units * 7)
    found = [tight([(laplace_round(units, scale), n)], MILLIONTH) for n in (low, high)]
    larger = tight([(laplace_round(2 * units, scale), low)], MILLIONTH)
    assert None not in (*found, larger)
    assert found[0] <= found[1] * (1 + Fraction(1, 1000))  # type: ignore[operator]
    assert found[0] <= larger * (1 + Fraction(1, 1000))  # type: ignore[operator]


def test_the_tight_figure_of_the_worst_instant_may_be_of_another_instant() -> None:
    """Ten rounds at 1/2 add up to 5, one round at 4 does not; at this delta the one is worse."""
    half, four = laplace_round(FINE, Fraction(2 * FINE)), laplace_round(FINE, Fraction(FINE, 4))
    delta = Fraction(1, 10)
    starts, ends = ints(*[0] * 10, 20, 21), ints(*[10] * 10, 30, 22)
    assert worst_instant(starts, ends, ints(*[5] * 10, 40, 0)).instant == 0
    small, large = tight([(half, 10)], delta), tight([(four, 1)], delta)
    assert small is not None
    assert large is not None
    assert small < large == 4
    rounds = [half] * 10 + [four] * 2
    together = tight([(four, 2)], delta)
    assert tight_at_worst_instant(starts, ends, rounds, delta) == together
    assert tight_at_worst_instant(starts[:11], ends[:11], rounds[:11], delta) == large
    assert tight_at_worst_instant(starts[:10], ends[:10], rounds[:10], delta) == small
    assert tight_at_worst_instant(ints(), ints(), [], delta) == 0
    unknown = [*rounds[:11], RoundLoss(UNVERIFIED)]
    assert tight_at_worst_instant(starts, ends, unknown, delta) is None


def test_a_huge_sensitivity_is_taken_on_a_coarser_grid_and_costs_hardly_more() -> None:
    fine = tight([(laplace_round(10**5, Fraction(10**6)), 100)], MILLIONTH)
    coarse = tight([(laplace_round(10**9 + 1, Fraction(10**10 + 10)), 100)], MILLIONTH)
    assert fine is not None
    assert float(coarse or 0) == pytest.approx(float(fine), rel=1e-4)


def test_a_query_with_whole_draws_enters_by_its_own_law() -> None:
    q = query(**LOCAL, epsilon_i="0.1", bounds=["0", "1000"], max_readings=1)
    loss = round_loss(q, Scenario.ASSUMED, CURATOR)
    assert loss == RoundLoss(Cost(Fraction(1, 10), Fraction(0)), ((1000, Fraction(10_000)),))
    assert float(tight([(loss, 100)], MILLIONTH) or 0) == pytest.approx(4.693, abs=2e-3)
    # Under collusion of everybody only the victim's share is left: the generic pair.
    shared = query(
        mechanism="distributed",
        epsilon="0.1",
        layer="curator",
        min_participants=10,
        collusion={"curators": 8},
    )
    assert round_loss(shared, Scenario.ASSUMED, CURATOR).laplaces
    weak = round_loss(shared, Scenario.EVERYONE, CURATOR)
    assert weak.cost.delta
    assert not weak.laplaces
    assert round_loss(query(), Scenario.ASSUMED, CURATOR) == RoundLoss(UNVERIFIED)


def test_parts_of_one_round_compose() -> None:
    """Mean at epsilon 0.2, a half for each part, costs what two rounds at 0.1 cost."""
    q = query(**LOCAL, function="mean", epsilon_i="0.2", bounds=["0", "1000"], resolution="0.5")
    loss = round_loss(q, Scenario.ASSUMED, CURATOR)
    assert len(loss.laplaces) == 2
    found = tight([(loss, 100)], MILLIONTH)
    both = [(laplace_round(*part), 100) for part in loss.laplaces]
    assert float(found or 0) == pytest.approx(float(tight(both, MILLIONTH) or 0), rel=1e-3)
    assert found is not None
    assert found < 20


def test_the_library_is_imported_only_where_it_is_used() -> None:
    import subprocess

    code = "import sys, tacit.accounting.composition; sys.exit('dp_accounting' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_label_says_what_the_tight_figure_assumes() -> None:
    assert "fixed beforehand" in FIXED_SCHEDULE
    with pytest.raises(ValueError):
        tight([], Fraction(1))
    with pytest.raises(ValueError):
        laplace_round(0, Fraction(1))
