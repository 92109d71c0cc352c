"""The data directory of a store: whether it is in use, while the database is empty.

Signing identities, sealed datasets and keys lie beside the database. An empty database beside them
is not a first start but a lost one: the service would be another, and every budget fresh.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy.engine import make_url

from common.runtime.directories import make_private_directory
from common.runtime.settings import ServiceSettings
from tacit.errors import StartRefused

MARK: Final = ".begun"
"""After the service's name: made at the first start, once the database has its tables."""


class StoreLost(StartRefused):
    """The database is empty, and what lies beside it is of one that was not."""


@dataclass(frozen=True)
class Home:
    """A data directory. `marker`: the file that a first start makes; `database`: its file or its
    name; `earlier`: what was found there of an earlier start, before the database was opened
    (another replica may be at its first start)."""

    marker: Path
    database: str
    earlier: Path | None

    @classmethod
    def of(cls, settings: ServiceSettings, *kept: Path) -> Home:
        """The settings' own; `kept`: the directories and files that the service makes beside its
        database."""
        url = make_url(settings.database())
        marker = settings.data_dir / f"{settings.service}{MARK}"
        earlier = next(filter(_used, kept), marker if marker.exists() else None)
        home = cls(marker, str(url.database), earlier)
        file = Path(home.database)
        if url.get_backend_name() == "sqlite" and not (file.exists() and file.stat().st_size):
            log = Path(f"{file}-wal")  # SQLite deletes the log of an empty file
            if _used(log):
                home = cls(marker, home.database, log)
            home.refuse_empty()
        return home

    def refuse_empty(self) -> None:
        """The database is empty. Raises StoreLost where it was not before."""
        if self.earlier is not None:
            raise StoreLost(
                f"the database {self.database} is missing or empty, and {self.earlier} is of an "
                "earlier start: restore the data directory from a backup (`tacit restore`), or "
                "begin anew in an empty one"
            )

    def mark(self) -> None:
        """The database has its tables from now on."""
        make_private_directory(self.marker.parent)
        self.marker.touch(mode=0o600)


def _used(place: Path) -> bool:
    if place.is_dir():
        return any(place.iterdir())
    return place.exists() and place.stat().st_size > 0
