"""What an experiment is, what it is given, and what it hands back."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from common.randomness import SeededRandom
from simulation.plots import Plot

Basis = Literal["printed", "recomputed", "trend", "quoted"]
Value: TypeAlias = float | bool | str | None

DEFAULT_SEED: Final = 2026


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
    """Nobody watches."""


@dataclass(frozen=True)
class Run:
    """What an experiment is given: effort, the folder of real data (None: generate), a seed.

    `progress` is told the share that is done, from 0 to 1.
    """

    effort: Effort = FULL
    data: Path | None = None
    seed: int = DEFAULT_SEED
    progress: Callable[[float], None] = _quiet

    def counted(self, steps: int) -> Callable[[], None]:
        """To be called after each of so many steps."""
        done = 0

        def told() -> None:
            nonlocal done
            done += 1
            self.progress(done / steps)

        return told

    def source(self, *names: object) -> SeededRandom:
        """The random source of one measurement, independent of every other's."""
        text = "/".join(str(name) for name in (self.seed, *names))
        return SeededRandom(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]))


@dataclass(frozen=True)
class Row:
    """One comparison of a measured value with an expected one.

    Of numbers: |measured - expected| <= tolerance * |expected| (tolerance itself where 0 is
    expected); anything else has to be equal. `trend` and `quoted` rows expect nothing.
    """

    name: str
    expected: Value
    basis: Basis
    measured: Value
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        if (self.expected is None) != (self.basis in ("trend", "quoted")):
            raise ValueError("a row expects something unless it is a trend or a quotation")

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
        """Whether every row is."""
        return all(row.ok for row in self.rows)


@dataclass(frozen=True)
class Experiment:
    """A table or figure of a source that can be run again.

    `seconds`: measured for the full effort on one core, rounded up.
    """

    id: str
    source: str
    shows: str
    seconds: int
    run: Callable[[Run], Outcome]
