"""Crowd tasking over curators: what a curator reads in a task's encoding, and what it pays.

Spec: crowd-tasking, sections 2, 4 and 10; jobs, "Federated jobs". The curator computes what its
reports cost from the mechanism itself, never from a figure it receives:

- unit `reading`: one reading's values differ by at most `steps` in each coordinate, so that noise
  of this scale gives k steps / scale; every reading is reported once. Reports `window` and `subset`
  name the epsilon of a coordinate, from which the device derives every probability.
- units `level` and `user`: all T rounds add up. For `user` a delta may lower the total.
- stance `paper`: no figure, whatever the mechanism is worth: the source's own noise is no better.

For a classifier the last column of a row is its label, one of the public `classes`. It is sent as
it is, by its place among them: nothing protects it, and no cost is stated for it. Another number
there is sent as the first class: an omitted row would reveal that its number is not a class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, Protocol

import numpy as np

from tacit.accounting.randomised_response import total_epsilon
from tacit.encoders.crowd_tasking import Floats, Ints, Perturbation
from tacit.encoders.crowd_tasking_bounded import SubsetReports, WindowReports
from tacit.encoders.sums import Cost, EncodingRefused, LedgerUnit
from tacit.protocol.federation import Report
from tacit.randomness import NoiseSource
from tacit.wire import format_exact, parse_exact

Unit = Literal["reading", "level", "user"]
Stance = Literal["sound", "paper"]

MOST_LABEL: Final = 1 << 53
"""A table's numbers are doubles, which hold every whole number up to here."""


class Mechanism(Protocol):
    """How the values of readings become the numbers of reports."""

    @property
    def dimension(self) -> int:
        """Numbers of a reading."""
        ...

    @property
    def epsilon(self) -> Fraction:
        """Of the values of one reading."""
        ...

    @property
    def fresh(self) -> bool:
        """Whether every round draws new noise."""
        ...

    def document(self) -> dict[str, Any]:
        """As JSON without floating-point numbers."""
        ...

    def numbers(
        self, users: Ints, rounds: Ints, readings: Floats, source: NoiseSource
    ) -> list[list[int]]:
        """The numbers of the report of each reading (n, k); rows sorted by user and round."""
        ...

    def refusal(self, values: Sequence[int]) -> str | None:
        """Why no honest device sends these numbers; None: one may."""
        ...


@dataclass(frozen=True)
class Encoding:
    """How a task's readings become reports: `rounds` T; `unit`, `delta` of the protection;
    `classes`: all public labels; empty without labels."""

    mechanism: Mechanism
    rounds: int
    unit: Unit
    delta: Fraction
    stance: Stance = "sound"
    classes: tuple[int, ...] = ()

    @property
    def columns(self) -> int:
        """One for each coordinate, and one for the label."""
        return self.mechanism.dimension + self.labelled

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
        """Whether no two rounds share all of their noise."""
        return self.rounds == 1 or self.mechanism.fresh

    @property
    def reading_epsilon(self) -> Fraction:
        """Of the values of one reading."""
        return self.mechanism.epsilon

    @property
    def cost(self) -> Cost | None:
        """What a curator's records cost: one reading, or all rounds together; None in `paper`.
        Raises EncodingRefused if two rounds would reveal a difference of readings."""
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
        epsilon = total_epsilon(self.rounds, one, self.delta)
        return Cost(epsilon, self.delta) if epsilon < pure else Cost(pure, Fraction(0))

    @property
    def other_cost(self) -> Cost | None:
        """All rounds together if `cost` is that of one reading, and one reading otherwise."""
        if self.stance == "paper":
            return None
        rounds = self.rounds if self.unit == "reading" else 1
        return Cost(rounds * self.reading_epsilon, Fraction(0))

    def document(self) -> dict[str, Any]:
        """As JSON without floating-point numbers."""
        content: dict[str, Any] = {
            **self.mechanism.document(),
            "rounds": self.rounds,
            "privacy_unit": self.unit,
            "delta": format_exact(self.delta),
        }
        if self.stance == "paper":
            content["stance"] = self.stance
        if self.classes:
            content["classes"] = list(self.classes)
        return content

    def perturbed(self, rows: Mapping[str, Floats], source: NoiseSource) -> list[Report]:
        """Every report of every curator: row i is that of round i."""
        names = list(rows)
        lengths = [len(values) for values in rows.values()]
        users = np.repeat(np.arange(len(names)), lengths)
        rounds = np.concatenate([np.arange(1, length + 1) for length in lengths])
        values = np.concatenate(list(rows.values()))
        labels: list[int | None] = [None] * len(values)
        if self.classes:
            labels = self._places(values[:, -1]).tolist()
            values = values[:, :-1]
        noisy = self.mechanism.numbers(users, rounds, values, source)
        return [
            Report(curator=names[user], round=number, values=tuple(numbers), label=label)
            for user, number, numbers, label in zip(
                users.tolist(), rounds.tolist(), noisy, labels, strict=True
            )
        ]

    def _places(self, labels: Floats) -> Ints:
        """(n,) the place of each label among the classes; 0 for another label."""
        order = np.argsort(self.classes)
        ordered = np.array(self.classes, np.float64)[order]
        at = np.clip(np.searchsorted(ordered, labels), 0, ordered.size - 1)
        return np.asarray(np.where(ordered[at] == labels, order[at], 0), np.int64)

    def refusal(self, report: Report) -> str | None:
        """Why a report is not taken; None: it is."""
        if not self.classes and report.label is not None:
            return "the task takes no labels"
        if self.classes and (report.label is None or report.label >= len(self.classes)):
            return "a report has the place of its label among the classes"
        if not 1 <= report.round <= self.rounds:
            return f"the round lies outside 1..{self.rounds}"
        return self.mechanism.refusal(report.values)


def read(document: Mapping[str, Any]) -> Encoding:
    """The encoding of a document. Raises ValueError, TypeError or KeyError for anything else."""
    fields = dict(document)
    mechanism = _mechanism(fields)
    rounds, unit = fields.pop("rounds"), fields.pop("privacy_unit")
    delta = parse_exact(fields.pop("delta"))
    stance, classes = fields.pop("stance", "sound"), tuple(fields.pop("classes", ()))
    valid = (
        isinstance(rounds, int)
        and rounds >= 1
        and unit in ("reading", "level", "user")
        and 0 <= delta < 1
        and stance in ("sound", "paper")
        and all(isinstance(label, int) and abs(label) <= MOST_LABEL for label in classes)
        and len(set(classes)) == len(classes) != 1
    )
    bounded = not isinstance(mechanism, Perturbation) and (classes or stance != "sound")
    if fields or bounded or not valid:
        raise EncodingRefused("the document is not one of crowd tasking's")
    return Encoding(mechanism, rounds, unit, delta, stance, classes)


def _mechanism(fields: dict[str, Any]) -> Mechanism:
    """The mechanism of a document, whose entries are taken out of it."""
    lower = tuple(float(value) for value in fields.pop("lower"))
    upper = tuple(float(value) for value in fields.pop("upper"))
    steps = fields.pop("steps")
    match fields.pop("report", "laplace"):
        case "laplace":
            scale, components = parse_exact(fields.pop("scale")), tuple(fields.pop("components"))
            persistence = parse_exact(fields.pop("persistence"))
            return Perturbation(lower, upper, steps, scale, components, persistence)
        case "window":
            epsilon = parse_exact(fields.pop("epsilon"))
            reach, mixed = fields.pop("reach"), fields.pop("mixed")
            return WindowReports(lower, upper, steps, epsilon, reach, mixed)
        case "subset":
            epsilon = parse_exact(fields.pop("epsilon"))
            edges = tuple(float(value) for value in fields.pop("edges"))
            return SubsetReports(lower, upper, steps, epsilon, edges, fields.pop("size"))
    raise EncodingRefused("a report of another kind")
