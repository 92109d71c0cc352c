"""The steps of composition one by one: sums of windows, atoms of losses, and their grid.

Sums over windows of time, against a search over all instants.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import pld_pmf
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting.amounts import UNVERIFIED, Cost, pure_rho
from tacit.accounting.charges import unit_cost
from tacit.accounting.composition import (
    RoundLoss,
    Worst,
    _atoms,
    _laplace_atoms,
    _largest_rows,
    _margin,
    _numerical,
    _on_grid,
    basic,
    covering,
    covering_within,
    laplace_round,
    round_loss,
    sums_at,
    tight,
    tight_at_worst_instant,
    worst_instant,
    worst_move,
)
from tacit.accounting.scenarios import Scenario
from tacit.noise.gaussian_privacy import zcdp_epsilon
from tacit.query.terms import PrivacyUnit
from tests.property_examples import examples
from tests.tacit.accounting.examples import distributed, two_layer
from tests.tacit.examples import query

MILLIONTH = Fraction(1, 10**6)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


# ------------------------------------------------------------------------------------------ basic


def test_rounds_that_never_happen_are_passed_over() -> None:
    one = Cost(Fraction(1, 3), Fraction(1, 10))
    assert basic([(UNVERIFIED, 0), (one, 3)]) == Cost(Fraction(1), Fraction(3, 10))
    assert basic([]) == Cost(Fraction(0), Fraction(0))
    for unknown in (UNVERIFIED, Cost(Fraction(1), None), Cost(None, Fraction(0))):
        assert basic([(one, 1), (unknown, 1)]) == UNVERIFIED


def test_deltas_that_reach_1_leave_nothing() -> None:
    tenth = Cost(Fraction(1), Fraction(1, 10))
    assert basic([(tenth, 10)]) == UNVERIFIED
    assert basic([(tenth, 9)]) == Cost(Fraction(9), Fraction(9, 10))
    assert basic([(Cost(Fraction(1), Fraction(2)), 1)]) == UNVERIFIED


# ----------------------------------------------------------------------------------------- losses


def test_the_loss_of_one_laplace_by_its_values() -> None:
    """The table of the module's docstring for sensitivity 3 and scale 2."""
    a = math.exp(-1 / 2)
    losses, masses = _laplace_atoms(3, Fraction(2))
    assert losses.tolist() == [1.5, 0.5, -0.5, -1.5]
    expected = [1, (1 - a) * a, (1 - a) * a**2, a**3]
    assert masses == pytest.approx([each / (1 + a) for each in expected], rel=1e-14)
    assert masses.sum() == pytest.approx(1, rel=1e-14)


def test_a_sensitivity_of_more_atoms_is_taken_in_larger_units() -> None:
    most = 1 << 17
    losses, _ = _laplace_atoms(most, Fraction(most))
    assert (losses.size, losses[0], losses[1]) == (most + 1, 1.0, 1 - 2 / most)
    losses, masses = _laplace_atoms(most + 1, Fraction(most))
    assert losses.size == (most + 2) // 2 + 1
    assert losses[0] == pytest.approx((most + 2) / most, rel=1e-14)
    assert losses[1] == pytest.approx((most + 2 - 4) / most, rel=1e-14)
    assert masses.sum() == pytest.approx(1, rel=1e-12)


def test_a_loss_is_split_between_its_neighbours() -> None:
    """Both sums stay: of p, and of q = p e^(-loss). Grid points are -1, 0, 1, 2 and 3 halves."""
    losses, masses = np.array([1.2, 0.5, -0.3]), np.array([0.5, 0.3, 0.2])
    lowest, grid = _on_grid(losses, masses, 0.5)
    assert lowest == -1
    assert grid.size == 5
    points = (lowest + np.arange(grid.size)) * 0.5
    assert grid.sum() == pytest.approx(1, rel=1e-14)
    assert (grid * np.exp(-points)).sum() == pytest.approx(
        (masses * np.exp(-losses)).sum(), rel=1e-14
    )
    upper = -math.expm1(1.0 - 1.2) / -math.expm1(-0.5)
    assert grid[3:] == pytest.approx([0.5 * (1 - upper), 0.5 * upper], rel=1e-12)
    assert grid[2] == pytest.approx(0.3, rel=1e-14)  # 0.5 is a point of the grid
    lower = -math.expm1(-0.5 + 0.3) / -math.expm1(-0.5)
    assert grid[:2] == pytest.approx([0.2 * (1 - lower), 0.2 * lower], rel=1e-12)
    # As floats, 1.7 / 0.1 is 17 but 17 * 0.1 is above 1.7: no part becomes negative.
    assert _on_grid(np.array([1.7]), np.ones(1), 0.1)[1].tolist() == [1, 0]


def test_atoms_of_a_round_known_by_its_cost_are_randomised_response() -> None:
    ((losses, masses, infinite),) = _atoms(RoundLoss(Cost(Fraction(2), Fraction(1, 8))))
    assert losses.tolist() == [2.0, -2.0]
    likely = 1 / (1 + math.exp(-2))
    assert masses == pytest.approx([7 / 8 * likely, 7 / 8 * (1 - likely)], rel=1e-14)
    assert infinite == 1 / 8


def test_atoms_of_a_round_known_by_its_laplaces() -> None:
    parts = ((3, Fraction(2)), (5, Fraction(7)))
    found = _atoms(RoundLoss(Cost(Fraction(3), Fraction(0)), parts))
    assert [infinite for _, _, infinite in found] == [0, 0]
    for (losses, masses, _), part in zip(found, parts, strict=True):
        expected = _laplace_atoms(*part)
        assert losses.tolist() == expected[0].tolist()
        assert masses.tolist() == expected[1].tolist()


def test_the_margin_grows_with_the_rounds() -> None:
    assert _margin(0) == 1e-12
    assert _margin(35_040) == pytest.approx(7.018e-10, rel=1e-9)


def test_rows_that_another_one_reaches_are_not_composed() -> None:
    rows = np.array([[0, 3], [2, 1], [1, 1], [2, 0], [1, 2]])
    assert _largest_rows(rows).tolist() == [[0, 3], [2, 1], [1, 2]]


# ------------------------------------------------------------------------------------------ tight


def by_hand(step: float, *rounds: tuple[int, Fraction, int]) -> Any:
    """Rounds of discrete Laplaces on a grid of this step, composed by dp_accounting."""
    composed: Any = None
    for sensitivity, scale, count in rounds:
        lowest, masses = _on_grid(*_laplace_atoms(sensitivity, scale), step)
        one = pld_pmf.DensePLDPmf(step, lowest, masses, 0.0, True)
        for _ in range(count):
            composed = one if composed is None else composed.compose(one, 1e-15)
    return composed


def test_a_few_rounds_are_composed_on_a_grid_of_twice_their_reach() -> None:
    """Three at 1/2 and one at 1/4 reach 1.75; 24 deviations would be 24 sqrt(3/4 + 1/16)."""
    rounds = ((laplace_round(2, Fraction(4)), 3), (laplace_round(2, Fraction(8)), 1))
    expected = by_hand(2 * 1.75 / 128, (2, Fraction(4), 3), (2, Fraction(8), 1))
    found = _numerical(rounds, 0.05, 128)
    assert found == pytest.approx(expected.get_epsilon_for_delta(0.05), rel=1e-9)


def test_many_rounds_are_composed_on_a_grid_of_24_deviations() -> None:
    """400 at 1/10 reach 40 and deviate by 2: 48 is below twice the reach."""
    loss = laplace_round(1, Fraction(10))
    lowest, masses = _on_grid(*_laplace_atoms(1, Fraction(10)), 48 / 256)
    many = pld_pmf.DensePLDPmf(48 / 256, lowest, masses, 0.0, True).self_compose(400)
    found = _numerical(((loss, 400),), 1e-3, 256)
    assert found == pytest.approx(many.get_epsilon_for_delta(1e-3), rel=1e-9)


def test_every_loss_is_rounded_against_us(monkeypatch: pytest.MonkeyPatch) -> None:
    """dp_accounting truncates the tails of a composition to the side that it was asked for."""
    asked = []

    class Recorded(pld_pmf.DensePLDPmf):  # type: ignore[misc]
        def __init__(self, *arguments: Any) -> None:
            asked.append(arguments[4])
            super().__init__(*arguments)

    monkeypatch.setattr(pld_pmf, "DensePLDPmf", Recorded)
    _numerical(((laplace_round(2, Fraction(4)), 3), (laplace_round(2, Fraction(8)), 1)), 0.05, 128)
    assert len(asked) >= 2
    assert all(asked)


def test_a_grid_has_65536_cells_if_none_are_passed() -> None:
    loss, delta = RoundLoss(Cost(Fraction(1, 3), Fraction(0))), Fraction(1, 20)
    found = [tight([(loss, 7)], delta, cells) for cells in (1 << 15, 1 << 16, 1 << 17)]
    assert found[0] != found[1] != found[2]
    assert tight([(loss, 7)], delta) == found[1]


def test_a_round_with_a_delta_is_infinite_with_that_probability() -> None:
    """Randomised response at 1 twice, infinite with 1/100 each: by enumeration."""
    loss = RoundLoss(Cost(Fraction(1), Fraction(1, 100)))
    infinite = 1 - 0.99**2
    found = _numerical(((loss, 2),), 0.1, 1 << 10)
    p = 1 / (1 + math.exp(-1))
    truth = infinite + 0.99**2 * p**2 * -math.expm1(found - 2)
    assert truth == pytest.approx(0.1, rel=1e-3)
    assert _numerical(((loss, 2),), 0.01, 1 << 10) == math.inf


def test_a_loss_beyond_500_is_not_composed() -> None:
    for epsilon, finite in ((500, True), (501, False)):
        loss = RoundLoss(Cost(Fraction(epsilon), Fraction(0)))
        assert math.isfinite(_numerical(((loss, 2),), 0.1, 64)) is finite


def test_the_tight_figure_asks_for_less_than_delta_and_is_raised() -> None:
    loss = laplace_round(2, Fraction(4))
    asked = 0.01 * (1 - 1e-4) - (2e-14 * 2 + 1e-12)
    composed = _numerical(((loss, 2),), asked, 1 << 10)
    found = tight([(loss, 2)], Fraction(1, 100), 1 << 10)
    assert float(found or 0) == pytest.approx(composed * (1 + 1e-7) + 1e-9, rel=1e-12)
    assert tight([(loss, 1), (loss, 1)], Fraction(1, 100), 1 << 10) == found


def test_where_the_basic_figure_is_the_tight_one() -> None:
    loss = laplace_round(2, Fraction(4))
    assert tight([], MILLIONTH) == tight([(loss, 0)], MILLIONTH) == 0
    assert tight([(loss, 1)], Fraction(1, 2)) == Fraction(1, 2)
    assert tight([(loss, 2)], Fraction(0)) == 1
    # 100 rounds: nothing is left to ask for at a delta of the margin, so that rho adds up, and of
    # ten the sum of epsilons is less.
    rho = 100 * float(pure_rho(Fraction(1, 2)))
    in_rho = zcdp_epsilon(rho, 1e-12 * (1 - 1e-4)) * (1 + 1e-7) + 1e-9
    found = tight([(loss, 100)], Fraction(1, 10**12), 64)
    assert float(found or 0) == pytest.approx(in_rho, rel=1e-12)
    assert tight([(loss, 10)], Fraction(1, 10**12), 64) == 5
    coarse = tight([(loss, 2)], MILLIONTH, 3)
    assert coarse == 1  # a grid this coarse finds more than the sum


def test_where_no_figure_is_known() -> None:
    loss = laplace_round(2, Fraction(4))
    assert tight([(loss, 2), (RoundLoss(UNVERIFIED), 1)], MILLIONTH) is None
    assert tight([(loss, 2), (RoundLoss(UNVERIFIED), 0)], Fraction(0)) == 1
    weak = RoundLoss(Cost(Fraction(1), Fraction(1, 100)))
    assert tight([(weak, 1)], Fraction(1, 100)) == 1
    assert tight([(weak, 1)], Fraction(1, 200), 64) is None
    assert tight([(weak, 2)], Fraction(1, 100), 64) is None
    # One round whose delta passes what is asked may still be known numerically: here it is not.
    assert tight([(weak, 100)], Fraction(99, 100), 64) is not None


@pytest.mark.parametrize(
    ("rho", "delta", "exact"),
    [(20, "1e-6", True), (Fraction(41, 2), "1e-6", False), (3, "2e-20", True), (3, "5e-21", False)],
)
def test_gaussian_rounds_are_one_gaussian_up_to_50_and_from_a_delta_of_1e_20(
    rho: Fraction, delta: str, exact: bool
) -> None:
    """At 10^-6, rho 20 is epsilon 49.3 and rho 20.5 is 50.2. Beyond, zCDP counts: 2 % more."""
    loss = RoundLoss(Cost(Fraction(100), Fraction(0), Fraction(rho, 2)), mu_squared=Fraction(rho))
    found = tight([(loss, 2)], Fraction(delta))
    assert (float(found or 0) < 0.99 * zcdp_epsilon(float(rho), float(delta))) is exact


@pytest.mark.parametrize("delta", [Fraction(1), Fraction(-1, 10)])
def test_a_delta_outside_0_to_1_is_refused(delta: Fraction) -> None:
    with pytest.raises(ValueError, match="delta"):
        tight([], delta)


def test_what_a_laplace_round_is() -> None:
    assert laplace_round(1, Fraction(1, 4)) == RoundLoss(
        Cost(Fraction(4), Fraction(0)), ((1, Fraction(1, 4)),)
    )
    for sensitivity, scale in ((0, Fraction(1)), (1, Fraction(0)), (1, Fraction(-1))):
        with pytest.raises(ValueError, match="at least one ring unit"):
            laplace_round(sensitivity, scale)


def test_every_largest_set_of_rounds_is_composed() -> None:
    """Two windows of a kind overlap; a third of another kind stands alone."""
    half, two = laplace_round(2, Fraction(4)), laplace_round(2, Fraction(1))
    starts, ends = ints(0, 5, 20), ints(10, 15, 30)
    delta = Fraction(0)
    assert tight_at_worst_instant(starts, ends, [half, half, half], delta) == 1
    assert tight_at_worst_instant(starts[:1], ends[:1], [half], delta) == Fraction(1, 2)
    assert tight_at_worst_instant(starts, ends, [half, two, half], delta) == Fraction(5, 2)
    assert tight_at_worst_instant(starts, ends, [half, half, two], delta) == 2
    assert tight_at_worst_instant(starts[:0], ends[:0], [], delta) == 0
    unknown = RoundLoss(UNVERIFIED)
    assert tight_at_worst_instant(starts, ends, [half, two, unknown], delta) is None
    with pytest.raises(ValueError, match="one start, one end and one amount"):
        tight_at_worst_instant(starts, ends, [half], delta)


# ------------------------------------------------------------------------------- rounds of queries


def test_a_round_is_known_by_its_largest_whole_draw() -> None:
    """epsilon_u = 7.5 and epsilon_s = 2.5 over 100 units: scales 40/3 and 40."""
    sure = two_layer("1", "1")
    found = round_loss(sure, Scenario.CURATORS, CURATOR)
    assert found == RoundLoss(Cost(Fraction(5, 2), Fraction(0)), ((100, Fraction(40)),))
    alone = round_loss(sure, Scenario.EVERYONE, CURATOR)
    assert alone.laplaces == ((100, Fraction(40, 3)),)
    coin = round_loss(two_layer("1", "0.5"), Scenario.CURATORS, CURATOR)
    assert coin.laplaces == ((100, Fraction(40, 3)),)
    none = round_loss(two_layer("0.5", "0.5"), Scenario.CURATORS, CURATOR)
    assert none.cost.epsilon == 10
    assert none.laplaces == ()


def test_shares_of_one_scale_add_up_to_a_whole_draw() -> None:
    """Half a draw of each curator and a fifth of each aggregator, all of scale 100."""
    q = distributed(layer="both", collusion={"curators": 8})
    assert round_loss(q, Scenario.CURATORS, CURATOR).laplaces == ((100, Fraction(100)),)
    less = distributed(bounds=["0", "4"], layer="both", collusion={"curators": 8})
    weak = round_loss(less, Scenario.BLIND_AGGREGATORS, CURATOR)  # 1/2 + 1/5
    assert weak.laplaces == ()
    assert weak.cost.delta


def test_rounds_of_nothing_verified() -> None:
    assert round_loss(query(), Scenario.ASSUMED, CURATOR) == RoundLoss(UNVERIFIED)
    together = round_loss(distributed(), Scenario.ASSUMED, CURATOR, ["A"] * 5)
    assert together == RoundLoss(UNVERIFIED)


RECORD, CURATOR = PrivacyUnit.RECORD, PrivacyUnit.CURATOR
LOCAL = {"mechanism": "local", "sharing": "none", "aggregators": 1}


STARTS, ENDS = ints(0, 5, 20), ints(10, 15, 30)


def test_the_acceptance_check_of_the_sweep() -> None:
    """Windows [0,10), [5,15), [20,30) at epsilon 1 each."""
    ones = ints(1, 1, 1)
    assert worst_instant(STARTS, ENDS, ones).amount == 2
    assert worst_instant(STARTS, ENDS, ones).instant == 5
    assert worst_move(STARTS, ENDS, ones) == 3
    plain = query(**LOCAL, epsilon_i="1", privacy_unit="record", bounds=["0", "4"], max_readings=1)
    busy = query(**LOCAL, epsilon_i="1", privacy_unit="record", bounds=["0", "4"], max_readings=4)
    for q, curator in ((plain, 3), (busy, 12)):
        cost = unit_cost(q, Scenario.ASSUMED, CURATOR)
        assert basic([(cost, 3)]) == Cost(Fraction(curator), Fraction(0))
        assert unit_cost(q, Scenario.ASSUMED, RECORD) == Cost(Fraction(1), Fraction(0))


def test_the_first_of_the_worst_instants() -> None:
    starts, ends = ints(7, 3, 5, 5), ints(8, 4, 6, 6)
    assert worst_instant(starts, ends, ints(2, 2, 1, 1)) == Worst(2, 3)
    assert worst_instant(starts, ends, ints(1, 2, 2, 1)) == Worst(3, 5)
    assert worst_instant(ints(), ints(), ints()) == Worst(0, None)
    assert worst_move(ints(), ints(), ints()) == 0
    assert sums_at(starts, ends, ints(1, 2, 4, 8), ints(2, 3, 4, 5, 6, 7, 8)).tolist() == [
        0, 2, 0, 12, 0, 1, 0,
    ]  # fmt: skip


def test_sweeps_of_fixed_draws_equal_a_search_over_all_instants() -> None:
    """Fixed draws of up to nine windows, some of them empty."""
    drawn = np.random.default_rng(3)
    for _ in range(150):
        size = int(drawn.integers(1, 10))
        starts = drawn.integers(-6, 7, size)
        ends = starts + drawn.integers(0, 7, size)
        amounts = drawn.integers(0, 9, size)
        covering = [{k for k in range(size) if starts[k] <= t < ends[k]} for t in range(-6, 14)]
        summed = [sum(int(amounts[k]) for k in which) for which in covering]
        found = worst_instant(starts, ends, amounts)
        assert found.amount == max(summed)
        moved = max(
            sum(int(amounts[k]) for k in one | other) for one, other in product(covering, repeat=2)
        )
        assert worst_move(starts, ends, amounts) == moved


def test_a_sum_below_62_bits_is_allowed() -> None:
    for sweep in (worst_instant, worst_move):
        with pytest.raises(ValueError, match="62 bits"):
            sweep(ints(0), ints(1), ints(1 << 62))
    most = (1 << 62) - 512
    assert worst_instant(ints(0), ints(1), ints(most)).amount == most
    assert worst_move(ints(0), ints(1), ints(most)) == most


@pytest.mark.parametrize(
    ("starts", "ends", "amounts"),
    [
        (ints(0, 1), ints(2), ints(1)),
        (ints(0), ints(2, 3), ints(1)),
        (ints(0), ints(2), ints(1, 1)),
        (ints(0).reshape(1, 1), ints(2).reshape(1, 1), ints(1).reshape(1, 1)),
    ],
)
def test_windows_come_as_three_columns(starts: Any, ends: Any, amounts: Any) -> None:
    for sweep in (worst_instant, worst_move):
        with pytest.raises(ValueError, match="one start, one end and one amount"):
            sweep(starts, ends, amounts)


def test_windows_that_cannot_be_are_refused() -> None:
    for sweep in (worst_instant, worst_move):
        for starts, ends, amounts in ((2, 1, 1), (0, 1, -1)):
            with pytest.raises(ValueError, match="not negative"):
                sweep(ints(0, starts), ints(1, ends), ints(1, amounts))
    assert worst_instant(ints(2), ints(2), ints(0)).amount == 0


WINDOWS = st.lists(st.tuples(st.integers(-12, 12), st.integers(0, 12)), max_size=9)


@examples(200)
@given(WINDOWS, st.integers(-14, 20), st.integers(1, 12), st.randoms(use_true_random=False))
def test_no_instant_of_a_window_is_covered_by_more_than_those_tried(
    windows: list[tuple[int, int]], start: int, length: int, chance: Any
) -> None:
    starts = ints(*(first for first, _ in windows))
    ends = starts + ints(*(size for _, size in windows))
    amounts = [chance.randrange(10) for _ in windows]
    tried = {
        instant: places.tolist()
        for instant, places in covering_within(starts, ends, start, start + length)
    }
    assert list(tried) == sorted(tried)
    found = {
        instant: [k for k in range(len(windows)) if starts[k] <= instant < ends[k]]
        for instant in range(start, start + length)
    }
    assert tried == {instant: found[instant] for instant in tried}
    assert all(any(set(each) <= set(kept) for kept in tried.values()) for each in found.values())
    sums = {instant: sum(amounts[k] for k in places) for instant, places in found.items()}
    assert max(sums[instant] for instant in tried) == max(sums.values())


def test_a_window_is_searched_at_its_start_and_where_others_start_in_it() -> None:
    starts, ends = ints(0, 4, 6, 8), ints(4, 8, 10, 9)

    def within(start: int, end: int) -> list[tuple[int, list[int]]]:
        return [(at, places.tolist()) for at, places in covering_within(starts, ends, start, end)]

    assert within(1, 4) == [(1, [0])]
    assert within(4, 8) == [(4, [1]), (6, [1, 2])]
    assert within(7, 9) == [(7, [1, 2]), (8, [2, 3])]
    assert within(20, 21) == [(20, [])]
    assert covering(starts, ends, 4).tolist() == [1]
    assert next(covering_within(ints(), ints(), 0, 5))[0] == 0
