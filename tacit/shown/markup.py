"""The few elements that a notebook shows: escaped text, tables, lists. No style but borders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


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
