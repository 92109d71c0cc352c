"""What an import has done so far, and where it found something wrong."""

from __future__ import annotations

from collections import Counter
from typing import Any


class Progress:
    """What an import has done so far; its sender may ask meanwhile."""

    def __init__(self, import_id: str, max_errors: int) -> None:
        self.id, self.state = import_id, "running"
        self.lines = self.accepted = self.duplicates = self.conflicts = self.rejected = 0
        self.errors: list[dict[str, Any]] = []
        self.unknown: Counter[str] = Counter()
        self._max_errors = max_errors

    def error(
        self,
        line: int,
        column: int | None,
        detail: str,
        count: int = 1,
        *,
        element: str | None = None,
    ) -> None:
        """Report a place (of XML its element); all are counted, the first ones listed."""
        self.rejected += count
        if len(self.errors) < self._max_errors:
            place = {"line": line, "column": column}
            named = {} if element is None else {"element": element}
            self.errors.append({**place, **named, "detail": detail})

    def document(self) -> dict[str, Any]:
        """As it is answered."""
        return {
            "id": self.id,
            "state": self.state,
            "lines": self.lines,
            "accepted": self.accepted,
            "duplicates": self.duplicates,
            "conflicts": self.conflicts,
            "rejected": self.rejected,
            "unknown_curators": [name for name, _ in self.unknown.most_common(100)],
            "unknown_curators_count": len(self.unknown),
            "errors": self.errors,
        }
