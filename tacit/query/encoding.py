"""Readings as ring integers and back, without a float, and the sensitivities of the linear
functions, in ring units (spec: aggregation, section 3; profiles, section 2).

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

These are L1 norms, and for one coordinate L2 norms as well. Where a query bounds the norm of a
curator's whole contribution by W (`window_bound`), and T is the figure for one record with a swap:

    norm    record, d = 1    record, d > 1                           curator
    L1      min(2 W, T)      min(2 W, 2 T + d)                       min(W, m A)
    L2      min(2 W, T)      min(2 W, T + ceil(sqrt d) + 1)          min(W, m A)
                             (entries of one sign: sqrt(2) W for 2 W)

Scaling is no contraction in L1: with W = 6, (6, 0) stays and (6, 3) becomes (4, 2), which moves 4
for one reading of 3. L2 norms are kept squared: their squares are whole numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.query.terms import PrivacyUnit
from tacit.wire import format_exact

Ints = NDArray[np.int64]

_TOGETHER: Final = 1 << 18
"""Numbers beyond 62 bits that are computed at a time, about."""


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

    `swap`: whether a window can have more than `max_readings` readings; it matters to the record
    unit only. `l1_bound` is B of the vector sum, in ring units.
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


class Norm(StrEnum):
    """How the length of a contribution is measured: in L1 with Laplace noise, in L2 with
    Gaussian."""

    L1 = "l1"
    L2 = "l2"


@dataclass(frozen=True)
class Entries:
    """What the readings of one curator add to one part of a query, for its sensitivities.

    `bounds`: of one reading, or of one entry of a vector; `l1_bound`: B of a vector sum, ring
    units; `several`: whether one reading can change several of its `dimension` coordinates
    (slots and bins take one each); `swap`: whether a window can have more than `max_readings`
    readings, which matters to the unit record only.
    """

    linear: Linear
    bounds: Bounds
    max_readings: int
    dimension: int = 1
    l1_bound: int = 0
    several: bool = False
    swap: bool = True

    @property
    def unsigned(self) -> bool:
        """Whether no entry is below 0."""
        return self.bounds.low >= 0 or self.linear not in (Linear.SUM, Linear.VECTOR)

    def l1(self, unit: PrivacyUnit, *, swap: bool | None = None) -> int:
        """The L1 sensitivity without a bound on windows."""
        return l1_sensitivity(
            self.linear,
            unit,
            self.bounds,
            self.max_readings,
            l1_bound=self.l1_bound,
            swap=self.swap if swap is None else swap,
        )

    def squared_l2(self, unit: PrivacyUnit) -> int:
        """The square of the L2 sensitivity without a bound on windows."""
        if self.dimension == 1:
            return self.l1(unit) ** 2
        if self.linear is Linear.HISTOGRAM:
            record = 2 if self.swap else 1
            return record if unit is PrivacyUnit.RECORD else self.max_readings**2
        reading = self.l1_bound**2
        if self.several:  # each entry is clamped, so that few can be large
            reading = min(reading, self.dimension * self.bounds.largest**2)
        if unit is PrivacyUnit.CURATOR:
            return self.max_readings**2 * reading
        return reading if not self.swap else (2 if self.unsigned else 4) * reading


@dataclass(frozen=True)
class WindowBound:
    """W, the largest norm of a curator's whole contribution to one part, in ring units."""

    norm: Norm
    most: int

    def scale(self, values: Ints) -> tuple[Ints, NDArray[np.int64]]:
        """Rows (n, d) within the bound, and (n,) how much of each row is kept, in millionths.

        A row within W is unchanged and keeps a million. A longer one is multiplied by W over its
        norm (in L2 the smallest whole number above the root) and truncated toward zero, which
        only shortens it.
        """
        largest = max(int(values.max(initial=0)), -int(values.min(initial=0)))
        power, step = 1 if self.norm is Norm.L1 else 2, max(1, _TOGETHER // values.shape[1])
        # Sums of squares, or products with W, may pass 62 bits.
        wide = max(largest**power * values.shape[1], largest * self.most) >= 1 << 62
        if wide and values.shape[0] > step:  # objects take ten times the memory
            blocks = range(0, values.shape[0], step)
            done = [self.scale(values[start : start + step]) for start in blocks]
            return np.concatenate([row for row, _ in done]), np.concatenate(
                [numbers for _, numbers in done]
            )
        exact = np.abs(values.astype(object) if wide else values)
        powers = (exact if power == 1 else exact * exact).sum(axis=1)
        factors = np.full(values.shape[0], MILLION, np.int64)
        over = np.flatnonzero(
            powers > min(self.most**power, 1 << 62) if not wide else powers > self.most**power
        )
        if not over.size:
            return values, factors
        norms = powers[over] if power == 1 else _roots_above(powers[over], wide=wide)
        scaled = values.copy()
        shortened = exact[over] * self.most // norms[:, None]
        scaled[over] = np.sign(values[over]) * shortened.astype(np.int64)
        factors[over] = MILLION * self.most // norms.astype(object)
        return scaled, factors

    def sensitivity(self, entries: Entries, unit: PrivacyUnit) -> int:
        """The L1 sensitivity of contributions within the bound, in ring units; of a bound in L2
        the square of the L2 sensitivity."""
        if self.norm is Norm.L1:
            change = entries.l1(unit)
            if unit is PrivacyUnit.CURATOR:
                return min(self.most, change)
            if entries.dimension > 1:
                change = 2 * entries.l1(unit, swap=True) + entries.dimension
            return min(2 * self.most, change)
        change = entries.squared_l2(unit)
        if unit is PrivacyUnit.CURATOR:
            return min(self.most**2, change)
        if entries.dimension == 1:
            return min(4 * self.most**2, change)
        moved = entries.l1(unit, swap=True) + root_above(entries.dimension) + 1
        return min((2 if entries.unsigned else 4) * self.most**2, moved**2)


MILLION: Final = 10**6


def root_above(value: int) -> int:
    """The least whole number whose square is at least `value`, which is not negative."""
    return math.isqrt(value - 1) + 1 if value else 0


def _roots_above(squares: NDArray[Any], *, wide: bool) -> NDArray[Any]:
    roots = [root_above(square) for square in squares.tolist()]
    return np.array(roots, object if wide else np.int64)


# A reading is a whole number of nano-units (`tacit.units`); quantising divides it by the query's
# resolution, rounding half to even. With whole x and n and any rational centre C,
#
#     (x - C) / n + 1/2 = (x + h) / n,  h = n/2 - C,
#     floor((x + h) / n) = (x + floor(h)) // n,
#
# so that one integer division rounds exactly; a tie shows as a whole h and a remainder of 0. The
# ring is Z_(2^64) read as signed, or the prime field of `tacit.crypto.sharing`; whether a sum can
# wrap is decided when a query is made (`headroom`).

_INT64: Final = np.iinfo(np.int64)


def round_half_even(value: Fraction) -> int:
    """The nearest integer, ties to even."""
    return round(value)


def quantise(quantity: Ints, resolution: int, centre: Fraction = Fraction(0)) -> Ints:
    """round_half_even((quantity - centre) / resolution), elementwise and exactly.

    `quantity`, `centre`: nano-units. `resolution`: a whole number of nano-units. A quotient
    beyond 64 bits (possible only if the shifted reading is too) becomes the end of that range.
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


def amounts(words: list[int], value: Fraction) -> list[str]:
    """`format_exact(word * value)` for many words; a decimal value is scaled to an integer once."""
    places = len(format_exact(value).partition(".")[2])
    scaled = value * 10**places
    if scaled.denominator != 1:
        return [format_exact(word * value) for word in words]
    factor = scaled.numerator
    if places == 0:
        return [str(word * factor) for word in words]
    texts = []
    for word in words:
        digits = str(abs(word) * factor).rjust(places + 1, "0")
        text = f"{digits[:-places]}.{digits[-places:]}".rstrip("0").rstrip(".")
        texts.append(f"-{text}" if word < 0 else text)
    return texts
