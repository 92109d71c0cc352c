"""What a simulated round comes to, in the query's unit: rows for a table, a file, a plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulation.drivers.outcome import Outcome
from simulation.exact import Figures, figures
from simulation.plots import Line, Panel, Plot
from tacit.accounting.averages import averages
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

    `true`: of the raw readings of everyone enrolled. `error`: released minus true, and it is the
    sum of what follows: of `clamping` (also of readings beyond `max_readings`), `rounding`,
    `dropouts` (`dropped` curators), `late` contributions (of `belated` curators), `lies` and
    `noise`; of a vector, each is the mean over its coordinates. `forecast`: the mean absolute error
    to be expected of noise, and `rounding_at_most` what rounding could add.
    """

    round: int
    state: str
    reason: str | None
    enrolled: int
    participants: int
    dropped: int
    belated: int
    true: str
    released: str | None
    error: float | None
    noise: float | None
    rounding: float | None
    clamping: float | None
    dropouts: float | None
    late: float | None
    lies: float | None
    forecast: float | None
    rounding_at_most: float | None
    wall_s: float
    cpu_s: float


def row(query: Query, outcome: Outcome) -> Row:
    """The row of one round."""
    raw, clamped = (figures(query, each) for each in (outcome.raw, outcome.clamped))
    rounded, sent = (_headline(query, each) for each in (outcome.truth, outcome.sent))
    present, held, released = (
        None if each is None else _headline(query, each)
        for each in (outcome.present, outcome.held, outcome.opened)
    )
    expected, most = None, None
    if outcome.forecast:
        found = averages(query, outcome.participants)
        first = found[-1] if found else outcome.forecast[0]
        if found is not None:
            expected, most = first.mean_absolute, float(first.rounding.worst)
    return Row(
        outcome.number,
        outcome.state.value,
        outcome.reason,
        outcome.enrolled,
        outcome.participants,
        outcome.dropouts,
        outcome.late,
        _shown(raw) or "",
        None if released is None else _shown(released),
        _difference(released, raw),
        _difference(released, held),
        _difference(rounded, clamped),
        _difference(clamped, raw),
        _difference(sent, rounded),
        _difference(present, sent),
        _difference(held, present),
        expected,
        most,
        outcome.wall_s,
        outcome.cpu_s,
    )


def _headline(query: Query, total: Ints) -> Figures:
    """The figure (or figures) that the function is about; none for a mean of no curators."""
    result = decode(query, total)
    found = result.get(_HEADLINES.get(query.function, next(iter(result))))
    if found is None:
        return ()
    return tuple(Fraction(value) for value in (found if isinstance(found, list) else [found]))


def _shown(values: Figures) -> str | None:
    return format_exact(sum(values, Fraction(0))) if values else None


def _difference(one: Figures | None, other: Figures | None) -> float | None:
    """The mean of the differences, over the coordinates."""
    if not one or not other:
        return None
    differences = [a - b for a, b in zip(one, other, strict=True)]
    return float(sum(differences, Fraction(0)) / len(differences))


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
            "mean_rounding_at_most": mean([item.rounding_at_most for item in released]),
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
