"""The reproductions of Chen's section 6.3 on few sequences, and their data."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from reproduction import (
    sequential_prefix_tree,
    sequential_prefix_tree_mining,
)
from reproduction.experiment import Effort
from reproduction.sequential_prefix_tree_study import Study
from reproduction.stand_in_data import bus, network
from simulation.stand_in_data import metro
from tests.simulation.runs import ran

SMALL = Effort("small", 100)


@lru_cache(maxsize=1)
def small(_seed: int = 1) -> tuple[Study, Study]:
    return Study(metro(6_000)), Study(bus(6_000))


@pytest.fixture
def few_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sequential_prefix_tree, sequential_prefix_tree_mining):
        monkeypatch.setattr(module, "studies", small)
    monkeypatch.setattr(sequential_prefix_tree, "QUERIES", 400)


@pytest.mark.usefixtures("few_sequences")
@pytest.mark.parametrize("name", ["chen-fig-6.3", "chen-table-6.6"])
def test_an_experiment_runs(name: str) -> None:
    """On few sequences; its figures are of all of them."""
    ran(name, SMALL)


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
