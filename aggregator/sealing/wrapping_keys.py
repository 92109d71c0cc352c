"""The directory of wrapping keys: one file for each seal key that is not destroyed.

The database holds secrets of seal keys under these only. So who has the database, its log, its free
pages, its archives or a backup, but not this directory, has no key. The directory may lie in
memory. Spec: keys, section 2.4.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from common.runtime.process import make_private_directory
from tacit.errors import StartRefused

WRAPPING_BYTES: Final = 32
_SUFFIX: Final = ".kek"
_GENERATION: Final = "generation"
_OWNER: Final = "owner"


class KeyDirectoryTaken(StartRefused):
    """The directory of wrapping keys belongs to another aggregator."""


class KeyDirectory:
    """Wrapping keys by number, and the highest number that was ever published. Replicas share it.

    Every change is on the disk when a method returns.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def claim(self, owner: str) -> None:
        """Keep whose directory this is. Raises KeyDirectoryTaken if it is another's: their numbers
        would be the same."""
        make_private_directory(self._path)
        try:
            self._write(self._path / _OWNER, owner.encode())
        except FileExistsError:
            if (self._path / _OWNER).read_text() != owner:
                raise KeyDirectoryTaken("the key directory is another aggregator's") from None

    def make(self, number: int) -> bytes:
        """A new wrapping key. A file of this number is one that its maker did not get to use."""
        make_private_directory(self._path)
        self.destroy(number)
        content = os.urandom(WRAPPING_BYTES)
        self._write(self._file(number), content)
        return content

    def read(self, number: int) -> bytes | None:
        """The wrapping key of this number; None where there is none."""
        try:
            return self._file(number).read_bytes()
        except FileNotFoundError:
            return None

    def destroy(self, number: int) -> None:
        """Overwrite the file of this number, and remove it; nothing if there is none."""
        path = self._file(number)
        try:
            descriptor = os.open(path, os.O_WRONLY)
        except FileNotFoundError:
            return
        try:
            os.write(descriptor, bytes(WRAPPING_BYTES))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        path.unlink(missing_ok=True)
        self._sync()

    def numbers(self) -> tuple[int, ...]:
        """The numbers of all files."""
        if not self._path.is_dir():
            return ()
        names = (path.name.removesuffix(_SUFFIX) for path in self._path.glob(f"*{_SUFFIX}"))
        return tuple(sorted(int(name) for name in names if name.isdecimal()))

    def generation(self) -> int:
        """The highest number that was ever published from here; 0 before the first."""
        try:
            return int((self._path / _GENERATION).read_text())
        except (FileNotFoundError, ValueError):
            return 0

    def published(self, number: int) -> None:
        """Keep that a number was published. It only rises."""
        make_private_directory(self._path)
        with self._alone():
            if number <= self.generation():
                return
            draft = self._path / f"{_GENERATION}.draft"
            draft.unlink(missing_ok=True)
            self._write(draft, str(number).encode())
            draft.replace(self._path / _GENERATION)
            self._sync()

    def _file(self, number: int) -> Path:
        return self._path / f"{number}{_SUFFIX}"

    def _write(self, path: Path, content: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._sync()

    def _sync(self) -> None:
        descriptor = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Replicas may publish at the same time."""
        descriptor = os.open(self._path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
