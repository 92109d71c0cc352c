"""The measurements under Figures 4.2 to 4.5: schemes at a setting, drawn errors, closed forms.

Spec: aggregation, section 9. A `Bench` holds what the aggregators hold and draws the noise, a
`Sweep` the lines of one figure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from reproduction.baselines import (
    Floats,
    Layers,
    distributed,
    exact_total,
    expected_absolute,
    orig,
    paste,
    paste_dlpa,
    privada,
    sampling_error,
    this_work,
    total_noise,
    weighted_pieces,
)
from reproduction.experiment import Row, Run, sampled
from simulation.plots import Kind, Line, Mark, Panel, Plot, Scale
from simulation.populations import normal_records

CURATORS: Final = 10_000
AGGREGATORS: Final = 5
SENSITIVITY: Final = Fraction(500)
RESOLUTION: Final = Fraction(1, 10_000)
REPETITIONS: Final = 100_000
_DIGITS: Final = 1e-3
"""What rounding to three or four digits does to the expected figures, relative."""


@dataclass(frozen=True)
class Setting:
    """The parameters of one point; the thesis's defaults."""

    epsilon: Fraction = Fraction(10)
    ratio: Fraction = Fraction(3, 4)
    pr_u: Fraction = Fraction(1, 10_000)
    pr_s: Fraction = Fraction(1, 100)


Scheme = Callable[[Setting], Layers]


def this_work_at(at: Setting) -> Layers:
    """ThisWork."""
    return this_work(SENSITIVITY, at.epsilon, at.ratio, at.pr_u, at.pr_s, CURATORS, AGGREGATORS)


def orig_at(at: Setting) -> Layers:
    """Orig."""
    return orig(SENSITIVITY, at.epsilon, at.ratio, CURATORS, AGGREGATORS)


def privada_at(at: Setting) -> Layers:
    """PrivaDA."""
    return privada(SENSITIVITY, at.epsilon, AGGREGATORS)


def paste_at(at: Setting) -> Layers:
    """PASTE as the thesis reads it."""
    return paste(SENSITIVITY, at.epsilon, CURATORS)


def paste_dlpa_at(at: Setting) -> Layers:
    """PASTE's own noise."""
    return paste_dlpa(SENSITIVITY, at.epsilon)


def _by_aggregators(corrupt: int) -> Scheme:
    return lambda at: distributed(SENSITIVITY, at.epsilon, AGGREGATORS, corrupt)


SCHEMES: Final[dict[str, Scheme]] = {
    "ThisWork": this_work_at,
    "Orig": orig_at,
    "PrivaDA": privada_at,
    "PASTE": paste_at,
    "PASTE (one Laplace)": paste_dlpa_at,
}
OURS: Final[dict[str, Scheme]] = {
    f"distributed, t_s = {corrupt} of {AGGREGATORS}": _by_aggregators(corrupt)
    for corrupt in (0, 1, 4)
}


@dataclass(frozen=True)
class Bench:
    """The readings' sum as the aggregators hold it, and how often the noise is drawn."""

    run: Run
    truth: float
    partial_sums: Floats
    provenance: str

    @classmethod
    def build(cls, run: Run) -> Bench:
        """Split every curator's total into weighted pieces, as the thesis does, and add up."""
        population = normal_records(CURATORS, run.source("readings"))
        pieces = weighted_pieces(population.totals(), AGGREGATORS, run.source("weights"))
        return cls(run, float(population.total()), pieces.sum(axis=0), population.provenance)

    @property
    def repetitions(self) -> int:
        """N."""
        return self.run.effort.repetitions(REPETITIONS)

    def error(self, layers: Layers, *names: object) -> float:
        """MAE of a scheme, its noise drawn in floating point as the sources draw theirs."""
        return self._mean_absolute(total_noise(layers, self.run.source(*names), self.repetitions))

    def exact_error(self, layers: Layers, *names: object) -> float:
        """MAE of `distributed`, its noise drawn as the services draw it."""
        source = self.run.source(*names)
        return self._mean_absolute(exact_total(layers, RESOLUTION, source, self.repetitions))

    def chance(self, layers: Layers) -> float:
        """The standard error of an MAE over its expectation."""
        return sampling_error(layers, self.repetitions)

    def row(self, name: str, expected: float, measured: float, layers: Layers) -> Row:
        """An MAE (or MRE) against its closed form, of which three or four digits are printed."""
        error = expected * self.chance(layers)
        rounding = _DIGITS * expected
        return sampled(name, expected, "recomputed", measured, error, rounding=rounding)

    def _mean_absolute(self, noise: Floats) -> float:
        released = self.partial_sums.sum() + noise
        return float(np.abs(released - self.truth).mean())


# ------------------------------------------------------------------------------------ the sweeps


@dataclass(frozen=True)
class Sweep:
    """The lines of a figure: each scheme's MAE at each place of the x axis."""

    bench: Bench
    lines: tuple[Line, ...]
    chances: dict[str, tuple[float, ...]]
    """Relative standard errors by line and place."""

    def rows(self) -> list[Row]:
        """For each line the point that lies farthest from its closed form, as their ratio."""
        found = []
        for line in self.lines:
            assert line.expected is not None
            ratios = [y / expected for y, expected in zip(line.y, line.expected, strict=True)]
            ratio, error = max(
                zip(ratios, self.chances[line.name], strict=True),
                key=lambda point: abs(point[0] - 1) / point[1],
            )
            name = f"{line.name}: MAE over its closed form, farthest point of the line"
            found.append(sampled(name, 1.0, "recomputed", ratio, error))
        return found

    def value(self, name: str, x: Fraction) -> float:
        """The measured MAE of a line at a place."""
        line = self.line(name)
        return line.y[line.x.index(float(x))]

    def line(self, name: str) -> Line:
        """A line by its name."""
        return next(line for line in self.lines if line.name == name)

    def plot(
        self, name: str, title: str, x_label: str, x_scale: Scale, marks: tuple[Mark, ...] = ()
    ) -> Plot:
        """Two panels as in the thesis: MAE and MRE."""
        absolute = Panel(
            "(a) MAE", x_label, "MAE (unit of the readings)", self.lines, x_scale, "log", marks
        )
        relative = tuple(_divided(line, self.bench.truth) for line in self.lines)
        return Plot(
            name,
            title,
            (
                absolute,
                Panel(
                    "(b) MRE",
                    x_label,
                    "MRE (share of the true sum)",
                    relative,
                    x_scale,
                    "log",
                    marks,
                ),
            ),
        )


def _divided(line: Line, by: float) -> Line:
    expected = None if line.expected is None else tuple(y / by for y in line.expected)
    return replace(line, y=tuple(y / by for y in line.y), expected=expected)


def sweep(run: Run, figure: str, settings: dict[Fraction, Setting]) -> Sweep:
    """Measure every scheme at every setting (by its place on the x axis)."""
    bench = Bench.build(run)
    places = tuple(float(x) for x in settings)
    plan: list[tuple[Kind, str, Scheme]] = [
        *(("source", name, scheme) for name, scheme in SCHEMES.items()),
        *(("ours", name, scheme) for name, scheme in OURS.items()),
    ]
    lines, chances = [], {}
    for done, (kind, name, scheme) in enumerate(plan):
        measure = bench.error if kind == "source" else bench.exact_error
        layers = {x: scheme(setting) for x, setting in settings.items()}
        measured = tuple(measure(each, figure, name, x) for x, each in layers.items())
        expected = tuple(expected_absolute(each) for each in layers.values())
        lines.append(Line(name, places, measured, expected, kind))
        chances[name] = tuple(bench.chance(each) for each in layers.values())
        run.progress((done + 1) / len(plan))
    return Sweep(bench, tuple(lines), chances)


# ---------------------------------------------------------------------------------- closed forms


def expected_error(**changes: Fraction) -> float:
    """ThisWork's expected MAE at the defaults but for these changes."""
    return expected_absolute(this_work_at(replace(Setting(), **changes)))


def normalised_scales(at: Setting) -> Fraction:
    """f = (n/c) pr_u / ratio + pr_s / (1 - ratio), the left side of inequality (4.2).

    It compares sums of scales, not errors: f <= 1 is not where ThisWork beats PrivaDA.
    """
    return Fraction(CURATORS, AGGREGATORS) * at.pr_u / at.ratio + at.pr_s / (1 - at.ratio)


def lowest(curve: Callable[[Fraction], float], grid: Sequence[Fraction]) -> float:
    """The place on the grid where the curve is lowest."""
    return float(min(grid, key=curve))


def crossings(curve: Callable[[Fraction], float], grid: Sequence[Fraction]) -> list[float]:
    """Where a curve passes 0, between neighbours on the grid by linear interpolation."""
    values = [curve(x) for x in grid]
    return [
        float(a) + (float(b) - float(a)) * u / (u - v)
        for a, b, u, v in zip(grid, grid[1:], values, values[1:], strict=False)
        if u * v <= 0 < abs(u - v)
    ]


def nth(places: list[float], index: int) -> float | None:
    """A crossing, or None where the curves do not meet so often."""
    return places[index] if index < len(places) else None
