"""Files sealed with the storage key, chunk by chunk, and sealed again under the current key.

A large file is never fully in memory, and never plain on disk. A file is a header (magic, the key's
generation in 4 bytes, 32 random bytes) and a sealed stream. Sealing again: the
new file is written next to the old one, read back, and renamed over it, so that a kill at any
instant leaves a file as it was, or done. Spec: keys, section 5.4.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final

from common.sealed_streams import CHUNK_BYTES, StreamOpener, StreamSealer
from coordinator.errors import StorageKeyWrong
from coordinator.storage_keys import GENERATION_BYTES, StorageKeys, sync_directory

_MAGIC: Final = b"tacit sealed 1\n"
_SALT_BYTES: Final = 32


@dataclass(frozen=True)
class Header:
    """The beginning of a sealed file. `size`: how many bytes it has."""

    generation: int
    salt: bytes
    size: int


def read_header(file: BinaryIO) -> Header:
    """That of an open file, from its beginning. Raises StorageKeyWrong."""
    magic, size = file.read(len(_MAGIC)), len(_MAGIC) + GENERATION_BYTES + _SALT_BYTES
    generation = int.from_bytes(file.read(GENERATION_BYTES), "big")
    salt = file.read(_SALT_BYTES)
    if magic != _MAGIC or len(salt) != _SALT_BYTES:
        raise StorageKeyWrong("not a sealed file")
    return Header(generation, salt, size)


def file_generation(path: Path) -> int:
    """The generation of the key that sealed a file. Raises StorageKeyWrong."""
    with path.open("rb") as file:
        return read_header(file).generation


class SealedWriter:
    """Writes a sealed file of mode 0600; it is whole only after `close`."""

    def __init__(self, path: Path, keys: StorageKeys, purpose: str) -> None:
        salt, generation = os.urandom(_SALT_BYTES), keys.generation
        key = keys.of(generation).derive(purpose, salt)
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        self._file = os.fdopen(os.open(path, flags, 0o600), "wb")
        self._file.write(_MAGIC + generation.to_bytes(GENERATION_BYTES, "big") + salt)
        self._stream = StreamSealer(self._file, key)
        self.plain_bytes = 0

    def write(self, data: bytes) -> None:
        """Append plain bytes."""
        self.plain_bytes += self._stream.write(data)

    def close(self) -> None:
        """Seal the last chunk; the content is on the disk afterwards."""
        self._stream.finish()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def abandon(self) -> None:
        """Close a file that will be removed."""
        self._file.close()


class SealedReader(StreamOpener):
    """The plain bytes of an encrypted file, seekable. Raises StorageKeyWrong if a seal is
    broken."""

    def __init__(self, path: Path, keys: StorageKeys, purpose: str) -> None:
        self._sealed = path.open("rb")
        header = read_header(self._sealed)
        key = keys.of(header.generation).derive(purpose, header.salt)
        super().__init__(
            self._sealed, key, lambda: StorageKeyWrong("the sealed file does not open")
        )

    def close(self) -> None:
        self._sealed.close()
        super().close()


def open_sealed(path: Path, keys: StorageKeys, purpose: str) -> io.BufferedReader:
    """The plain content of a sealed file, buffered by chunk."""
    return io.BufferedReader(SealedReader(path, keys, purpose), CHUNK_BYTES)


# Two processes may seal one file again at the same time: each has its own draft, and either result
# is right. A reader of the old file keeps reading it.

SUFFIX: Final = ".reseal"


def reseal_file(path: Path, keys: StorageKeys, purpose: str) -> bool:
    """Encrypt a file of chunks again with the current key; False if that was done before.
    Blocks. Raises StorageKeyWrong, FileNotFoundError for a file that is deleted meanwhile."""
    if file_generation(path) == keys.generation:
        return False
    with _replacing(path) as draft:
        writer = SealedWriter(draft, keys, purpose)
        written = sha256()
        try:
            with open_sealed(path, keys, purpose) as source:
                while data := source.read(CHUNK_BYTES):
                    written.update(data)
                    writer.write(data)
            writer.close()
        finally:
            writer.abandon()
        found = sha256()
        with open_sealed(draft, keys, purpose) as again:
            while data := again.read(CHUNK_BYTES):
                found.update(data)
        _check(found.digest() == written.digest())
    return True


def reseal_value_file(path: Path, keys: StorageKeys, purpose: str) -> bool:
    """The same of a file that is one sealed value."""
    if holds_current(path, keys):
        return False
    plain = keys.open(purpose, path.read_bytes())
    with _replacing(path) as draft:
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        with os.fdopen(os.open(draft, flags, 0o600), "wb") as file:
            file.write(keys.seal(purpose, plain))
            file.flush()
            os.fsync(file.fileno())
        _check(keys.open(purpose, draft.read_bytes()) == plain)
    return True


def holds_current(path: Path, keys: StorageKeys) -> bool:
    """Whether a file with one sealed value has the generation of the current key."""
    with path.open("rb") as file:
        return keys.is_current(file.read(16))


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A draft that replaces the file, durably, once the block ends without an error."""
    for stale in path.parent.glob(f"{path.name}.*{SUFFIX}"):
        stale.unlink(missing_ok=True)
    draft = path.with_name(f"{path.name}.{os.urandom(8).hex()}{SUFFIX}")
    try:
        yield draft
        draft.rename(path)
        sync_directory(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def _check(same: bool) -> None:
    if not same:
        raise StorageKeyWrong("a file that was sealed again does not read back")
