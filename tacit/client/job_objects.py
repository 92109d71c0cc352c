"""Jobs and their results with Python values and methods for notebooks."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tacit.answers import jobs
from tacit.client.objects import frame, table, text


class Job(jobs.Job):
    """The state of a job."""

    created: datetime  # type: ignore[assignment]
    finished: datetime | None  # type: ignore[assignment]

    @property
    def over(self) -> bool:
        """Whether it has succeeded, failed or was cancelled."""
        return self.state in ("succeeded", "failed", "cancelled")

    def __str__(self) -> str:
        told = f"job {self.id}, {self.algorithm}: {self.state}"
        return told if self.over else f"{told}, {100 * self.progress:.0f} %"

    def _repr_html_(self) -> str:
        return text("p", str(self))


class JobResult(jobs.JobResult):
    """What a job published."""

    def rows(self) -> list[dict[str, Any]]:
        """The summary's main list as records: points (such as centres) with a field for each of
        `columns` and for each list that has one figure a point (such as their counts); else its
        longest list; else one record of its single figures. Files of a result are apart
        (`result_file`)."""
        lists = {name: value for name, value in self.summary.items() if isinstance(value, list)}
        columns = lists.pop("columns", [])
        for points in lists.values():
            if points and all(_is_point(point, len(columns)) for point in points):
                figures = {
                    name: value
                    for name, value in lists.items()
                    if len(value) == len(points) and not any(map(_nested, value))
                }
                return [
                    {
                        **dict(zip(columns, point, strict=True)),
                        **{name: value[place] for name, value in figures.items()},
                    }
                    for place, point in enumerate(points)
                ]
        name = max(lists, key=lambda each: len(lists[each]), default=None)
        if name is None:
            return [dict(self.summary)]
        return [each if isinstance(each, dict) else {name: each} for each in lists[name]]

    def __str__(self) -> str:
        kind = f"{self.algorithm} ({self.stance}), job {self.job}"
        fields = self.summary.items()
        single = [f"{name} {value}" for name, value in fields if not _nested(value)]
        lists = [f"{len(value)} {name}" for name, value in fields if isinstance(value, list)]
        names = [file.name for file in self.files]
        parts = (", ".join(single), ", ".join(lists), names and f"files: {', '.join(names)}")
        return "\n".join([kind, *(part for part in parts if part)])

    def to_frame(self) -> Any:
        """The rows as a pandas or polars data frame, whichever is installed, else as they are."""
        return frame(self.rows())

    def _repr_html_(self) -> str:
        shown = [(name, str(value)[:200]) for name, value in self.summary.items()]
        return table(["published", "value"], shown)


def _nested(value: object) -> bool:
    return isinstance(value, list | dict)


def _is_point(value: object, length: int) -> bool:
    """Whether it is a list of this many figures, of one or more."""
    return isinstance(value, list) and len(value) == length > 0 and not any(map(_nested, value))


class Picture(bytes):
    """A plot as SVG or PNG, which a notebook draws."""

    def _repr_svg_(self) -> str | None:
        return self.decode() if self.lstrip()[:1] == b"<" else None

    def _repr_png_(self) -> bytes | None:
        return bytes(self) if self[:4] == b"\x89PNG" else None
