"""Sealing files anew under the key of now: a kill at any instant leaves a file as it was, or done.

Spec: keys, section 5.4. The new file is written beside the old one, read back, and renamed over it.
Who reads the old one keeps reading it. Two processes may work on one file: each has a draft of its
own, and either result is right.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

from coordinator.errors import StorageKeyWrong
from coordinator.sealed.files import CHUNK_BYTES, SealedWriter, file_generation, open_sealed
from coordinator.sealed.key import sync_directory
from coordinator.sealed.keys import StorageKeys

SUFFIX: Final = ".reseal"


def reseal_file(path: Path, keys: StorageKeys, purpose: str) -> bool:
    """Seal a file of chunks anew unless that is done; whether it was not. Blocks.

    Raises StorageKeyWrong, FileNotFoundError for one that is deleted meanwhile.
    """
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
    """Whether a file with one sealed value is of the generation that seals now."""
    with path.open("rb") as file:
        return keys.is_current(file.read(16))


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A draft that takes the place of the file, durably, once the block ends well."""
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
        raise StorageKeyWrong("a file that was sealed anew does not read back")
