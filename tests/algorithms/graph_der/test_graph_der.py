"""The mathematics of `graph-der`: worked numbers, one by one. Spec: graph-der, section 8.

Tree, splitting kernels, counts that add up, whole runs: properties, the audit, utility.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.contract import Cancelled, SequentialContext, Stance
from algorithms.datasets.edge_list import EdgeList
from algorithms.graph_der import Parameters, exploration, publication
from algorithms.graph_der.evaluation import Cuts, cut, degree_divergence, degree_shares
from algorithms.graph_der.exploration import (
    PlainKernel,
    Tree,
    consistent,
    explore,
    kernel,
    nearest,
    noisy_counts,
    rounded,
    scores,
    splitting_points,
)
from algorithms.graph_der.parameters import Budget, Labelling, Plan, plan_of, tree_height
from algorithms.graph_der.publication import (
    CUT_MASS,
    Leaves,
    Release,
    Space,
    arrange,
    draw,
    labelled,
    mode,
    neighbours_adjacent,
    order_of,
    publish,
    support,
    weights,
    window,
)
from algorithms.graph_der.regions import Grid, Matrix, children, counts, leaf_map
from tacit.randomness import SecureRandom, SeededRandom
from tests.algorithms.graph_der.examples import G8, random_graph_of, table_of
from tests.property_examples import examples

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


def plan_for(vertices: int, stance: Stance = "sound", **changes: Any) -> Plan:
    asked = Parameters(**({"epsilon": "40", "step": 1} | changes))
    return plan_of(asked, stance, vertices)


def released(
    graph: EdgeList,
    stance: Stance = "sound",
    labelling: Labelling = "given",
    seed: int = 1,
    **changes: Any,
) -> Release:
    plan = plan_for(graph.count, stance, **changes)
    return publish(graph, plan, labelling, 0, SequentialContext(test_seed=seed))


@given(
    st.integers(8, 40), st.integers(1, 5), st.booleans(), st.floats(0.01, 50), st.integers(0, 99)
)
@examples(40)
def test_loops_and_arrays_choose_alike(
    vertices: int, step: int, triangle: bool, rate: float, seed: int
) -> None:
    pytest.importorskip("numba")
    graph = random_graph_of(vertices, 0.2, seed)
    grid = Grid(vertices, step, triangle)
    matrix = Matrix.of(table_of(graph, grid), grid)
    generator = np.random.default_rng(seed)
    lines = np.sort(generator.integers(0, grid.blocks + 1, (20, 2, 2)), axis=2).reshape(20, 4)
    regions = np.concatenate((grid.whole(), lines[:, [0, 1, 2, 3]]))
    regions = regions[grid.cells(regions) > 0]
    least = grid.size / 64
    rates = np.full(len(regions), rate)
    plain, fast = (
        splitting_points(matrix, regions, rates, least, SeededRandom(seed), work=work)
        for work in (PlainKernel(), kernel())
    )
    assert (plain == fast).all()
    split = fast[:, 0] >= 0
    for region, point in zip(regions[split], fast[split], strict=True):
        cells = grid.cells(children(region[None], point[None])[0])
        assert ((cells == 0) | (cells >= least)).all()
        assert region[0] < point[0] < region[1]
        assert region[2] < point[1] < region[3]


def test_sums_of_rows_do_not_depend_on_the_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = Grid(60, 1, True)
    matrix = Matrix.of(table_of(random_graph_of(60, 0.1, 3), grid), grid)
    regions = np.concatenate((grid.whole(), children(grid.whole(), np.array([[20, 31]]))[0]))
    regions = regions[grid.cells(regions) > 0]
    found = []
    for size in (1, 100, 1 << 21):
        monkeypatch.setattr(exploration, "CHUNK_POINTS", size)
        source = SeededRandom(4)
        found.append(splitting_points(matrix, regions, np.full(len(regions), 9.0), 3.0, source))
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()


def test_regions_without_a_point() -> None:
    grid = Grid(8, 1, True)
    matrix = Matrix.of(table_of(G8, grid), grid)
    regions = np.array([[0, 1, 3, 8], [0, 3, 5, 6], [0, 8, 0, 8], [0, 2, 3, 5]])
    found = splitting_points(matrix, regions, np.ones(4), 5.0, SeededRandom(1))
    assert (found[[0, 1, 3]] == -1).all()
    assert (found[2] > 0).all()
    assert splitting_points(matrix, regions[:0], np.ones(0), 5.0, SeededRandom(1)).shape == (0, 2)


@given(st.integers(12, 60), st.integers(1, 4), st.integers(0, 200), st.booleans())
@examples(60)
def test_an_edge_is_in_one_region_of_each_level(
    vertices: int, step: int, seed: int, dense: bool
) -> None:
    """And in one leaf; a graph with one edge more differs by 1 in just these."""
    graph = random_graph_of(vertices, 0.3 if dense else 0.05, seed)
    plan = plan_for(vertices, step=step)
    tree = explore(table_of(graph, plan.grid), plan, SequentialContext(test_seed=seed))
    generator = np.random.default_rng(seed)
    low, high = np.sort(generator.choice(vertices, 2, replace=False)).astype(np.int32)
    other = _flipped(graph, int(low), int(high))
    changed = counts(table_of(other, plan.grid), tree.bounds) - tree.ones
    depths = tree.depth[changed != 0]
    assert depths.tolist() == list(range(depths.size))
    assert np.abs(changed[changed != 0]).max() == 1
    assert (tree.leaf & (changed != 0)).sum() == 1
    assert tree.cells[tree.leaf].sum() == plan.grid.size
    held = leaf_map(plan.grid, tree.bounds[tree.leaves])
    own = np.bincount(held[graph.first // step, graph.second // step], minlength=1)
    assert (own >= 0).all()
    assert own.tolist() == tree.ones[tree.leaves][: own.size].tolist()
    for depth in np.unique(tree.depth[tree.leaf]).tolist():
        assert plan.budget.spent(depth) <= plan.budget.epsilon
    inner = np.flatnonzero(~tree.leaf)
    sums = np.bincount(tree.parent[1:], tree.ones[1:], tree.leaf.size)
    assert (sums[inner] == tree.ones[inner]).all()
    least = np.array([plan.least(depth) for depth in range(plan.height + 1)])
    assert (tree.cells[1:] >= least[tree.depth[1:]]).all()


def _flipped(graph: EdgeList, low: int, high: int) -> EdgeList:
    there = (graph.first == low) & (graph.second == high)
    first, second = graph.first[~there], graph.second[~there]
    if not there.any():
        first, second = np.append(first, np.int32(low)), np.append(second, np.int32(high))
    return EdgeList.from_pairs(graph.vertices, first, second)


def test_noise_of_counts_is_exact_integers() -> None:
    """Mean and variance of discrete Laplace, 20,000 draws; five standard errors."""
    plan = plan_for(100, epsilon="1")
    bounds = np.repeat(plan.grid.whole(), 20_000, axis=0)
    source = SecureRandom.from_secret_seed(bytes(32), "test")
    noisy, variance = noisy_counts(np.full(20_000, 7), bounds, Fraction(1, 4), plan, source)
    assert (noisy == np.rint(noisy)).all()
    assert variance[0] == 32
    decay = math.exp(-1 / 4)
    true = 2 * decay / (1 - decay) ** 2
    assert abs(noisy.mean() - 7) < 5 * (true / 20_000) ** 0.5
    assert abs(noisy.var() / true - 1) < 5 * (5 / 20_000) ** 0.5


@given(st.integers(20, 60), st.integers(0, 100))
@examples(40)
def test_counts_add_up(vertices: int, seed: int) -> None:
    plan = plan_for(vertices, epsilon="8")
    graph = random_graph_of(vertices, 0.2, seed)
    tree = explore(table_of(graph, plan.grid), plan, SequentialContext(test_seed=seed))
    found = consistent(tree)
    assert (found >= 0).all()
    sums = np.bincount(np.maximum(tree.parent[1:], 0), found[1:], found.size)
    inner = np.flatnonzero(~tree.leaf)
    assert sums[inner] == pytest.approx(found[inner], abs=1e-6)


def test_counts_of_a_small_tree() -> None:
    """A root with children 6 (variance 1), 2 (3), both leaves: nothing to change; with a third one
    of -2 it falls out and the others bear it, by their variances."""

    def tree(estimates: list[float], variances: list[float]) -> Tree:
        size = len(estimates) + 1
        return Tree(
            np.zeros((size, 4), np.int64),
            np.array([0] + [1] * (size - 1)),
            np.array([-1] + [0] * (size - 1)),
            np.full(size, 100),
            np.array([0.0, *estimates]),
            np.array([np.inf, *variances]),
            np.array([False] + [True] * (size - 1)),
            np.zeros(size, np.int64),
        )

    assert consistent(tree([6, 2], [1, 3])).tolist() == [8, 6, 2]
    assert consistent(tree([6, 2, -2], [1, 3, 1])).tolist() == [6, 5.5, 0.5, 0]
    assert consistent(tree([1, -4], [1, 1])).tolist() == [0, 0, 0]


def test_whole_numbers() -> None:
    values, room = np.full(20_000, 2.25), np.full(20_000, 10)
    found = rounded(values, room, SeededRandom(1))
    assert set(found.tolist()) == {2, 3}
    assert abs(found.mean() - 2.25) < 5 * (0.1875 / 20_000) ** 0.5
    assert rounded(np.array([12.0, 3.0]), np.array([9, 9]), SeededRandom(1)).tolist() == [9, 3]
    assert nearest(np.array([-3.0, 2.4, 12.0]), np.array([9, 9, 9])).tolist() == [0, 2, 9]


@given(st.integers(2, 50), st.integers(1, 6), st.integers(0, 99), st.sampled_from(["1", "30"]))
@examples(60)
def test_a_release_is_a_simple_graph(vertices: int, step: int, seed: int, epsilon: str) -> None:
    step = min(step, max(1, vertices // 2))
    graph = random_graph_of(vertices, 0.3, seed)
    for stance in ("sound", "paper"):
        made = released(graph, stance, seed=seed, epsilon=epsilon, step=step)  # type: ignore[arg-type]
        assert (made.low < made.high).all()
        keys = made.low.astype(np.int64) * vertices + made.high
        # unsorted, the true edges would stand first
        assert (np.diff(keys) > 0).all()
        assert made.high.max(initial=0) < vertices
        if stance == "sound":
            assert made.counts.sum() == made.edges
            held = leaf_map(made.plan.grid, made.tree.bounds[made.tree.leaves])
            leaf = held[made.low // step, made.high // step]
            assert np.bincount(leaf, minlength=made.counts.size).tolist() == made.counts.tolist()
        else:
            assert made.edges <= made.counts.sum()


def test_at_a_large_epsilon_the_graph_comes_back() -> None:
    graph = random_graph_of(40, 0.2, 7)
    made = released(graph, epsilon="100", density_stop=1)
    assert made.edges == graph.edges == made.common
    assert (np.sort(made.low * 40 + made.high) == np.sort(graph.first * 40 + graph.second)).all()


def test_blocks_change_nothing_but_their_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph_of(120, 0.1, 1)
    whole = released(graph, epsilon="5")
    monkeypatch.setattr(publication, "BLOCK_EDGES", 50)
    again = released(graph, epsilon="5")
    assert again.counts.tolist() == whole.counts.tolist()
    assert again.edges == whole.edges
    once_more = released(graph, epsilon="5")
    assert (once_more.low == again.low).all()
    assert (once_more.high == again.high).all()


def test_labels() -> None:
    graph = EdgeList.of([("c", "a"), ("b", "c")], ["d", "c", "a", "b"])
    assert order_of(graph, "given", 0).tolist() == [0, 1, 2, 3]
    assert order_of(graph, "id", 0).tolist() == [2, 3, 1, 0]
    assert order_of(graph, "first_appearance", 0).tolist() == [1, 2, 3, 0]
    drawn = [order_of(graph, "random", seed).tolist() for seed in (1, 1, 2, 3)]
    assert drawn[0] == drawn[1]
    assert len({tuple(each) for each in drawn}) > 1
    low, high = labelled(graph, order_of(graph, "id", 0))
    assert sorted(zip(low.tolist(), high.tolist(), strict=True)) == [(0, 2), (1, 2)]
    assert neighbours_adjacent(graph, order_of(graph, "id", 0)) == (1 / 3, 1 / 3)


def test_cancelled_in_the_choice_of_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """At each look at the clock; and there is one for every piece of the points."""
    monkeypatch.setattr(exploration, "CHUNK_POINTS", 500)
    graph, plan = random_graph_of(80, 0.1, 1), plan_for(80)

    def looks(limit: int) -> int:
        told = 0

        def tell(_fraction: float, stage: str) -> None:
            nonlocal told
            told += stage == "exploring"
            if told > limit:
                raise Cancelled

        publish(graph, plan, "given", 0, SequentialContext(on_progress=tell))
        return told

    every = looks(10**9)
    assert every >= 79 * 79 // 1_000
    for limit in (0, 3, every - 1):
        with pytest.raises(Cancelled):
            looks(limit)
