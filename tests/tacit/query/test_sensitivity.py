"""The table of sensitivities, and an exhaustive search over small inputs, through `encode`."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from tacit.query.encoding import Bounds, Linear, l1_sensitivity, per_reading
from tacit.query.functions import Readings, encode, parts
from tacit.query.query import Query
from tacit.query.terms import Coordinates, Function, PrivacyUnit
from tacit.units import NANO
from tests.tacit.examples import VARIANTS, query

BOUNDS = [("-2", "3"), ("-3", "-1"), ("1", "3"), ("0", "2")]
RECORD, CURATOR = PrivacyUnit.RECORD, PrivacyUnit.CURATOR


@pytest.mark.parametrize(
    ("linear", "swapped", "alone", "curator"),
    [
        (Linear.SUM, 5, 3, 12),
        (Linear.SQUARES, 9, 9, 36),
        (Linear.COUNT, 1, 1, 4),
        (Linear.HISTOGRAM, 2, 1, 4),
        (Linear.VECTOR, 14, 7, 28),
        (Linear.PRESENCE, 1, 1, 1),
    ],
)
def test_the_table(linear, swapped, alone, curator):
    bounds = Bounds(-2, 3)
    assert l1_sensitivity(linear, RECORD, bounds, 4, l1_bound=7) == swapped
    assert l1_sensitivity(linear, RECORD, bounds, 4, l1_bound=7, swap=False) == alone
    assert l1_sensitivity(linear, CURATOR, bounds, 4, l1_bound=7) == curator
    assert per_reading(linear, bounds, 7) == alone


def test_a_swap_within_one_sign_is_no_more_than_a_removal():
    assert l1_sensitivity(Linear.SUM, RECORD, Bounds(2, 7), 1) == 7
    assert l1_sensitivity(Linear.SUM, RECORD, Bounds(-7, -2), 1) == 7


def possible_readings(asked: Query) -> list[tuple[object, int]]:
    """Every reading on a grid a little wider than the bounds, in each slot."""
    # A histogram has edges, and pays its bounds no attention.
    ends = (-2, 3) if asked.function is Function.HISTOGRAM else asked.bounds
    low, high = (int(2 * bound) for bound in ends)
    # Half units, so that ties are met, and two steps outside on either side.
    grid = [step * NANO // 2 for step in range(low - 2, high + 3)]
    if asked.coordinates is Coordinates.VALUES:
        few = [grid[0], 0, grid[-3], grid[-1]]
        return [(pair, 0) for pair in itertools.product(few, repeat=2)]
    slots = [0, 2**31] if asked.function is Function.VECTOR_SUM else [0]
    return list(itertools.product(grid, slots))


def vectors(asked: Query, windows: list[tuple[tuple[object, int], ...]]) -> np.ndarray:
    """f of each window, in one call: a window is a curator's readings in their order."""
    rows = [(i, *reading) for i, window in enumerate(windows) for reading in window]
    columns = (2,) if asked.coordinates is Coordinates.VALUES else ()
    encoded = encode(
        asked,
        Readings(
            len(windows),
            np.array([row[0] for row in rows], np.int64),
            np.array([row[1] for row in rows], np.int64).reshape(len(rows), *columns),
            np.array([row[2] for row in rows], np.int64),
        ),
    )
    return encoded.values


def largest_changes(asked: Query, before: np.ndarray, after: np.ndarray) -> list[int]:
    """For each part, the largest L1 change over the pairs of neighbours."""
    change = np.abs(before - after)
    result, start = [], 0
    for part in parts(asked):
        result.append(int(change[:, start : start + part.dimension].sum(axis=1).max()))
        start += part.dimension
    return result


def record_pairs(windows: list[tuple]) -> Iterator[tuple[tuple, tuple]]:
    """Every window with each one of its readings removed."""
    for window in windows:
        for left_out in range(len(window)):
            yield window, window[:left_out] + window[left_out + 1 :]


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("kind", VARIANTS)
@pytest.mark.parametrize(("most", "completeness"), [(1, "curators"), (2, None)])
def test_no_neighbours_exceed_the_sensitivity_and_some_attain_it(kind, bounds, most, completeness):
    """Windows of up to m + 1 readings: removing a counted one lets the next one in."""
    changed = {**VARIANTS[kind], "bounds": list(bounds), "max_readings": most}
    changed |= {"completeness": completeness}
    curator = query(**changed, privacy_unit="curator")
    record = query(**changed, privacy_unit="record")
    choices = possible_readings(curator)
    if len(choices) ** (most + 1) > 2000:  # both ends of the grid, its middle and its inside
        choices = [*choices[:4], *choices[len(choices) // 2 :: 3], *choices[-4:]]
    windows = [
        window
        for length in range(1, most + 2)
        for window in itertools.product(choices, repeat=length)
    ]

    encoded = vectors(curator, windows)
    changes = largest_changes(curator, encoded, np.zeros_like(encoded))
    assert changes == [part.sensitivity for part in parts(curator)]

    pairs = list(record_pairs(windows))
    changes = largest_changes(
        record, vectors(record, [a for a, _ in pairs]), vectors(record, [b for _, b in pairs])
    )
    table = [part.sensitivity for part in parts(record)]
    assert all(found <= bound for found, bound in zip(changes, table, strict=True))
    if attainable(record):
        assert changes == table


def attainable(asked: Query) -> bool:
    """Whether a swap can turn a whole reading round, at its full norm: where readings are vectors
    of one sign, or the clamp keeps them below the declared norm on one side, twice that norm is an
    upper bound only."""
    if asked.coordinates is not Coordinates.VALUES:
        return True
    reach = min(-asked.bounds[0], asked.bounds[1])
    if asked.blocks:
        return all(block.dimension * reach >= block.l1_bound for block in asked.blocks)
    assert asked.dimension is not None
    return asked.l1_bound is not None and asked.dimension * reach >= asked.l1_bound
