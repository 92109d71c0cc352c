"""Method `blocks`: sensitivity, budget, consistency, output. Spec: graph-der, section 10.6.

Method `blocks` over curators. Spec: graph-der, section 10.5.
"""

from __future__ import annotations

import itertools
import json
import math
import tracemalloc
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.contract import NotOverCurators, Outcome, SequentialContext
from algorithms.datasets.edge_list import EdgeList
from algorithms.graph_der import Parameters, preview, run
from algorithms.graph_der import algorithm as federated
from algorithms.graph_der.block_graph import EndLaw, publish_blocks, vertex_weights
from algorithms.graph_der.parameters import BLOCK_SHARES, Aim, BadCells, BadShares, block_plan_of
from algorithms.graph_der.regions import BlockPlan, Coarse, Fine, Measured, measure, sides_of
from algorithms.simplex import on_simplex, on_simplices
from reproduction.stand_in_data import power_law
from simulation.stand_in_data import blocks
from tacit.encoders.graph_der_blocks import BlockSum, Ints
from tacit.encoders.sums import SumRefused, read
from tacit.errors import Invalid
from tacit.noise import DiscreteLaplace
from tacit.randomness import SeededRandom
from tests.algorithms.graph_der.examples import real
from tests.property_examples import examples


def plan(
    vertices: int,
    epsilon: str = "1",
    k: int = 1,
    cells: int = 4_000_000,
    aim: Aim = "balanced",
) -> BlockPlan:
    in_order = aim == "degree_sequence"
    return BlockPlan(
        vertices, Fraction(epsilon), BLOCK_SHARES[aim], k, cells, sorted_degrees=in_order
    )


PAIRS = list(itertools.combinations(range(5), 2))
LOW, HIGH = (np.array(each, np.int32) for each in zip(*PAIRS, strict=True))
GRAPHS = np.array(list(itertools.product((0, 1), repeat=10)), np.int64)


def queries(fine: Fine, in_order: bool = False) -> list[np.ndarray]:
    """(graphs, numbers) of each query of all graphs of five vertices; in order: sorted degrees."""

    def counted(place: np.ndarray, size: int) -> np.ndarray:
        member = np.zeros((len(PAIRS), size), np.int64)
        member[np.arange(len(PAIRS)), place] = 1
        return GRAPHS @ member

    ends = counted(LOW, 5) + counted(HIGH, 5)
    coarse = counted(fine.grid.place(LOW, HIGH), fine.sides.size)
    parts = counted(fine.place(LOW, HIGH), fine.room.size)
    ends = np.sort(ends, axis=1) if in_order else ends
    return [GRAPHS.sum(axis=1, keepdims=True), ends, coarse, parts]


def loss(
    fine: Fine, scales: Sequence[Fraction | None], apart: int, in_order: bool = False
) -> Fraction:
    """The largest weighted change between graphs that differ in so many pairs; scales: None of a
    query that is not made."""
    answers = queries(fine, in_order)
    worst = Fraction(0)
    for flips in itertools.combinations(range(len(PAIRS)), apart):
        mask = sum(1 << (len(PAIRS) - 1 - pair) for pair in flips)
        other = np.arange(len(GRAPHS)) ^ mask
        changes = [np.abs(each - each[other]).sum(axis=1) for each in answers]
        for row in {tuple(each) for each in np.stack(changes, axis=1).tolist()}:
            made = ((c, s) for c, s in zip(row, scales, strict=True) if s is not None)
            spent = sum((c / s for c, s in made), Fraction(0))
            worst = max(worst, spent)
    return worst


def partitions() -> list[Fine]:
    """Two ranges, each cell cut once on a side or not."""
    grid = Coarse.of(5, 2)
    return [Fine.of(grid, np.array(sides)) for sides in itertools.product((1, 2), repeat=3)]


@pytest.mark.parametrize("aim", BLOCK_SHARES)
@pytest.mark.parametrize("k", [1, 2])
def test_every_flip_of_every_graph_of_five_vertices(k: int, aim: Aim) -> None:
    """Acceptance 1: the loss is epsilon for k edges, exactly, and reached, for every aim."""
    asked = plan(5, "3/2", k, aim=aim)
    scales = [asked.scale(query) if asked.shares[query] else None for query in range(4)]
    in_order = asked.sorted_degrees
    assert {loss(fine, scales, k, in_order) for fine in partitions()} == {Fraction(3, 2)}
    assert {loss(fine, scales, 1, in_order) for fine in partitions()} == {Fraction(3, 2) / k}


def test_planted_faults_are_found() -> None:
    """Degrees at half their scale, sorted or not; parts that overlap on a border."""
    half = [None, plan(5, aim="degree_sequence").scale(1) / 2, None, None]
    assert loss(partitions()[-1], half, 1, in_order=True) == 2
    asked = plan(5)
    scales = [asked.scale(query) for query in range(4)]
    fine = partitions()[-1]
    assert loss(fine, [scales[0], scales[1] / 2, *scales[2:]], 1) > 1
    answers = queries(fine)
    overlapping = answers[3] + np.roll(answers[3], 1, axis=1)
    change = np.abs(overlapping[0] - overlapping[1]).sum()
    assert change / scales[3] > asked.epsilon * asked.shares[3]


@given(st.integers(2, 60), st.integers(1, 9), st.data())
@examples(150)
def test_parts_are_a_partition(vertices: int, ranges: int, data: st.DataObject) -> None:
    """Each pair of labels lies in exactly one part, the one that `place` names."""
    grid = Coarse.of(vertices, min(ranges, vertices))
    rows, columns = grid.cells
    widths = np.diff(grid.borders)
    most = np.minimum(widths[rows], widths[columns]).tolist()
    sides = np.array([data.draw(st.integers(1, each)) for each in most])
    fine = Fine.of(grid, sides)
    low, high = (each.astype(np.int32) for each in np.triu_indices(vertices, 1))
    place = fine.place(low, high)
    top, bottom, left, right = fine.bounds[place].T
    assert ((top <= low) & (low < bottom) & (left <= high) & (high < right)).all()
    assert (np.bincount(place, minlength=fine.room.size) == fine.room).all()


def test_a_release_has_the_noise_of_its_scales() -> None:
    """What is drawn, not what is said: mean sizes of the noise of 300 releases of an empty graph,
    and of the size of 400 of a full one. Half the noise is 50 % off, chance a few per cent."""
    asked, nothing = plan(200), np.zeros(0, np.int32)
    sizes: dict[int, list[float]] = {1: [], 2: [], 3: []}
    for seed in range(300):
        seen = measure(nothing, nothing, asked, SequentialContext(test_seed=seed))
        assert seen.degrees is not None
        for query, noisy in ((1, seen.degrees), (2, seen.coarse), (3, seen.parts)):
            sizes[query] += np.abs(noisy).tolist()
    for query, found in sizes.items():
        assert np.mean(found) == pytest.approx(float(asked.scale(query)), rel=0.1), query
    full = np.triu_indices(200, 1)
    low, high = (each.astype(np.int32) for each in full)
    ends = [
        measure(low, high, asked, SequentialContext(test_seed=seed)).size - low.size
        for seed in range(400)
    ]
    assert np.abs(ends).mean() == pytest.approx(float(asked.scale(0)), rel=0.2)


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=40))
def test_the_nearest_point_of_the_simplex(values: list[float]) -> None:
    """Same sum, none below 0, and no other of a hundred such points is nearer."""
    given_ = np.array(values)
    found = on_simplex(given_)
    total = given_.sum()
    if total <= 0:
        assert not found.any()
        return
    assert found.min() >= 0
    assert found.sum() == pytest.approx(total, abs=1e-6)
    others = np.random.default_rng(1).dirichlet(np.ones(len(values)), 100) * total
    nearest = np.square(others - given_).sum(axis=1).min()
    assert np.square(found - given_).sum() <= nearest + 1e-6


def test_a_total_that_rounding_hides() -> None:
    """It is above 0, and too small to change the largest number."""
    values = np.array([-3.0, 3.0, 1e-20])
    assert on_simplex(values).tolist() == [0, 0, 0]
    owner = np.array([0, 0, 0, 2])
    found = on_simplices(np.append(values, 1.0), owner, np.array([1e-20, 5.0, 4.0]))
    assert found.tolist() == [0, 0, 0, 4]


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(-50, 50)), max_size=40))
def test_several_simplices_are_each_its_own(drawn: list[tuple[int, float]]) -> None:
    """With totals from elsewhere: as one simplex after a shift, which moves no nearest point."""
    owner, values = np.array([each[0] for each in drawn], np.int64), np.array([x[1] for x in drawn])
    totals = np.array([0.0, 0.5, 20.0, 300.0, 7.0])
    found = on_simplices(values, owner, totals)
    for group, total in enumerate(totals):
        own = values[owner == group]
        if own.size:
            shifted = own + (total - own.sum()) / own.size
            assert found[owner == group] == pytest.approx(on_simplex(shifted), abs=1e-6)


def test_noise_of_one_region_is_not_taken_off_another() -> None:
    """Forty small groups and three large ones, labels in order: edges among the small ones are .99
    to 1.01 of the true ones. With one simplex for all parts they were 1.02, at the others' cost."""
    graph = blocks((50,) * 40 + (400,) * 3, 0.4, 0.002, 1)
    asked, kept = plan(graph.count), 0
    for seed in range(4):
        found = publish_blocks(graph, asked, "id", 0, SequentialContext(test_seed=seed))
        kept += int((found.high < 2_000).sum())
    assert 0.99 < kept / 4 / (graph.second < 2_000).sum() < 1.01


def test_weights_are_degrees_but_none_far_below_the_mean() -> None:
    weights = vertex_weights(np.array([100.0] * 50 + [0.0] * 50), 100)
    assert weights.tolist() == [100] * 50 + [50 / 20] * 50
    assert vertex_weights(None, 100).tolist() == [1.0] * 100


def test_the_grid_by_hand() -> None:
    """Acceptance: 14,496 edges at epsilon 1: B = 15; a cell of 200 is cut into 5 x 5."""
    asked = plan(5_242)
    assert asked.ranges(14_496) == round(math.sqrt(2 * 14_496 * 0.67 / 10) / 3) == 15
    grid = Coarse.of(5_242, 15)
    counts = np.zeros(120, np.int64)
    counts[1] = 200
    assert sides_of(grid, counts, asked)[:3].tolist() == [1, 5, 1]
    tight = plan(5_242, cells=130)
    assert sides_of(grid, counts, tight).tolist().count(1) == 119
    assert int(np.square(sides_of(grid, counts, tight)).sum()) <= 130


def done(graph: EdgeList, **changes: Any) -> Outcome:
    asked = Parameters(**({"epsilon": "1"} | changes))
    return run(graph, asked, "sound", SequentialContext(bytes(range(32))))


@pytest.mark.parametrize(
    "graph",
    [
        EdgeList.of([], range(2)),
        EdgeList.of([], range(50)),
        EdgeList.of([(0, 1)], range(2)),
        EdgeList.of([(i, j) for i in range(30) for j in range(i)], range(30)),
        power_law(500, 3_000, 1),
    ],
    ids=["two", "empty", "one", "full", "many"],
)
@pytest.mark.parametrize("epsilon", ["0.1", "50"])
def test_what_comes_out_is_a_simple_graph(graph: EdgeList, epsilon: str) -> None:
    """Acceptance 7 and 10: no loops, no edge twice, ids of the input, counts that add up."""
    for labelling, aim in (
        ("given", "balanced"),
        ("random", "ranges"),
        ("given", "degrees"),
        ("id", "degree_sequence"),
    ):
        found = done(graph, epsilon=epsilon, labelling=labelling, max_cells=400, aim=aim)
        text = found.files[0].content.decode().split()
        ends = list(zip(map(int, text[::2]), map(int, text[1::2]), strict=True))
        assert len({frozenset(each) for each in ends}) == len(ends) == found.result["edges"]
        assert all(a != b for a, b in ends)
        assert {each for pair in ends for each in pair} <= set(graph.vertices.tolist())
        counts = [line.split(",")[-1] for line in found.files[1].content.decode().split()[1:]]
        assert sum(map(int, counts)) == len(ends)
    if epsilon == "50" and graph.edges > 400:
        assert found.result["edges"] == pytest.approx(graph.edges, rel=0.02)


@pytest.mark.parametrize(
    "name",
    ["ca-GrQc", "wiki-Vote", "generated"],
)
def test_as_many_edges_as_before(name: str) -> None:
    """Acceptance 7: .97 to 1.03 of the edges at epsilon 1."""
    graph = power_law(6_000, 20_000, 1) if name == "generated" else real(name)
    asked = plan(graph.count)
    found = publish_blocks(graph, asked, "id", 0, SequentialContext(test_seed=1))
    assert 0.97 < found.edges / graph.edges < 1.03


@pytest.mark.slow
@pytest.mark.parametrize("area", [0.1, 0.25])
def test_the_forecast_of_a_rectangle(area: float) -> None:
    """Acceptance 6: the deviation of a count between ranges, 30 runs, within a factor 2 of what the
    reports say. Over 221 runs it is 1.2 and 1.3 times that, and of 30 runs it varies by 13 %: 2 is
    four deviations away."""
    graph = power_law(4_000, 80_000, 3)
    side = round(graph.count * math.sqrt(area))
    true = int(((graph.first < side) & (graph.second < side)).sum())
    asked = Parameters(epsilon="2", labelling="id")
    errors, said = [], []
    for seed in range(30):
        outcome = run(graph, asked, "sound", SequentialContext(test_seed=seed))
        ends = np.array(outcome.files[0].content.split(), np.int64).reshape(-1, 2)
        errors.append(int((ends < side).all(axis=1).sum()) - true)
        said.append((outcome.report.error or {})["rectangle_deviation"][str(area)])
    assert 0.5 < math.sqrt(np.mean(np.square(errors))) / np.mean(said) < 2


def test_the_forecast_of_a_rectangle_by_hand() -> None:
    """Ten cells with ten parts each, scales 2 and 4: v = 8, and 32 of a part. A cell's count leaves
    8 / (8 + 320) of its parts' noise; the rectangle holds 2.5 cells, and its border cuts 2."""
    shares = Fraction(1, 4), Fraction(0), Fraction(1, 2), Fraction(1, 4)
    asked = BlockPlan(100, Fraction(1), shares, 1, 1_000)
    left = 8 / 328
    expected = math.sqrt(320 * (2.5 * left + 2 * (1 - left) / 6))
    assert asked.rectangle_deviation(Fraction(1, 4), 4, 100) == pytest.approx(expected)


def test_ends_are_those_of_a_binary_search() -> None:
    generator = np.random.default_rng(1)
    weights = generator.pareto(1.1, 1_000) + 0.05
    law = EndLaw.of(weights)
    first, last = np.sort(generator.integers(0, 1_001, (2, 100_000)), axis=0)
    first, last = first[first < last], last[first < last]
    sums = np.concatenate(([0.0], np.cumsum(weights)))
    words = SeededRandom(1).words(first.size) >> np.uint64(11)
    sought = sums[first] + words * 2.0**-53 * (sums[last] - sums[first])
    expected = np.clip(np.searchsorted(sums, sought, side="right") - 1, first, last - 1)
    assert (law.draw(first, last, SeededRandom(1)) == expected).all()
    assert law.guide.size < 4 * weights.size


@pytest.mark.release
@pytest.mark.timeout(0)
def test_ten_million_vertices() -> None:
    """Acceptance 9: in 3 GiB with the graph itself; 4 are the limit of a process."""
    graph = power_law(10_000_000, 30_000_000, 1)
    asked = block_plan_of(Parameters(epsilon="1"), graph.count)
    tracemalloc.start()
    try:
        found = publish_blocks(graph, asked, "id", 0, SequentialContext(bytes(32)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    held = sum(each.nbytes for each in (graph.vertices, graph.first, graph.second))
    assert peak + held < 3 << 30
    assert found.counts.size <= asked.max_cells


@pytest.mark.parametrize(
    ("changes", "problem", "pointer"),
    [
        ({"block_shares": ("1/2", "0", "1/2", "0")}, BadShares, "block_shares"),
        ({"block_shares": ("1/2", "-1", "1/2", "1")}, BadShares, "block_shares"),
        ({"block_shares": ("1/4", "1/4", "1/4", "1/5")}, BadShares, "block_shares"),
        ({"block_shares": ("1/4", "3/4", "0", "0")}, BadShares, "block_shares"),
        ({"block_shares": (0, 1, 0, 0), "aim": "degree_sequence"}, BadShares, "block_shares"),
        ({"max_cells": 15}, BadCells, "max_cells"),
        ({"edges_hint": 0}, BadCells, "edges_hint"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], problem: type[Invalid], pointer: str) -> None:
    with pytest.raises(problem) as wrong:
        preview(Parameters(**({"epsilon": "1"} | changes)), "sound")
    assert wrong.value.pointer == f"/params/{pointer}"


def test_the_report_says_what_was_spent_on_what() -> None:
    asked = Parameters(epsilon="2", k=2, edges_hint=3_000)
    planned = preview(asked, "sound")
    report = done(power_law(500, 3_000, 1), epsilon="2", k=2).report
    for each in (planned, report):
        spent = each.details["spent"]
        assert sum(Fraction(query["epsilon"]) for query in spent.values()) == 2
        assert [query["sensitivity"] for query in spent.values()] == [2, 4, 2, 2]
        assert each.details["not_of_the_source"] is True
        assert each.details["method"]["chosen"] == "blocks"
        assert [line.epsilon for line in each.verified] == ["1", "2"]
        assert each.charged is not None
        assert (each.charged.epsilon, each.charged.delta) == ("1", "0")
        assert each.error is not None
        assert each.error["rectangle_deviation"]["0.1"] > 0
    both = report.details["method"]["forecast"]
    assert both["blocks"] == report.error
    alone = done(power_law(500, 3_000, 1), epsilon="2", k=2, method="der").report
    assert both["der"] == alone.error
    assert planned.details["method"]["forecast"]["der"] == {
        "reason": "needs the number of vertices"
    }
    assert report.details["noisy_edges"] == report.error["edges"]  # type: ignore[index]
    unhinted = preview(Parameters(epsilon="1"), "sound").error or {}
    assert unhinted["verdict"].startswith("unknown: needs edges_hint")


def test_an_aim_sets_the_shares_and_says_so() -> None:
    report = done(power_law(500, 3_000, 1), aim="degrees").report
    assert report.details["aim"] == "degrees"
    assert report.details["spent"] == {
        "degrees": {"epsilon": "1", "sensitivity": 2, "scale": "2"},
    }
    assert (report.error or {})["degree_deviation"] == pytest.approx(math.sqrt(8), rel=0.02)
    assert "rectangle_deviation" not in (report.error or {})
    both = preview(Parameters(epsilon="1", aim="cuts", edges_hint=3_000), "sound")
    assert set(both.error or {}) >= {"degree_deviation", "rectangle_deviation"}


def test_without_degrees_nothing_is_spent_on_them() -> None:
    shares = ("1/10", "0", "4/10", "1/2")
    report = done(power_law(500, 3_000, 1), block_shares=shares).report
    assert "degrees" not in report.details["spent"]
    assert "degree_deviation" not in (report.error or {})


GRAPH = power_law(300, 2_000, 1, groups=4)
ROWS = np.column_stack([GRAPH.first, GRAPH.second]).astype(np.float64)


def asked(**changes: Any) -> Parameters:
    return Parameters(**({"epsilon": "1", "vertices": GRAPH.count} | changes))


def run_rounds(
    params: Parameters, rows: np.ndarray, share: int = 1, noise: SeededRandom | None = None
) -> tuple[Outcome, Measured, list[BlockSum]]:
    """All rounds; each curator has four rows and reads the document; noise: `share` full draws."""
    state = federated.start(params, ("u", "v"), Fraction(share))
    sums = []
    while (query := federated.next_sum(state)) is not None:
        told = read("graph-der", json.loads(json.dumps(query.document())))
        assert isinstance(told, BlockSum)
        assert told.document() == query.document()
        pieces = np.array_split(rows, max(1, len(rows) // 4))
        opened: Ints = np.sum([told.vectors(each).sum(axis=0) for each in pieces], axis=0)
        if noise is not None:
            scales = [block.bound / (query.epsilon * block.share) for block in query.blocks]
            for _ in range(share):
                drawn = [
                    DiscreteLaplace(scale).draw(noise, block.dimension)
                    for scale, block in zip(scales, query.blocks, strict=True)
                ]
                opened = opened + np.concatenate(drawn)
        state = federated.take(state, query, query.restored(opened))
        sums.append(query)
    assert state.measured is not None
    return federated.release(state), state.measured, sums


def test_five_hundred_curators_open_the_counts_of_the_whole_graph() -> None:
    """Without noise bit by bit, both orders of ends; a release that is made again is the same."""
    turned = ROWS.copy()
    turned[::2] = turned[::2, ::-1]
    outcome, measured, sums = run_rounds(asked(), turned)
    assert [each.kind for each in sums] == ["size", "coarse", "fine"]
    assert sum(each.epsilon for each in sums) == 1
    low, high = (each.astype(np.int32) for each in (GRAPH.first, GRAPH.second))
    grid, fine = measured.fine.grid, measured.fine
    assert measured.size == GRAPH.edges
    for place, counts in ((grid.place, measured.coarse), (fine.place, measured.parts)):
        assert (counts == np.bincount(place(low, high), minlength=counts.size)).all()
    ends = np.bincount(np.concatenate([low, high]), minlength=GRAPH.count)
    assert measured.degrees is not None
    assert (measured.degrees == ends).all()
    again = run_rounds(asked(), ROWS)[0]
    assert [file.content for file in again.files] == [file.content for file in outcome.files]
    assert outcome.result["edges"] == GRAPH.edges


@pytest.mark.parametrize("degrees", [True, False])
def test_what_one_edge_moves(degrees: bool) -> None:
    """All ten edges of five vertices, all sides of 1 and 2 of two ranges: weighted change over the
    three rounds at most epsilon, and reached by each."""
    epsilons = Fraction(1, 10), Fraction(3, 10), Fraction(2, 5), Fraction(1, 5)
    grid = Coarse.of(5, 2)
    pairs = np.array(list(itertools.combinations(range(5), 2)), np.float64)
    for sides in itertools.product((1, 2), repeat=3):
        fine = Fine.of(grid, np.array(sides))
        own = epsilons[2:] if degrees else epsilons[2:3]
        sums = [
            BlockSum(5, "size", epsilons[:1]),
            BlockSum(5, "coarse", epsilons[1:2], grid=grid),
            BlockSum(5, "fine", own, fine=fine, degrees=degrees),
        ]
        for pair in pairs:
            spent = Fraction(0)
            for query in sums:
                vector, begin = query.vectors(pair[None])[0], 0
                for block, epsilon in zip(query.blocks, query.epsilons, strict=True):
                    moved = int(np.abs(vector[begin : begin + block.dimension]).sum())
                    assert moved == block.bound
                    spent += moved * epsilon / block.bound
                    begin += block.dimension
            assert spent == sum(query.epsilon for query in sums)


def test_degrees_alone_take_one_round() -> None:
    """An edge moves the one sum by 2; without noise the sum is the degrees, and what is released
    near them: the law is estimated as if there were noise."""
    outcome, measured, sums = run_rounds(asked(aim="degrees", epsilon="8"), ROWS)
    assert [(each.kind, each.epsilon) for each in sums] == [("degrees", 8)]
    assert [(block.dimension, block.bound) for block in sums[0].blocks] == [(GRAPH.count, 2)]
    assert np.abs(sums[0].vectors(ROWS[:9])).sum(axis=1).tolist() == [2] * 9
    ends = np.bincount(ROWS.astype(np.int64).ravel(), minlength=GRAPH.count)
    assert measured.degrees is not None
    assert (measured.degrees == ends).all()
    assert outcome.result["edges"] == pytest.approx(GRAPH.edges, rel=0.02)


def test_a_sum_over_curators_sorts_no_degrees() -> None:
    with pytest.raises(NotOverCurators) as wrong:
        federated.preview_rounds(asked(aim="degree_sequence"), Fraction(1))
    assert wrong.value.pointer == "/params/aim"


def test_rows_that_are_no_edge_add_nothing() -> None:
    rows = np.array(
        [[1, 1], [-1, 2], [0, 300], [0.5, 2], [np.nan, 1], [np.inf, 1], [1e300, 2], [2, 7]]
    )
    alone = run_rounds(asked(aim="degrees"), ROWS)[2]
    for query in (*run_rounds(asked(), ROWS)[2], *alone):
        vectors = query.vectors(rows)
        assert not vectors[:-1].any()
        moved = {"size": 1, "coarse": 1, "fine": 3, "degrees": 2}
        assert vectors[-1].sum() == moved[query.kind]


def test_what_is_released_is_near_the_graph() -> None:
    """With the noise of three aggregators at epsilon 4."""
    outcome, measured, _ = run_rounds(asked(epsilon="4"), ROWS, 3, SeededRandom(3))
    assert outcome.result["edges"] == pytest.approx(GRAPH.edges, rel=0.1)
    ends = np.array(outcome.files[0].content.split(), np.int64).reshape(-1, 2)
    true, found = (((pairs < 100).all(axis=1)).sum() for pairs in (ROWS, np.sort(ends, axis=1)))
    assert found == pytest.approx(true, rel=0.15)
    assert measured.fine.grid.ranges <= GRAPH.count // 2
    report = outcome.report
    assert report.details["method"]["chosen"] == "blocks"
    assert not any("coordinator keeps the graph" in each for each in report.assumptions)


def test_an_empty_graph_and_one_edge_succeed() -> None:
    for rows in (np.zeros((0, 2)), np.array([[0.0, 1.0]])):
        outcome, _, _ = run_rounds(asked(), rows, 1, SeededRandom(1))
        assert outcome.result["edges"] >= 0


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"vertices": None}, "vertices"),
        ({"vertices": 1}, "vertices"),
        ({"method": "der"}, "method"),
        ({"k": 2}, "k"),
        ({"evaluate": True}, "evaluate"),
        ({"labelling": "random"}, "labelling"),
        ({"vertices": 60_000}, "block_shares"),
        ({"epsilon": "0"}, "epsilon"),
    ],
)
def test_what_rounds_cannot_answer(changes: dict[str, Any], pointer: str) -> None:
    with pytest.raises((Invalid, NotOverCurators)) as wrong:
        federated.preview_rounds(asked(**changes), Fraction(1))
    assert wrong.value.pointer in (f"/params/{pointer}", "/dataset")
    without = ("1/4", "0", "1/4", "1/2")
    large = asked(vertices=1_000_000, block_shares=without)
    assert federated.preview_rounds(large, Fraction(3)).charged is not None


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "all"},
        {"vertices": 10**9},
        {"ranges": 400},
        {"sides": [0] + [1] * 9},
        {"sides": [41] + [1] * 9},
        {"degrees": False},
        {"epsilons": ["1/2", "0"]},
        {"vertices": 70_000},
        {"noise": 0},
    ],
)
def test_a_document_that_a_curator_does_not_take(change: dict[str, Any]) -> None:
    fine = Fine.of(Coarse.of(200, 4), np.full(10, 3))
    epsilons = Fraction(1, 2), Fraction(1, 4)
    document = BlockSum(200, "fine", epsilons, fine=fine, degrees=True).document()
    assert read("graph-der", document).document() == document
    with pytest.raises(SumRefused):
        read("graph-der", {**document, **change})
