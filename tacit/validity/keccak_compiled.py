"""TurboSHAKE128 of many rows, compiled; needs numba, and is imported only then.

Keccak-p[1600, 12] with rate 168 and domain byte 1. Source: FIPS 202, section 3; RFC 9861.
"""

# mypy: disable-error-code="untyped-decorator, no-untyped-def, no-untyped-call"

from __future__ import annotations

from typing import Final

import numba
import numpy as np

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
    found = np.empty((rows.shape[0], length), np.uint8)
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
            found[row, place] = (state[at >> 3] >> np.uint64(8 * (at & 7))) & np.uint64(255)
            at += 1
    return found
