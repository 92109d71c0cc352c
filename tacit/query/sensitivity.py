"""L1 sensitivities of the linear functions, in ring units (spec: aggregation, section 3).

At most m readings of a curator count in a window: the first m in the order (timestamp, random id).
Taking one reading away can therefore let the (m+1)-th in, a *swap*; where a window can never hold
more than m readings, it cannot (a query says so by `every_record`). The relation is one reading
more or less in both columns. One *replaced* by another moves a sum by no more than a swap does;
where nothing is swapped that is twice the sensitivity. With integer bounds Q_lo, Q_hi:

    A = max(|Q_lo|, |Q_hi|)        w = Q_hi - Q_lo

    function        record, swap    record, no swap    curator (all readings replaced by none)
    sum             max(A, w)       A                  m A
    sum of squares  A^2             A^2                m A^2
    count           1               1                  m
    histogram       2               1                  m
    vector sum      2 B             B                  m B        (B: L1 bound of one reading)
    presence        1               1                  1          (1 if there is any reading)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tacit.query.words import PrivacyUnit


class Linear(StrEnum):
    """The linear functions of which every query is made."""

    SUM = "sum"
    SQUARES = "squares"
    COUNT = "count"
    HISTOGRAM = "histogram"
    VECTOR = "vector"
    PRESENCE = "presence"


@dataclass(frozen=True)
class Bounds:
    """Integer bounds of one quantised reading: Q_lo <= q <= Q_hi."""

    low: int
    high: int

    @property
    def largest(self) -> int:
        """A, the largest absolute value."""
        return max(abs(self.low), abs(self.high))

    @property
    def width(self) -> int:
        """w, the largest difference between two readings."""
        return self.high - self.low


def per_reading(function: Linear, bounds: Bounds, l1_bound: int = 0) -> int:
    """The largest L1 norm that one reading adds to the function, in ring units."""
    match function:
        case Linear.SUM:
            return bounds.largest
        case Linear.SQUARES:
            return bounds.largest**2
        case Linear.COUNT | Linear.HISTOGRAM | Linear.PRESENCE:
            return 1
        case Linear.VECTOR:
            return l1_bound


def l1_sensitivity(
    function: Linear,
    unit: PrivacyUnit,
    bounds: Bounds,
    max_readings: int,
    *,
    l1_bound: int = 0,
    swap: bool = True,
) -> int:
    """The L1 sensitivity of one function, in ring units.

    `swap` is whether a window may hold more than `max_readings` readings; it matters to the
    record unit only. `l1_bound` is B of the vector sum, in ring units.
    """
    reading = per_reading(function, bounds, l1_bound)
    if function is Linear.PRESENCE:
        return reading
    if unit is PrivacyUnit.CURATOR:
        return max_readings * reading
    if not swap:
        return reading
    match function:
        case Linear.SUM:
            return max(bounds.largest, bounds.width)
        case Linear.HISTOGRAM | Linear.VECTOR:
            return 2 * reading
        case Linear.SQUARES | Linear.COUNT:
            return reading
