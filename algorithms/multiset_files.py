"""A published multiset of item lists as files. Spec: jobs, "Result"."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable

from algorithms.contract import ResultFile
from tacit.records.delimited import line_of, listed

Named = tuple[list[str], int]
"""The ids of a list's items, and how often it is there."""


def multiset_files(name: str, about: str, rows: Iterable[Named]) -> tuple[ResultFile, ResultFile]:
    """`name`.csv and `name`.ndjson. The ids of a list are one cell of the table (`listed`)."""
    table, lines = io.StringIO(), io.StringIO()
    table.write(line_of(("count", "length", "items")))
    for items, count in rows:
        table.write(line_of((count, len(items), listed(items))))
        lines.write(json.dumps({"items": items, "count": count}, ensure_ascii=False) + "\n")
    return (
        ResultFile(
            f"{name}.csv",
            "text/csv",
            table.getvalue().encode(),
            f"{about}; ids between blanks, in quotes where an id has one",
        ),
        ResultFile(
            f"{name}.ndjson",
            "application/x-ndjson",
            lines.getvalue().encode(),
            "the same, a JSON object a line",
        ),
    )
