"""A graph that nobody keeps: each vertex's own noisy row, beside the central form.

Spec: federated-counting, section 11. Statistics have fixed seeds.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from algorithms.contract import Collected, Outcome, SequentialContext
from algorithms.datasets.edge_list import EdgeList
from algorithms.graph_random_matrix.algorithm import ALGORITHM, check, run
from algorithms.graph_random_matrix.federated import aggregate, encoding, preview
from algorithms.graph_random_matrix.parameters import Parameters
from algorithms.graph_random_matrix.publication import adjacency, product
from tacit.encoders import sums
from tacit.encoders.graph_random_matrix import RowReports, entries
from tacit.encoders.sums import EncodingRefused
from tacit.errors import Invalid
from tacit.noise.discrete_gaussian import DiscreteGaussian
from tacit.protocol.federation import Report
from tacit.randomness import SecureRandom, SeededRandom
from tests.algorithms.graph_random_matrix.test_algorithm import GRAPH

NAMES = tuple(f"house-{place}" for place in range(60))


def two_camps() -> list[tuple[int, int]]:
    """Edges of two groups of 30 that hardly know each other."""
    generator = np.random.default_rng(4)
    return [
        (i, j)
        for i in range(60)
        for j in range(i)
        if generator.random() < (0.6 if (i < 30) == (j < 30) else 0.02)
    ]


EDGES = two_camps()
KEPT = EdgeList.of([(NAMES[i], NAMES[j]) for i, j in EDGES], NAMES)
SETS: dict[str, list[set[str]]] = {
    name: [{NAMES[i + j - place] for i, j in EDGES if place in (i, j)}]
    for place, name in enumerate(NAMES)
}


def parameters(**changes: Any) -> Parameters:
    values = {"mode": "spectral", "m": 20, "k": 2, "epsilon": "10", "vertices": NAMES, **changes}
    return Parameters.model_validate_json(json.dumps(values))


def collected(sent: list[Report]) -> Collected:
    return Collected(list(enumerate(sent)), len(NAMES), ("transactions friends",))


def asked(**changes: Any) -> RowReports:
    """As a curator reads it."""
    document = encoding(parameters(**changes), "sound")
    found = sums.read_encoding("graph-random-matrix", document)
    assert isinstance(found, RowReports)
    assert found.document() == document
    return found


def matrix_of(outcome: Outcome) -> np.ndarray[Any, Any]:
    (file,) = [each for each in outcome.files if each.name == "matrix.npy"]
    found: np.ndarray[Any, Any] = np.load(io.BytesIO(file.content))
    return found


@pytest.mark.parametrize("kind", ["rademacher", "sparse"])
def test_rows_without_noise_are_those_of_one_keeper(kind: str) -> None:
    """Also with the own id, a stranger and a friend named twice in a set."""
    own = asked(projection=kind)
    (rows,) = adjacency(KEPT).blocks(60)
    exact = product(rows, entries(own.projection))
    for place, name in enumerate(NAMES):
        friends = [*SETS[name][0], *SETS[name][0], name, "stranger"]
        assert own.row(name, friends).tolist() == exact[place].tolist()


def test_an_edge_moves_both_rows_by_the_length_that_the_noise_is_made_for() -> None:
    for kind in ("rademacher", "sparse"):
        own = asked(projection=kind)
        moved = 0
        for end, other in (("house-3", "house-9"), ("house-9", "house-3")):
            with_edge = own.row(end, {*SETS[end][0], other})
            without = own.row(end, SETS[end][0] - {other})
            moved += int(((with_edge - without) ** 2).sum())
        assert moved == 2 * own.length
        # rho = moved / (2 variance) = 1 / sigma^2
        assert moved / (2 * own.variance) == 1 / own.sigma**2


def chance(drawn: np.ndarray[Any, Any], variance: Fraction) -> float:
    """Of so odd a sample by chi-square, if this is its variance; what lies far out is one class."""
    most, reach = int(2 * variance**0.5), 200
    law = DiscreteGaussian(variance).pmf(np.arange(-reach, reach + 1))
    places = np.clip(np.arange(-reach, reach + 1), -most, most) + most
    expected = np.bincount(places, law)
    seen = np.bincount(np.clip(drawn, -most, most) + most, minlength=2 * most + 1)
    return float(chisquare(seen, expected / expected.sum() * drawn.size).pvalue)


def test_the_noise_has_the_law_and_the_release_finds_the_camps() -> None:
    own = asked()
    noise = []
    for seed in range(20):
        sent = own.perturbed(SETS, SeededRandom(seed))
        assert [each.curator for each in sent] == list(NAMES)
        assert all(own.refusal(each) is None for each in sent)
        noise += [
            np.array(each.values) - own.row(each.curator, SETS[each.curator][0]) for each in sent
        ]
    drawn = np.concatenate(noise)
    assert chance(drawn, own.variance) > 1e-4
    assert chance(drawn, own.variance * Fraction(9, 10)) < 1e-4
    outcome = aggregate(parameters(), "sound", collected(sent), SequentialContext())
    assert matrix_of(outcome).tolist() == [list(each.values) for each in sent]
    (table,) = [each for each in outcome.files if each.name == "vertices.csv"]
    labels = [line.split(",")[1] for line in table.content.decode().splitlines()[1:]]
    right = sum(a == b for a, b in zip(labels, ["0"] * 30 + ["1"] * 30, strict=True))
    assert max(right, 60 - right) >= 50
    assert outcome.public_seeds == {"projection_seed": 0}


def test_missing_vertices_are_missing_rows() -> None:
    own = asked()
    sent = [each for each in own.perturbed(SETS, SecureRandom()) if each.curator != "house-7"]
    outcome = aggregate(parameters(), "sound", collected(sent[::-1]), SequentialContext())
    assert (outcome.result["vertices"], len(matrix_of(outcome))) == (59, 59)
    (table,) = [each for each in outcome.files if each.name == "vertices.csv"]
    assert "house-7," not in table.content.decode()
    assert matrix_of(outcome)[0].tolist() == list(sent[0].values)


def test_what_an_edge_costs_is_worked_out_by_the_curator() -> None:
    own = asked()
    assert own.cost == (Fraction(10), Fraction(1, 10**6))
    assert own.other_cost.epsilon > 59 * own.cost.epsilon
    for lie in ({"sigma": own.sigma * Fraction(99, 100)}, {"epsilon": Fraction(9)}):
        with pytest.raises(EncodingRefused):
            _ = replace(own, **lie).cost
        with pytest.raises(EncodingRefused):
            sums.read_encoding("graph-random-matrix", replace(own, **lie).document())
    report = preview(parameters(), "sound")
    assert report.charged is not None
    assert (report.charged.ledger, report.charged.epsilon) == ("curators", "10")
    assert [line.epsilon for line in report.verified] == ["10"]
    assert not any("keeps the graph" in each for each in report.assumptions)


@pytest.mark.parametrize(
    "change",
    [
        {"vertices": ["a", "a", "b"]},
        {"vertices": ["a", "b"]},
        {"projection": "gaussian"},
        {"m": True},
        {"nonzeros": 0},
        {"seed": str(1 << 64)},
        {"sigma": "1/1000"},
        {"epsilon": "101"},
        {"delta": "0"},
    ],
)
def test_documents_that_are_none_are_refused(change: Mapping[str, Any]) -> None:
    with pytest.raises(EncodingRefused):
        sums.read_encoding("graph-random-matrix", {**asked().document(), **change})


def test_reports_that_no_honest_vertex_sends_are_refused() -> None:
    own = asked()
    (good,) = own.perturbed({"house-1": SETS["house-1"]}, SecureRandom())
    assert own.refusal(good) is None
    lies: list[dict[str, Any]] = [
        {"curator": "stranger"},
        {"record": "2"},
        {"round": 2},
        {"values": good.values[:-1]},
        {"values": (10**9, *good.values[1:])},
        {"values": (), "bits": b"12345678"},
    ]
    for lie in lies:
        assert own.refusal(good.model_copy(update=lie)) is not None
    assert own.perturbed({"stranger": [set(NAMES)]}, SecureRandom()) == []


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"vertices": None}, "/params/vertices"),
        ({"vertices": ("a", "b", "a")}, "/params/vertices"),
        ({"vertices": ("a", "b")}, "/params/vertices"),
        ({"estimator": "subspace"}, "/params/estimator"),
        ({"projection": "gaussian"}, "/params/projection"),
        ({"evaluate": True}, "/params/evaluate"),
        ({"m": 60}, "/params/m"),
    ],
)
def test_what_curators_cannot_do_names_its_field(change: dict[str, Any], pointer: str) -> None:
    with pytest.raises(Invalid) as refused:
        encoding(parameters(**change), "sound")
    assert refused.value.pointer == pointer
    with pytest.raises(Invalid):
        encoding(parameters(), "paper")


def test_a_dataset_brings_its_own_vertices() -> None:
    with pytest.raises(Invalid) as refused:
        check(GRAPH, Parameters(vertices=("a", "b", "c")), "sound")
    assert refused.value.pointer == "/params/vertices"
    assert ALGORITHM.reports is not None
    assert run is ALGORITHM.run
