"""Reproductions on few records, and the data that they read or make up.

All ids on all records, and a wrong variant of each: `test_reproductions`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from reproduction import (
    graph_der,
    graph_der_degrees,
    sequential_ngram,
    sequential_ngram_mining,
    sequential_prefix_tree,
    sequential_prefix_tree_mining,
    set_valued,
    set_valued_mining,
)
from reproduction import graph_random_matrix as tables
from reproduction.experiment import FULL, Effort, Run
from reproduction.graph_der_study import induced, stations, studies
from reproduction.graph_random_matrix_data import facebook
from reproduction.kmeans_data import dataset, datasets
from reproduction.path_publishing_networks import random_network
from reproduction.registry import experiment
from reproduction.sequential_ngram_data import clicks_like, stm_like
from reproduction.sequential_ngram_study import Study as NgramStudy
from reproduction.sequential_prefix_tree_study import Study as TreeStudy
from reproduction.set_valued_study import Study as SetStudy
from reproduction.stand_in_data import INSIDE, bus, network, power_law
from simulation.populations import shared_data
from simulation.stand_in_data import blocks, metro, msnbc_like
from tests.simulation.runs import ran, wrong_rows


@cache
def graphs(*_: Any) -> Any:
    """The stand-in's first 300 stations."""
    whole = stations()
    return (replace(whole, graph=induced(whole.graph, np.arange(300))),)


@cache
def trees(*_: Any) -> Any:
    return TreeStudy(metro(6_000)), TreeStudy(bus(6_000))


def ngrams(which: str, _run: Run, *, whole: bool = False) -> NgramStudy:
    return NgramStudy(clicks_like(3000) if which == "MSNBC" else stm_like(3000), 30)


def sets(_effort: Effort, **_: Any) -> SetStudy:
    return SetStudy(msnbc_like(20_000), 50)


SETS = (set_valued, set_valued_mining)
FEW: dict[str, list[tuple[ModuleType, str, Any]]] = {
    "chen-fig-4.3": [(each, f"{of}_study", sets) for each in SETS for of in ("msnbc", "stm")],
    "chen-fig-6.3": [
        *(
            (each, "studies", trees)
            for each in (sequential_prefix_tree, sequential_prefix_tree_mining)
        ),
        (sequential_prefix_tree, "QUERIES", 400),
    ],
    "chen-fig-6.7": [
        (each, "study_of", ngrams) for each in (sequential_ngram, sequential_ngram_mining)
    ],
    "chen-fig-7.3": [
        *((each, "studies", graphs) for each in (graph_der, graph_der_degrees)),
        (graph_der, "QUERIES", 400),
    ],
    "fig-6.7": [],
}
"""What stands in for the sources' data, by the first of the ids that read it."""
ALSO = {
    **{"chen-fig-4.7": "chen-fig-4.3", "chen-table-6.6": "chen-fig-6.3"},
    **{"chen-fig-6.12": "chen-fig-6.7", "chen-table-6.10": "chen-fig-6.7"},
    **{"chen-fig-7.6": "chen-fig-7.3", "fig-6.10": "fig-6.7"},
}


@pytest.mark.parametrize("name", [*FEW, *ALSO])
def test_an_experiment_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its figures are of all records."""
    for module, attribute, value in FEW[ALSO.get(name, name)]:
        monkeypatch.setattr(module, attribute, value)
    outcome = ran(name, Effort("small", 40 if name.startswith("fig") else 100))
    if name in ("chen-fig-6.7", "chen-fig-6.12", "chen-table-6.10"):
        assert {row.basis for row in outcome.rows} <= {"trend", "quoted"}


@pytest.mark.parametrize("name", ["chen-table-2.1", "table-2.2", "chen-table-5.2"])
def test_a_table_comes_out(name: str) -> None:
    outcome = experiment(name).run(Run(FULL))
    assert wrong_rows(outcome) == []
    assert sum(row.expected is not None for row in outcome.rows) > 10


def test_no_row_is_called_printed_that_the_source_does_not_print() -> None:
    """It prints 30 of 122 usable networks and "about 30 %"; 36 is ours."""
    rows = ran("fig-6.8", Effort("small", 40)).rows
    assert [row for row in rows if row.basis == "printed"] == []
    [usable] = [row for row in rows if row.name.startswith("sizes that are 100 % usable")]
    assert (usable.expected, usable.basis) == (36, "recomputed")


@pytest.mark.parametrize("extra", [0, 1, 2])
def test_generated_networks_are_what_they_say(extra: int) -> None:
    generator = np.random.default_rng(extra)
    for _ in range(100):
        size = int(generator.integers(5, 11))
        edges = int(generator.integers(size + 2, size * (size - 1) // 2 + 1))
        made = random_network(size, edges, generator, extra)
        assert len(made.network.edges) == len(np.unique(made.network.codes())) == edges
        assert made.spanning
        assert made.path.size == size + extra
        assert made.acyclic == (extra == 0)
        assert all(one != other for one, other in pairwise(made.path.tolist()))
        assert set(made.step_codes().tolist()) <= set(made.network.codes().tolist())
    for edges in (size - 2, size * (size - 1) // 2 + 1):
        with pytest.raises(ValueError):
            random_network(size, edges, generator, 0)


def test_stand_ins_are_as_stated() -> None:
    """Spec: sequential-prefix-tree, section 5.

    Means 4.209, 5.668, 6.700 of the whole sets; six standard errors here.
    """
    for made, longest, mean, lines in (
        (metro(20_000), 90, 4.21, 4),
        (bus(20_000), 121, 5.67, 60),
        (network(20_000), 121, 6.7, 24),
    ):
        lengths = np.diff(made.dataset.starts)
        assert lengths.max() == lengths[0] == longest
        assert lengths.min() == 1
        assert abs(lengths.mean() - mean) < 6 * lengths.std() / 20_000**0.5
        assert len(set(made.taxonomy)) == lines
        assert np.unique(made.dataset.items).size > 0.8 * len(made.taxonomy)
    again = metro(20_000)
    assert again is metro(20_000)


def test_the_sources_graphs() -> None:
    folder = shared_data()
    if folder is None:
        pytest.skip("the public graphs are not beside this clone")
    found = {each.name: each.graph for each in studies(folder)}
    assert {name: (graph.count, graph.edges) for name, graph in found.items()} == {
        "ca-GrQc": (5_242, 14_484),
        "ca-HepTh": (5_000, 17_120),
        "wiki-Vote": (7_115, 100_762),
        "STM stand-in": (1_012, 7_860),
    }
    for graph in found.values():
        assert (graph.first < graph.second).all()
    assert [each.name for each in studies(None)] == ["STM stand-in"]


def test_a_stand_in_for_the_file(tmp_path: Path) -> None:
    found = facebook(tmp_path)
    assert not found.real
    assert (found.edges.count, found.edges.edges) == (tables.facebook(None).edges.count, 88_234)


def test_generated_graphs_are_as_stated() -> None:
    """Sizes exact, heavy tails, and groups that pairs stay in: six standard errors."""
    plain = power_law(600, 4_800, 1)
    assert (plain.count, plain.edges) == (600, 4_800)
    degrees = np.sort(plain.degrees())[::-1]
    assert degrees[0] > 5 * degrees.mean()
    again = power_law(600, 4_800, 1)
    assert (again.first == plain.first).all()
    assert (power_law(600, 4_800, 2).first[:1000] != plain.first[:1000]).any()
    grouped = power_law(600, 4_800, 1, groups=16)
    assert grouped.edges == 4_800
    values = np.linalg.eigvalsh(_dense(grouped))[::-1]
    assert values[3] > 1.2 * np.linalg.eigvalsh(_dense(plain))[::-1][3]
    assert 0.5 < INSIDE < 1
    model = blocks((50, 100), 0.5, 0.1, 3)
    place = (model.first >= 50).astype(int) + (model.second >= 50)
    counts = np.bincount(place, minlength=3)
    for count, pairs, chance in zip(counts, (1225, 5000, 4950), (0.5, 0.1, 0.5), strict=True):
        assert abs(count - pairs * chance) < 6 * (pairs * chance * (1 - chance)) ** 0.5


def _dense(graph: object) -> np.ndarray:
    full = np.zeros((graph.count, graph.count), np.float32)  # type: ignore[attr-defined]
    full[graph.first, graph.second] = full[graph.second, graph.first] = 1  # type: ignore[attr-defined]
    return full


def test_real_data_are_read_where_they_are() -> None:
    folder = shared_data()
    if folder is None or not (folder / "s1.csv.xz").exists():
        pytest.skip("the shared data are not beside this clone")
    shapes = {each.name: (each.points.shape, each.clusters) for each in datasets(folder)}
    assert shapes["House"] == ((1837, 3), 3)
    assert shapes["S1"] == ((5000, 2), 15)
    assert shapes["Birch2"] == ((12000, 2), 5)
    birch2 = dataset("Birch2", folder)
    assert birch2 is not None
    assert "shuffle with seed 42" in birch2.provenance
