"""A privacy report as an object: in a few lines as text, in a notebook as a table."""

from __future__ import annotations

from typing import Any

from tacit.report.brief import HEADS, Brief, brief, brief_text
from tacit.report.figures import short
from tacit.report.guessing import of_a_hundred
from tacit.shown import markup
from tacit.shown.base import Number, Shown


class Line(Shown):
    """What holds against one group of people; None where nothing is stated."""

    scenario: str
    key: str | None
    description: str | None
    epsilon: Number | None
    delta: Number | None
    guess: Number | None
    privacy_unit: str | None
    conditions: list[str]
    reason: str | None


class Interval(Shown):
    """How far noise moves a figure at most, either way, with the chance `level`."""

    level: Number
    half_width: Number


class PartError(Shown):
    """How far noise will move one part of a result, in `unit`."""

    part: str
    unit: str
    mean_absolute: Number
    standard_deviation: Number
    interval: Interval


class Report(Shown):
    """What was claimed, what holds against whom, what is not protected."""

    stance: str
    privacy_unit: str | None
    verified: list[Line]
    not_protected: list[str]
    assumptions: list[str]
    caveats: list[str]
    details: dict[str, Any]

    @property
    def brief(self) -> Brief:
        """Who would have to work together to learn more, and what is not protected."""
        return brief(self)

    @property
    def errors(self) -> list[PartError]:
        """How far noise moves each figure of a result, averages first; of an algorithm with figures
        of its own, empty."""
        error = self.get("error") or {}
        return [PartError(part) for name in ("averages", "parts") for part in error.get(name) or ()]

    @property
    def accuracy(self) -> list[str]:
        """What else moves a result, in words: rounding and clamping."""
        return [str(line) for line in (self.get("error") or {}).get("sentences") or ()]

    def error_of(self, part: str) -> PartError | None:
        """How far noise moves a part."""
        return next((each for each in self.errors if each.part == part), None)

    def __str__(self) -> str:
        return brief_text(self.brief)

    def _repr_html_(self) -> str:
        rows = [(*row.cells, row.why or "") for row in self.brief.rows]
        lists = (markup.folded(title, lines) for title, lines in self.brief.lists)
        return markup.table([*HEADS, "because"], rows) + "".join(lists)


class Preview(Report):
    """The report of a query before anything is spent."""

    def __str__(self) -> str:
        return "\n".join([*map(_told, self.errors), *self.accuracy, super().__str__()])


def _told(error: PartError) -> str:
    interval = error["interval"]
    unit = "" if error.unit == "1" else f" {error.unit}"
    level = of_a_hundred(interval["level"])
    width = short(interval["half_width"])
    return f"{error.part}: ± {width}{unit} of noise in {level} of 100 cases"
