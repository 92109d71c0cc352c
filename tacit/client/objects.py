"""Answers with Python values and methods for notebooks: rounds; the tables, data frames and exact
figures of all; the progress of a call that waits.

A time is a datetime, an amount an exact Decimal or Fraction. `to_frame` needs pandas or polars,
`plot` matplotlib.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from html import escape
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import PlainSerializer, PlainValidator

from tacit.answers import rounds

if TYPE_CHECKING:
    from tacit.client.job_objects import Job


def text(name: str, content: str) -> str:
    """An element with this text."""
    return f"<{name}>{escape(content)}</{name}>"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts."""
    head = "".join(text("th", head) for head in heads)
    body = "".join(f"<tr>{''.join(text('td', cell) for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def folded(title: str, lines: Iterable[str]) -> str:
    """A list that opens when its title is clicked."""
    items = "".join(text("li", line) for line in lines)
    return f"<details>{text('summary', title)}<ul>{items}</ul></details>"


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


class Window(rounds.Span):
    """The readings that a round asks for: from `start`, and before `end`."""

    start: datetime  # type: ignore[assignment]
    end: datetime  # type: ignore[assignment]


class Round(rounds.RoundHead):
    """The state of a round. `participants`: of a released one."""

    opened: datetime  # type: ignore[assignment]
    deadline: datetime  # type: ignore[assignment]
    finished: datetime | None  # type: ignore[assignment]
    window: Window

    @property
    def over(self) -> bool:
        """Whether it is released or aborted."""
        return self.state in ("released", "aborted")

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"round {self.id} {self.state}{why}"

    def _repr_html_(self) -> str:
        return text("p", str(self))


def show_progress(subject: Round | Job) -> None:
    """Print the progress of a round or job; a terminal shows one line that is overwritten."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{subject}" + ("\n" if subject.over else ""))
    else:
        sys.stderr.write(f"{subject}\n")
    sys.stderr.flush()
