"""What is proved of each function: complete, sound, and no more influence than is stated."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest

from tacit.randomness import SeededRandom
from tacit.validity.circuit import BoundedInteger
from tacit.validity.functions import (
    ProvedFunction,
    ProvedMean,
    ProvedPresence,
    ProvedSum,
    ProvedVariance,
    ProvedVector,
    ReadingBounds,
    proved_count,
    proved_histogram,
)
from tacit.validity.vectors import Block
from tests.tacit.validity.rounds import (
    accepted,
    all_bits,
    fulfilled,
    outcomes,
    outputs,
    pairs,
    split,
)

MEANS = [ReadingBounds(-3, 3, 1), ReadingBounds(-1, 1, 2), ReadingBounds(-2, 2, 2)]
VARIANCES = [ReadingBounds(-3, 3, 1), ReadingBounds(-2, 2, 2), ReadingBounds(-1, 1, 3)]


def variance(bounds: ReadingBounds, noise: tuple[int, ...] = ()) -> ProvedVariance:
    return ProvedVariance(bounds, 4096 * bounds.count, noise)


def reachable(bounds: ReadingBounds) -> set[tuple[int, int, int]]:
    """(s, y, k) of every multiset of at most `count` readings."""
    values = range(bounds.lowest, bounds.highest + 1)
    return {
        (sum(readings), sum(x * x for x in readings), len(readings))
        for count in range(bounds.count + 1)
        for readings in itertools.combinations_with_replacement(values, count)
    }


def test_the_worked_example_of_a_range():
    """Spec: validity, section 16, example 1."""
    integer = BoundedInteger(5)
    assert integer.weights == (1, 2, 2)
    assert integer.encode(np.array([4])).T.tolist() == [[0, 1, 1]]


@pytest.mark.parametrize("top", [*range(1, 40), 1337])
def test_every_vector_of_bits_is_in_its_range_and_every_value_has_one(top):
    integer = BoundedInteger(top)
    values = np.arange(top + 1)
    bits = integer.encode(values)
    assert (np.array(integer.weights) @ bits == values).all()
    found = np.array(integer.weights) @ all_bits(integer.bits).astype(np.int64)
    assert set(found.tolist()) == set(range(top + 1))
    for wrong in (-1, top + 1):
        with pytest.raises(ValueError, match="outside of the range"):
            integer.encode(np.array([wrong]))


def test_the_worked_example_of_a_mean():
    """Spec: validity, section 16, example 4."""
    function = ProvedMean(ReadingBounds(-3, 3, 1))
    assert function.circuit.ranges[1].weights == (1, 2, 3)
    measurement = function.encode(np.array([[2, 1]]))
    assert measurement[0, :, 0].tolist() == [1, 0, 1, 1, 1, 0, 0]
    assert outputs(function, measurement).tolist() == [[2, 1]]


@pytest.mark.parametrize("shares", [2, 5])
def test_every_value_of_a_sum_is_accepted(shares):
    function = ProvedSum(ReadingBounds(-337, 1000, 1))
    values = np.arange(-337, 1001)[:, np.newaxis]
    prio3 = function.prio3(shares)
    decided, total = outcomes(prio3, *split(prio3, function.encode(values), shares))
    assert not decided.any()
    assert total[0] + len(values) * function.offset[0] == values.sum()


@pytest.mark.parametrize("noise", [(), (5, 4)])
@pytest.mark.parametrize("bounds", MEANS)
def test_every_pair_of_a_mean_is_accepted(bounds, noise):
    check_complete(
        ProvedMean(bounds, noise), sorted({(s, k) for s, _, k in reachable(bounds)}), noise
    )


@pytest.mark.parametrize("noise", [(), (5, 9, 4)])
@pytest.mark.parametrize("bounds", VARIANCES)
def test_all_readings_of_a_variance_are_accepted(bounds, noise):
    check_complete(variance(bounds, noise), sorted(reachable(bounds)), noise)


@pytest.mark.parametrize("noise", [(), (3,) * 4])
def test_every_histogram_is_accepted(noise):
    bins = [list(b) for b in itertools.product(range(4), repeat=4) if sum(b) <= 3]
    check_complete(proved_histogram(4, 3, noise), bins, noise)


@pytest.mark.parametrize("noise", [(), (2, 2, 9, 9, 9)])
def test_every_vector_in_blocks_is_accepted(noise):
    first = [e for e in itertools.product(range(4), repeat=2) if sum(e) <= 4]
    second = [e for e in itertools.product(range(-2, 3), repeat=3) if sum(map(abs, e)) <= 3]
    function = ProvedVector((Block(2, 3, 4), Block(3, 2, 3, signed=True)), noise)
    check_complete(function, [[*a, *b] for a in first for b in second], noise)


@pytest.mark.parametrize("noise", [(), (2, 2, 9, 9, 5)])
def test_every_vector_with_a_bound_in_l2_is_accepted(noise):
    """Two blocks in L2, one signed, and one in L1, as of the count of curators with readings."""
    first = [e for e in itertools.product(range(4), repeat=2) if sum(x * x for x in e) <= 9]
    second = [e for e in itertools.product(range(-2, 3), repeat=2) if sum(x * x for x in e) <= 6]
    blocks = (Block(2, 3, 3, l2=True), Block(2, 2, 3, signed=True, l2=True), Block(1, 2, 2))
    values = [[*a, *b, c] for a in first for b in second for c in range(3)]
    values = [each for each in values if sum(x * x for x in each[2:4]) <= 9]
    check_complete(ProvedVector(blocks, noise), values, noise)


def check_complete(function: ProvedFunction, values: list[Any], noise: tuple[int, ...]) -> None:
    """All values, each with noise that takes its extremes, are accepted and add up."""
    coordinates = np.array(values)
    drawn = None
    total = coordinates.sum(axis=0)
    if noise:
        source = SeededRandom(1).words(coordinates.size).reshape(coordinates.shape)
        drawn = (source % (2 * np.array(noise, np.uint64) + 1)).astype(np.int64) - np.array(noise)
        drawn[0], drawn[-1] = noise, -np.array(noise)
        total = total + drawn.sum(axis=0)
    measurement = function.encode(coordinates, drawn)
    wanted = coordinates if drawn is None else coordinates + drawn
    offset = np.array(function.offset)
    assert (outputs(function, measurement) + offset == wanted).all()
    for shares in (2, 3):
        prio3 = function.prio3(shares)
        decided, found = outcomes(prio3, *split(prio3, measurement, shares))
        assert not decided.any()
        assert (np.array(found) + len(values) * offset == total).all()


@pytest.mark.parametrize("bounds", [*MEANS, ReadingBounds(-1, 3, 1)])
def test_of_all_bits_of_a_mean_exactly_the_allowed_pairs_come_out(bounds):
    function = ProvedMean(bounds)
    circuit = function.circuit
    measurement = circuit.field.small(all_bits(circuit.bits))
    found = outputs(function, measurement[:, :, fulfilled(circuit, measurement)])
    allowed = {(s, k) for s, _, k in reachable(bounds)}
    between = {
        (s, k)
        for k in range(bounds.count + 1)
        for s in range(k * bounds.lowest, k * bounds.highest + 1)
    }
    assert pairs(found) == allowed == between


def test_of_all_bits_of_a_variance_of_one_reading_only_its_square_comes_out():
    function = variance(ReadingBounds(-3, 3, 1))
    circuit = function.circuit
    bits = all_bits(circuit.bits)
    for squares in range(-1, 12):
        free = circuit.field.elements(np.full((1, bits.shape[1]), squares))
        measurement = np.concatenate((circuit.field.small(bits), free), axis=1)
        found = pairs(outputs(function, measurement[:, :, fulfilled(circuit, measurement)]))
        assert found == {each for each in reachable(function.bounds) if each[1] == squares}


@pytest.mark.parametrize("bounds", [ReadingBounds(-2, 2, 2), ReadingBounds(-3, 3, 2)])
def test_a_liar_about_squares_gains_no_more_than_is_stated(bounds):
    """Of all values that fulfil the relations: A^2 upward, k/4 downward; nothing without
    readings."""
    readings: dict[tuple[int, int], list[int]] = {}
    for s, y, k in reachable(bounds):
        readings.setdefault((s, k), []).append(y)
    square = bounds.largest**2
    seen = set()
    for (s, k), honest in readings.items():
        for y in range(k * square + 1):
            if k * y >= s * s:
                assert y <= max(honest) + square
                assert 4 * y >= 4 * min(honest) - k
                seen.add((s, y, k))
    assert {each for each in seen if each[2] == 0} == {(0, 0, 0)}
    function = variance(bounds)
    assert accepted(function.prio3(2), function.encode(np.array(sorted(seen)))).all()


@pytest.mark.parametrize(
    "function",
    [
        proved_histogram(3, 2),
        ProvedVector((Block(2, 2, 3), Block(1, 2, 2, signed=True))),
        ProvedVector((Block(2, 3, 4, signed=True),)),
        ProvedVector((Block(2, 3, 4, l2=True),)),
        ProvedVector((Block(2, 2, 2, signed=True, l2=True),)),
        ProvedVector((Block(2, 3, 4, signed=True, l2=True),)),
        ProvedVector((Block(3, 1, 1, signed=True, l2=True), Block(1, 1, 1))),
        ProvedVector((Block(2, 1, 1, l2=True), Block(1, 2, 3, signed=True, l2=True))),
    ],
)
def test_of_all_bits_of_a_vector_exactly_the_bounded_ones_come_out(function):
    circuit = function.circuit
    measurement = circuit.field.small(all_bits(circuit.measurement_length))
    found = outputs(function, measurement[:, :, fulfilled(circuit, measurement)])
    found = found + np.array(function.offset)
    ranges = [
        range(-block.top if block.signed else 0, block.top + 1)
        for block in function.blocks
        for _ in range(block.length)
    ]
    allowed = set()
    for entries in itertools.product(*ranges):
        start, fits = 0, True
        for block in function.blocks:
            own = entries[start : start + block.length]
            if block.l2:
                fits &= sum(x * x for x in own) <= block.bound**2
            else:
                fits &= sum(map(abs, own)) <= block.bound
            start += block.length
        if fits:
            allowed.add(entries)
    assert pairs(found) == allowed


def test_an_accepted_contribution_moves_a_total_by_its_influence_at_most_and_some_does():
    functions: list[tuple[Any, np.ndarray]] = [
        (ProvedSum(ReadingBounds(-2, 5, 2), (3,)), np.array([[-4], [10], [0]])),
        (proved_count(3, (2,)), np.array([[0], [3]])),
    ]
    for function, honest in functions:
        circuit = function.circuit
        found = outputs(function, circuit.field.small(all_bits(circuit.measurement_length)))
        reached = found + np.array(function.offset)
        moved = max(abs(reached.max() - honest.min()), abs(honest.max() - reached.min()))
        assert moved == function.influence[0]
    mean = ProvedMean(ReadingBounds(-2, 2, 1), (1, 1))
    measurement = mean.circuit.field.small(all_bits(mean.circuit.bits))
    valid = measurement[:, :, fulfilled(mean.circuit, measurement)]
    found = outputs(mean, valid) + np.array(mean.offset)
    assert (found.max(axis=0)[0] - -2, found.max(axis=0)[1] - 0) == mean.influence == (5, 2)
    vector = ProvedVector((Block(2, 3, 4, signed=True),))
    assert (vector.influence, vector.norm_influence) == ((6, 6), (8,))
    assert proved_histogram(5, 2, (7,) * 5).influence == (9,) * 5
    assert proved_histogram(5, 2, (7,) * 5).norm_influence == (4 + 35,)
    assert variance(ReadingBounds(-3, 3, 2), (4, 5, 6)).influence == (16, 23, 8)
    whole = ProvedSum(ReadingBounds(0, 8191, 4096))
    assert whole.influence == (4096 * 8191,)


PRESENT = [
    ProvedPresence(ProvedSum(ReadingBounds(-2, 5, 2)), 2),
    ProvedPresence(proved_count(1), 1),
    ProvedPresence(ProvedMean(ReadingBounds(-2, 2, 1)), 1),
    ProvedPresence(variance(ReadingBounds(-2, 2, 1)), 1),
    ProvedPresence(variance(ReadingBounds(-1, 1, 2)), 2),
]


@pytest.mark.parametrize("function", PRESENT)
def test_of_all_bits_with_a_presence_what_comes_out_is_the_functions_own_and_any_number(function):
    """A free element of a variance of one reading takes the square that its bits demand."""
    inner = function.function

    def all_outputs(of: ProvedFunction, free: int) -> set[tuple[int, ...]]:
        field, bits = of.circuit.field, all_bits(of.circuit.measurement_length - free)
        found = set()
        for square in range(-1, 6) if free else (0,):
            added = field.elements(np.full((free, bits.shape[1]), square, dtype=object))
            measurement = np.concatenate((field.small(bits), added), axis=1) if free else (
                field.small(bits)
            )  # fmt: skip
            valid = measurement[:, :, fulfilled(of.circuit, measurement)]
            found |= pairs(outputs(of, valid) + np.array(of.offset))
        return found

    free = getattr(inner.circuit, "free", 0)
    assert all_outputs(function, free) == {
        (*own, present)
        for own in all_outputs(inner, free)
        for present in range(function.curators + 1)
    }


@pytest.mark.parametrize("noise", [False, True])
@pytest.mark.parametrize("function", PRESENT)
def test_every_presence_is_accepted_with_noise_too(function, noise):
    inner = function.function
    dimension = len(inner.influence)
    bounds: tuple[int, ...] = ()
    if noise:
        bounds = (*range(3, 3 + dimension), 4)
        function = ProvedPresence(
            dataclasses.replace(inner, noise_bounds=bounds[:-1]), function.curators, 4
        )
    largest = inner.bounds.highest * inner.bounds.count
    own = {1: [largest], 2: [largest, inner.bounds.count]}.get(
        dimension, [largest, largest * inner.bounds.highest, inner.bounds.count]
    )
    values = [
        [*each, present]
        for each in (own, [0] * dimension)
        for present in range(function.curators + 1)
    ]
    check_complete(function, values, bounds)
    extra = (4,) if noise else (0,)
    assert function.influence == (*function.function.influence, function.curators + extra[0])
    assert function.influence_from_zero[-1] == function.curators + extra[0]


@pytest.mark.parametrize(
    "function",
    [
        ProvedSum(ReadingBounds(-2, 5, 2)),
        ProvedSum(ReadingBounds(2, 5, 2), (3,)),
        ProvedSum(ReadingBounds(-5, 2, 2), (3,)),
        ProvedMean(ReadingBounds(-2, 1, 2)),
        ProvedMean(ReadingBounds(-1, 2, 1), (1, 1)),
        variance(ReadingBounds(-1, 1, 2)),
        ProvedVector((Block(2, 2, 3), Block(1, 1, 2))),
        ProvedVector((Block(2, 2, 3, signed=True),)),
        ProvedVector((Block(2, 2, 3, l2=True),)),
        ProvedVector((Block(2, 2, 2, signed=True, l2=True), Block(1, 1, 1))),
    ],
)
def test_against_zeros_an_accepted_contribution_reaches_its_influence_and_no_further(function):
    circuit = function.circuit
    measurement = circuit.field.small(all_bits(circuit.measurement_length))
    valid = measurement[:, :, fulfilled(circuit, measurement)]
    reached = np.abs(outputs(function, valid) + np.array(function.offset)).max(axis=0)
    assert tuple(reached) == function.influence_from_zero


@pytest.mark.parametrize("bounds", MEANS)
def test_what_is_opened_has_the_sensitivity_that_noise_is_calibrated_for(bounds):
    """One reading more or less moves s by A and k by 1 at most. The element a would move by 2 A:
    noise that is calibrated for s would not hide it."""
    function = ProvedMean(bounds)
    values = range(bounds.lowest, bounds.highest + 1)
    moved_a = 0
    for count in range(bounds.count):
        for readings in itertools.product(values, repeat=count):
            for added in values:
                before = np.array([[sum(readings), count]])
                after = before + np.array([[added, 1]])
                first, second = function.encode(before), function.encode(after)
                change = np.abs(outputs(function, second) - outputs(function, first))[0]
                assert change[0] <= bounds.largest
                assert change[1] <= 1
                a = [s - bounds.lowest * k for s, k in (before[0], after[0])]
                moved_a = max(moved_a, abs(a[1] - a[0]))
    assert moved_a == 2 * bounds.largest


def test_the_squares_that_are_opened_move_by_the_square_of_a_reading():
    bounds = ReadingBounds(-2, 2, 2)
    function = variance(bounds)
    for first, second in itertools.product(range(-2, 3), repeat=2):
        before = outputs(function, function.encode(np.array([[first, first**2, 1]])))[0]
        both = np.array([[first + second, first**2 + second**2, 2]])
        after = outputs(function, function.encode(both))[0]
        assert (abs(after - before) <= (2, 4, 1)).all()


def test_a_large_variance_is_in_the_larger_field_with_python_s_integers():
    bounds = ReadingBounds(-(2**40), 2**40, 96)
    function = variance(bounds, (2**20, 2**50, 30))
    assert function.circuit.field.limbs == 2
    top = bounds.largest
    values = np.array(
        [[96 * top, 96 * top**2, 96], [-top, top**2, 1], [0, 0, 0], [5, 40 * top**2, 41]],
        dtype=object,
    )
    noise = np.array([[2**20, -(2**50), 30]] * 4, dtype=object)
    measurement = function.encode(values, noise)
    found = outputs(function, measurement) + np.array(function.offset)
    assert (found == values + noise).all()
    assert accepted(function.prio3(3), measurement).all()


@pytest.mark.parametrize(
    ("function", "values"),
    [
        (ProvedSum(ReadingBounds(0, 10, 1)), [11]),
        (ProvedSum(ReadingBounds(0, 10, 1)), [-1]),
        (proved_count(1), [2]),
        (ProvedMean(ReadingBounds(-3, 3, 1)), [3, 0]),
        (ProvedMean(ReadingBounds(-3, 3, 1)), [4, 1]),
        (ProvedMean(ReadingBounds(-3, 3, 1)), [0, 2]),
        (variance(ReadingBounds(-3, 3, 1)), [2, 5, 1]),
        (variance(ReadingBounds(-3, 3, 2)), [4, 7, 2]),
        (variance(ReadingBounds(-3, 3, 2)), [0, 19, 2]),
        (proved_histogram(3, 2), [1, 1, 1]),
        (proved_histogram(3, 2), [3, 0, 0]),
        (proved_histogram(3, 2), [0, -1, 0]),
        (ProvedVector((Block(3, 5, 6, l2=True),)), [5, 4, 0]),
        (ProvedVector((Block(3, 5, 6, l2=True),)), [3, -3, 0]),
        (ProvedVector((Block(3, 5, 6, signed=True, l2=True),)), [0, -6, 0]),
        (ProvedVector((Block(3, 5, 6, signed=True, l2=True),)), [4, 4, -4]),
        (ProvedVector((Block(3, 5, 6, signed=True, l2=True),)), [-(2**63), 2, 0]),
        (ProvedVector((Block(2, 2**40, 2**40, signed=True, l2=True),)), [2**40, 8]),
        (ProvedPresence(proved_count(3), 2), [3, 3]),
        (ProvedPresence(proved_count(3), 2), [3, -1]),
        (ProvedPresence(proved_count(3), 2), [4, 2]),
    ],
)
def test_a_faulty_curator_is_told_before_it_sends_and_no_value_is_named(function, values):
    with pytest.raises(ValueError, match=r"outside of the range|not those of one") as raised:
        function.encode(np.array([values]))
    assert not any(str(value) in str(raised.value) for value in values if value not in (0, 1))


def test_noise_is_there_exactly_where_it_has_a_bound():
    plain, noisy = ProvedSum(ReadingBounds(0, 10, 1)), ProvedSum(ReadingBounds(0, 10, 1), (4,))
    with pytest.raises(ValueError, match="exactly where it has a bound"):
        plain.encode(np.array([[3]]), np.array([[0]]))
    with pytest.raises(ValueError, match="exactly where it has a bound"):
        noisy.encode(np.array([[3]]))
    for wrong in (-5, 5):  # also where value and noise together would fit
        with pytest.raises(ValueError, match="outside of the range"):
            noisy.encode(np.array([[3]]), np.array([[wrong]]))


@pytest.mark.parametrize(
    "make",
    [
        lambda: ReadingBounds(3, 2, 1),
        lambda: ReadingBounds(0, 0, 1),
        lambda: ReadingBounds(0, 1, 0),
        lambda: ProvedMean(ReadingBounds(2, 2, 1)),
        lambda: ProvedSum(ReadingBounds(0, 1, 1), (1, 1)),
        lambda: ProvedSum(ReadingBounds(0, 1, 1), (0,)),
        lambda: variance(ReadingBounds(-1, 2, 1)),
        lambda: ProvedVariance(ReadingBounds(-1, 1, 5), 4),
        lambda: ProvedVector(()),
        lambda: ProvedVector((Block(2, 3, 4),), largest=(Block(2, 3, 3),)),
        lambda: ProvedVector((Block(2, 3, 4),), largest=(Block(2, 2, 4),)),
        lambda: ProvedVector((Block(2, 3, 4),), largest=(Block(3, 3, 4),)),
        lambda: ProvedVector((Block(2, 3, 4, l2=True),), largest=(Block(2, 3, 4),)),
        lambda: ProvedVector((Block(2, 3, 4),), largest=(Block(2, 3, 4), Block(2, 3, 4))),
        lambda: Block(2, 4, 3, l2=True),
        lambda: Block(2, 4, 3),
        lambda: Block(0, 1, 1),
        lambda: ProvedPresence(ProvedMean(ReadingBounds(-1, 1, 1)), 0),
        lambda: ProvedPresence(ProvedMean(ReadingBounds(-1, 1, 1)), 1, 3),
        lambda: ProvedPresence(ProvedSum(ReadingBounds(0, 1, 1), (3,)), 1),
        lambda: BoundedInteger(0),
        lambda: proved_count(1).prio3(1),
        lambda: proved_count(1).prio3(256),
    ],
)
def test_what_makes_no_sense_is_refused(make):
    with pytest.raises(ValueError):
        make()
