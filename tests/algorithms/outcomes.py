"""What tests of jobs compare."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from algorithms import catalogue
from algorithms.contract import Outcome, Plot
from algorithms.drawing import drawn


def published(outcome: Outcome) -> tuple[Any, ...]:
    """All of an outcome that leaves the job."""
    return (
        json.dumps(outcome.result),
        outcome.report.model_dump_json(),
        outcome.files,
        outcome.plots,
        outcome.public_seeds,
    )


def names_drawn(algorithm: str, plots: Sequence[Plot]) -> list[str]:
    """The names of the plots, each drawn from its values as they are stored."""
    found = catalogue.find(algorithm)
    for plot in plots:
        stored = json.loads(json.dumps(plot.values, allow_nan=False))
        picture = drawn(found, Plot(plot.name, stored))
        assert picture.svg.startswith(b"<?xml")
        assert picture.png.startswith(b"\x89PNG")
    return [plot.name for plot in plots]
