"""`python -m bench.profiles [FILE.csv[.xz]] [--homes N] [--draws N]`: what a load profile of homes
costs in error.

Each row is a guarantee for one home, each column a way to keep it over a day, a month or a year of
profiles of 96 quarter hours. The error of one slot is |clipping bias| + E|noise|, the mean over
slots and days, in percent of the mean quarter hour of clamped readings. Readings are those of FILE
(a meter a row, whole days), else of the generator; N homes are drawn from its meters with
replacement, three times, which gives the spread. Contributions and noise are the product's own:
`encode` scales windows, `forecast` gives E|noise| with three aggregators of a whole draw each.
`--draws` also draws that noise so often through the services' code, to compare.

Spec: profiles, section 1.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from simulation.populations import household_load, read_csv
from tacit.accounting.expected_error import forecast
from tacit.noise.gaussian_privacy import zcdp_rho
from tacit.query.functions import Readings, encode, parts
from tacit.query.mechanisms import aggregator_plan, draw
from tacit.query.query import Query
from tacit.randomness import SecureRandom, SeededRandom
from tacit.units import NANO
from tacit.wire import format_exact

SLOTS: Final = 96
BOUND_KWH: Final = 5
RESAMPLES: Final = 3
NANO_WH: Final = 1000 * NANO
"""Nano-units (of the base unit, Wh) in a kWh."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Guarantee:
    """(epsilon, 10^-6) of one home for so many daily profiles."""

    days: int
    epsilon: int

    @property
    def rho(self) -> str:
        """Of each day, in whole billionths."""
        whole = zcdp_rho(self.epsilon, 1e-6)
        return format_exact(Fraction(math.floor(whole * 10**9 / self.days), 10**9))


GUARANTEES: Final = (
    Guarantee(1, 1),
    Guarantee(30, 4),
    Guarantee(365, 8),
    Guarantee(365, 3),
)
L1_KWH: Final = ("20", "50", "100", "150", "250", "400")
L2_KWH: Final = ("9", "12", "15", "18.5", "23", "27.5", "35", "50", "70", "100")
TOTAL_KWH: Final = ("40", "80", "160", "320", "480")
"""Bounds on a window to try; the one that costs least is shown."""


def profile(homes: int, **changes: Any) -> Query:
    """A day's profile with three aggregators, of which two may collude."""
    return Query.of(
        **{
            "name": "day",
            "function": "vector_sum",
            "register": "energy_import",
            "unit": "kWh",
            "bounds": ["0", str(BOUND_KWH)],
            "max_readings": SLOTS,
            "resolution": "0.001",
            "dimension": SLOTS,
            "mechanism": "distributed",
            "sharing": "additive",
            "aggregators": 3,
            "collusion": {"curators": 0, "aggregators": 2},
            "min_participants": 100,
            "n_max": homes,
            "deadline_s": 600,
            **changes,
        }
    )


def ways(guarantee: Guarantee, homes: int) -> Iterator[tuple[str, list[Query]]]:
    """Each column's queries for one day, one for each bound."""
    # A finer step would pass the widest noise that the sampler serves.
    laplace = {
        "epsilon": format_exact(Fraction(guarantee.epsilon, guarantee.days)),
        "resolution": "0.004",
    }
    gaussian = {"noise": "gaussian", "rho": guarantee.rho}
    yield "slots, L1", [profile(homes, **laplace)]
    yield "window in L1", [profile(homes, **laplace, window_bound=bound) for bound in L1_KWH]
    yield "window in L2", [profile(homes, **gaussian, window_bound=bound) for bound in L2_KWH]


def totals(guarantee: Guarantee, homes: int) -> Iterator[tuple[str, list[Query]]]:
    """The same of a day's single total: bounded by the noise alone, and by the window."""
    one = {"function": "sum", "dimension": None}
    laplace = format_exact(Fraction(guarantee.epsilon, guarantee.days))
    gaussian = {"noise": "gaussian", "rho": guarantee.rho}
    yield "total, readings", [profile(homes, **one, epsilon=laplace, resolution="0.004")]
    yield (
        "total, window",
        [profile(homes, **one, **gaussian, window_bound=bound) for bound in TOTAL_KWH],
    )


@dataclass(frozen=True)
class Meters:
    """Readings (meters, days, 96) in whole watt-hours, and where they come from."""

    wh: Ints
    source: str

    @classmethod
    def of(cls, path: Path | None) -> Meters:
        """Those of a file, else 400 generated households over 49 days."""
        if path is None:
            load = household_load(400, 49, SeededRandom(2026)).reshape(400, -1, SLOTS)
            return cls(np.rint(load * 1000).astype(np.int64), "generated households")
        population = read_csv(
            path,
            unit="kWh",
            bounds=(Fraction(0), Fraction(BOUND_KWH)),
            resolution=Fraction(1, 1000),
        )
        whole = population.values.reshape(population.curators, -1, SLOTS)
        return cls(np.rint(whole * 1000).astype(np.int64), path.name)

    def day(self, day: int) -> Readings:
        """One day's readings of all meters."""
        count = len(self.wh)
        offset = (np.arange(SLOTS) << 32) // SLOTS + 1
        return Readings(
            count,
            np.repeat(np.arange(count), SLOTS),
            self.wh[:, day].reshape(-1) * NANO,
            np.tile(offset, count),
        )


def resampled(meters: Meters, homes: int) -> list[Ints]:
    """How often each meter is among the homes, `RESAMPLES` times."""
    generator = np.random.default_rng(2026)
    count = len(meters.wh)
    return [
        np.bincount(generator.integers(0, count, homes), minlength=count) for _ in range(RESAMPLES)
    ]


def biases_kwh(meters: Meters, query: Query, weights: list[Ints]) -> list[float]:
    """The mean over slots and days of what scaling takes off the total, for each resample."""
    off = np.zeros(len(weights))
    days = meters.wh.shape[1]
    for day in range(days):
        [part] = parts(query)
        scaled = encode(query, meters.day(day)).values * float(part.value * 1000)
        clamped = np.minimum(meters.wh[:, day], BOUND_KWH * 1000)
        if part.dimension == 1:
            clamped = clamped.sum(axis=1, keepdims=True)
        for place, weight in enumerate(weights):
            off[place] += np.abs(weight @ (clamped - scaled)).mean() / 1000
    return [float(total) / days for total in off]


def mean_quarter_hour_kwh(meters: Meters, weights: list[Ints]) -> float:
    clamped = np.minimum(meters.wh, BOUND_KWH * 1000).mean(axis=(1, 2)) / 1000
    return float(np.mean([weight @ clamped for weight in weights]))


def noise_kwh(query: Query, homes: int) -> float:
    return forecast(query, homes)[0].mean_absolute


def drawn_kwh(query: Query, times: int) -> float:
    """E|noise| as the services draw it, the mean of so many draws of a whole profile."""
    plan, source = aggregator_plan(query), SecureRandom()
    assert plan is not None
    total = sum(draw(plan, source, times) for _ in range(query.aggregators))
    [part] = parts(query)
    return float(np.abs(total).mean() * float(part.value))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("file", nargs="?", type=Path)
    arguments.add_argument("--homes", type=int, default=5000)
    arguments.add_argument("--draws", type=int, default=0)
    given = arguments.parse_args()
    meters = Meters.of(given.file)
    weights = resampled(meters, given.homes)
    mean = mean_quarter_hour_kwh(meters, weights)
    print(f"{given.homes:,} homes, {meters.source}; mean quarter hour {mean:,.0f} kWh")
    known: dict[str, list[float]] = {}

    def errors_of(query: Query) -> list[float]:
        key = repr([(part.window, part.value) for part in parts(query)])
        if key not in known:
            known[key] = biases_kwh(meters, query, weights)
        return [bias + noise_kwh(query, given.homes) for bias in known[key]]

    for guarantee in GUARANTEES:
        print(f"{guarantee.days} days at ({guarantee.epsilon}, 10^-6), rho {guarantee.rho} a day")
        first = None
        for name, queries in (*ways(guarantee, given.homes), *totals(guarantee, given.homes)):
            query = min(queries, key=lambda each: sum(errors_of(each)))
            errors = errors_of(query)
            error, spread = float(np.mean(errors)), max(errors) - min(errors)
            total = query.dimension is None
            first = error if first is None or name == "total, readings" else first
            whole = mean * (SLOTS if total else 1)
            nothing = ", no better than zeros" if error >= whole else ""
            drawn = f"; drawn {drawn_kwh(query, given.draws):,.0f}" if given.draws else ""
            bound = "" if query.window_bound is None else f" {format_exact(query.window_bound)} kWh"
            print(
                f"  {name + bound:24} {error:9,.0f} kWh ({100 * error / whole:,.1f} %), spread "
                f"{spread:,.0f}; noise {noise_kwh(query, given.homes):,.0f}{drawn}; "
                f"{first / error:.1f} times less{nothing}"
            )


if __name__ == "__main__":
    main()
