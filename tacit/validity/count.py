"""Prio3Count: one element that is 0 or 1. Source: VDAF draft, "Prio3Count"."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.validity.circuit import Circuit
from tacit.validity.field import Elements, Field
from tacit.validity.gadgets import Gadget, Multiplication


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
