"""Fields and hash, compiled; needs numba, and is imported only then.

The same as `Field64`, `Field128` and `turboshake128`, byte for byte.
"""

# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call"

from __future__ import annotations

from typing import Final

import numba
import numpy as np

from tacit.validity.arithmetic import Arithmetic
from tacit.validity.field import Elements, Rows
from tacit.validity.field64 import Field64
from tacit.validity.field128 import Field128
from tacit.validity.keccak_compiled import hash_rows

_P: Final = np.uint64(2**64 - 2**32 + 1)
_EPSILON: Final = np.uint64(2**32 - 1)
_HALF: Final = np.uint64(32)
_P_HIGH: Final = np.uint64(2**64 - 28)
_FOLD: Final = np.uint64(28)
_FOLD_TWICE: Final = np.uint64(783)
_ZERO: Final = np.uint64(0)
_ONE: Final = np.uint64(1)
_TERNARY: Final = "uint64(uint64, uint64)"
_PAIRS: Final = "void(uint64, uint64, uint64, uint64, uint64[:], uint64[:])"
_LAYOUT: Final = "(),(),(),()->(),()"


@numba.njit(inline="always")
def _wide(a, b):
    a_low, a_high = a & _EPSILON, a >> _HALF
    b_low, b_high = b & _EPSILON, b >> _HALF
    low = a_low * b_low
    middle = a_high * b_low + (low >> _HALF)
    other = a_low * b_high + (middle & _EPSILON)
    high = a_high * b_high + (middle >> _HALF) + (other >> _HALF)
    return (other << _HALF) | (low & _EPSILON), high


@numba.vectorize([_TERNARY])
def _add64(a, b):
    rest = _P - b
    found = a - rest
    return found + _P if a < rest else found


@numba.vectorize([_TERNARY])
def _subtract64(a, b):
    found = a - b
    return found + _P if a < b else found


@numba.vectorize([_TERNARY])
def _multiply64(a, b):
    low, high = _wide(a, b)
    upper = high >> _HALF
    found = low - upper
    if low < upper:
        found -= _EPSILON
    middle = (high & _EPSILON) * _EPSILON
    found += middle
    if found < middle:
        found += _EPSILON
    return found - _P if found >= _P else found


@numba.njit(inline="always")
def _reduced(low, high, over):
    if over or high > _P_HIGH or (high == _P_HIGH and low >= _ONE):
        borrow = _ONE if low == _ZERO else _ZERO
        return low - _ONE, high - _P_HIGH - borrow
    return low, high


@numba.guvectorize([_PAIRS], _LAYOUT)
def _add128(a0, a1, b0, b1, low_out, high_out):
    low = a0 + b0
    carry = _ONE if low < a0 else _ZERO
    high = a1 + b1
    over = high < a1
    high += carry
    over = over or high < carry
    low_out[0], high_out[0] = _reduced(low, high, over)


@numba.guvectorize([_PAIRS], _LAYOUT)
def _subtract128(a0, a1, b0, b1, low_out, high_out):
    low = a0 - b0
    high = a1 - b1
    borrow = _ONE if a0 < b0 else _ZERO
    under = a1 < b1 or high < borrow
    high -= borrow
    if under:
        low += _ONE
        high += _P_HIGH
        if low == _ZERO:
            high += _ONE
    low_out[0] = low
    high_out[0] = high


@numba.guvectorize([_PAIRS], _LAYOUT)
def _multiply128(a0, a1, b0, b1, low_out, high_out):
    r0, r1 = _wide(a0, b0)
    low, high = _wide(a0, b1)
    r1 += low
    r2 = high + (_ONE if r1 < low else _ZERO)
    low, high = _wide(a1, b0)
    r1 += low
    high += _ONE if r1 < low else _ZERO
    r2 += high
    r3 = _ONE if r2 < high else _ZERO
    low, high = _wide(a1, b1)
    r2 += low
    r3 += high + (_ONE if r2 < low else _ZERO)

    # r0 - r2 - 28 r3 + 2^64 (r1 + 28 r2 + 783 r3), as `field128` says.
    part, less = _wide(r3, _FOLD)
    low = r0 - r2
    less += _ONE if r0 < r2 else _ZERO
    less += _ONE if low < part else _ZERO
    low -= part
    part, excess = _wide(r2, _FOLD)
    high = r1 + part
    excess += _ONE if high < part else _ZERO
    part, more = _wide(r3, _FOLD_TWICE)
    high += part
    excess += more + (_ONE if high < part else _ZERO)
    excess -= _ONE if high < less else _ZERO
    high -= less
    borrow = _ONE if low < excess else _ZERO
    low -= excess
    more = excess * _FOLD - borrow
    high += more
    if high < more:
        borrow = _ONE if low == _ZERO else _ZERO
        low -= _ONE
        high += _FOLD - borrow
    low_out[0], high_out[0] = _reduced(low, high, False)


class CompiledField64(Field64):
    """`Field64` in one pass per operation."""

    def add(self, a: Elements, b: Elements) -> Elements:
        found: Elements = _add64(a, b)
        return found

    def subtract(self, a: Elements, b: Elements) -> Elements:
        found: Elements = _subtract64(a, b)
        return found

    def multiply(self, a: Elements, b: Elements) -> Elements:
        found: Elements = _multiply64(a, b)
        return found


class CompiledField128(Field128):
    """`Field128` in one pass per operation."""

    def add(self, a: Elements, b: Elements) -> Elements:
        return np.stack(_add128(a[0], a[1], b[0], b[1]))

    def subtract(self, a: Elements, b: Elements) -> Elements:
        return np.stack(_subtract128(a[0], a[1], b[0], b[1]))

    def multiply(self, a: Elements, b: Elements) -> Elements:
        return np.stack(_multiply128(a[0], a[1], b[0], b[1]))


def compiled_turboshake128(rows: Rows, length: int) -> Rows:
    """TurboSHAKE128 of each row (B, k), domain byte 1: (B, length)."""
    found: Rows = hash_rows(np.ascontiguousarray(rows), length)
    return found


COMPILED: Final = Arithmetic(CompiledField64(), CompiledField128(), compiled_turboshake128)
