"""Prime fields with roots of unity, for arrays of elements at once: of 64 and of 128 bits.

A prime field with roots of unity of order 2^k, for arrays of elements at once.

An array of elements is `Elements`: uint64 of shape (limbs, ...), the low limb first, each element
reduced below the prime. By convention its axes are (limbs, elements of a contribution,
contributions): contributions stand last, so that a step of a transform is one long operation.

Source: VDAF draft, "Finite Fields" and "NTT-Friendly Fields". Spec: validity, section 6.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Elements: TypeAlias = NDArray[np.uint64]
"""Reduced field elements, (limbs, ...)."""
Mask: TypeAlias = NDArray[np.bool_]
Rows: TypeAlias = NDArray[np.uint8]
"""Bytes, one row per contribution."""

_WORD_BYTES = 8


class Field(ABC):
    """Arithmetic modulo a prime. Arguments broadcast as numpy's do, after the axis of limbs."""

    prime: int
    limbs: int
    """64-bit words of an element."""
    two_adicity: int
    """k, where 2^k is the largest order of a root that is used."""
    generator: int
    """A root of unity of order 2^two_adicity."""

    @abstractmethod
    def add(self, a: Elements, b: Elements) -> Elements:
        """a + b."""

    @abstractmethod
    def subtract(self, a: Elements, b: Elements) -> Elements:
        """a - b."""

    @abstractmethod
    def multiply(self, a: Elements, b: Elements) -> Elements:
        """a b."""

    @abstractmethod
    def sum(self, a: Elements, axis: int = 1) -> Elements:
        """The sum over an axis (1 or later) of fewer than 2^31 elements."""

    @property
    def element_bytes(self) -> int:
        """Bytes of an element on the wire."""
        return _WORD_BYTES * self.limbs

    @cached_property
    def two_inverse(self) -> int:
        """1/2."""
        return self.inverse_of(2)

    def inverse_of(self, value: int) -> int:
        """1 / value. ZeroDivisionError: the value is a multiple of the prime."""
        if value % self.prime == 0:
            raise ZeroDivisionError("zero has no inverse")
        return pow(value, -1, self.prime)

    def root(self, order: int) -> int:
        """A root of unity of this order. ValueError: not a power of two that the field has."""
        exponent = order.bit_length() - 1
        if order < 1 or order != 1 << exponent or exponent > self.two_adicity:
            raise ValueError(f"the field has no root of unity of order {order}")
        return pow(self.generator, 1 << (self.two_adicity - exponent), self.prime)

    def small(self, values: ArrayLike) -> Elements:
        """Elements (limbs, ...) of integers from 0 to below the prime and 2^64."""
        words = np.asarray(values).astype(np.uint64)
        elements = np.zeros((self.limbs, *words.shape), np.uint64)
        elements[0] = words
        return elements

    def elements(self, values: ArrayLike) -> Elements:
        """Elements (limbs, ...) of integers of any size and sign, by their remainders."""
        remainders = np.asarray(values, dtype=object) % self.prime
        word = (1 << 64) - 1
        parts = [
            np.asarray((remainders >> (64 * limb)) & word).astype(np.uint64)
            for limb in range(self.limbs)
        ]
        return np.stack(parts)

    def integers(self, elements: Elements) -> NDArray[np.object_]:
        """The values (...) as Python integers from 0 to below the prime."""
        values = elements[0].astype(object)
        for limb in range(1, self.limbs):
            values = values + (elements[limb].astype(object) << (64 * limb))
        return np.asarray(values, dtype=object)

    def constant(self, value: int, axes: int = 2) -> Elements:
        """One integer, with `axes` axes of length 1 after the limbs."""
        return self.elements(value).reshape(self.limbs, *(1,) * axes)

    def negate(self, a: Elements) -> Elements:
        """-a."""
        return self.subtract(np.zeros_like(a), a)

    def is_zero(self, a: Elements) -> Mask:
        """Where an element is 0, (...)."""
        return np.asarray(~a.any(axis=0))

    def power_of_two_power(self, a: Elements, exponent: int) -> Elements:
        """a^(2^exponent), by squaring."""
        for _ in range(exponent):
            a = self.multiply(a, a)
        return a

    def power(self, a: Elements, exponent: int) -> Elements:
        """a^exponent, exponent >= 0."""
        result = self.small(np.ones(a.shape[1:], np.uint64))
        for bit in bin(exponent)[2:]:
            result = self.multiply(result, result)
            if bit == "1":
                result = self.multiply(result, a)
        return result

    def inverse(self, a: Elements) -> Elements:
        """1/a by Fermat; 0 where a is 0."""
        return self.power(a, self.prime - 2)

    def below_prime(self, words: Elements) -> Mask:
        """Where unreduced words (limbs, ...) are elements, (...)."""
        below = np.zeros(words.shape[1:], np.bool_)
        equal = np.ones(words.shape[1:], np.bool_)
        for limb in reversed(range(self.limbs)):
            bound = np.uint64((self.prime >> (64 * limb)) & ((1 << 64) - 1))
            below |= equal & (words[limb] < bound)
            equal &= words[limb] == bound
        return below

    def words(self, rows: Rows) -> Elements:
        """Little-endian bytes (B, n element_bytes) as unreduced words (limbs, n, B)."""
        count = rows.shape[1] // self.element_bytes
        words = np.ascontiguousarray(rows).view("<u8")
        table = words.reshape(len(rows), count, self.limbs)
        return np.array(table.transpose(2, 1, 0), np.uint64, order="C")

    def decode(self, rows: Rows) -> tuple[Elements, Mask]:
        """Elements (limbs, n, B) of bytes (B, n element_bytes), and which rows (B,) consist of such
        elements.

        A row with a word that is not below the prime is refused, never reduced: its elements are
        returned as 0.
        """
        words = self.words(rows)
        valid = np.asarray(self.below_prime(words).all(axis=0))
        if not valid.all():
            words = np.where(valid, words, np.uint64(0))
        return words, valid

    def encode(self, elements: Elements) -> Rows:
        """Little-endian bytes (B, n element_bytes) of elements (limbs, n, B)."""
        table = np.ascontiguousarray(elements.transpose(2, 1, 0).astype("<u8", copy=False))
        words = table.reshape(len(table), table.shape[1] * self.limbs)
        return words.view(np.uint8)


# The field of p = 2^64 - 2^32 + 1, in numpy.
#
# 2^64 = 2^32 - 1 and 2^96 = -1 modulo p, so a product of 128 bits, lo + 2^64 (h0 + 2^32 h1), is
# lo + (2^32 - 1) h0 - h1. Spec: validity, section 6.

Words = NDArray[np.uint64]

PRIME_64: Final = 2**64 - 2**32 + 1
_P: Final = np.uint64(PRIME_64)
_EPSILON: Final = np.uint64(2**32 - 1)
"""2^64 modulo p; also the mask of a half word."""
_HALF: Final = np.uint64(32)


class Field64(Field):
    """Field64 of the VDAF draft, one limb."""

    prime = PRIME_64
    limbs = 1
    two_adicity = 32
    generator = pow(7, 2**32 - 1, PRIME_64)

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


# The field of p = 2^128 - 28 2^64 + 1, in numpy.
#
# 2^128 = 28 2^64 - 1 modulo p, so a product of limbs r0..r3 is
# (r0 - r2 - 28 r3) + 2^64 (r1 + 28 r2 + 783 r3), at most 811 multiples of 2^128 more than two
# limbs hold, which are folded the same way. Spec: validity, section 6.

PRIME_128: Final = 2**128 - 28 * 2**64 + 1
_P_LOW: Final = np.uint64(1)
_P_HIGH: Final = np.uint64(2**64 - 28)
_FOLD: Final = np.uint64(28)
_FOLD_TWICE: Final = np.uint64(783)
_MASK: Final = np.uint64(2**32 - 1)


class Field128(Field):
    """Field128 of the VDAF draft, two limbs."""

    prime = PRIME_128
    limbs = 2
    two_adicity = 66
    generator = pow(7, 2**62 - 7, PRIME_128)

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
