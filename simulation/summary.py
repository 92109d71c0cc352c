"""What a simulated round comes to, in the query's unit: rows for a table, a file, a plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulation.drivers.outcome import Outcome
from simulation.plots import Line, Panel, Plot
from tacit.query.functions import decode
from tacit.query.query import Query
from tacit.query.words import Function
from tacit.wire import format_exact

Ints = NDArray[np.int64]
Json = dict[str, Any]

_HEADLINES = {
    Function.SUM: "sum",
    Function.COUNT: "count",
    Function.MEAN: "mean",
    Function.VARIANCE: "variance",
    Function.HISTOGRAM: "histogram",
}


@dataclass(frozen=True)
class Row:
    """One round. Amounts are exact decimals in `Summary.unit`; of a vector, its coordinates added
    up. None: not released, or not known.

    `error`: released minus true over all enrolled (of a vector: the mean absolute error of a
    coordinate). `noise`: the same against what the participants contributed, so without those
    who are missing. `forecast`: the mean absolute error to be expected of noise alone.
    """

    round: int
    state: str
    reason: str | None
    enrolled: int
    participants: int
    true: str
    released: str | None
    error: float | None
    noise: float | None
    forecast: float | None
    wall_s: float
    cpu_s: float


def row(query: Query, outcome: Outcome) -> Row:
    """The row of one round."""
    true = _headline(query, outcome.truth)
    released = None if outcome.opened is None else _headline(query, outcome.opened)
    held = None if outcome.held is None else _headline(query, outcome.held)
    averaged = query.function in (Function.MEAN, Function.VARIANCE)
    expected = None
    if outcome.forecast and not averaged:  # a quotient of noisy parts has no forecast
        expected = outcome.forecast[0].mean_absolute
    return Row(
        outcome.number,
        outcome.state.value,
        outcome.reason,
        outcome.enrolled,
        outcome.participants,
        _shown(true) or "",
        None if released is None else _shown(released),
        _difference(released, true),
        _difference(released, held),
        expected,
        outcome.wall_s,
        outcome.cpu_s,
    )


def _headline(query: Query, total: Ints) -> list[Fraction] | None:
    """The figure (or figures) that the function is about; None for a mean of no curators."""
    result = decode(query, total)
    found = result.get(_HEADLINES.get(query.function, next(iter(result))))
    if found is None:
        return None
    values = found if isinstance(found, list) else [found]
    return [Fraction(value) for value in values]


def _shown(values: list[Fraction] | None) -> str | None:
    return None if values is None else format_exact(sum(values, Fraction(0)))


def _difference(released: list[Fraction] | None, other: list[Fraction] | None) -> float | None:
    if released is None or other is None:
        return None
    differences = [a - b for a, b in zip(released, other, strict=True)]
    if len(differences) == 1:
        return float(differences[0])
    return float(sum(map(abs, differences), Fraction(0)) / len(differences))


@dataclass(frozen=True)
class Summary:
    """A whole simulation."""

    driver: str
    query: Json
    population: Json
    unit: str
    seed: int
    rows: tuple[Row, ...]
    traffic: Json

    def document(self) -> Json:
        """As plain JSON."""
        return {"format": "tacit.simulation/1", **asdict(self), "figures": self.figures()}

    def figures(self) -> Json:
        """Over the released rounds: mean absolute error and noise, the forecast's mean."""
        released = [item for item in self.rows if item.state == "released"]

        def mean(values: Sequence[float | None]) -> float | None:
            known = [abs(value) for value in values if value is not None]
            return sum(known) / len(known) if known else None

        return {
            "rounds": len(self.rows),
            "released": len(released),
            "mean_absolute_error": mean([item.error for item in released]),
            "mean_absolute_noise": mean([item.noise for item in released]),
            "mean_forecast": mean([item.forecast for item in released]),
            "wall_s": sum(item.wall_s for item in self.rows),
            "cpu_s": sum(item.cpu_s for item in self.rows),
        }


def plot(summary: Summary) -> Plot:
    """Totals, and errors against their forecast, over the rounds that were released."""
    shown = [item for item in summary.rows if item.released is not None and item.error is not None]
    x = tuple(float(item.round) for item in shown)
    true = tuple(float(Fraction(item.true)) for item in shown)
    released = tuple(float(Fraction(item.released or "0")) for item in shown)
    errors = tuple(abs(item.error or 0.0) for item in shown)
    expected = tuple(item.forecast or 0.0 for item in shown)
    return Plot(
        "simulation",
        f"{summary.query['mechanism']}: {len(shown)} rounds over {summary.population['name']}",
        (
            Panel(
                "Totals",
                "round",
                summary.unit,
                (Line("true", x, true), Line("released", x, released, kind="ours")),
                y_scale="linear",
            ),
            Panel(
                "Absolute error",
                "round",
                summary.unit,
                (Line("error", x, errors, kind="ours"), Line("forecast", x, expected)),
                y_scale="linear",
            ),
        ),
    )
