"""What raw readings come to: the truth that a simulated result is compared with.

Readings as curators hold them, in whole nano-units, neither rounded to a query's resolution nor,
unless asked, clamped. Exact: sums of 64-bit readings pass 64 bits, so they are added in halves.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.rounding import roundings
from tacit.query.functions import Readings, counted, dimension, encode, parts
from tacit.query.query import Query
from tacit.query.words import Function
from tacit.units import NANO, UNITS

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
        return Sums(vector=tuple(Fraction(int(each)) for each in own))
    bounds = roundings(query, 1)[0].bounds
    if clamp and bounds is not None:
        low, high = (int(each * nano) for each in bounds)
        quantity = np.clip(quantity, low, high)
    vector: Figures = ()
    if query.function is Function.VECTOR_SUM:
        slot = (readings.offset * (query.dimension or 1)) >> 32
        vector = tuple(
            _sum(quantity[slot == place]) / nano for place in range(query.dimension or 1)
        )
    squares = Fraction(0)
    if query.function is Function.VARIANCE:
        squares = Fraction(sum(each * each for each in quantity.tolist())) / nano**2
    return Sums(int(quantity.size), _sum(quantity) / nano, squares, vector)


def _sum(quantity: Ints) -> Fraction:
    low = int((quantity & ((1 << _HALF) - 1)).sum())
    return Fraction((int((quantity >> _HALF).sum()) << _HALF) + low)


def figures(query: Query, found: Sums) -> Figures:
    """What the query's function makes of totals."""
    match query.function:
        case Function.COUNT:
            return (Fraction(found.count),)
        case Function.SUM:
            return (found.total,)
        case Function.MEAN | Function.VARIANCE if found.count == 0:
            return ()
        case Function.MEAN:
            return (found.total / found.count,)
        case Function.VARIANCE:
            return (found.squares / found.count - (found.total / found.count) ** 2,)
        case _:
            return found.vector
