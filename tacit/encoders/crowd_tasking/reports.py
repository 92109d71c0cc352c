"""Crowd tasking over curators: what a curator reads in a task's encoding, and what it pays.

Spec: crowd-tasking, sections 2 and 4; jobs, "Federated jobs". The curator computes what its reports
cost from the mechanism itself, never from a figure it receives:

- unit `reading`: one reading's values differ by at most `steps` in each coordinate, so that noise
  of this scale gives k steps / scale; every reading is reported once.
- units `level` and `user`: all T rounds add up. For `user` a delta may lower the total.
- stance `paper`: no figure, whatever the mechanism is worth: the source's own noise is no better.

For a classifier the last column of a row is its label, one of the public `classes`. It is sent as
it is, by its place among them: nothing protects it, and no cost is stated for it. Another number
there is sent as the first class: an omitted row would reveal that its number is not a class.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal

import numpy as np

from tacit.accounting.randomised_response import total_epsilon
from tacit.encoders.crowd_tasking.encoder import Floats, Ints, Perturbation, perturb
from tacit.encoders.reports import Cost, EncodingRefused, LedgerUnit
from tacit.protocol.federation import Report
from tacit.randomness import NoiseSource
from tacit.wire import format_exact, parse_exact

Unit = Literal["reading", "level", "user"]
Stance = Literal["sound", "paper"]

FARTHEST: Final = 60
"""Noise scales beyond the bounds; three parts pass that with probability below 1e-23."""
MOST_LABEL: Final = 1 << 53
"""A table's numbers are doubles, which hold every whole number up to here."""


@dataclass(frozen=True)
class Encoding:
    """How a task's readings become reports: `rounds` T; `unit`, `delta` of the protection;
    `classes`: every label there is, public; none without labels."""

    perturbation: Perturbation
    rounds: int
    unit: Unit
    delta: Fraction
    stance: Stance = "sound"
    classes: tuple[int, ...] = ()

    @property
    def columns(self) -> int:
        """One for each coordinate, and one for the label."""
        return self.perturbation.dimension + self.labelled

    @property
    def labelled(self) -> bool:
        """Where there are classes."""
        return bool(self.classes)

    @property
    def most_rows(self) -> int:
        """Row i is the reading of round i."""
        return self.rounds

    @property
    def ledger_unit(self) -> LedgerUnit:
        """Levels and users are everything of a curator."""
        return "record" if self.unit == "reading" else "curator"

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
    def cost(self) -> Cost | None:
        """Of a curator's records: of one reading, or of all rounds together; None in `paper`.

        Raises EncodingRefused where two rounds would reveal a difference of readings.
        """
        if not self.fresh:
            raise EncodingRefused("no part of the noise is new in every round")
        if self.stance == "paper":
            return None
        one = self.reading_epsilon
        if self.unit == "reading":
            return Cost(one, Fraction(0))
        pure = self.rounds * one
        if self.unit == "level" or self.delta == 0 or self.rounds == 1:
            return Cost(pure, Fraction(0))
        found = total_epsilon(self.rounds, one, self.delta)
        return Cost(found, self.delta) if found < pure else Cost(pure, Fraction(0))

    @property
    def other_cost(self) -> Cost | None:
        """Of all rounds together where `cost` is one reading's; of one reading where it is not."""
        if self.stance == "paper":
            return None
        rounds = self.rounds if self.unit == "reading" else 1
        return Cost(rounds * self.reading_epsilon, Fraction(0))

    def document(self) -> dict[str, Any]:
        """As JSON without floating-point numbers."""
        plan = self.perturbation
        found: dict[str, Any] = {
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
        if self.stance == "paper":
            found["stance"] = self.stance
        if self.classes:
            found["classes"] = list(self.classes)
        return found

    def perturbed(self, rows: Mapping[str, Floats], source: NoiseSource) -> list[Report]:
        """Every report of every curator: row i is that of round i."""
        names, plan = list(rows), self.perturbation
        lengths = [len(values) for values in rows.values()]
        users = np.repeat(np.arange(len(names)), lengths)
        rounds = np.concatenate([np.arange(1, length + 1) for length in lengths])
        values = np.concatenate(list(rows.values()))
        labels: list[int | None] = [None] * len(values)
        if self.classes:
            labels = self._places(values[:, -1]).tolist()
            values = values[:, :-1]
        noisy = perturb(plan, users, rounds, plan.quantise(values), source)
        return [
            Report(curator=names[user], round=number, values=tuple(numbers), label=label)
            for user, number, numbers, label in zip(
                users.tolist(), rounds.tolist(), noisy.tolist(), labels, strict=True
            )
        ]

    def _places(self, labels: Floats) -> Ints:
        """(n,) the place of each label among the classes; 0 where it is none of them."""
        order = np.argsort(self.classes)
        known = np.array(self.classes, np.float64)[order]
        found = np.clip(np.searchsorted(known, labels), 0, known.size - 1)
        return np.asarray(np.where(known[found] == labels, order[found], 0), np.int64)

    def refusal(self, report: Report) -> str | None:
        """Noisy values beyond the bounds must occur; those that no honest device would send in a
        lifetime are refused."""
        if not self.classes and report.label is not None:
            return "the task takes no labels"
        if self.classes and (report.label is None or report.label >= len(self.classes)):
            return "a report has the place of its label among the classes"
        if not 1 <= report.round <= self.rounds:
            return f"the round lies outside 1..{self.rounds}"
        plan = self.perturbation
        if len(report.values) != plan.dimension:
            return f"a report has {plan.dimension} numbers"
        beyond = math.ceil(FARTHEST * plan.scale)
        if not all(-beyond <= value <= plan.steps + beyond for value in report.values):
            return f"a number lies more than {FARTHEST} noise scales beyond the bounds"
        return None


def read(document: Mapping[str, Any]) -> Encoding:
    """The encoding of a document. Raises ValueError, TypeError or KeyError for anything else."""
    given = dict(document)
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
    stance, classes = given.pop("stance", "sound"), tuple(given.pop("classes", ()))
    known = (
        isinstance(rounds, int)
        and rounds >= 1
        and isinstance(plan.steps, int)
        and unit in ("reading", "level", "user")
        and 0 <= delta < 1
        and stance in ("sound", "paper")
        and all(isinstance(label, int) and abs(label) <= MOST_LABEL for label in classes)
        and len(set(classes)) == len(classes) != 1
    )
    if given or not known:
        raise EncodingRefused("the document is none of crowd tasking's")
    return Encoding(plan, rounds, unit, delta, stance, classes)
