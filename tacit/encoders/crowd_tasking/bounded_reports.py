"""What a device sends as reports `window` and `subset`, in whole numbers.

A device derives every probability from the epsilon of a coordinate; which window, which mixture and
how many buckets are public choices that change the error and never the privacy.

Spec: crowd-tasking, section 10.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

import numpy as np

from tacit.encoders.crowd_tasking.bounded import (
    HALF,
    MIX,
    Bools,
    Floats,
    Ints,
    Subset,
    Window,
    odds,
)
from tacit.encoders.crowd_tasking.encoder import ReadingGrid
from tacit.randomness import NoiseSource
from tacit.wire import format_exact

MOST_EPSILON: Final = 64
MOST_BUCKETS: Final = 500
POINT: Final = HALF + 1
"""Reports POINT and -POINT stand for the two points, all others for themselves."""


def bucket_of(values: Floats, edges: Floats) -> Ints:
    """(n,) the bucket of each value; beyond the edges the first or the last."""
    return np.asarray(np.searchsorted(edges[1:-1], values, side="right"), np.int64)


@dataclass(frozen=True)
class _Bounded(ReadingGrid):
    """epsilon_each: of one coordinate of one reading."""

    epsilon_each: Fraction

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.epsilon_each <= MOST_EPSILON:
            raise ValueError(f"epsilon lies above 0 and is at most {MOST_EPSILON}")

    @property
    def epsilon(self) -> Fraction:
        """Of the values of one reading."""
        return self.dimension * self.epsilon_each

    @property
    def fresh(self) -> bool:
        """Every round is perturbed anew."""
        return True


@dataclass(frozen=True)
class WindowReports(_Bounded):
    """Each coordinate is sent as a number of -M..M near it or anywhere, or as one of two points:
    an unbiased report for averages. reach: w; mixed: of 2^32 draws, how many report a window."""

    reach: int
    mixed: int

    def __post_init__(self) -> None:
        super().__post_init__()
        whole = isinstance(self.reach, int) and isinstance(self.mixed, int)
        if not whole or not 0 <= self.reach < HALF - 1 or not 0 <= self.mixed <= MIX:
            raise ValueError("a window lies within all reports")
        odds(self.epsilon_each)

    @property
    def law(self) -> Window:
        """Of one coordinate."""
        return Window(odds(self.epsilon_each), self.reach, self.mixed)

    def document(self) -> dict[str, Any]:
        """As JSON without floating-point numbers."""
        return {
            **super().document(),
            "report": "window",
            "epsilon": format_exact(self.epsilon_each),
            "reach": self.reach,
            "mixed": self.mixed,
        }

    def reports(self, readings: Floats, source: NoiseSource) -> Ints:
        """(n, k) as they are sent."""
        above = self.quantise(readings)
        law = self.law
        numbers, windowed = law.reports(law.placed(above.ravel(), self.steps, source), source)
        return np.where(windowed, numbers, POINT * numbers).reshape(above.shape)

    def estimates(self, reports: Ints) -> Floats:
        """(n, k) unbiased, in the sensor's unit: post-processing."""
        windowed = np.abs(reports) < POINT
        law = self.law
        found = law.estimates(np.where(windowed, reports, np.sign(reports)), windowed)
        return self.decode((found + 1) / 2 * self.steps)

    def numbers(
        self,
        users: Ints,  # noqa: ARG002
        rounds: Ints,  # noqa: ARG002
        readings: Floats,
        source: NoiseSource,
    ) -> list[list[int]]:
        """The numbers of each report; no two share any noise."""
        found: list[list[int]] = self.reports(readings, source).tolist()
        return found

    def refusal(self, values: Sequence[int]) -> str | None:
        """Nothing lies beyond the points."""
        if len(values) != self.dimension:
            return f"a report has {self.dimension} numbers"
        if not all(abs(value) <= POINT for value in values):
            return f"a number of a window lies in -{POINT}..{POINT}"
        return None


@dataclass(frozen=True)
class SubsetReports(_Bounded):
    """The bucket of the only coordinate is sent as some buckets, of which one is likely the own:
    for histograms. edges: (d + 1,) of the buckets; size: r."""

    edges: tuple[float, ...]
    size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dimension != 1:
            raise ValueError("a subset is of one coordinate")
        rising = all(low < high for low, high in pairwise(self.edges))
        if not rising or not 3 <= len(self.edges) <= MOST_BUCKETS + 1:
            raise ValueError(f"between 2 and {MOST_BUCKETS} buckets, whose edges ascend")
        if not isinstance(self.size, int) or not 1 <= self.size < len(self.edges) - 1:
            raise ValueError("some buckets are sent, and not all")
        odds(self.epsilon_each)

    @property
    def law(self) -> Subset:
        """Of the buckets."""
        return Subset(odds(self.epsilon_each), len(self.edges) - 1, self.size)

    def document(self) -> dict[str, Any]:
        """As JSON without floating-point numbers."""
        return {
            **super().document(),
            "report": "subset",
            "epsilon": format_exact(self.epsilon_each),
            "edges": [repr(value) for value in self.edges],
            "size": self.size,
        }

    def held(self, readings: Floats, source: NoiseSource) -> Bools:
        """(n, d) which buckets the report of each reading (n, 1) holds."""
        inside = np.clip(readings[:, 0], self.lower[0], self.upper[0])
        return self.law.reports(bucket_of(inside, np.array(self.edges)), source)

    def counts(self, rounds: Ints, places: Ints, most: int) -> Ints:
        """(most, d) how many reports of rounds (n,) in 1..most hold each bucket; places (n, r) as
        they were sent: post-processing."""
        buckets = self.law.buckets
        found = (rounds[:, None] - 1) * buckets + places
        return np.bincount(found.ravel(), minlength=most * buckets).reshape(most, buckets)

    def numbers(
        self,
        users: Ints,  # noqa: ARG002
        rounds: Ints,  # noqa: ARG002
        readings: Floats,
        source: NoiseSource,
    ) -> list[list[int]]:
        """The places of the buckets of each report, ascending; no two share any noise."""
        places = np.nonzero(self.held(readings, source))[1]
        found: list[list[int]] = places.reshape(-1, self.size).tolist()
        return found

    def refusal(self, values: Sequence[int]) -> str | None:
        """Different buckets, in order."""
        if len(values) != self.size:
            return f"a report has {self.size} buckets"
        ascending = all(low < high for low, high in pairwise(values))
        if not ascending or values[0] < 0 or values[-1] > len(self.edges) - 2:
            return "a report names different buckets, ascending"
        return None
