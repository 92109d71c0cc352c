"""Bounds on a curator's whole window, and Gaussian noise. Spec: profiles, sections 2 and 3."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import FieldsRefused
from tacit.noise.gaussian_privacy import zcdp_delta
from tacit.query.encoding import MILLION, Bounds, Entries, Linear, Norm, WindowBound
from tacit.query.functions import Readings, decode, encode, parts
from tacit.query.mechanisms import (
    LEAST_DEVIATION,
    GaussianPlan,
    aggregator_plan,
    curator_plan,
    draw,
    draw_total,
    zcdp_of,
)
from tacit.query.query import Query
from tacit.query.terms import PrivacyUnit
from tacit.randomness import SeededRandom
from tests.tacit.examples import fields

CURATOR, RECORD = PrivacyUnit.CURATOR, PrivacyUnit.RECORD

DAY: dict[str, Any] = {
    "function": "vector_sum",
    "unit": "kWh",
    "bounds": ["0", "5"],
    "max_readings": 96,
    "resolution": "0.001",
    "dimension": 96,
    "coordinates": "slots",
    "window_bound": "18.5",
    "mechanism": "distributed",
    "noise": "gaussian",
    "rho": "0.002883172",
    "collusion": {"curators": 0, "aggregators": 2},
    "min_participants": 1000,
    "n_max": 5000,
}


def day(**changes: Any) -> Query:
    return Query.of(**fields(**{**DAY, **changes}))


# --- scaling -------------------------------------------------------------------------------------


def test_scaling_in_l1_moves_further_than_the_reading_that_was_added() -> None:
    bound = WindowBound(Norm.L1, 6)
    scaled, kept = bound.scale(np.array([[6, 0], [6, 3], [-6, 3]]))
    assert scaled.tolist() == [[6, 0], [4, 2], [-4, 2]]
    assert kept.tolist() == [MILLION, 666_666, 666_666]


@pytest.mark.parametrize("norm", list(Norm))
def test_a_window_of_exactly_the_bound_stays(norm: Norm) -> None:
    row = np.array([[300, -400]])
    most = 700 if norm is Norm.L1 else 500
    assert WindowBound(norm, most).scale(row)[1].tolist() == [MILLION]
    assert WindowBound(norm, most - 1).scale(row)[1][0] < MILLION


def test_one_above_the_square_of_the_bound_is_scaled() -> None:
    """10^2 + 0 stays; 10^2 + 1 has a root above 10, so that it is divided by 11."""
    scaled, kept = WindowBound(Norm.L2, 10).scale(np.array([[10, 0], [10, 1], [-10, -1]]))
    assert scaled.tolist() == [[10, 0], [9, 0], [-9, 0]]
    assert kept.tolist() == [MILLION, 909_090, 909_090]


def test_squares_that_pass_62_bits_are_exact() -> None:
    entries = np.array([[1 << 40, -(1 << 40), 3]])
    scaled, kept = WindowBound(Norm.L2, 1 << 39).scale(entries)
    root = math.isqrt(2 * (1 << 80) + 9 - 1) + 1
    assert scaled.tolist() == [[(1 << 79) // root, -((1 << 79) // root), 3 * (1 << 39) // root]]
    assert kept.tolist() == [MILLION * (1 << 39) // root]


@given(
    st.sampled_from(list(Norm)),
    st.integers(1, 200),
    st.lists(st.lists(st.integers(-(10**4), 10**4), min_size=3, max_size=3), min_size=1),
)
def test_scaled_rows_are_within_the_bound_and_shorter(
    norm: Norm, most: int, rows: list[list[int]]
) -> None:
    before = np.array(rows)
    after, kept = WindowBound(norm, most).scale(before)
    power = 1 if norm is Norm.L1 else 2
    length = (np.abs(after) ** power).sum(axis=1)
    assert (length <= most**power).all()
    assert (np.abs(after) <= np.abs(before)).all()
    assert (after * before >= 0).all()
    stays = (np.abs(before) ** power).sum(axis=1) <= most**power
    assert (after[stays] == before[stays]).all()
    assert (kept[stays] == MILLION).all()
    assert (kept[~stays] < MILLION).all()


# --- sensitivities -------------------------------------------------------------------------------


def windows(bounds: Bounds, dimension: int, most_readings: int) -> dict[tuple[int, ...], set[Any]]:
    """Every sum of at most so many readings of slots, with the sums that one reading more or less
    (with a swap) leads to."""
    values = range(bounds.low, bounds.high + 1)
    readings = [
        tuple(value if place == slot else 0 for place in range(dimension))
        for slot in range(dimension)
        for value in values
    ]
    neighbours: dict[tuple[int, ...], set[Any]] = {}
    for count in range(most_readings + 1):
        for chosen in itertools.combinations_with_replacement(readings, count):
            total = np.array(chosen, int).reshape(count, dimension).sum(axis=0)
            near = neighbours.setdefault(tuple(total.tolist()), set())
            for one in chosen:
                less = total - np.array(one)
                near.add(tuple(less.tolist()))
                near |= {tuple((less + np.array(other)).tolist()) for other in readings}
    return neighbours


@pytest.mark.parametrize("norm", list(Norm))
@pytest.mark.parametrize(
    "bounds",
    [
        *(Bounds(0, 3), Bounds(-2, 2), Bounds(1, 3)),
        *(pytest.param(Bounds(low, 6), marks=pytest.mark.slow) for low in (0, -6)),
    ],
)
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_no_pair_of_windows_is_further_apart_than_the_table_says(
    norm: Norm, bounds: Bounds, dimension: int
) -> None:
    """Every pair of windows of at most two readings that differ in one reading, or in a curator."""
    linear = Linear.SUM if dimension == 1 else Linear.VECTOR
    entries = Entries(linear, bounds, 2, dimension, bounds.largest)
    power = 1 if norm is Norm.L1 else 2
    neighbours = windows(bounds, dimension, 2)
    for most in range(1, 9):
        window = WindowBound(norm, most)
        rows = {row: window.scale(np.array([row]))[0][0] for row in neighbours}
        of_record = max(
            int((np.abs(rows[one] - rows[other]) ** power).sum())
            for one, near in neighbours.items()
            for other in near
            if other in rows
        )
        of_curator = max(int((np.abs(row) ** power).sum()) for row in rows.values())
        assert of_record <= window.sensitivity(entries, RECORD)
        assert of_curator <= window.sensitivity(entries, CURATOR)


@pytest.mark.parametrize("norm", list(Norm))
@pytest.mark.parametrize("low", [0, -40])
@pytest.mark.parametrize("pairs", [5_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_random_days_that_differ_in_a_reading_stay_within_the_table(
    norm: Norm, low: int, pairs: int
) -> None:
    random = np.random.default_rng(2027)
    dimension, bounds = 96, Bounds(low, 40)
    entries = Entries(Linear.VECTOR, bounds, 96, dimension, 40)
    one = random.integers(low, 41, (pairs, dimension)) * random.integers(0, 2, (pairs, dimension))
    other = one.copy()
    place, elsewhere = random.integers(0, dimension, (2, pairs))
    other[np.arange(pairs), place] = 0
    other[np.arange(pairs), elsewhere] += random.integers(low, 41, pairs)
    power = 1 if norm is Norm.L1 else 2
    for most in (100, 150, 250, 1000):
        window = WindowBound(norm, most)
        apart = np.abs(window.scale(one)[0] - window.scale(other)[0])
        assert (apart**power).sum(axis=1).max() <= window.sensitivity(entries, RECORD)


def test_figures_of_the_table() -> None:
    slots = Entries(Linear.VECTOR, Bounds(0, 5000), 96, 96, 5000)
    signed = Entries(Linear.VECTOR, Bounds(-5000, 5000), 96, 96, 5000)
    l2, l1 = WindowBound(Norm.L2, 18_500), WindowBound(Norm.L1, 18_500)
    assert l2.sensitivity(slots, CURATOR) == 18_500**2
    assert l2.sensitivity(slots, RECORD) == (10_000 + 10 + 1) ** 2
    assert l1.sensitivity(slots, CURATOR) == 18_500
    assert l1.sensitivity(slots, RECORD) == 2 * 10_000 + 96
    assert WindowBound(Norm.L2, 6000).sensitivity(slots, RECORD) == 2 * 6000**2
    assert WindowBound(Norm.L2, 5000).sensitivity(signed, RECORD) == 4 * 5000**2
    assert WindowBound(Norm.L1, 6000).sensitivity(slots, RECORD) == 12_000
    assert slots.squared_l2(CURATOR) == (96 * 5000) ** 2
    assert (slots.squared_l2(RECORD), signed.squared_l2(RECORD)) == (2 * 5000**2, 4 * 5000**2)
    bins = Entries(Linear.HISTOGRAM, Bounds(0, 1), 7, 4)
    assert (bins.squared_l2(CURATOR), bins.squared_l2(RECORD)) == (49, 2)


# --- the query -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "field", "says"),
    [
        ({"window_bound": "0.0009"}, "window_bound", "at least 0.098"),
        ({"window_bound": "0.097"}, "window_bound", "at least 0.098"),
        ({"bounds": ["0", "1"], "dimension": 26, "window_bound": "0.05"}, "window_bound", "0.051"),
        ({"resolution": "0.0000001"}, "resolution", "passes 1073741824"),
        (
            {"resolution": "1", "window_bound": "98", "layer": "curator", "rho": "0.5"},
            "resolution",
            "finer",
        ),
        ({"epsilon": "1"}, "epsilon", "one of the two"),
        ({"rho": None}, "epsilon", "one of the two"),
        ({"rho": None, "epsilon": "1", "delta": "0"}, "delta", "0.000001"),
        ({"rho": "0.0000000000015"}, "rho", "0.000000000001 is"),
        ({"noise": None}, "rho", "only gaussian"),
        ({"stance": "paper"}, "stance", "sound"),
        ({"window_bound": None, "stance": "paper"}, "noise", "sound"),
        ({"mechanism": "two-layer"}, "noise", "distributed"),
        ({"validity": "proved", "layer": "curator"}, "layer", "aggregator"),
        ({"job": "a-job"}, "job", "gaussian"),
        ({"function": "count", "dimension": None, "coordinates": None}, "window_bound", "sum"),
        ({"window_bound": "0"}, "window_bound", "above 0"),
        ({"dimension": 0}, "dimension", "at least 1"),
        (
            {"completeness": "curators", "rho": "0.05"},
            "rho",
            "in the part curators_with_readings: choose a rho of at most 0.01, or a smaller part",
        ),
        ({"dimension": 10**6 + 1}, "dimension", "at most 1000000"),
        ({"dimension": 10**6, "window_bound": "9"}, "window_bound", "at least 10 at this"),
        (
            {"dimension": 65_537, "window_bound": None},
            "dimension",
            "choose both, or at most 65536 coordinates",
        ),
        (
            {"dimension": 65_537, "noise": None, "rho": None, "epsilon": "1"},
            "dimension",
            "need gaussian noise and a window_bound",
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_field_with_what_would(
    changes: dict[str, Any], field: str, says: str
) -> None:
    with pytest.raises(FieldsRefused) as refused:
        day(**changes)
    messages = {error.pointer.split("/")[1]: error.message for error in refused.value.errors}
    assert says in messages[field]


def test_the_rho_that_is_named_for_counts_works() -> None:
    assert zcdp_of(day(completeness="curators", rho="0.01")) == Fraction(1, 100)


def test_a_vector_of_a_million_coordinates_has_one_bound() -> None:
    [part] = parts(day(dimension=10**6))
    assert part.squared_sensitivity == 18_500**2


def test_contributions_beyond_62_bits_are_scaled_some_at_a_time() -> None:
    """Six rows of 100,000 entries are three blocks; each row is scaled as it is alone."""
    rows = np.arange(6)[:, None] * np.int64(10**13) + np.arange(100_000)
    bound = WindowBound(Norm.L2, 10**12)
    scaled, kept = bound.scale(rows)
    assert kept[0] == MILLION
    for row, own in zip(rows, scaled, strict=True):
        squares = sum(value * value for value in row.tolist())
        root = math.isqrt(squares - 1) + 1
        whole = squares <= 10**24
        assert (own == [v if whole else v * 10**12 // root for v in row.tolist()]).all()


def test_the_bound_that_is_named_as_the_least_one_works() -> None:
    assert parts(day(window_bound="0.098"))[0].window == WindowBound(Norm.L2, 98)


def test_a_laplace_query_bounds_windows_in_l1() -> None:
    asked = day(noise=None, rho=None, epsilon="1", window_bound="150")
    [part] = parts(asked)
    assert part.window == WindowBound(Norm.L1, 150_000)
    assert (part.sensitivity, part.squared_sensitivity) == (150_000, None)


def test_rho_has_a_delta_and_an_epsilon_has_its_rho() -> None:
    assert day().delta == Fraction(1, 10**6)
    assert zcdp_of(day()) == Fraction("0.002883172")
    asked = day(rho=None, epsilon="1", delta="0.000001")
    rho = zcdp_of(asked)
    assert rho == Fraction("0.024355970359")
    assert zcdp_delta(float(rho), 1.0) <= 1e-6 < zcdp_delta(float(rho) + 1e-9, 1.0)


def test_the_sizes_of_the_specification() -> None:
    year = aggregator_plan(day())
    one_day = aggregator_plan(day(rho=None, epsilon="1", delta="0.000001"))
    assert math.isqrt(int(year.variances[0])) == 243_624
    assert math.isqrt(int(one_day.variances[0])) == 83_821
    shares = curator_plan(day(layer="curator", min_participants=5000))
    assert shares.weight == Fraction(1, 5000)
    assert math.isqrt(int(shares.variances[0])) == 3445
    assert min(shares.variances) >= LEAST_DEVIATION**2


def test_the_window_is_scaled_after_its_readings_are_summed() -> None:
    """Two readings in one slot, each within the bound, together above it."""
    asked = day(dimension=2, window_bound="4", max_readings=4, resolution="0.001")
    quantity = np.array([3, 3, 1], np.int64) * 10**12  # kWh in nano-watt-hours
    readings = Readings(2, np.array([0, 0, 1]), quantity, np.zeros(3, np.int64))
    encoded = encode(asked, readings)
    assert encoded.values.tolist() == [[4000, 0], [1000, 0]]
    assert encoded.clamped.tolist() == [0, 0]
    assert encoded.kept.tolist() == [666_666, MILLION]
    assert decode(asked, encoded.values.sum(axis=0)) == {"vector": ["5", "0"]}


def test_blocks_have_bounds_of_their_own_and_a_share_of_rho_each() -> None:
    block = {"dimension": 4, "l1_bound": "5", "resolution": "0.001"}
    blocks = [
        {"name": "a", **block, "window_bound": "1"},
        {"name": "b", **block, "window_bound": "2"},
    ]
    asked = day(
        blocks=blocks,
        dimension=None,
        window_bound=None,
        coordinates="values",
        split=["0.25", "0.75"],
    )
    plan = aggregator_plan(asked)
    first, second = plan.variances
    assert second / first == Fraction(4 * 1, 3)
    assert [part.window for part in parts(asked)] == [
        WindowBound(Norm.L2, 1000),
        WindowBound(Norm.L2, 2000),
    ]


# --- drawing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("total", [False, True])
def test_drawn_noise_has_the_variance_of_the_plan(total: bool) -> None:
    """20,000 values: their variance lies within 5 deviations of it, sqrt(2 / n) of it each."""
    plan = GaussianPlan((Fraction(400), Fraction(90_000)), (4, 1), Fraction(1, 8))
    source = SeededRandom(7)
    if total:
        drawn = np.stack([draw_total(plan, source, 5) for _ in range(4000)])
    else:
        drawn = draw(plan, source, 4000)
    factor = 5 if total else 1
    for columns, variance in ((drawn[:, :4], 400), (drawn[:, 4:], 90_000)):
        spread = 5 * math.sqrt(2 / columns.size)
        assert columns.var() == pytest.approx(variance * factor, rel=spread)
        assert abs(columns.mean()) < 5 * math.sqrt(variance * factor / columns.size)
