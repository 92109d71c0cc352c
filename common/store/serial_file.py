"""The highest serial number of an identity that was in use here, in a file beside the database.

It only rises, and no backup holds it. So a database that was put back from before a replacement is
recognised: others refuse its identity, and a second replacement from there would be a fork. Spec:
keys, section 5.2.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tacit.errors import StartRefused


class IdentityPutBack(StartRefused):
    """The database holds an identity from before a replacement."""


@dataclass(frozen=True)
class SerialFile:
    """One number in a file of mode 0600."""

    path: Path

    def check(self, serial: int) -> None:
        """Raise IdentityPutBack if a later identity than this one was in use."""
        newest = self.read()
        if serial < newest:
            raise IdentityPutBack(
                f"identity_superseded: the database holds identity {serial}, and {newest} was in "
                f"use ({self.path}): restore a backup of after the replacement"
            )

    def read(self) -> int:
        """The highest number; 0 before the first replacement."""
        try:
            return int(self.path.read_text("ascii"))
        except FileNotFoundError:
            return 0

    def keep(self, serial: int) -> None:
        """On the disk when this returns. It only rises."""
        if serial <= self.read():
            return
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self.path.with_name(f"{self.path.name}.{os.getpid()}.draft")
        draft.unlink(missing_ok=True)
        opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(opened, "w", encoding="ascii") as stream:
            stream.write(str(serial))
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(self.path)
        directory = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
