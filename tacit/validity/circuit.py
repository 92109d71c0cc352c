"""A validity circuit: what a measurement has to fulfil, by linear steps and one kind of gadget; and
the gadgets.

The non-linear gates of a circuit, each a polynomial of degree 2 of its wires.

Source: VDAF draft, "Gadgets". Spec: validity, section 3.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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


# A validity circuit: what a measurement has to fulfil, by linear steps and one kind of gadget.
#
# A circuit is evaluated on additive shares as on values: its steps are linear but for the gadget,
# whose outputs on shares come from the proof. Constants are divided by the number of shares.
#
# All arrays are (limbs, elements, B) for B contributions, unless said otherwise.
#
# Source: VDAF draft, "Validity Circuits". Spec: validity, section 3.


class Circuit(ABC):
    """Calls of one gadget, linear outputs that must be 0, and the part that is summed."""

    field: Field

    @property
    @abstractmethod
    def gadget(self) -> Gadget:
        """The gadget."""

    @property
    @abstractmethod
    def calls(self) -> int:
        """How often the gadget is called."""

    @property
    @abstractmethod
    def measurement_length(self) -> int:
        """Elements of an encoded measurement."""

    @property
    @abstractmethod
    def output_length(self) -> int:
        """Elements that are summed over contributions."""

    @property
    @abstractmethod
    def joint_randomness_length(self) -> int:
        """Random elements that depend on all shares, per proof."""

    @property
    @abstractmethod
    def checks(self) -> int:
        """Outputs of the circuit that have to be 0."""

    @abstractmethod
    def inputs(self, measurement: Elements, joint_randomness: Elements, shares: int) -> Elements:
        """The gadget's inputs (limbs, calls, arity, B)."""

    @abstractmethod
    def check_values(
        self, measurement: Elements, gadget_outputs: Elements, shares: int
    ) -> Elements:
        """The outputs that must be 0, (limbs, checks, B); gadget_outputs (limbs, calls, B)."""

    @abstractmethod
    def outputs(self, measurement: Elements) -> Elements:
        """What is summed, (limbs, output_length, B)."""

    @property
    def points(self) -> int:
        """P: the wire polynomials are given by their values at the P-th roots of unity."""
        return 1 << self.calls.bit_length()

    @property
    def proof_length(self) -> int:
        """Elements of a proof: the wires' seeds, then values of the gadget polynomial."""
        return self.gadget.arity + 2 * self.points - 1

    @property
    def prove_randomness_length(self) -> int:
        """Random elements of a proof: one seed per wire."""
        return self.gadget.arity

    @property
    def query_randomness_length(self) -> int:
        """Random elements of a query: weights of the checks if there are several, and the point."""
        return 1 + (self.checks if self.checks > 1 else 0)

    @property
    def verifier_length(self) -> int:
        """Elements of a verifier: the checks combined, the wires and the gadget at the point."""
        return 2 + self.gadget.arity


@dataclass(frozen=True, slots=True)
class BoundedInteger:
    """An integer in [0, top] as bits, every one of whose 0/1 vectors is such an integer.

    The weights are 1, 2, .., 2^(b - 2), top - 2^(b - 1) + 1. Source: VDAF draft, "Prio3Sum".
    ValueError: top is below 1.
    """

    top: int

    def __post_init__(self) -> None:
        if self.top < 1:
            raise ValueError("a range has at least two values")

    @property
    def bits(self) -> int:
        """b."""
        return self.top.bit_length()

    @property
    def weights(self) -> tuple[int, ...]:
        """What the bits stand for, in their order."""
        return (*(1 << place for place in range(self.bits - 1)), self.last_weight)

    @property
    def last_weight(self) -> int:
        """top - 2^(b - 1) + 1."""
        return self.top - (1 << (self.bits - 1)) + 1

    def encode(self, values: NDArray[np.int64] | NDArray[np.object_]) -> NDArray[np.uint64]:
        """The bits (b, ...) of integers (...). ValueError: one lies outside of the range.

        Values are int64, or Python integers in an array of objects.
        """
        if ((values < 0) | (values > self.top)).any():
            raise ValueError("a value lies outside of the range that its circuit proves")
        last = np.asarray(values > (1 << (self.bits - 1)) - 1)
        rest = np.where(last, values - self.last_weight, values)
        bits = [np.asarray((rest >> place) & 1) for place in range(self.bits - 1)]
        return np.stack([*bits, last]).astype(np.uint64)

    def decode(self, field: Field, bits: Elements) -> Elements:
        """The integers (limbs, ...) of bits (limbs, b, ...), shared or not."""
        weights = field.elements(self.weights).reshape(field.limbs, -1, *(1,) * (bits.ndim - 2))
        return field.sum(field.multiply(bits, weights))
