"""The two ways to compute, which give the same bytes, and fields small enough to exhaust."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.validity.arithmetic import NUMPY
from tacit.validity.compiled import COMPILED
from tacit.validity.field import Elements, Field

ARITHMETICS = [pytest.param(NUMPY, id="numpy"), pytest.param(COMPILED, id="compiled")]


class SmallField(Field):
    """A prime below 2^31, for searches over everything."""

    limbs = 1

    def __init__(self, prime: int, primitive: int) -> None:
        self.prime = prime
        self.two_adicity = ((prime - 1) & (1 - prime)).bit_length() - 1
        self.generator = pow(primitive, (prime - 1) >> self.two_adicity, prime)

    def add(self, a: Elements, b: Elements) -> Elements:
        return (a + b) % np.uint64(self.prime)

    def subtract(self, a: Elements, b: Elements) -> Elements:
        return (a + np.uint64(self.prime) - b) % np.uint64(self.prime)

    def multiply(self, a: Elements, b: Elements) -> Elements:
        return (a * b) % np.uint64(self.prime)

    def sum(self, a: Elements, axis: int = 1) -> Elements:
        return a.sum(axis=axis, dtype=np.uint64) % np.uint64(self.prime)


GF17 = SmallField(17, 3)
GF97 = SmallField(97, 5)
