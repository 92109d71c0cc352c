"""Method `blocks` over curators. Spec: graph-der, section 10.5."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from algorithms.contract import NotOverCurators, Outcome
from algorithms.graph_der import Parameters
from algorithms.graph_der import algorithm as federated
from algorithms.graph_der.regions import Measured
from reproduction.stand_in_data import power_law
from tacit.encoders.graph_der_blocks import BlockSum, Coarse, Fine, Ints
from tacit.encoders.sums import SumRefused, read
from tacit.errors import Invalid
from tacit.noise import DiscreteLaplace
from tacit.randomness import SeededRandom

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
