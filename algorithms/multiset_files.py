"""A published multiset of item lists as files. Spec: jobs, "Result"."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable

from algorithms.contract import ResultFile

Named = tuple[list[str], int]
"""The ids of a list's items, and how often it is there."""


def multiset_files(name: str, about: str, rows: Iterable[Named]) -> tuple[ResultFile, ResultFile]:
    """`name`.csv, with ids separated by blanks, and `name`.ndjson, for ids with blanks."""
    table, lines = io.StringIO(), io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(("count", "length", "items"))
    for items, count in rows:
        writer.writerow((count, len(items), " ".join(items)))
        lines.write(json.dumps({"items": items, "count": count}, ensure_ascii=False) + "\n")
    return (
        ResultFile(
            f"{name}.csv",
            "text/csv",
            table.getvalue().encode(),
            f"{about}; ids separated by blanks",
        ),
        ResultFile(
            f"{name}.ndjson",
            "application/x-ndjson",
            lines.getvalue().encode(),
            "the same, a JSON object a line",
        ),
    )
