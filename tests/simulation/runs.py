"""Runs of experiments, as their tests share them."""

from __future__ import annotations

import pytest

from reproduction.experiment import Effort, Outcome, Run
from reproduction.registry import experiment


def wrong_rows(outcome: Outcome) -> list[str]:
    """The rows that do not come out."""
    return [row.name for row in outcome.rows if not row.ok]


def ran(name: str, effort: Effort) -> Outcome:
    """A run that tells of its progress and hands back all that a reader needs."""
    told: list[float] = []
    outcome = experiment(name).run(Run(effort, None, progress=told.append))
    assert told == sorted(told)
    assert told[-1] == pytest.approx(1)
    assert [plot.name for plot in outcome.plots] == [name]
    assert outcome.rows
    assert outcome.data
    assert outcome.notes
    return outcome
