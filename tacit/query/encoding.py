"""Readings as ring integers and back, without a float, and the L1 sensitivities of the linear
functions, in ring units (spec: aggregation, section 3).

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

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.query.terms import PrivacyUnit


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


# A reading is a whole number of nano-units (`tacit.units`); quantising divides it by the query's
# resolution, rounding half to even. With whole x and n and any rational centre C,
#
#     (x - C) / n + 1/2 = (x + h) / n,  h = n/2 - C,
#     floor((x + h) / n) = (x + floor(h)) // n,
#
# so that one integer division rounds exactly; a tie shows as a whole h and a remainder of 0. The
# ring is Z_(2^64) read as signed, or the prime field of `tacit.crypto.sharing`; whether a sum can
# wrap is decided when a query is made (`headroom`).

Ints = NDArray[np.int64]

_INT64: Final = np.iinfo(np.int64)


def round_half_even(value: Fraction) -> int:
    """The nearest integer, ties to even."""
    return round(value)


def quantise(quantity: Ints, resolution: int, centre: Fraction = Fraction(0)) -> Ints:
    """round_half_even((quantity - centre) / resolution), elementwise and exactly.

    `quantity`, `centre`: nano-units. `resolution`: a whole number of nano-units. A quotient
    beyond 64 bits (possible only where the shifted reading is) becomes the end of that range.
    """
    if resolution < 1:
        raise ValueError("a resolution is at least one nano-unit")
    half = Fraction(resolution, 2) - centre
    shift = math.floor(half)
    low, high = int(quantity.min(initial=0)) + shift, int(quantity.max(initial=0)) + shift
    if min(low, shift) < _INT64.min or max(high, shift, resolution) > _INT64.max:
        return _quantise_wide(quantity, resolution, centre)
    shifted = quantity + shift if shift else quantity
    quotient = shifted // resolution
    if half.denominator == 1:  # only then do ties occur
        ties = np.nonzero(quotient * resolution == shifted)
        quotient[ties] -= quotient[ties] & 1
    return np.asarray(quotient, np.int64)


def _quantise_wide(quantity: Ints, resolution: int, centre: Fraction) -> Ints:
    exact = (round_half_even((int(x) - centre) / resolution) for x in quantity.ravel())
    inside = [min(max(q, int(_INT64.min)), int(_INT64.max)) for q in exact]
    return np.array(inside, np.int64).reshape(quantity.shape)


def clamp(q: Ints, bounds: Bounds) -> tuple[Ints, NDArray[np.bool_]]:
    """q moved into the bounds, and which elements had to move."""
    inside = np.clip(q, bounds.low, bounds.high)
    return inside, inside != q


def truncate_to_l1(q: Ints, bound: int) -> tuple[Ints, NDArray[np.bool_]]:
    """Rows of `q` (r, d) scaled down to an L1 norm of at most `bound`, and which rows were.

    Scaled elements are truncated toward zero: rounding to nearest could add d/2 units. Norms or
    products that could pass 63 bits are computed with Python's integers.
    """
    largest = max(int(q.max(initial=0)), -int(q.min(initial=0)))
    if largest * max(q.shape[1], bound) > _INT64.max:
        return _truncate_wide(q, bound)
    norms = np.abs(q).sum(axis=1)
    over = norms > bound
    if not over.any():
        return q, over
    rows = q[over]
    out = q.copy()
    out[over] = np.sign(rows) * (np.abs(rows) * bound // norms[over][:, None])
    return out, over


def _truncate_wide(q: Ints, bound: int) -> tuple[Ints, NDArray[np.bool_]]:
    out, over = q.copy(), np.zeros(q.shape[0], np.bool_)
    for index, row in enumerate(q.tolist()):
        norm = sum(map(abs, row))
        if norm > bound:
            over[index] = True
            out[index] = [(1 if v > 0 else -1) * (abs(v) * bound // norm) for v in row]
    return out, over


def headroom(n_max: int, largest: int, noise_tail: int, modulus: int) -> bool:
    """Whether no sum of `n_max` contributions plus noise can leave (-modulus/2, modulus/2)."""
    return 2 * (n_max * largest + noise_tail) < modulus
