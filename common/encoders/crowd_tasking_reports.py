"""Crowd tasking over curators: what a curator reads in a task's encoding, and what it pays.

Spec: crowd-tasking, sections 2 and 4; jobs, "Federated jobs". The curator works out what its
reports cost from the mechanism itself, never from a figure that it is told:

- unit `reading`: one reading's values differ by at most `steps` in each coordinate, so that noise
  of this scale gives k steps / scale; every reading is reported once.
- units `level` and `user`: all T rounds add up. For `user` a delta may lower the total.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from common.accounting.randomised_response import total_epsilon
from common.encoders.crowd_tasking import Perturbation
from common.models.base import format_exact, parse_exact

Unit = Literal["reading", "level", "user"]


class TaskRefused(ValueError):
    """The encoding is none, or one under which nothing is protected."""


@dataclass(frozen=True)
class Encoding:
    """How a task's readings become reports: `rounds` T; `unit`, `delta` of the protection."""

    perturbation: Perturbation
    rounds: int
    unit: Unit
    delta: Fraction

    @property
    def fresh(self) -> bool:
        """Whether one part of the noise is new in every round."""
        plan = self.perturbation
        return (
            self.rounds == 1
            or "Y" in plan.components
            or ("L" in plan.components and plan.persistence == 0)
        )

    @property
    def reading_epsilon(self) -> Fraction:
        """Of the values of one reading."""
        plan = self.perturbation
        return plan.dimension * plan.steps / plan.scale

    @property
    def cost(self) -> tuple[Fraction, Fraction]:
        """(epsilon, delta) of a curator's records: of one reading, or of all rounds together.

        Raises TaskRefused where two rounds would reveal a difference of readings.
        """
        if not self.fresh:
            raise TaskRefused("no part of the noise is new in every round")
        one = self.reading_epsilon
        if self.unit == "reading":
            return one, Fraction(0)
        pure = self.rounds * one
        if self.unit == "level" or self.delta == 0 or self.rounds == 1:
            return pure, Fraction(0)
        found = total_epsilon(self.rounds, one, self.delta)
        return (found, self.delta) if found < pure else (pure, Fraction(0))

    def document(self) -> dict[str, Any]:
        """As JSON without floating-point numbers."""
        plan = self.perturbation
        return {
            "lower": [repr(value) for value in plan.lower],
            "upper": [repr(value) for value in plan.upper],
            "steps": plan.steps,
            "scale": format_exact(plan.scale),
            "components": list(plan.components),
            "persistence": format_exact(plan.persistence),
            "rounds": self.rounds,
            "privacy_unit": self.unit,
            "delta": format_exact(self.delta),
        }


def read(document: Mapping[str, Any]) -> Encoding:
    """The encoding of a document. Raises TaskRefused."""
    given = dict(document)
    try:
        plan = Perturbation(
            tuple(float(value) for value in given.pop("lower")),
            tuple(float(value) for value in given.pop("upper")),
            given.pop("steps"),
            parse_exact(given.pop("scale")),
            tuple(given.pop("components")),
            parse_exact(given.pop("persistence")),
        )
        rounds, unit = given.pop("rounds"), given.pop("privacy_unit")
        delta = parse_exact(given.pop("delta"))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TaskRefused("the document is none of crowd tasking's") from error
    sound = isinstance(rounds, int) and rounds >= 1 and isinstance(plan.steps, int)
    if given or not sound or unit not in ("reading", "level", "user") or not 0 <= delta < 1:
        raise TaskRefused("the document is none of crowd tasking's")
    return Encoding(plan, rounds, unit, delta)
