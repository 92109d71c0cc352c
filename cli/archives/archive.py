"""The content of a backup: a tar of the manifest, the database, files, and everybody's digest.

    manifest.json   what it is of: read and judged before anything else
    database        a SQLite file, or what pg_dump wrote
    files/...       files of the data directory, by their place in it
    digests.json    SHA-256 of every member before it

The seal around it shows every change from outside; the digests show what went wrong before the
seal: a file that changed or was cut while it was read.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, Final, Literal, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from cli.archives.envelope import CHUNK_BYTES, BackupRefused, Holder, Opener, Sealer
from common.runtime.directories import make_private_directory

DATABASE: Final = "database"
FILES: Final = "files"
_MANIFEST: Final = "manifest.json"
_DIGESTS: Final = "digests.json"
_MOST_JSON: Final = 1 << 28


class Manifest(BaseModel):
    """What a backup is of."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["tacit.backup/1"] = "tacit.backup/1"
    service: str
    name: str
    """The aggregator's id or the coordinator's deployment; empty for a curator service."""
    version: str
    schema_revision: str
    database: Literal["sqlite", "postgresql"]
    created: datetime
    """When the copy of the database was begun: nothing of later is surely in it."""


Place = Callable[[str], Path | None]
"""Where a member's content is put; None: it is looked at only."""


def write(
    file: BinaryIO, holder: Holder, manifest: Manifest, members: Iterable[tuple[str, Path]]
) -> int:
    """Seal an archive of these members into `file`; how many there are.

    A member that is gone by now is left out. Raises OSError.
    """
    sealer = Sealer(file, holder)
    digests: dict[str, str] = {}
    with tarfile.open(fileobj=cast(IO[bytes], sealer), mode="w|", format=tarfile.PAX_FORMAT) as tar:
        _add(tar, _MANIFEST, io.BytesIO(manifest.model_dump_json().encode()), digests)
        for name, path in members:
            try:
                source = path.open("rb")
            except FileNotFoundError:  # deleted since the database was copied
                continue
            with source:
                _add(tar, name, source, digests)
        count = len(digests) - 1
        _add(tar, _DIGESTS, io.BytesIO(json.dumps(digests).encode()), digests)
    sealer.finish()
    return count


@contextmanager
def opened(file: BinaryIO, holder: Holder) -> Iterator[tuple[Manifest, Callable[[Place], int]]]:
    """The manifest, and a function that reads the rest: it puts members where it is told, raises
    BackupRefused unless every digest is right, and gives their number."""
    opener = Opener(file, holder)
    try:
        with tarfile.open(fileobj=cast(IO[bytes], opener), mode="r|") as tar:
            first = tar.next()
            if first is None or first.name != _MANIFEST:
                raise BackupRefused("the backup has no manifest")
            digests: dict[str, str] = {}
            manifest = _manifest(_kept(tar, first, digests))

            def rest(place: Place) -> int:
                said = _members(tar, place, digests)
                opener.drain()
                if said != digests:
                    raise BackupRefused("a digest is wrong: the backup is no good")
                return len(digests) - 1

            yield manifest, rest
    except tarfile.TarError:
        raise BackupRefused("the backup is no archive that this command made") from None


def _members(tar: tarfile.TarFile, place: Place, digests: dict[str, str]) -> dict[str, str]:
    while (member := tar.next()) is not None:
        if member.name == _DIGESTS:
            found: dict[str, str] = json.loads(_kept(tar, member, {}))
            return found
        inside = PurePosixPath(member.name)
        if not member.isreg() or inside.is_absolute() or ".." in inside.parts:
            raise BackupRefused("the backup holds a member that does not belong there")
        path = place(member.name)
        source = tar.extractfile(member)
        assert source is not None
        if path is None:
            digests[member.name] = _copied(source, None)
        else:
            make_private_directory(path.parent)
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
            with os.fdopen(os.open(path, flags, 0o600), "wb") as target:
                digests[member.name] = _copied(source, target)
                target.flush()
                os.fsync(target.fileno())
    raise BackupRefused("the backup has no digests")


def _add(
    tar: tarfile.TarFile, name: str, source: BinaryIO | io.BytesIO, digests: dict[str, str]
) -> None:
    info = tarfile.TarInfo(name)
    info.mode = 0o600
    info.size = source.seek(0, io.SEEK_END)
    source.seek(0)
    counted = _Digesting(source)
    tar.addfile(info, cast(IO[bytes], counted))
    digests[name] = counted.digest.hexdigest()


class _Digesting(io.RawIOBase):
    """The same bytes, digested as they pass."""

    def __init__(self, source: BinaryIO | io.BytesIO) -> None:
        super().__init__()
        self._source, self.digest = source, sha256()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size)
        self.digest.update(data)
        return data


def _copied(source: IO[bytes], target: BinaryIO | io.BufferedWriter | None) -> str:
    digest = sha256()
    while data := source.read(CHUNK_BYTES):
        digest.update(data)
        if target is not None:
            target.write(data)
    return digest.hexdigest()


def _kept(tar: tarfile.TarFile, member: tarfile.TarInfo, digests: dict[str, str]) -> bytes:
    if member.size > _MOST_JSON:
        raise BackupRefused("the backup holds a member that does not belong there")
    source = tar.extractfile(member)
    content = b"" if source is None else source.read()
    digests[member.name] = sha256(content).hexdigest()
    return content


def _manifest(content: bytes) -> Manifest:
    try:
        return Manifest.model_validate_json(content)
    except ValidationError:
        raise BackupRefused("the backup is of a version that this one does not know") from None
