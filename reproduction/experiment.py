"""What an experiment is, what it is given, and what it hands back."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simulation.plots import Plot
from tacit.randomness import SeededRandom

Basis = Literal["printed", "recomputed", "trend", "quoted"]
Floats = NDArray[np.float64]
Value: TypeAlias = float | bool | str | None

DEFAULT_SEED: Final = 2026
STANDARD_ERRORS: Final = 4
"""How many a drawn figure may be off: by chance once in 16,000 rows."""

MOST: Final = 0.5
"""No tolerance is wider than this share of its figure: an error of twice the size has to fail."""
MOST_OF_PRINTED: Final = 0.2
"""A figure of the source that could only be compared more coarsely is shown, not claimed."""


@dataclass(frozen=True)
class Effort:
    """How many of an experiment's full repetitions are run: all, or one in `divisor`."""

    name: str
    divisor: int

    def repetitions(self, full: int) -> int:
        """The repetitions of a measurement that takes `full` of them."""
        return max(1, full // self.divisor)


FULL: Final = Effort("full", 1)
QUICK: Final = Effort("quick", 10)


def _quiet(_share: float) -> None:
    """No progress is reported."""


@dataclass(frozen=True)
class Run:
    """What an experiment is given: effort, the folder of real data (None: generate), a seed.

    `progress` receives the share that is done, from 0 to 1.
    """

    effort: Effort = FULL
    data: Path | None = None
    seed: int = DEFAULT_SEED
    progress: Callable[[float], None] = _quiet

    def counted(self, steps: int) -> Callable[[], None]:
        """To be called after each of this many steps."""
        done = 0

        def step_done() -> None:
            nonlocal done
            done += 1
            self.progress(done / steps)

        return step_done

    def source(self, *names: object) -> SeededRandom:
        """The random source of one measurement, independent of every other's."""
        text = "/".join(str(name) for name in (self.seed, *names))
        return SeededRandom(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]))


@dataclass(frozen=True)
class Row:
    """One comparison of a measured value with an expected one.

    `printed` and `recomputed` rows expect a figure, the source's own or the specification's:
    |measured - expected| <= tolerance * |expected| (tolerance itself where 0 is expected); texts
    have to be equal. `trend` rows expect that a stated direction, order or bound holds (or does
    not). `quoted` rows expect nothing and count nowhere as checked. `rule` says where the tolerance
    comes from. A row on data that replace the source's is never `printed`.
    """

    name: str
    expected: Value
    basis: Basis
    measured: Value
    tolerance: float = 0.0
    rule: str = ""
    stand_in: bool = False

    def __post_init__(self) -> None:
        if (self.expected is None) != (self.basis == "quoted"):
            raise ValueError("a row expects something unless it is a quotation")
        if self.checked and isinstance(self.expected, bool) != (self.basis == "trend"):
            raise ValueError("a trend holds or does not; other rows expect a figure or a text")
        if self.stand_in and self.basis == "printed":
            raise ValueError("stand-in data cannot come out as the source prints")
        if not self.rule:
            object.__setattr__(self, "rule", "rounding" if self.tolerance else "exact")

    @property
    def checked(self) -> bool:
        """Whether the row can fail."""
        return self.basis != "quoted"

    @property
    def ok(self) -> bool:
        """Whether the measured value is what was expected."""
        if self.expected is None:
            return True
        if not (_is_number(self.expected) and _is_number(self.measured)):
            return type(self.expected) is type(self.measured) and self.expected == self.measured
        expected, measured = float(self.expected), float(self.measured or 0)
        if not math.isfinite(measured):
            return False
        return abs(measured - expected) <= self.tolerance * (abs(expected) or 1)


def trend(name: str, holds: object, *, stand_in: bool = False) -> Row:
    """A direction, an order or a bound that the source or the specification states."""
    return Row(name, True, "trend", bool(holds), stand_in=stand_in)


def quoted(name: str, value: Value, *, stand_in: bool = False) -> Row:
    """A value that is shown next to the others and compared with nothing."""
    return Row(name, None, "quoted", value, stand_in=stand_in)


def sampled(
    name: str,
    expected: float,
    basis: Basis,
    measured: float,
    error: float,
    *,
    rounding: float = 0.0,
    stand_in: bool = False,
) -> Row:
    """A drawn figure: off by no more than STANDARD_ERRORS of `error` and the expected's rounding.

    error: the standard error of measured - expected, in their unit: that of the run, and of the
    expected figure where that was drawn too. rounding: half a unit of the expected's last place.
    A `printed` figure that would be off by more than MOST_OF_PRINTED is quoted instead. Never by
    more than MOST of the figure, however few the runs: a wrong algorithm often has a
    greater spread too.
    """
    allowed = STANDARD_ERRORS * error + rounding
    if basis == "printed" and allowed > MOST_OF_PRINTED * abs(expected):
        # A wrong result would pass, too.
        words = f"{name}: runs spread too far to compare with the printed {expected:g}"
        return quoted(words, measured, stand_in=stand_in)
    most = MOST * (abs(expected) or 1)
    rule = f"{STANDARD_ERRORS} standard errors" + (" and rounding" if rounding else "")
    if allowed > most:
        allowed, rule = most, f"{rule}, at most {MOST:.0%} of the figure"
    return Row(
        name, expected, basis, measured, allowed / (abs(expected) or 1), rule, stand_in=stand_in
    )


def over_runs(
    name: str,
    expected: float,
    values: Sequence[float],
    *,
    reference: int,
    rounding: float = 0.0,
    deviation: float | None = None,
    basis: Basis = "recomputed",
    stand_in: bool = False,
) -> Row:
    """The mean of runs against a figure that is itself a mean of `reference` runs (0: it is exact).

    deviation: of one run, where it is known better than by these runs (at least two) alone.
    """
    spread = float(np.std(values, ddof=1)) if deviation is None else deviation
    error = spread * math.sqrt(1 / len(values) + (1 / reference if reference else 0))
    mean = float(np.mean(values))
    return sampled(name, expected, basis, mean, error, rounding=rounding, stand_in=stand_in)


def pooled(runs: Floats) -> float:
    """The relative deviation of one run (runs, places), alike at all places: root mean square."""
    return float(np.sqrt(np.mean((runs.std(axis=0, ddof=1) / runs.mean(axis=0)) ** 2)))


def marked(rows: Iterable[Row], *, stand_in: bool) -> list[Row]:
    """The rows, each marked with whether its data replace the source's."""
    return [replace(row, stand_in=stand_in) for row in rows]


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True)
class Outcome:
    """What an experiment found.

    `data`: which populations it used and where they come from; `notes`: what a reader has to know.
    """

    rows: tuple[Row, ...]
    plots: tuple[Plot, ...] = ()
    data: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every row that is checked holds; an outcome without such a row shows nothing."""
        return self.checked and all(row.ok for row in self.rows)

    @property
    def checked(self) -> bool:
        """Whether a row can fail."""
        return any(row.checked for row in self.rows)


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a source that can be run again.

    `seconds`: measured for the full effort on one core, rounded up. `needs`: the data without
    which it can check nothing.
    """

    id: str
    source: str
    shows: str
    seconds: int
    run: Callable[[Run], Outcome]
    needs: str = ""
