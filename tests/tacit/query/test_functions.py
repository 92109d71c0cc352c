"""Encoding and decoding, each against a slow version in rationals."""

from fractions import Fraction
from math import ceil, floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.query.encoding import amounts
from tacit.query.functions import (
    Encoded,
    Readings,
    decode,
    dimension,
    encode,
    local_sensitivities,
    parts,
    reading_rule,
    vector_bound,
)
from tacit.query.query import Query
from tacit.query.terms import Function
from tacit.units import NANO
from tacit.wire import format_exact
from tests.property_examples import examples
from tests.tacit.examples import VARIANTS, query, readings

HALF = NANO // 2
QUANTITIES = st.one_of(
    st.integers(-10, 10).map(lambda step: step * HALF),
    st.integers(-6 * NANO, 6 * NANO),
    st.sampled_from([-(2**62), 2**62]),
)
OFFSETS = st.integers(0, 2**32 - 1)


def columns_of(asked: Query) -> int | None:
    return dimension(asked) if asked.coordinates == "values" else None


@st.composite
def cases(draw, kind):
    asked = query(**VARIANTS[kind], max_readings=draw(st.integers(1, 3)))
    columns = columns_of(asked)
    quantity = QUANTITIES if columns is None else st.tuples(*[QUANTITIES] * columns)
    curators = draw(st.integers(1, 4))
    rows = draw(st.lists(st.tuples(st.integers(0, curators - 1), quantity, OFFSETS), max_size=12))
    return asked, readings(curators, rows, columns), rows


def one_reading(asked: Query, quantity, offset: int) -> list[list[int]]:
    """What a reading adds to each part, by the letter of the specification."""
    low, high = asked.bounds
    step = asked.resolution
    centred = asked.function in ("mean", "variance")
    centre = floor((low + high) / 2 / step) * step if centred else Fraction(0)

    def clamped(value, resolution):
        q = round((Fraction(value, NANO) - centre) / resolution)
        ends = floor((low - centre) / resolution), ceil((high - centre) / resolution)
        ends = (-max(map(abs, ends)), max(map(abs, ends))) if centred else ends
        return min(max(q, ends[0]), ends[1])

    def scaled(vector, bound):
        norm = sum(map(abs, vector))
        return vector if norm <= bound else [int(Fraction(v * bound, norm)) for v in vector]

    match asked.function:
        case Function.COUNT:
            return [[1]]
        case Function.HISTOGRAM:
            value = Fraction(quantity, NANO)
            inner = asked.edges[1:-1]
            cell = sum(1 for edge in inner if value >= edge)
            return [[int(i == cell) for i in range(len(inner) + 1)]]
        case Function.VECTOR_SUM if asked.blocks:
            result, rest = [], list(quantity)
            for block in asked.blocks:
                own, rest = rest[: block.dimension], rest[block.dimension :]
                vector = [clamped(v, block.resolution) for v in own]
                result.append(scaled(vector, ceil(block.l1_bound / block.resolution)))
            return result
        case Function.VECTOR_SUM:
            unbounded = 10**9
            bound = unbounded if asked.l1_bound is None else ceil(asked.l1_bound)
            if asked.coordinates == "values":
                return [scaled([clamped(v, asked.resolution) for v in quantity], bound)]
            vector = [0] * asked.dimension
            vector[offset * asked.dimension // 2**32] = clamped(quantity, asked.resolution)
            return [scaled(vector, bound)]
    q = clamped(quantity, asked.resolution)
    return {"sum": [[q]], "mean": [[q], [1]], "variance": [[q], [q * q], [1]]}[asked.function]


@pytest.mark.parametrize("kind", VARIANTS)
@examples(60)
@given(data=st.data())
def test_encode_and_local_sensitivities_are_those_of_the_slow_version(kind, data):
    asked, given_readings, rows = data.draw(cases(kind))
    width = dimension(asked)
    values = [[0] * width for _ in range(given_readings.count)]
    local = [[0] * len(parts(asked)) for _ in range(given_readings.count)]
    used = [0] * given_readings.count
    for owner, quantity, offset in rows:
        if used[owner] == asked.max_readings:
            continue
        used[owner] += 1
        added = one_reading(asked, quantity, offset)
        flat = [v for vector in added for v in vector]
        values[owner] = [a + b for a, b in zip(values[owner], flat, strict=True)]
        norms = [sum(map(abs, vector)) for vector in added]
        local[owner] = [max(a, b) for a, b in zip(local[owner], norms, strict=True)]
    encoded = encode(asked, given_readings)
    assert encoded.values.tolist() == values
    assert encoded.used.tolist() == used
    assert local_sensitivities(asked, given_readings).tolist() == local


def test_only_the_first_readings_in_the_given_order_count():
    asked = query(max_readings=2)
    mixed = readings(2, [(1, NANO, 0), (0, 3 * NANO, 0), (1, -NANO, 0), (0, NANO, 0), (1, 2, 0)])
    encoded = encode(asked, mixed)
    assert encoded.values.tolist() == [[4], [0]]
    assert encoded.used.tolist() == [2, 2]
    late = readings(1, [(0, NANO, 0), (0, NANO, 0), (0, 99 * NANO, 0)])
    assert encode(asked, late).values.tolist() == [[2]]
    assert encode(asked, late).clamped.tolist() == [0]


def test_clamped_readings_are_counted_for_their_owner():
    asked = query()
    encoded = encode(asked, readings(2, [(0, 9 * NANO, 0), (0, NANO, 0), (1, -9 * NANO, 0)]))
    assert encoded.values.tolist() == [[4], [-2]]
    assert encoded.clamped.tolist() == [1, 1]


def test_histogram_edges():
    """Half-open, last closed, what lies outside goes to the end bins and is told."""
    asked = query(function="histogram", edges=["0", "1", "2.5"], max_readings=10)
    rows = [(0, int(v * NANO), 0) for v in (-1, 0, 0.999999999, 1, 2.499999999, 2.5, 2.500000001)]
    encoded = encode(asked, readings(1, rows))
    assert encoded.values.tolist() == [[3, 4]]
    assert encoded.clamped.tolist() == [2]


def test_histogram_edges_between_nano_units_are_met_exactly():
    asked = query(function="histogram", edges=["0", "1/3", "2/3"], max_readings=10)
    third = NANO // 3  # 333333333, just below the edge
    rows = [(0, third, 0), (0, third + 1, 0), (0, 2 * third, 0), (0, 2 * third + 1, 0)]
    encoded = encode(asked, readings(1, rows))
    assert encoded.values.tolist() == [[1, 3]]
    assert encoded.clamped.tolist() == [1]


def test_slots_take_the_whole_window():
    asked = query(function="vector_sum", dimension=3, max_readings=5)
    third = 2**32 / 3
    offsets = [0, int(third), int(third) + 1, 2**32 - 1]
    encoded = encode(asked, readings(1, [(0, NANO, offset) for offset in offsets]))
    assert encoded.values.tolist() == [[2, 1, 1]]


def test_the_centre_of_a_mean_is_a_multiple_of_the_resolution():
    """Readings of 0 and 5 kWh at a resolution of 1 kWh are not rounded, nor clamped."""
    asked = query(function="mean", bounds=["0", "5"])
    rule = reading_rule(asked)
    assert (rule.centre, rule.bounds.low, rule.bounds.high) == (2 * NANO, -3, 3)
    encoded = encode(asked, readings(1, [(0, 0, 0), (0, 5 * NANO, 0)]))
    assert encoded.values.tolist() == [[1, 2]]
    assert encoded.clamped.tolist() == [0]


@pytest.mark.parametrize("resolution", ["0.3", "0.4", "0.7", "1"])
@pytest.mark.parametrize("bounds", [("0", "1"), ("-1", "0"), ("-0.5", "1")])
def test_a_reading_within_the_declared_bounds_is_never_clamped(bounds, resolution):
    ends = [int(Fraction(each) * NANO) for each in bounds]
    for function in ("sum", "mean", "variance"):
        asked = query(function=function, bounds=list(bounds), resolution=resolution)
        found = encode(asked, readings(2, [(0, ends[0], 0), (1, ends[1], 0)]))
        assert found.clamped.tolist() == [0, 0]


def test_largest_is_reached_and_fits_62_bits():
    asked = query(
        function="variance",
        bounds=["-2", "2"],
        resolution="0.000000002",
        max_readings=4,
        n_max=2,
    )
    encoded = encode(asked, readings(1, [(0, 2**62, 0)] * 4))
    assert encoded.values.tolist() == [[part.largest for part in parts(asked)]]
    assert max(part.largest for part in parts(asked)) == 4 * 10**18


def test_parts_of_epsilon_and_values():
    asked = query(function="variance", resolution="0.25", split=["0.5", "0.3", "0.2"])
    assert [part.epsilon_share for part in parts(asked)] == [
        Fraction(1, 2), Fraction(3, 10), Fraction(1, 5)
    ]  # fmt: skip
    assert [part.value for part in parts(asked)] == [Fraction(1, 4), Fraction(1, 16), 1]
    for variant in VARIANTS.values():
        assert sum(part.epsilon_share for part in parts(query(**variant))) == 1


def test_the_bound_of_a_vector_is_the_tighter_of_clamp_and_declaration():
    def bound(**changes):
        asked = query(function="vector_sum", dimension=4, **changes)
        return vector_bound(asked, reading_rule(asked))

    assert bound() == 3
    assert bound(l1_bound="1.9") == 2
    assert bound(l1_bound="100") == 3
    assert bound(coordinates="values") == 12
    assert bound(coordinates="values", l1_bound="100") == 12
    assert bound(coordinates="values", l1_bound="7") == 7


def total(*words):
    return np.array(words, np.int64)


def test_decode_is_exact():
    assert decode(query(resolution="0.001", bounds=["0", "5"]), total(2**62)) == {
        "sum": "4611686018427387.904"
    }
    assert decode(query(function="count"), total(-3)) == {"count": "-3"}
    assert decode(query(function="histogram", edges=["0", "1", "2"]), total(4, -1)) == {
        "histogram": ["4", "-1"]
    }
    assert decode(query(**VARIANTS["slots"]), total(1, -2)) == {"vector": ["1", "-2"]}
    assert decode(query(**VARIANTS["blocks"]), total(1, -3)) == {"near": ["1"], "far": ["-1.5"]}


def test_decode_mean_and_variance():
    asked = query(function="mean", bounds=["0", "5"])
    assert decode(asked, total(3, 2)) == {"count": "2", "mean": "3.5"}
    assert decode(asked, total(1, 3)) == {"count": "3", "mean": "2.333333333333"}
    asked = query(function="variance", bounds=["0", "4"])
    assert decode(asked, total(2, 4, 2)) == {"count": "2", "mean": "3", "variance": "1"}


@pytest.mark.parametrize("count", [0, -7])
def test_a_noisy_count_below_one_gives_null_with_the_reason(count):
    reason = "the noisy count is below 1"
    assert decode(query(function="mean"), total(3, count)) == {
        "mean": None, "count": str(count), "reason": reason
    }  # fmt: skip
    assert decode(query(function="variance"), total(3, 9, count)) == {
        "mean": None, "variance": None, "count": str(count), "reason": reason
    }  # fmt: skip


def test_a_negative_variance_is_zero():
    assert decode(query(function="variance"), total(10, 1, 2))["variance"] == "0"


def test_many_readings_in_blocks_keep_their_order_and_sums():
    """More readings than one block holds, in no order, against numpy."""
    rng = np.random.default_rng(7)
    quantity = rng.integers(-2 * NANO, 3 * NANO, 50_000)
    owner, offset = rng.permutation(50_000), np.zeros(50_000, np.int64)
    q = np.clip(np.rint(quantity / NANO), -2, 3).astype(np.int64)  # no tie occurs
    alone: Encoded = encode(query(), Readings(50_000, owner, quantity, offset))
    assert (alone.values[owner, 0] == q).all()
    shared = encode(query(max_readings=1000), Readings(500, owner % 500, quantity, offset))
    assert (shared.values[:, 0] == np.bincount(owner % 500, weights=q)).all()


@pytest.mark.parametrize("value", [Fraction(1), Fraction(1, 1000), Fraction(5, 2), Fraction(1, 3)])
def test_manyamounts_are_written_as_one_is(value: Fraction) -> None:
    words = [0, 1, -1, 10, -2000, 123_456_789, -(2**62)]
    assert amounts(words, value) == [format_exact(word * value) for word in words]


def test_readings_that_do_not_fit_are_refused():
    slots, empty, one = query(**VARIANTS["slots"]), np.zeros(0, np.int64), np.zeros(1, np.int64)
    for asked, given_readings in (
        (slots, readings(1, [(0, NANO, -1)])),
        (slots, readings(1, [(0, NANO, 2**32)])),
        (query(), readings(2, [(-1, NANO, 0)])),
        (query(), readings(2, [(2, NANO, 0)])),
        (query(), readings(1, [(0, (NANO, NANO), 0)], 2)),
        (query(**VARIANTS["vectors"]), readings(1, [(0, NANO, 0)])),
        (query(**VARIANTS["blocks"]), readings(1, [(0, (NANO,), 0)], 1)),
        (query(), Readings(1, one, one, empty)),
    ):
        with pytest.raises(ValueError):
            encode(asked, given_readings)
