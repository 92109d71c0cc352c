"""Answers of the API as Python objects: the base of all, privacy reports and previews, queries, and
what a query would cost. As text, as a data frame, in a notebook.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from html import escape
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any, TypeAlias

from pydantic import PlainSerializer, PlainValidator

from tacit.answers import rounds
from tacit.answers.base import Answer, read
from tacit.query.query import Query
from tacit.report.figures import short
from tacit.report.model import Subject, of_a_hundred
from tacit.report.text import HEADS, Brief, brief, brief_text


def text(name: str, content: str) -> str:
    """An element with this text."""
    return f"<{name}>{escape(content)}</{name}>"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts."""
    head = "".join(text("th", each) for each in heads)
    body = "".join(f"<tr>{''.join(text('td', cell) for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def folded(title: str, lines: Iterable[str]) -> str:
    """A list that opens when its title is clicked."""
    items = "".join(text("li", each) for each in lines)
    return f"<details>{text('summary', title)}<ul>{items}</ul></details>"


# Records as the data frame of whichever library is installed.


def frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A pandas data frame, a polars one without pandas, else a list of records. Figures are floats
    there, exact in the rows themselves."""
    plain = [{name: _plain(value) for name, value in row.items()} for row in rows]
    for library in ("pandas", "polars"):
        if find_spec(library) is not None:
            return import_module(library).DataFrame(plain)
    return plain


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal | Fraction) else value


# Amounts are exact: a Decimal, or a Fraction where the figure is one ("1/3").

Number: TypeAlias = Decimal | Fraction


def number(text: str | Number) -> Number:
    """The exact figure of a text of the API: a decimal, a fraction, or `inf`."""
    if not isinstance(text, str):
        return text
    return Fraction(text) if "/" in text else Decimal(text)


Exact = Annotated[Number, PlainValidator(number), PlainSerializer(str)]

# A privacy report as an object: in a few lines as text, in a notebook as a table. It has few fields
# of its own, so that a client reads that of a newer service too.


class Line(Answer):
    """What holds against one group of people; None where nothing is stated."""

    scenario: str
    key: str | None = None
    description: str | None = None
    epsilon: Exact | None
    delta: Exact | None
    guess: Exact | None = None
    privacy_unit: str | None = None
    conditions: list[str]
    reason: str | None = None


class Interval(rounds.Interval):
    """How far noise moves a figure at most, either way, with the probability `level`."""

    level: Exact  # type: ignore[assignment]
    half_width: Exact  # type: ignore[assignment]


class PartError(Answer):
    """How far noise will move one part of a result, in `unit`."""

    part: str
    unit: str
    mean_absolute: Exact
    standard_deviation: Exact
    interval: Interval


class Report(Answer):
    """What was claimed, what holds against whom, what is not protected."""

    stance: str
    privacy_unit: str | None = None
    verified: list[Line]
    not_protected: list[str]
    assumptions: list[str]
    caveats: list[str]
    details: dict[str, Any]

    @property
    def brief(self) -> Brief:
        """Who would have to work together to learn more, and what is not protected."""
        return brief(dict(self))

    @property
    def errors(self) -> list[PartError]:
        """How far noise moves each figure of a result, averages first; of an algorithm with figures
        of its own, empty."""
        error = self.get("error") or {}
        parts = [*(error.get("averages") or ()), *(error.get("parts") or ())]
        return [read(PartError, part) for part in parts]

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
        lists = (folded(title, lines) for title, lines in self.brief.lists)
        return table([*HEADS, "because"], rows) + "".join(lists)


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


# A query that was created.


class AskedQuery(rounds.KeptQuery):
    """A query as the coordinator keeps it, with its preview."""

    query: dict[str, Any]  # type: ignore[assignment]
    preview: Preview  # type: ignore[assignment]

    def __str__(self) -> str:
        return f"query {self.id}, {self['query']['name']}"

    def _repr_html_(self) -> str:
        return text("p", str(self)) + self.preview._repr_html_()


# What a query would cost, and how far off its result would be: no service is asked.


def price(query: Query, participants: int | None = None) -> Preview:
    """The report of a query with this many curators (default: as few as it takes), as a
    coordinator's preview would be whose aggregators each have an operator of their own."""
    # Loaded only here: a client works without the extra `proofs`.
    from tacit.report.queries import query_report

    made = query_report(
        query, subject=Subject(kind="query", id=query.name), participants=participants
    )
    return read(Preview, json.loads(made.model_dump_json()))
