"""Jobs and their results with Python values and methods for notebooks."""

from __future__ import annotations

import csv
from datetime import datetime
from typing import Any, Final

from pydantic import PrivateAttr

from tacit.answers import jobs
from tacit.client.drawing import points_or_bars
from tacit.client.objects import frame, table, text
from tacit.records.text_files import cell_value

EDGES: Final = "edges.txt"
"""The file of a published graph: two vertices a line."""
LARGEST_TABLE_BYTES: Final = 16_000_000


class Job(jobs.Job):
    """The state of a job."""

    created: datetime  # type: ignore[assignment]
    finished: datetime | None  # type: ignore[assignment]

    @property
    def over(self) -> bool:
        """Whether it has succeeded, failed or was cancelled."""
        return self.state in ("succeeded", "failed", "cancelled")

    def __str__(self) -> str:
        line = f"job {self.id}, {self.algorithm}: {self.state}"
        return line if self.over else f"{line}, {100 * self.progress:.0f} %"

    def _repr_html_(self) -> str:
        return text("p", str(self))


class JobResult(jobs.JobResult):
    """What a job published."""

    _tables: dict[str, bytes] = PrivateAttr(default_factory=dict)

    def table_files(self) -> list[str]:
        """The names of the files that are tables and small enough to be fetched with a result."""
        return [
            file.name
            for file in self.files
            if (file.media_type == "text/csv" or file.name == EDGES)
            and file.bytes <= LARGEST_TABLE_BYTES
        ]

    @property
    def tables(self) -> list[str]:
        """The files that `rows` and `to_frame` can return: the client has fetched them."""
        return list(self._tables)

    def rows(self, table: str | None = None) -> list[dict[str, Any]]:
        """The rows of a file of the result (one of `tables`, by default the first); of a result
        without tables one record, its summary. Raises ValueError for another name."""
        if table is None and not self._tables:
            return [dict(self.summary)]
        table = table or self.tables[0]
        if table not in self._tables:
            raise ValueError(f"no table {table!r}; there are: {', '.join(self.tables) or 'none'}")
        lines = self._tables[table].decode().splitlines()
        edges = table == EDGES
        head, *body = csv.reader(lines, delimiter="\t" if edges else ",")
        if edges:
            head, body = ["source", "target"], [head, *body]
        return [dict(zip(head, map(cell_value, row), strict=True)) for row in body]

    def __str__(self) -> str:
        kind = f"{self.algorithm} ({self.stance}), job {self.job}"
        fields = self.summary.items()
        single = [f"{name} {value}" for name, value in fields if not _nested(value)]
        lists = [f"{len(value)} {name}" for name, value in fields if isinstance(value, list)]
        names = [file.name for file in self.files]
        parts = (", ".join(single), ", ".join(lists), names and f"files: {', '.join(names)}")
        return "\n".join([kind, *(part for part in parts if part)])

    def to_frame(self, table: str | None = None) -> Any:
        """The rows as a pandas or polars data frame, whichever is installed, else as they are."""
        return frame(self.rows(table))

    def plot(self, table: str | None = None) -> Any:
        """The rows as a matplotlib figure: points of a numeric table by their first two columns,
        each as large as its count; records with a count as bars, at most 30; other figures as
        lines. Raises MissingExtra without matplotlib, ValueError if no row has a number."""
        return points_or_bars(self.rows(table), f"{self.algorithm}, {self.stance}")

    def _repr_html_(self) -> str:
        shown = [(name, str(value)[:200]) for name, value in self.summary.items()]
        return table(["published", "value"], shown)


def _nested(value: object) -> bool:
    return isinstance(value, list | dict)


class Picture(bytes):
    """A plot as SVG or PNG, which a notebook draws."""

    def _repr_svg_(self) -> str | None:
        return self.decode() if self.lstrip()[:1] == b"<" else None

    def _repr_png_(self) -> bytes | None:
        return bytes(self) if self[:4] == b"\x89PNG" else None
