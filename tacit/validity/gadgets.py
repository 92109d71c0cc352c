"""The non-linear gates of a circuit, each a polynomial of degree 2 of its wires.

Source: VDAF draft, "Gadgets". Spec: validity, section 3.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from tacit.validity.field import Elements, Field


class Gadget(ABC):
    """A polynomial of degree 2 in `arity` variables."""

    @property
    @abstractmethod
    def arity(self) -> int:
        """Its wires."""

    @abstractmethod
    def evaluate(self, field: Field, wires: Elements) -> Elements:
        """Its values (limbs, n, B) at wires (limbs, n, arity, B)."""


@dataclass(frozen=True, slots=True)
class Multiplication(Gadget):
    """x y."""

    @property
    def arity(self) -> int:
        return 2

    def evaluate(self, field: Field, wires: Elements) -> Elements:
        return field.multiply(wires[:, :, 0], wires[:, :, 1])


@dataclass(frozen=True, slots=True)
class BitPolynomial(Gadget):
    """x^2 - x: 0 at 0 and 1 only."""

    @property
    def arity(self) -> int:
        return 1

    def evaluate(self, field: Field, wires: Elements) -> Elements:
        x = wires[:, :, 0]
        return field.subtract(field.multiply(x, x), x)


@dataclass(frozen=True, slots=True)
class ParallelSum(Gadget):
    """x_0 x_1 + x_2 x_3 + ..: `count` products."""

    count: int

    @property
    def arity(self) -> int:
        return 2 * self.count

    def evaluate(self, field: Field, wires: Elements) -> Elements:
        return field.sum(field.multiply(wires[:, :, 0::2], wires[:, :, 1::2]), axis=2)
