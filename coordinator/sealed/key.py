"""One storage key, and where storage keys are read from.

Private data on the coordinator's disk is sealed with the storage key. Every purpose has its own
key, derived by HKDF-SHA256, so that what was sealed for one cannot be opened as another. Which
generations there are, and which of them seals: `coordinator.sealed.keys`. Without its key, sealed
data is permanently lost.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from common.runtime.directories import make_private_directory
from coordinator.errors import StorageKeyWrong
from coordinator.settings import CoordinatorSettings
from tacit.wire import encode_binary, parse_binary

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
FILE_NAME: Final = "storage.key"
MOST_KEYS: Final = 2
"""Of a setting: the new key, and the one before it."""
_LABEL: Final = b"tacit storage key v1"


class StorageKey:
    """A 256-bit key and what is derived from it. It cannot be printed or pickled."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise StorageKeyWrong(f"a storage key has {KEY_BYTES} bytes")
        self._key = key

    def __reduce__(self) -> str:
        raise TypeError("a storage key stays in its process")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageKey) and hmac.compare_digest(self._key, other._key)

    def __hash__(self) -> int:
        return hash(self._key)

    def derive(self, purpose: str, salt: bytes = _LABEL) -> bytes:
        """The 32-byte key of a purpose."""
        return HKDF(SHA256(), KEY_BYTES, salt=salt, info=purpose.encode()).derive(self._key)

    def seal(self, purpose: str, plain: bytes) -> bytes:
        """Nonce, ciphertext and tag of a value, bound to its purpose."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + AESGCM(self.derive(purpose)).encrypt(nonce, plain, None)

    def open(self, purpose: str, sealed: bytes) -> bytes:
        """What was sealed for this purpose; raises StorageKeyWrong for everything else."""
        nonce, rest = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        try:
            return AESGCM(self.derive(purpose)).decrypt(nonce, rest, None)
        except (InvalidTag, ValueError):
            raise StorageKeyWrong from None

    def content_key(self, purpose: str) -> bytes:
        """The key with which equal contents are recognised."""
        return self.derive(f"hash {purpose}")

    def keyed_hash(self, purpose: str, content_digest: bytes) -> bytes:
        """32 bytes that identify equal contents; nobody can test a guess: HMAC-SHA256."""
        return hmac.digest(self.content_key(purpose), content_digest, "sha256")


@dataclass(frozen=True)
class KeySource:
    """Where this process finds storage keys: a setting with one or two lines, the newer first, or
    the data directory, in `storage.key`, and during a rotation the new one in
    `storage.key.<generation>`."""

    given: tuple[StorageKey, ...]
    directory: Path

    @classmethod
    def of(cls, settings: CoordinatorSettings) -> KeySource:
        """That of the settings. Raises StorageKeyWrong for text that is no key."""
        if settings.storage_key is None:
            return cls((), settings.data_dir)
        lines = settings.storage_key.get_secret_value().split()
        if not 0 < len(lines) <= MOST_KEYS:
            raise StorageKeyWrong("the storage key is 32 bytes in base64url, on one line or two")
        return cls(tuple(parse_key(line) for line in lines), settings.data_dir)

    def found(self) -> tuple[StorageKey, ...]:
        """All keys that are found now. Raises StorageKeyWrong for a file that holds none."""
        if self.given:
            return self.given
        texts = self._read()
        return tuple(parse_key(text.decode("ascii", "replace")) for text in texts if any(text))

    def _read(self) -> list[bytes]:
        while True:
            try:
                return [path.read_bytes() for path in self._files()]
            except FileNotFoundError:  # promoted between the list and the reading: read again
                continue

    def make_first(self) -> None:
        """The key of a store that has none yet, where the settings give none."""
        if not self.given and not any(self._files()):
            make_private_directory(self.directory)
            _write(self.directory / FILE_NAME, encode_binary(os.urandom(KEY_BYTES)))

    def keep(self, generation: int, key: StorageKey) -> None:
        """Keep a new generation's key in the data directory; it is on the disk afterwards."""
        path = self._next(generation)
        path.unlink(missing_ok=True)  # of a rotation that did not begin: it sealed nothing
        _write(path, encode_binary(key._key))

    def promote(self, generation: int) -> None:
        """Overwrite and remove the file of the key before, and let this generation's take its
        place; nothing where that is done."""
        path, old = self._next(generation), self.directory / FILE_NAME
        if not path.exists():
            return
        if old.exists():
            with old.open("r+b") as file:
                file.write(bytes(old.stat().st_size))
                file.flush()
                os.fsync(file.fileno())
            old.unlink()
        path.rename(old)
        sync_directory(self.directory)

    def _next(self, generation: int) -> Path:
        return self.directory / f"{FILE_NAME}.{generation}"

    def _files(self) -> Iterator[Path]:
        for path in sorted(self.directory.glob(f"{FILE_NAME}*")):
            suffix = path.name.removeprefix(FILE_NAME)
            if not suffix or suffix[1:].isdigit():  # others are drafts of a process
                yield path


def parse_key(text: str) -> StorageKey:
    """A key from its text. Raises StorageKeyWrong."""
    try:
        return StorageKey(parse_binary(text.strip()))
    except ValueError:
        raise StorageKeyWrong("the storage key is 32 bytes in base64url") from None


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(path: Path, text: str) -> None:
    """Write a new key of mode 0600; of processes that start together, all use the first one's."""
    draft = path.with_name(f"{FILE_NAME}.draft-{os.urandom(8).hex()}")
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return
    finally:
        draft.unlink()
    sync_directory(path.parent)
