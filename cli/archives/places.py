"""What a service keeps on its disk, and how a restored state takes the place of another.

Everything is written beside its place first, under a name that no service reads, and moved there
when all of it is good: the database last. What stood there is kept under another name. Whatever
fails on the way is undone.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from cli.archives.archive import DATABASE, FILES
from cli.archives.envelope import BackupRefused
from common.runtime.directories import make_private_directory
from common.runtime.settings import ServiceSettings

MARKER: Final = "restored"
_PASSING: Final = ("incoming-", "draft-", "archive-")
_LOGS: Final = ("-wal", "-shm", "-journal")


@dataclass(frozen=True)
class Places:
    """Where a service's files lie: by their names in an archive; the database if it is a file."""

    data_dir: Path
    files: dict[str, Path]
    database: Path | None

    @classmethod
    def of(cls, settings: ServiceSettings, database: Path | None) -> Places:
        """What these settings say. A secret that the settings give is not among the files: whoever
        gives it keeps it."""
        home, files = settings.data_dir, {}
        if settings.operator_token is None:
            files["operator.token"] = home / "operator.token"
        if settings.service == "coordinator":
            given = getattr(settings, "dataset_dir", None)
            files |= {"datasets": given or home / "datasets", "jobs": home / "jobs"}
            if getattr(settings, "storage_key", None) is None:
                files["storage.key"] = home / "storage.key"
                files |= {path.name: path for path in rotated(home)}
        return cls(home, files, database)

    def members(self) -> Iterator[tuple[str, Path]]:
        """Every file with its name in an archive."""
        for name, path in self.files.items():
            if path.is_file():
                yield f"{FILES}/{name}", path
            for found in sorted(path.rglob("*")) if path.is_dir() else ():
                inside = found.relative_to(path)
                if found.is_file() and not inside.parts[0].startswith(_PASSING):
                    yield f"{FILES}/{name}/{inside.as_posix()}", found

    def taken(self) -> list[Path]:
        """What is there already, so that nothing can be restored beside it."""
        targets = [*self.files.values(), *([] if self.database is None else [self.database])]
        return [path for path in targets if _holds_something(path)]


def rotated(home: Path) -> list[Path]:
    """A coordinator's new storage key, while everything is being sealed with it."""
    return list(home.glob("storage.key.[0-9]*"))


class Drafts:
    """A restored state beside its places: `place` while it is read, then `move`, else `remove`."""

    def __init__(self, places: Places, dump: Path) -> None:
        self._places, self._dump = places, dump
        self._targets = [places.data_dir / MARKER, *places.files.values()]
        self.database = dump if places.database is None else _draft(places.database)
        if places.database is not None:
            self._targets.append(places.database)
        self.remove()  # of one that was killed
        make_private_directory(places.data_dir)
        _draft(places.data_dir / MARKER).touch(0o600)

    def place(self, member: str) -> Path:
        """Where a member of the archive is written. Raises BackupRefused for one that has none."""
        if member == DATABASE:
            return self.database
        top, name, *inside = PurePosixPath(member).parts
        target = self._places.files.get(name)
        if top != FILES or target is None:
            raise BackupRefused(
                f"the backup holds {name}, which these settings give: unset the variable"
            )
        return _draft(target).joinpath(*inside)

    def move(self, stack: ExitStack, stamp: str) -> list[Path]:
        """Put everything in its place; `stack` undoes it. Where that is kept what stood there."""
        kept = []
        for target in self._targets:
            draft = _draft(target)
            logs = _LOGS if target == self._places.database else ()
            for old in (target, *(target.with_name(target.name + log) for log in logs)):
                if old.is_dir() and not any(old.iterdir()):
                    old.rmdir()
                elif old.exists():
                    away = old.with_name(f"{old.name}.replaced-{stamp}")
                    _renamed(stack, old, away)
                    kept.append(away)
            if draft.exists():
                _renamed(stack, draft, target)
        for directory in {target.parent for target in self._targets}:
            _to_disk(directory)
        return kept

    def remove(self) -> None:
        """Nothing is left of what was not moved."""
        for draft in map(_draft, self._targets):
            if draft.is_dir():
                shutil.rmtree(draft)
            else:
                draft.unlink(missing_ok=True)
        self._dump.unlink(missing_ok=True)


def _draft(target: Path) -> Path:
    return target.with_name(f".{target.name}.restoring")


def _renamed(stack: ExitStack, source: Path, target: Path) -> None:
    source.rename(target)
    stack.callback(target.rename, source)


def _holds_something(path: Path) -> bool:
    return any(path.iterdir()) if path.is_dir() else path.exists()


def _to_disk(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
