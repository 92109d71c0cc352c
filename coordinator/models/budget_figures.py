"""What a curator declares, and what the paper stance has it disclose, on the wire and scaled.

Scaled amounts are integers: micro-epsilon, and 10^-9 of the readings' unit for amounts of readings.
An amount that is finer or larger than that is refused, never rounded: the bounds are exact.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Final

from pydantic import Field, field_validator, model_validator

from tacit.accounting.bounds import CuratorFigures, Disclosed
from tacit.wire import Exact, WireModel, require

MICRO: Final = 10**6
NANO: Final = 10**9
MOST_EPSILON: Final = 10_000
_SALT_BYTES: Final = 16
MOST_AMOUNT: Final = 9 * 10**9
"""Scaled to 10^-9 it fits 64 bits."""


class Declaration(WireModel):
    """A curator's declared figures: its epsilon per local release, the record sensitivity Delta of
    its contribution, the largest contribution F there can be (default: max_readings * Delta)."""

    epsilon: Exact
    sensitivity: Exact
    largest_contribution: Exact | None = None
    max_readings: Annotated[int, Field(ge=1, le=1_000_000)] = 1

    @field_validator("epsilon")
    @classmethod
    def _epsilon(cls, value: Fraction) -> Fraction:
        require(0 < value <= MOST_EPSILON, value, f"must be above 0 and at most {MOST_EPSILON}")
        return require((value * MICRO).denominator == 1, value, "must be whole in millionths")

    @field_validator("sensitivity", "largest_contribution")
    @classmethod
    def _amount(cls, value: Fraction | None) -> Fraction | None:
        if value is None:
            return None
        return require(value > 0 and _scalable(value), value, _AMOUNT)

    @model_validator(mode="after")
    def _fits(self) -> Declaration:
        require(_scalable(self.largest), self, "max_readings * sensitivity is too large")
        return self

    @property
    def largest(self) -> Fraction:
        """F, declared or derived."""
        if self.largest_contribution is not None:
            return self.largest_contribution
        return self.sensitivity * self.max_readings


class Disclosure(WireModel):
    """What the paper stance has a curator disclose: D, f(x), m. Private, for operators only."""

    largest_reading: Exact
    total: Exact
    readings: Annotated[int, Field(ge=0, le=2**40)]
    negative_readings: bool = False

    @field_validator("largest_reading", "total")
    @classmethod
    def _amount(cls, value: Fraction) -> Fraction:
        return require(_scalable(abs(value)), value, _AMOUNT)

    @model_validator(mode="after")
    def _consistent(self) -> Disclosure:
        if self.negative_readings:
            return self
        least, most = self.largest_reading, self.readings * self.largest_reading
        # No value of a disclosure appears in an error.
        require(least >= 0, None, "readings that are not below 0 have no maximum below 0")
        require(least <= self.total <= most, None, "no such readings have this total and maximum")
        return self


def sealed(disclosure: Disclosure) -> tuple[str, str]:
    """(digest, text) under which a disclosure is kept: its event holds the digest alone, and a
    salt keeps that from being guessed."""
    body = secrets.token_hex(_SALT_BYTES) + disclosure.model_dump_json()
    return hashlib.sha256(body.encode()).hexdigest(), body


def reopened(digest: str, body: str) -> Disclosure:
    """The disclosure of `sealed`; ValueError for a text that was changed."""
    if hashlib.sha256(body.encode()).hexdigest() != digest:
        raise ValueError("a disclosure was changed")
    return Disclosure.model_validate_json(body[2 * _SALT_BYTES :])


def _scalable(value: Fraction) -> bool:
    return value <= MOST_AMOUNT and (value * NANO).denominator == 1


_AMOUNT: Final = f"must be above 0, at most {MOST_AMOUNT} and whole in 10^-9"


@dataclass(frozen=True, slots=True)
class Scaled:
    """A declaration as integers: micro-epsilon, 10^-9 of the unit."""

    epsilon: int
    sensitivity: int
    largest: int

    @classmethod
    def of(cls, declared: Declaration) -> Scaled:
        return cls(
            int(declared.epsilon * MICRO),
            int(declared.sensitivity * NANO),
            int(declared.largest * NANO),
        )


@dataclass(frozen=True, slots=True)
class ScaledDisclosure:
    """A disclosure as integers, 10^-9 of the unit."""

    largest_reading: int
    total: int
    readings: int
    negative: bool

    @classmethod
    def of(cls, disclosure: Disclosure) -> ScaledDisclosure:
        negative = disclosure.negative_readings
        return cls(
            int(disclosure.largest_reading * NANO),
            int(disclosure.total * NANO),
            disclosure.readings,
            negative,
        )


def exact_figures(
    declared: Scaled, disclosed: ScaledDisclosure | None, *, compliant: bool
) -> CuratorFigures:
    """The exact figures that scaled ones represent."""
    disclosure = None
    if disclosed is not None:
        disclosure = Disclosed(
            Fraction(disclosed.largest_reading, NANO),
            Fraction(disclosed.total, NANO),
            disclosed.readings,
            disclosed.negative,
        )
    return CuratorFigures(
        Fraction(declared.epsilon, MICRO),
        Fraction(declared.sensitivity, NANO),
        Fraction(declared.largest, NANO),
        disclosure,
        compliant,
    )


@dataclass(frozen=True)
class Figures:
    """Where a ledger ends, and the digest by which a rebuilt state is compared."""

    seq: int
    head: bytes
    digest: bytes
