"""A simulated round, whichever driver runs it: the readings that curators hold after a population's
events, what a driver returns, the exact truth, and the comparison of both.

The summary is in the query's unit: rows for a table, a file, a plot. Drivers: `in_process_driver`
and `services_driver`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from simulation.network import Network, Traffic
from simulation.plots import Line, Panel, Plot
from simulation.populations import Population, RoundEvents
from tacit.accounting.expected_error import PartError, averages, roundings
from tacit.protocol.round.state import RoundState
from tacit.query.encoding import round_half_even
from tacit.query.functions import Readings, counted, decode, dimension, encode, parts
from tacit.query.query import Query
from tacit.query.terms import Coordinates, Function
from tacit.sets import Bits
from tacit.units import MAX_QUANTITY, NANO, UNITS
from tacit.wire import format_exact

Ints = NDArray[np.int64]
Figures = tuple[Fraction, ...]
"""What a function is about, in the query's unit: one figure, or those of a vector. Empty: it has
none, as a mean of no readings."""

_HALF = 32


@dataclass(frozen=True)
class Sums:
    """Totals over readings: how many, their sum and that of their squares, and of a vector the sum
    of each coordinate, in the query's unit."""

    count: int = 0
    total: Fraction = Fraction(0)
    squares: Fraction = Fraction(0)
    vector: Figures = ()

    def __add__(self, other: Sums) -> Sums:
        longer = self.vector or (Fraction(0),) * len(other.vector)
        rest = other.vector or (Fraction(0),) * len(longer)
        return Sums(
            self.count + other.count,
            self.total + other.total,
            self.squares + other.squares,
            tuple(one + two for one, two in zip(longer, rest, strict=True)),
        )


def sums(query: Query, readings: Readings, *, clamp: bool) -> Sums:
    """The totals of these curators; `clamp`: of the first `max_readings` of each, moved into the
    bounds that hold, and no other."""
    if clamp:
        readings, _ = counted(readings, query.max_readings)
    quantity, nano = readings.quantity, UNITS[query.unit].factor * NANO
    if query.function is Function.HISTOGRAM:
        full = query.model_copy(update={"max_readings": max(1, readings.curator.size)})
        bins = encode(full, readings).values.sum(axis=0)[: dimension(query)]
        own = bins[: parts(query)[0].dimension]
        return Sums(vector=tuple(Fraction(int(count)) for count in own))
    bounds = roundings(query, 1)[0].bounds
    if clamp and bounds is not None:
        low, high = (int(bound * nano) for bound in bounds)
        quantity = np.clip(quantity, low, high)
    vector: Figures = ()
    if query.function is Function.VECTOR_SUM:
        slot = (readings.offset * (query.dimension or 1)) >> 32
        vector = tuple(
            _sum(quantity[slot == place]) / nano for place in range(query.dimension or 1)
        )
    squares = Fraction(0)
    if query.function is Function.VARIANCE:
        squares = Fraction(sum(value * value for value in quantity.tolist())) / nano**2
    return Sums(int(quantity.size), _sum(quantity) / nano, squares, vector)


def _sum(quantity: Ints) -> Fraction:
    low = int((quantity & ((1 << _HALF) - 1)).sum())
    return Fraction((int((quantity >> _HALF).sum()) << _HALF) + low)


def figures(query: Query, sums: Sums) -> Figures:
    """The figures that the query's function computes from totals."""
    match query.function:
        case Function.COUNT:
            return (Fraction(sums.count),)
        case Function.SUM:
            return (sums.total,)
        case Function.MEAN | Function.VARIANCE if sums.count == 0:
            return ()
        case Function.MEAN:
            return (sums.total / sums.count,)
        case Function.VARIANCE:
            return (sums.squares / sums.count - (sums.total / sums.count) ** 2,)
        case _:
            return sums.vector


# Readings become the whole nano-units in which a curator service stores them; they lie in the
# window at even distances, in their order.


@dataclass(frozen=True, eq=False)
class Store:
    """A population in the form of a curator service: `quantity` in nano-units of the base unit,
    those of curator i from `starts[i]` on, `counts[i]` of them."""

    counts: Ints
    starts: Ints
    quantity: Ints

    @classmethod
    def of(cls, population: Population) -> Store:
        """Raises ValueError for a reading that no service could store."""
        factor = UNITS[population.unit].factor * NANO
        values = population.values
        if float(np.abs(values).max(initial=0)) * float(factor) > MAX_QUANTITY:
            raise ValueError("a reading is larger than any that is stored")
        if values.dtype == np.int64:
            assert factor.denominator == 1
            quantity = values * int(factor)
        else:
            # A decimal of a few digits times a power of ten: the nearest integer is the exact one.
            quantity = np.rint(values * float(factor)).astype(np.int64)
        counts = population.counts.astype(np.int64)
        return cls(counts, np.cumsum(counts) - counts, np.asarray(quantity, np.int64))


def readings(query: Query, store: Store, rows: Ints, lying: Bits) -> Readings:
    """What curators report: those of `rows` (b,), or m readings at the upper bound by liars (b,).

    Raises ValueError for a query that sums vectors as sent, or counts records: a population has
    single readings.
    """
    if query.function is Function.VECTOR_SUM and query.coordinates is Coordinates.VALUES:
        raise ValueError("a simulated population has single readings: use coordinates slots")
    if query.function is Function.TABLE:
        raise ValueError("a simulated population has readings, and a table is of records")
    counts = np.where(lying, query.max_readings, store.counts[rows])
    owner = np.repeat(np.arange(rows.size), counts)
    place = np.arange(owner.size) - np.repeat(np.cumsum(counts) - counts, counts)
    if lying.any():
        honest = ~lying[owner]
        highest = round_half_even(query.bounds[1] * UNITS[query.unit].factor * NANO)
        quantity = np.full(owner.size, highest, np.int64)
        quantity[honest] = store.quantity[store.starts[rows][owner[honest]] + place[honest]]
    else:
        quantity = store.quantity[store.starts[rows][owner] + place]
    return Readings(rows.size, owner, quantity, (place << 32) // np.maximum(counts[owner], 1))


def check_unit(query: Query, population: Population) -> None:
    """Raise ValueError unless query and population have the same base unit."""
    if UNITS[query.unit].base != UNITS[population.unit].base:
        raise ValueError(f"a query in {query.unit} over readings in {population.unit}")


# What a driver does and what it gives back: one interface for all of them.


@dataclass(frozen=True, eq=False)
class Outcome:
    """One round. Totals are (d,) signed ring units.

    `raw`: of the honest readings of everyone enrolled; `clamped`: the same, clamped. Then rounded,
    as all that follow: `truth` of everyone enrolled, `sent` of those that sent anything, `present`
    of the participants. `held`: of what the participants contributed, lies and all, before noise
    (None, as `present`, where who participated is not known to the driver). `dropouts` sent
    nothing, what `late` curators sent did not arrive everywhere in time; `liars` lied and `refused`
    were refused by their proof. `opened`: the released
    total (None if the round aborted, for `reason`). `forecast`: the error that was to be expected
    from noise alone. `wall_s` and `cpu_s` are those of the round, `cpu_s` of all processes that the
    driver can see.
    """

    number: int
    state: RoundState
    reason: str | None
    enrolled: int
    participants: int
    dropouts: int
    late: int
    liars: int
    refused: int
    raw: Sums
    clamped: Sums
    truth: Ints
    sent: Ints
    present: Ints | None
    held: Ints | None
    opened: Ints | None
    forecast: tuple[PartError, ...]
    traffic: Traffic
    wall_s: float
    cpu_s: float


class Driver(Protocol):
    """Runs rounds of one query over a population, one after the other."""

    def run(
        self,
        query: Query,
        population: Population,
        rounds: int,
        events: Iterator[RoundEvents],
        network: Network,
    ) -> Iterator[Outcome]:
        """The outcomes of this many rounds, as they end."""
        ...


# What a simulated round comes to, in the query's unit: rows for a table, a file, a plot.

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
    `dropouts` (`dropped` curators), `late` contributions (of `belated` curators), `lies` (of
    `liars`; `refused`: by their proof) and `noise`; of a vector, each is the mean over its
    coordinates. `forecast`: the mean absolute error to be expected of noise, and `rounding_at_most`
    what rounding could add.
    """

    round: int
    state: str
    reason: str | None
    enrolled: int
    participants: int
    dropped: int
    belated: int
    liars: int
    refused: int
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
    raw, clamped = (figures(query, total) for total in (outcome.raw, outcome.clamped))
    rounded, sent = (_headline(query, total) for total in (outcome.truth, outcome.sent))
    present, held_total, released = (
        None if total is None else _headline(query, total)
        for total in (outcome.present, outcome.held, outcome.opened)
    )
    expected, most = None, None
    if outcome.forecast:
        forecasts = averages(query, outcome.participants)
        first = forecasts[-1] if forecasts else outcome.forecast[0]
        if forecasts is not None:
            expected, most = first.mean_absolute, float(first.rounding.worst)
    return Row(
        outcome.number,
        outcome.state.value,
        outcome.reason,
        outcome.enrolled,
        outcome.participants,
        outcome.dropouts,
        outcome.late,
        outcome.liars,
        outcome.refused,
        _shown(raw) or "",
        None if released is None else _shown(released),
        _difference(released, raw),
        _difference(released, held_total),
        _difference(rounded, clamped),
        _difference(clamped, raw),
        _difference(sent, rounded),
        _difference(present, sent),
        _difference(held_total, present),
        expected,
        most,
        outcome.wall_s,
        outcome.cpu_s,
    )


def _headline(query: Query, total: Ints) -> Figures:
    """The main figure (or figures) of the function; empty for a mean of no curators."""
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


CAUSES: Final = ("noise", "rounding", "clamping", "dropouts", "late", "lies")
"""What the error of a row is the sum of."""


@dataclass(frozen=True)
class Summary:
    """The summary of a simulation."""

    driver: str
    query: Json
    population: Json
    unit: str
    seed: int
    rows: tuple[Row, ...]
    traffic: Json

    def document(self) -> Json:
        """As JSON values."""
        return {"format": "tacit.simulation/1", **asdict(self), "figures": self.figures()}

    def figures(self) -> Json:
        """Over the released rounds: mean absolute error, and that of each of its causes; the
        forecast's mean."""
        released = [item for item in self.rows if item.state == "released"]

        def mean(values: Sequence[float | None]) -> float | None:
            known_values = [abs(value) for value in values if value is not None]
            return sum(known_values) / len(known_values) if known_values else None

        return {
            "rounds": len(self.rows),
            "released": len(released),
            "mean_absolute_error": mean([item.error for item in released]),
            **{
                f"mean_absolute_{cause}": mean([getattr(item, cause) for item in released])
                for cause in CAUSES
            },
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
