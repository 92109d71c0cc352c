"""Kind `universe`: an ordered public list of items, each in a group or in none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO, Final

from tacit.records.text_files import MalformedRow, TooManyRows, text_lines

MAX_ITEMS: Final = 10**7


@dataclass(frozen=True)
class Universe:
    """`groups`: one entry for each item, "" for none; None where no item has a group.

    Raises ValueError for an item that occurs twice.
    """

    items: tuple[str, ...]
    groups: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if len(set(self.items)) != len(self.items):
            raise ValueError("items differ")
        if self.groups is not None and len(self.groups) != len(self.items):
            raise ValueError("a group for each item")


def read_text(stream: BinaryIO, max_items: int = MAX_ITEMS) -> Universe:
    """An id a line, optionally a tab and its group. Raises MalformedRow, TooManyRows."""
    seen: set[str] = set()
    items: list[str] = []
    groups: list[str] = []
    for row, line in text_lines(stream):
        item, *rest = line.split("\t")
        if not item.strip() or len(rest) > 1:
            raise MalformedRow(row, "an id, or an id, a tab and a group are expected")
        if item in seen:
            raise MalformedRow(row, "the id occurs twice", 1)
        if len(items) == max_items:
            raise TooManyRows(f"at most {max_items} items", extra={"max_rows": max_items})
        seen.add(item)
        items.append(item)
        groups.append(rest[0] if rest else "")
    return Universe(tuple(items), tuple(groups) if any(groups) else None)
