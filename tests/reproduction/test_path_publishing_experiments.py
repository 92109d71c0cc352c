"""The reproductions of chapter 6, and the networks that they are measured on."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from reproduction.experiment import Effort
from reproduction.path_publishing_networks import random_network
from tests.simulation.runs import ran

SMALL = Effort("small", 40)


@pytest.mark.parametrize("name", ["fig-6.7", "fig-6.10"])
def test_an_experiment_runs(name: str) -> None:
    ran(name, SMALL)


def test_no_row_is_called_printed_that_the_source_does_not_print() -> None:
    """It prints 30 of 122 usable networks and "about 30 %"; 36 is ours."""
    rows = ran("fig-6.8", SMALL).rows
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
