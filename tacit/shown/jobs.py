"""A job and its result."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tacit.shown import markup
from tacit.shown.base import Shown
from tacit.shown.tables import frame


class Job(Shown):
    """A job: where it stands."""

    id: str
    algorithm: str
    stance: str
    state: str
    progress: float
    stage: str | None
    remaining_s: float | None
    error: dict[str, Any] | None
    created: datetime
    finished: datetime | None

    @property
    def over(self) -> bool:
        """Whether it has succeeded, failed or was cancelled."""
        return self.state in ("succeeded", "failed", "cancelled")

    def __str__(self) -> str:
        told = f"job {self.id}, {self.algorithm}: {self.state}"
        return told if self.over else f"{told}, {100 * self.get('progress', 0):.0f} %"

    def _repr_html_(self) -> str:
        return markup.text("p", str(self))


class JobResult(Shown):
    """What a job published."""

    summary: dict[str, Any]

    def rows(self) -> list[dict[str, Any]]:
        """The longest list of the summary as records, or one record of its single figures."""
        lists = {name: value for name, value in self.summary.items() if isinstance(value, list)}
        name = max(lists, key=lambda each: len(lists[each]), default=None)
        if name is None:
            return [dict(self.summary)]
        return [each if isinstance(each, dict) else {name: each} for each in lists[name]]

    def to_frame(self) -> Any:
        """The rows as a pandas or polars data frame, whichever is installed, else as they are."""
        return frame(self.rows())

    def _repr_html_(self) -> str:
        shown = [(name, str(value)[:200]) for name, value in self.summary.items()]
        return markup.table(["published", "value"], shown)


class Picture(bytes):
    """A plot as SVG or PNG, which a notebook draws."""

    def _repr_svg_(self) -> str | None:
        return self.decode() if self.lstrip()[:1] == b"<" else None

    def _repr_png_(self) -> bytes | None:
        return bytes(self) if self[:4] == b"\x89PNG" else None
