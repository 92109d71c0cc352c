"""The book's chapter 12: some figures come out, and populations are as stated.

All ids, and a wrong variant of each: `test_reproductions`.
"""

from __future__ import annotations

import pytest

from reproduction.experiment import QUICK, Run
from reproduction.registry import experiment
from tests.simulation.runs import wrong_rows


@pytest.mark.parametrize("name", ["book-fig-12.3", "book-fig-12.8", "book-fig-12.11"])
def test_a_figure_comes_out(name: str) -> None:
    assert wrong_rows(experiment(name).run(Run(QUICK))) == []
