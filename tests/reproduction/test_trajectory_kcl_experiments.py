"""The tables of trajectories and of partition models come out in full."""

from __future__ import annotations

import pytest

from reproduction.experiment import FULL, Run
from reproduction.registry import experiment
from tests.simulation.runs import wrong_rows

SMALL = ("chen-table-2.1", "table-2.2", "chen-table-5.2")


@pytest.mark.parametrize("name", SMALL)
def test_a_table_comes_out(name: str) -> None:
    outcome = experiment(name).run(Run(FULL))
    assert wrong_rows(outcome) == []
    assert sum(row.expected is not None for row in outcome.rows) > 10
