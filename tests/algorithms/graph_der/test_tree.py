"""Tree, splitting kernels, counts that add up, whole runs: properties, the audit, utility."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.contract import Cancelled, SequentialContext, Stance
from algorithms.datasets.edge_list import EdgeList
from algorithms.graph_der import Parameters, exploration, publication
from algorithms.graph_der.exploration import (
    PlainKernel,
    Tree,
    consistent,
    explore,
    kernel,
    nearest,
    noisy_counts,
    rounded,
    splitting_points,
)
from algorithms.graph_der.parameters import Labelling, Plan, plan_of
from algorithms.graph_der.publication import (
    Release,
    labelled,
    neighbours_adjacent,
    order_of,
    publish,
)
from algorithms.graph_der.regions import Grid, Matrix, children, counts, leaf_map
from tacit.randomness import SecureRandom, SeededRandom
from tests.algorithms.graph_der.examples import G8, random_graph_of, table_of
from tests.property_examples import examples


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
