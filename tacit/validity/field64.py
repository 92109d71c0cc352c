"""The field of p = 2^64 - 2^32 + 1, in numpy.

2^64 = 2^32 - 1 and 2^96 = -1 modulo p, so a product of 128 bits, lo + 2^64 (h0 + 2^32 h1), is
lo + (2^32 - 1) h0 - h1. Spec: validity, section 6.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.validity.field import Elements, Field

Words = NDArray[np.uint64]

PRIME: Final = 2**64 - 2**32 + 1
_P: Final = np.uint64(PRIME)
_EPSILON: Final = np.uint64(2**32 - 1)
"""2^64 modulo p; also the mask of a half word."""
_HALF: Final = np.uint64(32)


class Field64(Field):
    """Field64 of the VDAF draft, one limb."""

    prime = PRIME
    limbs = 1
    two_adicity = 32
    generator = pow(7, 2**32 - 1, PRIME)

    def add(self, a: Elements, b: Elements) -> Elements:
        rest = _P - b
        wrapped: Elements = a - rest
        wrapped += (a < rest) * _P
        return wrapped

    def subtract(self, a: Elements, b: Elements) -> Elements:
        difference: Elements = a - b
        difference += (a < b) * _P
        return difference

    def multiply(self, a: Elements, b: Elements) -> Elements:
        low, high = wide_product(a, b)
        upper = high >> _HALF
        borrow = low < upper
        low -= upper
        low -= borrow * _EPSILON
        high &= _EPSILON
        middle = (high << _HALF) - high
        low += middle
        low += (low < middle) * _EPSILON
        low -= (low >= _P) * _P
        return low

    def sum(self, a: Elements, axis: int = 1) -> Elements:
        low = (a & _EPSILON).sum(axis=axis, dtype=np.uint64)
        high = (a >> _HALF).sum(axis=axis, dtype=np.uint64)
        total = self.add(low, (high & _EPSILON) << _HALF)
        return self.add(total, (high >> _HALF) * _EPSILON)


def wide_product(a: Words, b: Words) -> tuple[Words, Words]:
    """The low and the high words of the products of 64-bit words."""
    a_low, a_high = a & _EPSILON, a >> _HALF
    b_low, b_high = b & _EPSILON, b >> _HALF
    low = a_low * b_low
    middle = a_high * b_low
    middle += low >> _HALF
    other = a_low * b_high
    other += middle & _EPSILON
    high = a_high * b_high
    high += middle >> _HALF
    high += other >> _HALF
    low &= _EPSILON
    other <<= _HALF
    low |= other
    return low, high


FIELD64: Final = Field64()
