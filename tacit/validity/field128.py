"""The field of p = 2^128 - 28 2^64 + 1, in numpy.

2^128 = 28 2^64 - 1 modulo p, so a product of limbs r0..r3 is
(r0 - r2 - 28 r3) + 2^64 (r1 + 28 r2 + 783 r3), at most 811 multiples of 2^128 more than two
limbs hold, which are folded the same way. Spec: validity, section 6.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tacit.validity.field import Elements, Field, Mask
from tacit.validity.field64 import Words, wide_product

PRIME: Final = 2**128 - 28 * 2**64 + 1
_P_LOW: Final = np.uint64(1)
_P_HIGH: Final = np.uint64(2**64 - 28)
_FOLD: Final = np.uint64(28)
_FOLD_TWICE: Final = np.uint64(783)
_HALF: Final = np.uint64(32)
_MASK: Final = np.uint64(2**32 - 1)


class Field128(Field):
    """Field128 of the VDAF draft, two limbs."""

    prime = PRIME
    limbs = 2
    two_adicity = 66
    generator = pow(7, 2**62 - 7, PRIME)

    def add(self, a: Elements, b: Elements) -> Elements:
        low = a[0] + b[0]
        carry = (low < a[0]).astype(np.uint64)
        high = a[1] + b[1]
        over = high < a[1]
        high += carry
        over |= high < carry
        return _reduced(low, high, over)

    def subtract(self, a: Elements, b: Elements) -> Elements:
        low = a[0] - b[0]
        borrow = (a[0] < b[0]).astype(np.uint64)
        high = a[1] - b[1]
        under = a[1] < b[1]
        under |= high < borrow
        high -= borrow
        # Where it fell below 0, add p.
        more = under * _P_LOW
        low += more
        high += under * _P_HIGH
        high += low < more
        return np.stack((low, high))

    def multiply(self, a: Elements, b: Elements) -> Elements:
        r0, r1 = wide_product(a[0], b[0])
        low, high = wide_product(a[0], b[1])
        r1 += low
        carry = (r1 < low).astype(np.uint64)
        r2 = high + carry  # high is at most 2^64 - 2
        low, high = wide_product(a[1], b[0])
        r1 += low
        high += r1 < low
        r2 += high
        carry = (r2 < high).astype(np.uint64)
        low, r3 = wide_product(a[1], b[1])
        r2 += low
        r3 += r2 < low
        r3 += carry
        return _folded(r0, r1, r2, r3)

    def sum(self, a: Elements, axis: int = 1) -> Elements:
        halves = (a[0] & _MASK, a[0] >> _HALF, a[1] & _MASK, a[1] >> _HALF)
        h0, h1, h2, h3 = (
            half.sum(axis=axis - 1, dtype=np.uint64, keepdims=True) for half in halves
        )
        h1 += h0 >> _HALF
        h2 += h1 >> _HALF
        h3 += h2 >> _HALF
        low = (h0 & _MASK) | (h1 << _HALF)
        high = (h2 & _MASK) | (h3 << _HALF)
        zero = np.zeros_like(low)
        return _folded(low, high, h3 >> _HALF, zero).squeeze(axis)


def _scaled(words: Words, factor: np.uint64) -> tuple[Words, Words]:
    """The low and the high words of words times a factor below 2^32."""
    low = (words & _MASK) * factor
    high = (words >> _HALF) * factor
    high += low >> _HALF
    return (high << _HALF) | (low & _MASK), high >> _HALF


def _folded(r0: Words, r1: Words, r2: Words, r3: Words) -> Elements:
    """r0 + 2^64 r1 + 2^128 r2 + 2^192 r3 modulo p."""
    a_low, a_high = _scaled(r3, _FOLD)
    low = r0 - r2
    less = a_high
    less += r0 < r2
    less += low < a_low
    low -= a_low
    b_low, excess = _scaled(r2, _FOLD)
    c_low, c_high = _scaled(r3, _FOLD_TWICE)
    excess += c_high
    high = r1 + b_low
    excess += high < b_low
    high += c_low
    excess += high < c_low
    # The upper part, at least 28 r2 + 783 r3, is never less than what is taken from it.
    excess -= high < less
    high -= less
    borrow = low < excess
    low -= excess
    more = excess * _FOLD
    more -= borrow
    high += more
    over = high < more
    borrow = over & (low == 0)
    low -= over
    high += over * _FOLD
    high -= borrow
    return _reduced(low, high, np.zeros_like(over))


def _reduced(low: Words, high: Words, over: Mask) -> Elements:
    """low + 2^64 high + 2^128 over, less than 2 p, modulo p."""
    excess = over | (high > _P_HIGH) | ((high == _P_HIGH) & (low >= _P_LOW))
    borrow = excess & (low == 0)
    low = low - excess * _P_LOW
    high = high - excess * _P_HIGH
    high -= borrow
    return np.stack((low, high))


FIELD128: Final = Field128()
