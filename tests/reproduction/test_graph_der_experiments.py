"""The reproductions of Chen's chapter 7 on few vertices, and their data."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from reproduction import graph_der, graph_der_degrees
from reproduction.experiment import Effort
from reproduction.graph_der_study import Study, induced, stations, studies
from simulation.populations import shared_data
from tests.simulation.runs import ran

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
@pytest.mark.parametrize("name", ["chen-fig-7.3", "chen-fig-7.6"])
def test_an_experiment_runs(name: str) -> None:
    """On few vertices; its figures are of all of them."""
    ran(name, SMALL)


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
