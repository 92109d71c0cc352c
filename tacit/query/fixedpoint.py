"""Values to ring integers and back, without a float.

A reading is a whole number of nano-units (`tacit.units`); quantising divides it by the query's
resolution, rounding half to even. With whole x and n and any rational centre C,

    (x - C) / n + 1/2 = (x + h) / n,  h = n/2 - C,   and   floor((x + h) / n) = (x + floor(h)) // n,

so that one integer division rounds exactly; a tie shows as a whole h and a remainder of 0. The
ring is Z_(2^64) read as signed, or the prime field of `tacit.crypto.sharing`; whether a sum can
wrap is decided when a query is made (`headroom`).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.query.sensitivity import Bounds

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
