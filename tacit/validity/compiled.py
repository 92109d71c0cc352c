"""Fields and hash, compiled; needs numba, and is imported only then.

TurboSHAKE128 of many rows, compiled; needs numba, and is imported only then.

Keccak-p[1600, 12] with rate 168 and domain byte 1. Source: FIPS 202, section 3; RFC 9861.
"""

from __future__ import annotations

from typing import Final

import numba
import numpy as np

from tacit.validity.arithmetic import Arithmetic
from tacit.validity.field import Elements, Field64, Field128, Rows

# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call"


_RATE: Final = 168
_WORDS: Final = _RATE // 8
_CONSTANTS: Final = (
    0x000000008000808B,
    0x800000000000008B,
    0x8000000000008089,
    0x8000000000008003,
    0x8000000000008002,
    0x8000000000000080,
    0x000000000000800A,
    0x800000008000000A,
    0x8000000080008081,
    0x8000000000008080,
    0x0000000080000001,
    0x8000000080008008,
)
"""Of the last 12 rounds."""
_ROUNDS: Final = np.array(_CONSTANTS, np.uint64)


@numba.njit(inline="always")
def _turned(word, places):
    return (word << np.uint64(places)) | (word >> np.uint64(64 - places))


@numba.njit(nogil=True)
def _permute(s):
    """All rounds on the state s (25,), in place; lane (x, y) is s[x + 5 y]."""
    a0, a1, a2, a3, a4 = s[0], s[1], s[2], s[3], s[4]
    b0, b1, b2, b3, b4 = s[5], s[6], s[7], s[8], s[9]
    c0, c1, c2, c3, c4 = s[10], s[11], s[12], s[13], s[14]
    d0, d1, d2, d3, d4 = s[15], s[16], s[17], s[18], s[19]
    e0, e1, e2, e3, e4 = s[20], s[21], s[22], s[23], s[24]
    for constant in _ROUNDS:
        # theta
        p0 = a0 ^ b0 ^ c0 ^ d0 ^ e0
        p1 = a1 ^ b1 ^ c1 ^ d1 ^ e1
        p2 = a2 ^ b2 ^ c2 ^ d2 ^ e2
        p3 = a3 ^ b3 ^ c3 ^ d3 ^ e3
        p4 = a4 ^ b4 ^ c4 ^ d4 ^ e4
        q0 = p4 ^ _turned(p1, 1)
        q1 = p0 ^ _turned(p2, 1)
        q2 = p1 ^ _turned(p3, 1)
        q3 = p2 ^ _turned(p4, 1)
        q4 = p3 ^ _turned(p0, 1)
        # rho and pi: row y of the next state before chi
        f0 = a0 ^ q0
        f1 = _turned(b1 ^ q1, 44)
        f2 = _turned(c2 ^ q2, 43)
        f3 = _turned(d3 ^ q3, 21)
        f4 = _turned(e4 ^ q4, 14)
        g0 = _turned(a3 ^ q3, 28)
        g1 = _turned(b4 ^ q4, 20)
        g2 = _turned(c0 ^ q0, 3)
        g3 = _turned(d1 ^ q1, 45)
        g4 = _turned(e2 ^ q2, 61)
        h0 = _turned(a1 ^ q1, 1)
        h1 = _turned(b2 ^ q2, 6)
        h2 = _turned(c3 ^ q3, 25)
        h3 = _turned(d4 ^ q4, 8)
        h4 = _turned(e0 ^ q0, 18)
        i0 = _turned(a4 ^ q4, 27)
        i1 = _turned(b0 ^ q0, 36)
        i2 = _turned(c1 ^ q1, 10)
        i3 = _turned(d2 ^ q2, 15)
        i4 = _turned(e3 ^ q3, 56)
        j0 = _turned(a2 ^ q2, 62)
        j1 = _turned(b3 ^ q3, 55)
        j2 = _turned(c4 ^ q4, 39)
        j3 = _turned(d0 ^ q0, 41)
        j4 = _turned(e1 ^ q1, 2)
        # chi and iota
        a0, a1, a2 = f0 ^ (~f1 & f2) ^ constant, f1 ^ (~f2 & f3), f2 ^ (~f3 & f4)
        a3, a4 = f3 ^ (~f4 & f0), f4 ^ (~f0 & f1)
        b0, b1, b2 = g0 ^ (~g1 & g2), g1 ^ (~g2 & g3), g2 ^ (~g3 & g4)
        b3, b4 = g3 ^ (~g4 & g0), g4 ^ (~g0 & g1)
        c0, c1, c2 = h0 ^ (~h1 & h2), h1 ^ (~h2 & h3), h2 ^ (~h3 & h4)
        c3, c4 = h3 ^ (~h4 & h0), h4 ^ (~h0 & h1)
        d0, d1, d2 = i0 ^ (~i1 & i2), i1 ^ (~i2 & i3), i2 ^ (~i3 & i4)
        d3, d4 = i3 ^ (~i4 & i0), i4 ^ (~i0 & i1)
        e0, e1, e2 = j0 ^ (~j1 & j2), j1 ^ (~j2 & j3), j2 ^ (~j3 & j4)
        e3, e4 = j3 ^ (~j4 & j0), j4 ^ (~j0 & j1)
    s[0], s[1], s[2], s[3], s[4] = a0, a1, a2, a3, a4
    s[5], s[6], s[7], s[8], s[9] = b0, b1, b2, b3, b4
    s[10], s[11], s[12], s[13], s[14] = c0, c1, c2, c3, c4
    s[15], s[16], s[17], s[18], s[19] = d0, d1, d2, d3, d4
    s[20], s[21], s[22], s[23], s[24] = e0, e1, e2, e3, e4


@numba.njit(nogil=True)
def hash_rows(rows, length):
    """Rows (B, k) of bytes to rows (B, length)."""
    digests = np.empty((rows.shape[0], length), np.uint8)
    width = rows.shape[1]
    state = np.empty(25, np.uint64)
    for row in range(rows.shape[0]):
        state[:] = 0
        at = 0
        for place in range(width):
            state[at >> 3] ^= np.uint64(rows[row, place]) << np.uint64(8 * (at & 7))
            at += 1
            if at == _RATE:
                _permute(state)
                at = 0
        state[at >> 3] ^= np.uint64(1) << np.uint64(8 * (at & 7))
        state[_WORDS - 1] ^= np.uint64(0x80) << np.uint64(56)
        _permute(state)
        at = 0
        for place in range(length):
            if at == _RATE:
                _permute(state)
                at = 0
            digests[row, place] = (state[at >> 3] >> np.uint64(8 * (at & 7))) & np.uint64(255)
            at += 1
    return digests


# Fields and hash, compiled; needs numba, and is imported only then.
#
# The same as `Field64`, `Field128` and `turboshake128`, byte for byte.

# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call"


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
    difference = a - rest
    return difference + _P if a < rest else difference


@numba.vectorize([_TERNARY])
def _subtract64(a, b):
    difference = a - b
    return difference + _P if a < b else difference


@numba.vectorize([_TERNARY])
def _multiply64(a, b):
    low, high = _wide(a, b)
    upper = high >> _HALF
    product = low - upper
    if low < upper:
        product -= _EPSILON
    middle = (high & _EPSILON) * _EPSILON
    product += middle
    if product < middle:
        product += _EPSILON
    return product - _P if product >= _P else product


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
        total: Elements = _add64(a, b)
        return total

    def subtract(self, a: Elements, b: Elements) -> Elements:
        difference: Elements = _subtract64(a, b)
        return difference

    def multiply(self, a: Elements, b: Elements) -> Elements:
        product: Elements = _multiply64(a, b)
        return product


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
    digests: Rows = hash_rows(np.ascontiguousarray(rows), length)
    return digests


COMPILED: Final = Arithmetic(CompiledField64(), CompiledField128(), compiled_turboshake128)
