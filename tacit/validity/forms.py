"""Circuits of single values: integers in ranges with relations between them, and Prio3Count.

Integers in ranges, with linear and quadratic relations between them: circuit `Forms`.

The measurement is the bits of the ranged integers, one after the other, then free elements. The
gadget x^2 - x is called for each bit, which has to give 0, then for each linear form that is
squared: x^2 = (x^2 - x) + x. A relation is a linear form of integers, free elements and squares
that has to vanish. Prio3Sum is one integer without relations.

No joint randomness: what has to vanish is weighed by query randomness, which is drawn after the
contribution is fixed. Spec: validity, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tacit.validity.circuit import BitPolynomial, BoundedInteger, Circuit, Gadget, Multiplication
from tacit.validity.field import Elements, Field

LinearForm = tuple[int, ...]
"""Coefficients, one per ranged integer, then one per free element."""


@dataclass(frozen=True, slots=True)
class Relation:
    """values . form + squares . square_coefficients = 0."""

    form: LinearForm
    squares: tuple[int, ...] = ()


@dataclass(frozen=True)
class Forms(Circuit):
    """Integers in [0, top_i], free elements, squares of linear forms, relations and outputs."""

    field: Field
    ranges: tuple[BoundedInteger, ...]
    output_forms: tuple[LinearForm, ...]
    free: int = 0
    squares: tuple[LinearForm, ...] = ()
    relations: tuple[Relation, ...] = ()

    @property
    def gadget(self) -> Gadget:
        return BitPolynomial()

    @cached_property
    def bits(self) -> int:
        """Bits of all ranged integers."""
        return sum(item.bits for item in self.ranges)

    @property
    def calls(self) -> int:
        return self.bits + len(self.squares)

    @property
    def measurement_length(self) -> int:
        return self.bits + self.free

    @property
    def output_length(self) -> int:
        return len(self.output_forms)

    @property
    def joint_randomness_length(self) -> int:
        return 0

    @property
    def checks(self) -> int:
        return self.bits + len(self.relations)

    def inputs(self, measurement: Elements, joint_randomness: Elements, shares: int) -> Elements:  # noqa: ARG002
        return self._called(measurement)[:, :, np.newaxis]

    def check_values(
        self,
        measurement: Elements,
        gadget_outputs: Elements,
        shares: int,  # noqa: ARG002
    ) -> Elements:
        if not self.relations:
            return gadget_outputs
        values = self._values(measurement)
        squared = self.field.add(
            gadget_outputs[:, self.bits :], self._combined(self.squares, values)
        )
        outputs = [gadget_outputs[:, : self.bits], self._combined(self._forms(), values)]
        for place, relation in enumerate(self.relations):
            if relation.squares:
                part = self._combined((relation.squares,), squared)
                outputs[1][:, place : place + 1] = self.field.add(
                    outputs[1][:, place : place + 1], part
                )
        return np.concatenate(outputs, axis=1)

    def outputs(self, measurement: Elements) -> Elements:
        return self._combined(self.output_forms, self._values(measurement))

    def encode(self, values: Sequence[NDArray[np.int64] | NDArray[np.object_]]) -> Elements:
        """The measurement (limbs, n, B) of the integers, then the free elements: arrays (B,).

        ValueError: an integer lies outside of its range. Relations are not checked here.
        """
        ranged = zip(self.ranges, values, strict=False)
        bits = np.concatenate([item.encode(value) for item, value in ranged])
        free = [self.field.elements(value[np.newaxis]) for value in values[len(self.ranges) :]]
        return np.concatenate([self.field.small(bits), *free], axis=1)

    def _forms(self) -> tuple[LinearForm, ...]:
        return tuple(relation.form for relation in self.relations)

    def _called(self, measurement: Elements) -> Elements:
        """What the gadget is called with, (limbs, calls, B)."""
        bits = measurement[:, : self.bits]
        if not self.squares:
            return bits
        squared = self._combined(self.squares, self._values(measurement))
        return np.concatenate((bits, squared), axis=1)

    def _values(self, measurement: Elements) -> Elements:
        """The ranged integers and the free elements, (limbs, count, B)."""
        weighted = self.field.multiply(measurement[:, : self.bits], self._weights)
        values, start = [], 0
        for item in self.ranges:
            values.append(self.field.sum(weighted[:, start : start + item.bits]))
            start += item.bits
        return np.concatenate((np.stack(values, axis=1), measurement[:, self.bits :]), axis=1)

    @cached_property
    def _weights(self) -> Elements:
        weights = [weight for item in self.ranges for weight in item.weights]
        return self.field.elements(weights)[..., np.newaxis]

    def _combined(self, forms: tuple[LinearForm, ...], values: Elements) -> Elements:
        """The linear forms of values (limbs, count, B), (limbs, forms, B)."""
        if not forms:
            return values[:, :0]
        combinations = []
        for form in forms:
            total = np.zeros_like(values[:, 0])
            for place, coefficient in enumerate(form):
                if coefficient:
                    factor = self.field.constant(coefficient, axes=1)
                    total = self.field.add(total, self.field.multiply(values[:, place], factor))
            combinations.append(total)
        return np.stack(combinations, axis=1)


def sum_circuit(field: Field, top: int) -> Forms:
    """Prio3Sum: an integer in [0, top]. Source: VDAF draft, "Prio3Sum"."""
    return Forms(field, (BoundedInteger(top),), output_forms=((1,),))


# Prio3Count: one element that is 0 or 1. Source: VDAF draft, "Prio3Count".


@dataclass(frozen=True)
class Count(Circuit):
    """x^2 - x = 0 by one multiplication."""

    field: Field

    @property
    def gadget(self) -> Gadget:
        return Multiplication()

    @property
    def calls(self) -> int:
        return 1

    @property
    def measurement_length(self) -> int:
        return 1

    @property
    def output_length(self) -> int:
        return 1

    @property
    def joint_randomness_length(self) -> int:
        return 0

    @property
    def checks(self) -> int:
        return 1

    def inputs(self, measurement: Elements, joint_randomness: Elements, shares: int) -> Elements:  # noqa: ARG002
        return np.stack((measurement, measurement), axis=2)

    def check_values(
        self,
        measurement: Elements,
        gadget_outputs: Elements,
        shares: int,  # noqa: ARG002
    ) -> Elements:
        return self.field.subtract(gadget_outputs, measurement)

    def outputs(self, measurement: Elements) -> Elements:
        return measurement

    def encode(self, values: NDArray[np.int64]) -> Elements:
        """The measurement (limbs, 1, B) of values (B,). ValueError: one is neither 0 nor 1."""
        if ((values < 0) | (values > 1)).any():
            raise ValueError("a value lies outside of the range that its circuit proves")
        return self.field.small(values[np.newaxis])
