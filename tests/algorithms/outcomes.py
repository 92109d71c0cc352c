"""What tests of jobs compare."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


def leaves(value: Any) -> Iterator[Any]:
    """What is in a document at any depth."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            yield from leaves(each)
    else:
        yield value


def names_in(value: Any) -> set[str]:
    """The keys of a document at any depth."""
    if isinstance(value, Mapping):
        return {*value, *(name for each in value.values() for name in names_in(each))}
    if isinstance(value, list | tuple):
        return {name for each in value for name in names_in(each)}
    return set()


def stated_errors_hold(
    stated: Sequence[Mapping[str, Any]], counts: NDArray[np.int64], true: NDArray[np.int64]
) -> int:
    """Of every class, by true and by released counts, 95 in 100 less four standard errors. Returns
    how many counts were in a class, both together."""
    reached = 0
    for each in stated:
        low, high = each["off_by_95"]
        last = math.inf if each["count_to"] is None else each["count_to"]
        for by in (true, counts):
            inside = (by >= each["count_from"]) & (by <= last)
            number = int(inside.sum())
            reached += number
            error = (counts - true)[inside]
            held = int(((error >= low) & (error <= high)).sum())
            assert held >= 0.95 * number - 4 * math.sqrt(0.0475 * number), each
    return reached
