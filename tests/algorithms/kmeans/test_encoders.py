"""What a curator computes for k-means: exact integers, and how far one record can move them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.encoders.kmeans import (
    GRID,
    Grid,
    Histogram,
    Ints,
    Lift,
    Marginals,
    Nearest,
    Projection,
    Zone,
    nearest,
    spent,
)
from tacit.encoders.kmeans_sums import FineCells, Query
from tests.property_examples import examples

BOX = Grid((0.0, 0.0), (10.0, 10.0))
RECORDS = np.array([(1, 1), (2, 1), (1, 3), (8, 9), (9, 7), (10, 12)], float)
CENTRES = np.array([(-52429, -52429), (52429, 52429)])
SHARES = (Fraction(3, 4), Fraction(3, 20), Fraction(1, 10))


def zone(centres: Ints, radii: Ints, steps: int = GRID, total: Fraction = Fraction(1)) -> Zone:
    return Zone(centres, radii, steps, *(total * share for share in SHARES))


def test_records_on_the_grid() -> None:
    assert BOX.quantise(RECORDS).tolist() == [
        [-52429, -52429],
        [-39322, -52429],
        [-52429, -26214],
        [39322, 52429],
        [52429, 26214],
        [65536, 65536],
    ]


def test_the_sums_of_a_zone_round() -> None:
    query = zone(CENTRES, np.array([26214, 26214]))
    assert query.sums(BOX.quantise(RECORDS)).tolist() == [13107, 26214, 3, 384, 0, -13107, 3, 640]
    assert [block.dimension for block in query.blocks] == [2, 1, 1, 2, 1, 1]
    assert [block.sensitivity for block in query.blocks] == [26214, 1, 256] * 2
    assert spent(query.blocks) == 1
    assert query.blocks[0].scale() == Fraction(26214) / Fraction(3, 4)
    assert query.blocks[0].scale(3) == 3 * query.blocks[0].scale()


def test_the_histogram() -> None:
    query = Histogram(4, 2, GRID, Fraction(1))
    expected = [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]
    assert query.sums(BOX.quantise(RECORDS)).tolist() == expected
    assert query.length == 16


def test_rows_held_in_32_bits_have_the_same_sums() -> None:
    """On the widest grid, where products of steps and cells pass 32 bits."""
    generator = np.random.default_rng(1)
    rows = generator.integers(-GRID, GRID, (500, 2), endpoint=True)
    line, corner = rows[:, :1], np.array([[GRID, GRID], [-GRID, -GRID]])
    view = plane(2, 1, box=True)
    for query, records in (
        (Histogram(65_536, 1, GRID, Fraction(1)), line),
        (Histogram(256, 2, GRID, Fraction(1), view), rows),
        (FineCells(4096, 1, GRID, np.arange(4096), np.full(4096, 16), Fraction(1), 65_536), line),
        (Marginals(view, Fraction(1)), rows),
        (Lift(view, corner, GRID, Fraction(1), Fraction(1)), rows),
        (zone(corner, np.array([GRID, 3 * GRID])), rows),
    ):
        held = query.sums(records.astype(np.int32))
        assert np.array_equal(held, query.sums(records)), query.kind
        assert held.any()


def weighted_change(query: Query, records: Ints, place: int) -> Fraction:
    """The privacy loss that removing one record could cause at most: sum of |change| e / D."""
    whole = query.sums(records)
    change = np.abs(whole - query.sums(np.delete(records, place, axis=0)))
    loss, start = Fraction(0), 0
    for block in query.blocks:
        moved = int(change[start : start + block.dimension].sum())
        loss += moved * block.epsilon / block.sensitivity
        start += block.dimension
    assert start == query.length
    return loss


def test_no_record_costs_more_than_a_zone_round_pays() -> None:
    generator = np.random.default_rng(5)
    largest = Fraction(0)
    for _ in range(300):
        clusters, dimension = generator.integers(1, 5, 2)
        size = int(generator.integers(1, 12))
        steps = 2 ** int(generator.integers(3, 17))
        records = generator.integers(-steps, steps + 1, (size, dimension))
        centres = generator.integers(-steps, steps + 1, (clusters, dimension))
        radii = generator.integers(1, 2 * dimension * steps + 1, clusters)
        query = zone(centres, radii, steps)
        losses = [weighted_change(query, records, place) for place in range(size)]
        largest = max(largest, *losses)
        assert max(losses) <= 1
    assert largest == 1


def plane(dimension: int, seed: int, box: bool = False) -> Projection:
    drawn = np.random.default_rng(seed).standard_normal((dimension, 2))
    view = Projection.of(np.linalg.qr(drawn)[0], GRID)
    sides = ((-20000, 31000), (-9000, 9001))
    return Projection(view.matrix, GRID, sides) if box else view


@examples(60)
@given(st.integers(2, 12), st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_no_record_costs_more_than_a_projection_pays(dimension: int, size: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    records = generator.integers(-GRID, GRID + 1, (size, dimension))
    view = plane(dimension, seed, box=True)
    centres = generator.integers(-GRID, GRID + 1, (5, 2))
    queries = (
        Marginals(plane(dimension, seed), Fraction(1, 3)),
        Histogram(6, 2, GRID, Fraction(1, 2), view),
        Lift(view, centres, int(0.6 * dimension * GRID), Fraction(17, 100), Fraction(3, 100)),
    )
    for query in queries:
        place = int(generator.integers(size))
        assert weighted_change(query, records, place) <= spent(query.blocks)
        parts = sum(query.sums(row[None, :]) for row in records)
        assert np.array_equal(query.sums(records), parts)  # a record does not see another


def test_a_zone_round_adds_up_as_whole_numbers_do() -> None:
    """Floors of quotients in floating point are those of Python's integers, also at the bounds."""
    generator = np.random.default_rng(9)
    for dimension in (1, 2, 7, 256):
        records = generator.integers(-1, 2, (40, dimension)) * GRID
        records[20:] = generator.integers(-GRID, GRID + 1, (20, dimension))
        centres = np.concatenate((-records[:1], generator.integers(-9, 9, (2, dimension))))
        radii = np.array([2 * dimension * GRID, 2 * dimension * GRID - 1, 12_345])
        expected = np.zeros((3, dimension + 2), np.int64)
        for label, record in zip(plain_nearest(records, centres), records.tolist(), strict=True):
            centre, radius = centres[label].tolist(), int(radii[label])
            offset = [a - b for a, b in zip(record, centre, strict=True)]
            norm = sum(map(abs, offset))
            if norm > radius:
                offset = [(abs(o) * radius // norm) * (1 if o > 0 else -1) for o in offset]
            expected[label] += [*offset, 1, min(norm, radius) * 256 // radius]
        assert zone(centres, radii).sums(records).tolist() == expected.ravel().tolist()


def plain_nearest(points: Ints, centres: Ints) -> list[int]:
    """In Python's integers, one by one."""

    def squared(point: list[int], centre: list[int]) -> int:
        return sum((a - b) ** 2 for a, b in zip(point, centre, strict=True))

    held = centres.tolist()
    return [
        min(range(len(held)), key=lambda i: (squared(point, held[i]), i))
        for point in points.tolist()
    ]


@examples(80)
@given(st.integers(1, 256), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_labels_are_exact_with_ties_to_the_lowest(dimension: int, clusters: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    # A coarse grid, so that ties occur; the widest coordinates, so that sums are large.
    points = generator.integers(-2, 3, (15, dimension)) * (GRID // 2)
    centres = generator.integers(-2, 3, (clusters, dimension)) * (GRID // 2)
    columns = points.T.astype(np.float64)
    assert nearest(points, centres).tolist() == plain_nearest(points, centres)
    assert Nearest(centres, GRID).labels(columns).tolist() == plain_nearest(points, centres)


def test_labels_of_the_widest_grid_and_the_most_centres_are_exact() -> None:
    generator = np.random.default_rng(6)
    centres = generator.integers(-1, 2, (1024, 256)) * GRID
    points = generator.integers(-1, 2, (20, 256)) * GRID
    found = Nearest(centres, GRID).labels(points.T.astype(np.float64))
    assert found.tolist() == plain_nearest(points, centres)
    finer = Nearest(centres, 64 * GRID).labels(points.T.astype(np.float64))  # too wide to pack
    assert finer.tolist() == found.tolist()


def test_what_lies_outside_the_box_is_moved_to_it() -> None:
    far = np.array([[-1e308, 1e308], [5.0, 1e-320]])
    assert BOX.quantise(far).tolist() == [[-GRID, GRID], [0, -GRID]]
    wide = Grid((-4e307,), (4e307,))
    assert wide.quantise(np.array([[1e308], [0.0], [-1e308]])).tolist() == [[GRID], [0], [-GRID]]


def test_a_row_projects_alike_wherever_it_stands() -> None:
    view = plane(40, 3)
    records = np.random.default_rng(4).integers(-GRID, GRID + 1, (5000, 40))
    whole = view.flat(records)
    for size in (1, 2, 3, 7, 64, 1001):
        assert np.array_equal(whole[:size], view.flat(records[:size]))
    assert np.abs(whole).max() <= GRID
    exact = records @ view.real / np.sqrt(40)
    assert np.abs(whole - exact).max() <= 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: Grid((0.0,), (0.0,)),
        lambda: Grid((0.0,), (1.0,), 1000),
        lambda: zone(CENTRES, np.array([0, 5])),
        lambda: zone(CENTRES, np.array([5, 4 * GRID + 1])),
        lambda: zone(2 * CENTRES, np.array([5, 5])),
        lambda: Zone(CENTRES, np.array([5, 5]), GRID, *SHARES, levels=1 << 40),
        lambda: Lift(replace(plane(2, 1), steps=1 << 40), CENTRES, 5, *SHARES[:2]),
        lambda: Projection(np.full((3, 2), 1 << 21), GRID),
        lambda: Projection(np.zeros((3, 2), np.int64), GRID, ((5, 5), (0, 1))),
    ],
)
def test_what_does_not_fit_is_refused(make: object) -> None:
    with pytest.raises(ValueError):
        make()  # type: ignore[operator]
