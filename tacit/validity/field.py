"""A prime field with roots of unity of order 2^k, for arrays of elements at once.

An array of elements is `Elements`: uint64 of shape (limbs, ...), the low limb first, each element
reduced below the prime. By convention its axes are (limbs, elements of a contribution,
contributions): contributions stand last, so that a step of a transform is one long operation.

Source: VDAF draft, "Finite Fields" and "NTT-Friendly Fields". Spec: validity, section 6.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TypeAlias

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
        """Elements (limbs, n, B) of bytes (B, n element_bytes), and which rows (B,) hold only such.

        A row with a word that is not below the prime is refused, never reduced: its elements are
        given as 0.
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
