"""The data of the reproductions of the book's chapter 11."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from reproduction import graph_random_matrix as tables
from reproduction.graph_random_matrix_data import facebook
from reproduction.stand_in_data import INSIDE, power_law
from simulation.stand_in_data import blocks


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
