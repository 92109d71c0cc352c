"""The reproductions of Chen's chapter 7: they come out, and they can fail."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from simulation.experiments import graph_der, graph_der_degrees
from simulation.experiments.experiment import Effort, Run
from simulation.experiments.graph_der_printed import RECOMPUTED, SHARES, TABLE_7_2
from simulation.experiments.graph_der_study import Study, induced, stations, studies
from simulation.experiments.registry import experiment
from simulation.populations import shared_data
from tests.simulation.runs import wrong_rows

CUTS = ("chen-table-7.2", "chen-fig-7.3", "chen-fig-7.4", "chen-fig-7.5")
DEGREES = ("chen-fig-7.6", "chen-fig-7.7", "chen-fig-7.8")
SMALL = Effort("small", 100)


@lru_cache(maxsize=1)
def small(_data: Path | None = None) -> tuple[Study, ...]:
    """The stand-in's first 300 stations."""
    whole = stations()
    return (replace(whole, graph=induced(whole.graph, np.arange(300))),)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (graph_der, graph_der_degrees):
        monkeypatch.setattr(module, "studies", small)
    monkeypatch.setattr(graph_der, "QUERIES", 400)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("name", [*CUTS, *DEGREES])
def test_an_experiment_runs(name: str) -> None:
    """On few vertices; its figures are of all of them."""
    told: list[float] = []
    outcome = experiment(name).run(Run(SMALL, None, progress=told.append))
    assert told == sorted(told)
    assert told[-1] == pytest.approx(1)
    assert outcome.plots[0].name == name
    assert outcome.rows
    assert outcome.data
    assert outcome.notes


@pytest.mark.slow
def test_errors_of_the_stand_in_come_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole of it, half the queries of a full run."""
    monkeypatch.setattr(graph_der, "studies", lambda _data: (stations(),))
    monkeypatch.setattr(graph_der, "QUERIES", 4_000)
    assert wrong_rows(graph_der.table_7_2(Run(Effort("some", 2)))) == []


@pytest.mark.slow
def test_divergences_of_the_stand_in_come_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_der_degrees, "studies", lambda _data: (stations(),))
    outcome = graph_der_degrees.figure_7_6(Run(Effort("some", 5)))
    assert wrong_rows(outcome) == []
    assert any(row.basis == "trend" and row.stand_in for row in outcome.rows)


def test_errors_that_are_wrong_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_der, "studies", lambda _data: (stations(),))
    monkeypatch.setattr(Study, "errors", lambda _self, graphs, *_args: [0.5] * len(graphs))
    monkeypatch.setattr(Study, "release", lambda self, *_args, **_more: self.true)
    missed = wrong_rows(graph_der.figure_7_4(Run(SMALL)))
    assert missed == [
        f"STM stand-in, {name}, ranges: least noise, least error (epsilon)"
        for name in ("paper", "sound")
    ]
    monkeypatch.setattr(Study, "divergence", lambda *_args: 1.0)
    missed = wrong_rows(graph_der_degrees.figure_7_6(Run(SMALL)))
    assert missed == [
        f"STM stand-in, {name}, epsilon 1: nearer than a random graph"
        for name in ("paper", "sound")
    ]


def test_the_stand_in_is_as_stated() -> None:
    study = stations()
    degrees = study.graph.degrees()
    assert (study.vertices, study.graph.edges, degrees.max()) == (1_012, 7_860, 321)
    assert study.graph.declared
    part = study.sample(0.25, np.random.default_rng(1))
    assert part.vertices == 253
    assert 0 < part.graph.edges < 7_860
    assert study.release("sound", seed=3)[0].tolist() == study.release("sound", seed=3)[0].tolist()


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


def test_printed_and_recomputed_tables_have_all_sizes() -> None:
    assert {name for name, _, _ in RECOMPUTED} == set(TABLE_7_2)
    assert all(len(each) == len(SHARES) for each in (*RECOMPUTED.values(), *TABLE_7_2.values()))
