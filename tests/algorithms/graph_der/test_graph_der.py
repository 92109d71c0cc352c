"""The mathematics of `graph-der`: worked numbers, one by one. Spec: graph-der, section 8."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.contract import SequentialContext
from algorithms.graph_der.evaluation import Cuts, cut, degree_divergence, degree_shares
from algorithms.graph_der.exploration import scores, splitting_points
from algorithms.graph_der.parameters import Budget, tree_height
from algorithms.graph_der.publication import (
    CUT_MASS,
    Leaves,
    Space,
    arrange,
    draw,
    mode,
    support,
    weights,
    window,
)
from algorithms.graph_der.regions import Grid, Matrix, children, counts
from tacit.randomness import SeededRandom
from tests.algorithms.graph_der.examples import G8, random_graph_of, table_of

SHARES = (Fraction(1, 2), Fraction(1, 10), Fraction(2, 5))
ENDS = (G8.first, G8.second)
EMPTY = (G8.first[:0], G8.second[:0])


def test_splits_of_the_triangle() -> None:
    grid = Grid(8, 1, True)
    matrix = Matrix.of(table_of(G8, grid), grid)
    parts = children(grid.whole(), np.array([[3, 5]]))[0]
    assert counts(matrix.table, parts).tolist() == [1, 8, 1, 0]
    assert grid.cells(parts).tolist() == [9, 9, 1, 9]
    assert grid.size == 28
    least = grid.size / 16
    assert least == 1.75
    found = scores(matrix, grid.whole()[0], 1, 7, least)
    assert found[2, 4] == -np.inf
    assert np.isfinite(found).sum() == 30
    best = [(int(p) + 1, int(q) + 1) for p, q in np.argwhere(found == found.max())]
    assert found.max() == 1.0
    assert best == [(1, 5), (2, 5), (2, 7)]
    mass = np.exp(0.875 * found)
    mass /= mass.sum()
    assert mass.max() == pytest.approx(0.04942, abs=5e-6)
    assert mass[mass > 0].min() == pytest.approx(0.02060, abs=5e-6)


def test_points_are_drawn_with_these_chances() -> None:
    """Chi-square over 30 points, 10,000 draws; alarm once in a million (29 degrees: 83.5)."""
    grid = Grid(8, 1, True)
    matrix = Matrix.of(table_of(G8, grid), grid)
    draws = 10_000
    regions = np.repeat(grid.whole(), draws, axis=0)
    points = splitting_points(matrix, regions, np.full(draws, 0.875), 1.75, SeededRandom(5))
    found = np.bincount((points[:, 0] - 1) * 7 + points[:, 1] - 1, minlength=49).reshape(7, 7)
    law = np.exp(0.875 * scores(matrix, grid.whole()[0], 1, 7, 1.75))
    expected = draws * law / law.sum()
    assert (found[law == 0] == 0).all()
    there = law > 0
    assert ((found - expected)[there] ** 2 / expected[there]).sum() < 83.5


def test_geometric_budget() -> None:
    budget = Budget.of(Fraction(1), SHARES, 3)
    unit = (2 ** (1 / 3) - 1) * 0.5 / (2 ** (4 / 3) - 1)
    levels = [2 ** (depth / 3) * unit for depth in range(4)]
    assert levels == pytest.approx([0.085509, 0.107735, 0.135737, 0.171018], abs=5e-7)
    assert sum(levels) == pytest.approx(0.5)
    assert [float(budget.level(depth)) for depth in (1, 2)] == pytest.approx(levels[1:3])
    assert float(budget.leaf) == pytest.approx(0.256528, abs=1e-6)
    assert float(budget.left(1)) == pytest.approx(0.135737, abs=1e-6)
    assert [float(budget.left(depth)) for depth in (2, 3)] == pytest.approx([0, 0], abs=1e-9)
    assert budget.levels[0] + budget.leaf + budget.left(1) == Fraction(1, 2)


@given(
    st.integers(1, 10**5).map(lambda thousandths: Fraction(thousandths, 1000)),
    st.integers(0, 20),
    st.integers(1, 97),
    st.integers(1, 97),
)
def test_no_path_spends_more_than_epsilon(
    epsilon: Fraction, height: int, one: int, other: int
) -> None:
    """Exactly, as rationals; and next to nothing of the counts' share is lost."""
    rest = max(1, 100 - one - other)
    shares = tuple(Fraction(each, one + other + rest) for each in (one, other, rest))
    budget = Budget.of(epsilon, shares, height)  # type: ignore[arg-type]
    for depth in range(height + 1):
        assert budget.spent(depth) <= epsilon
        unused = budget.splitting * (height - depth)
        assert budget.spent(depth) + unused >= epsilon - Fraction(height + 1, 2**40)
        assert budget.left(depth) >= 0


@pytest.mark.parametrize(
    ("vertices", "counting", "k", "height"),
    [
        (5_242, "1/2", 1, 9),
        (1_012, "1/2", 1, 7),
        (5_242, "1/10", 1, 8),
        (5_242, "1/2", 25, 7),
        (2, "1/2", 1, 0),
    ],
)
def test_heights(vertices: int, counting: str, k: int, height: int) -> None:
    budget = Fraction(counting)
    assert tree_height(vertices**2, budget, 2 * k) == height
    assert tree_height(vertices * (vertices - 1) // 2, budget, k) == height


@given(st.integers(2, 40), st.integers(1, 20), st.data())
def test_cells_of_regions(vertices: int, step: int, data: st.DataObject) -> None:
    """By counting them."""
    for triangle in (True, False):
        grid = Grid(vertices, step, triangle)
        pairs = st.lists(st.integers(0, grid.blocks), min_size=2, max_size=2).map(sorted)
        region = np.array([[*data.draw(pairs), *data.draw(pairs)]])
        top, bottom, left, right = grid.edges(region)[0].tolist()
        cells = [(i, j) for i in range(top, bottom) for j in range(left, right)]
        expected = [cell for cell in cells if not triangle or cell[0] < cell[1]]
        assert grid.cells(region)[0] == len(expected)
        on = [cell for cell in expected if cell[0] == cell[1]]
        assert grid.diagonal(region)[0] == len(on)
    assert grid.lines[0] == 0
    assert grid.lines[-1] == vertices


def law(cells: int, ones: int, asked: int, log_odds: float) -> np.ndarray:
    """P(w) over the whole support."""
    low, high = support(*(np.array([each]) for each in (cells, ones, asked)))
    arrays = [np.array([each]) for each in (cells, ones, asked)]
    found = weights(*arrays, np.array([log_odds]), low, int(high[0] - low[0]) + 1)[0]
    return found / found.sum()


@pytest.mark.parametrize("numbers", [(50, 7, 12), (9, 0, 4), (9, 9, 9)])
@pytest.mark.parametrize("log_odds", [0.0, 3.0, 40.0])
def test_the_law_is_fishers(numbers: tuple[int, int, int], log_odds: float) -> None:
    stats = pytest.importorskip("scipy.stats")
    cells, ones, asked = numbers
    low, high = max(0, asked - cells + ones), min(ones, asked)
    mass = [
        math.comb(ones, w) * math.comb(cells - ones, asked - w) * math.exp(log_odds * (w - high))
        for w in range(low, high + 1)
    ]
    found = law(*numbers, log_odds)
    assert found == pytest.approx(np.array(mass) / sum(mass), rel=1e-12)
    if 0 < log_odds < 10 and ones:
        other = stats.nchypergeom_fisher(cells, ones, asked, math.exp(log_odds))
        assert found == pytest.approx(other.pmf(np.arange(low, high + 1)), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(("cells", "largest"), [(4, 0.828), (6, 0.889)])
def test_privacy_of_the_arrangement_by_brute_force(cells: int, largest: float) -> None:
    """All neighbours, all numbers asked for, all arrangements, at budget 1 and sensitivity 1."""
    worst = 0.0
    for asked in range(cells + 1):
        outcomes = [set(each) for each in combinations(range(cells), asked)]
        chances = []
        for ones in range(cells + 1):
            first = max(0, asked - (cells - ones))
            chance = law(cells, ones, asked, 1.0)
            ways = [math.comb(ones, w) * math.comb(cells - ones, asked - w)
                    for w in range(first, first + chance.size)]  # fmt: skip
            chances.append((first, np.log(chance / ways)))
        # the true ones are the first cells: all other neighbours are permutations of these
        for ones, outcome in product(range(cells), outcomes):
            logs = []
            for number in (ones, ones + 1):
                first, each = chances[number]
                logs.append(each[len(outcome & set(range(number))) - first])
            worst = max(worst, abs(logs[0] - logs[1]))
    assert worst == pytest.approx(largest, abs=5e-4)
    assert worst <= 1


@pytest.mark.parametrize(
    ("cells", "ones", "asked", "log_odds"),
    [
        (10**12, 10**7, 9 * 10**6, 0.4),
        (10**6, 500, 700, 0.4),
        (10**9, 10**5, 10**5, 14.0),
    ],
)
def test_what_is_cut_off_is_next_to_nothing(
    cells: int, ones: int, asked: int, log_odds: float
) -> None:
    """The law is log-concave: what lies beyond an end is a geometric series at most."""
    arrays = [np.array([each]) for each in (cells, ones, asked)]
    odds = np.array([log_odds])
    first, size = window(*arrays, odds)
    low, high = support(*arrays)
    mass = weights(*arrays, odds, first, int(size[0]))[0]
    mass /= mass.sum()
    top = int(mode(*arrays, odds)[0] - first[0])
    assert mass[top] == mass.max()
    ends = []
    if first[0] > low[0]:
        ends.append((mass[0], mass[0] / mass[1]))
    if first[0] + size[0] - 1 < high[0]:
        ends.append((mass[-1], mass[-1] / mass[-2]))
    assert sum(end * ratio / (1 - ratio) for end, ratio in ends) < CUT_MASS


def test_kept_numbers_follow_the_law() -> None:
    """Chi-square with 3 outcomes, 30,000 draws; alarm once in a million (2 degrees: 27.6)."""
    size = 30_000
    arrays = [np.full(size, each) for each in (4, 2, 2)]
    found = np.bincount(draw(*arrays, np.full(size, 2.0), SeededRandom(3)), minlength=3)
    expected = size * law(4, 2, 2, 2.0)
    assert ((found - expected) ** 2 / expected).sum() < 27.6


@pytest.mark.parametrize(
    ("asked", "triangle"), [(2, True), (9, False)], ids=["tried-triangle", "listed-whole"]
)
def test_arrangements_of_a_kind_are_alike(asked: int, triangle: bool) -> None:
    """One leaf, two true cells, no preference: each free cell comes up as often. Chi-square with
    up to 29 degrees, 1,000 runs; alarm below once in a million."""
    vertices, runs = 6, 1_000
    pairs = [(i, j) for i in range(vertices) for j in range(vertices) if i != j]
    pairs = [pair for pair in pairs if pair[0] < pair[1] or not triangle]
    true = np.array([[0, 3], [2, 4]], np.int32)
    found = np.zeros(vertices**2)
    leaves = Leaves(
        np.array([[0, vertices, 0, vertices]]),
        np.array([len(pairs)]),
        np.array([asked]),
        np.zeros(1),
    )
    for run in range(runs):
        context = SequentialContext(test_seed=run)
        ends = np.zeros(2, np.int32)
        made = arrange(leaves, true[:, 0], true[:, 1], ends, Space(vertices, triangle), context)
        assert np.unique(made.keys).size == asked
        assert made.kept == np.isin(made.keys, [3, 16]).sum()
        found[made.keys] += 1
    inside = np.array([i * vertices + j for i, j in pairs])
    assert found.sum() == found[inside].sum()
    chance = asked / len(pairs)
    spread = runs * chance * (1 - chance)
    statistic = ((found[inside] - runs * chance) ** 2 / spread).sum() * (1 - 1 / len(pairs))
    assert statistic < 85


def test_divergence_of_degrees() -> None:
    without = np.arange(10) != np.flatnonzero((G8.first == 3) & (G8.second == 4))[0]
    assert degree_divergence(ENDS, ENDS, 8) == 0
    assert degree_divergence(ENDS, EMPTY, 8) == pytest.approx(3.0003, abs=5e-5)
    less = (G8.first[without], G8.second[without])
    assert degree_divergence(ENDS, less, 8) == pytest.approx(0.11965, abs=5e-6)
    assert degree_shares(ENDS, 8).sum() == pytest.approx(1)


@given(st.integers(2, 30), st.integers(0, 100))
def test_cut_queries_by_definition(vertices: int, seed: int) -> None:
    graph = random_graph_of(vertices, 0.2, seed)
    ends = (graph.first, graph.second)
    for drawn in ("random", "range"):
        cuts = Cuts.of(vertices, vertices, 70, drawn, seed)
        masks = [cuts.answers([ends]), cuts.answers([ends, ends])]
        assert (masks[0][0] == masks[1][1]).all()
    generator = np.random.default_rng(seed)
    one, other = (generator.random(vertices) < 0.5 for _ in range(2))
    expected = sum(
        bool((one[a] and other[b]) or (one[b] and other[a]))
        for a, b in zip(*ends, strict=True)
    )  # fmt: skip
    assert cut(ends, np.flatnonzero(one).tolist(), np.flatnonzero(other).tolist(), vertices) == (
        expected
    )
