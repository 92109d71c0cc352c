"""What imports have done so far, and where they found something wrong."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from common.runtime.clock import Clock, uuid7
from curator.errors import UnknownImport

KEPT_IMPORTS: Final = 100


class Progress:
    """What an import has done so far; its sender may ask meanwhile."""

    def __init__(self, import_id: str, max_errors: int) -> None:
        self.id, self.state = import_id, "running"
        self.lines = self.accepted = self.duplicates = self.conflicts = self.rejected = 0
        self.rejected_at_intake = 0
        """Rejections that the intake counted itself."""
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


class Imports:
    """The newest imports of this process, by name; a reused name starts a new import."""

    def __init__(self, clock: Clock, max_errors: int) -> None:
        self._clock, self._max_errors = clock, max_errors
        self._kept: dict[str, Progress] = {}

    def begin(self, name: str | None) -> Progress:
        """That of a new import; without a name it gets one."""
        progress = Progress(name or str(uuid7(self._clock)), self._max_errors)
        self._kept.pop(progress.id, None)
        self._kept[progress.id] = progress
        while len(self._kept) > KEPT_IMPORTS:
            self._kept.pop(next(iter(self._kept)))
        return progress

    def find(self, name: str) -> Progress:
        """Raises UnknownImport."""
        found = self._kept.get(name)
        if found is None:
            raise UnknownImport
        return found
