"""A privacy report in a few lines: who would have to work together to learn more, and what is not
protected. The same rows as text, as JSON and as a page; the whole report has every condition.

A brief is made of the report as JSON, so that a client reads that of a newer service too.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tacit.report.figures import short
from tacit.report.guessing import of_a_hundred

Json = Mapping[str, Any]
WIDTH: Final = 80
HEADS: Final = ("", "epsilon", "delta", "right guesses", "unit", "who works together")
"""Of the rows' cells; `right guesses`: how often the guessing game is won at most."""
ONE_UNIT: Final = {
    "record": "record",
    "path-edge": "edge of a path",
    "vertex-pair": "pair of vertices",
    "cell-entry": "entry of a cell",
}
_WHY: Final = 5
_STOP: Final = re.compile(r"[.:;](?=\s|$)")
_OPEN_BRACKET: Final = re.compile(r"\s*\([^()]*$")


@dataclass(frozen=True)
class Row:
    """What holds against one group of people. `epsilon`, `delta`: None where nothing is stated;
    `guess`: right guesses of 100 at most; `unit`: what is protected; `why`: the row's
    own reason."""

    key: str
    epsilon: str | None
    delta: str | None
    guess: int | None
    unit: str | None
    who: str
    why: str | None

    @property
    def cells(self) -> tuple[str, ...]:
        """The row for people, in the order of HEADS; figures rounded against us."""
        if self.epsilon is None:
            told: tuple[str, ...] = ("no figure", "", "")
        elif self.epsilon == "inf":
            told = ("none", "", "no limit")
        else:
            told = (_short(self.epsilon), _short(self.delta), f"{self.guess} of 100")
        return (self.key, *told, ONE_UNIT.get(self.unit or "", self.unit or ""), self.who)


@dataclass(frozen=True)
class Brief:
    """The rows of a report, and what it says is not protected, public and assumed."""

    stance: str
    rows: tuple[Row, ...]
    not_protected: tuple[str, ...]
    public: tuple[str, ...]
    assumed: tuple[str, ...]

    @property
    def lists(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The three lists with their titles; without those that are empty."""
        found = (
            ("Not protected", self.not_protected),
            ("Public", self.public),
            ("Assumed", self.assumed),
        )
        return tuple((title, lines) for title, lines in found if lines)


def brief(report: Json) -> Brief:
    """The brief of a privacy report in JSON."""
    validity = report.get("validity") or {}
    return Brief(
        stance=str(report["stance"]),
        rows=tuple(
            _row(line, number, report) for number, line in enumerate(report.get("verified") or ())
        ),
        not_protected=_unique(validity, "sentences") + _unique(report, "not_protected", "caveats"),
        public=_unique(report, "public_parameters", "post_processing"),
        assumed=_unique(report, "assumptions"),
    )


def brief_text(found: Brief, *, full: bool = False, width: int = WIDTH) -> str:
    """A brief as text: a table, and under each title the first clause of every statement; `full`:
    the statements whole."""
    table = [HEADS, *(row.cells for row in found.rows)]
    widths = [max(len(cells[place]) for cells in table) for place in range(len(HEADS) - 1)]
    indent = sum(widths) + 2 * len(widths)
    lines = [] if found.rows else ["Nothing is verified."]
    reasons = (None, *(row.why for row in found.rows))
    for cells, why in zip(table, reasons, strict=True) if found.rows else ():
        start = "".join(f"{cell:<{size}}  " for cell, size in zip(cells, widths, strict=False))
        lines += _wrapped(cells[-1], start, indent, width)
        if why is not None:
            lines += _wrapped(f"because {why}", " " * _WHY, _WHY, width)
    for title, statements in found.lists:
        if full:
            lines += [f"{title}:", *(line for each in statements for line in _item(each, width))]
        else:
            told_briefly = "; ".join(_unique_of(_first_clause(each) for each in statements))
            lines += textwrap.wrap(f"{title}: {told_briefly}.", width, subsequent_indent="  ")
    return "\n".join(lines)


def _row(line: Json, number: int, report: Json) -> Row:
    epsilon = "inf" if line.get("model") == "none" and line.get("epsilon") else line.get("epsilon")
    return Row(
        key=str(line.get("key") or chr(ord("a") + number)),
        epsilon=epsilon,
        delta=None if epsilon is None else line.get("delta"),
        guess=None if epsilon is None else of_a_hundred(line.get("guess")),
        unit=line.get("privacy_unit") or report.get("privacy_unit"),
        who=str(line.get("description") or line["scenario"]),
        why=line.get("reason"),
    )


def _short(figure: str | None) -> str:
    return "" if figure is None else short(figure)


def _unique(report: Json, *names: str) -> tuple[str, ...]:
    return _unique_of(str(each) for name in names for each in report.get(name) or ())


def _first_clause(statement: str) -> str:
    """Up to the first stop; a bracket that is open there is left out."""
    return _OPEN_BRACKET.sub("", _STOP.split(statement)[0])


def _unique_of(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _wrapped(text: str, start: str, indent: int, width: int) -> list[str]:
    room = max(width - indent, 24)
    first, *rest = textwrap.wrap(text, room) or [""]
    return [f"{start}{first}".rstrip(), *(" " * indent + line for line in rest)]


def _item(text: str, width: int) -> list[str]:
    return textwrap.wrap(f"- {text}", width, initial_indent="  ", subsequent_indent="    ")
