"""The storage key: what lies on the coordinator's disk is sealed with it.

Every purpose has a key of its own, derived by HKDF-SHA256, so that what was sealed for one cannot
be opened as another. Small values are sealed whole (AES-256-GCM, random nonce); files in chunks,
see `coordinator.sealed_files`. Who loses the key loses what was sealed.
"""

from __future__ import annotations

import hmac
import os
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from common.models.base import encode_binary, parse_binary
from common.service.database import exclusive, make_private_directory
from coordinator.errors import StorageKeyWrong
from coordinator.settings import CoordinatorSettings
from coordinator.store import registry as secrets

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
FILE_NAME: Final = "storage.key"
_LABEL: Final = b"tacit storage key v1"
_PROOF: Final = "storage_key_proof"


class StorageKey:
    """A 256-bit key and what is derived from it. It cannot be printed or pickled."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise StorageKeyWrong(f"a storage key has {KEY_BYTES} bytes")
        self._key = key

    def __reduce__(self) -> str:
        raise TypeError("a storage key stays in its process")

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

    def keyed_hash(self, purpose: str, content_digest: bytes) -> bytes:
        """32 bytes that tell equal contents without letting anybody test a guess: HMAC-SHA256."""
        return hmac.digest(self.derive(f"hash {purpose}"), content_digest, "sha256")


def load_storage_key(settings: CoordinatorSettings) -> StorageKey:
    """The key that the settings give, else that of the data directory, made at the first start.

    Raises StorageKeyWrong for text that is no key.
    """
    if settings.storage_key is not None:
        return _parse(settings.storage_key.get_secret_value())
    path = settings.data_dir / FILE_NAME
    if not path.exists():
        make_private_directory(settings.data_dir)
        _make(path)
    return _parse(path.read_text("ascii"))


async def prove_storage_key(engine: AsyncEngine, key: StorageKey) -> None:
    """Hold the key against the store's own proof, made with the first one.

    Raises StorageKeyWrong: better at the start than when the first dataset cannot be read.
    """
    async with engine.begin() as connection:
        await exclusive(connection, _PROOF)
        await _prove(connection, key)


async def _prove(connection: AsyncConnection, key: StorageKey) -> None:
    known = await secrets.secret(connection, _PROOF)
    if known is None:
        await secrets.add_secret(connection, _PROOF, key.seal(_PROOF, b""))
    else:
        key.open(_PROOF, known)


def _parse(text: str) -> StorageKey:
    try:
        return StorageKey(parse_binary(text.strip()))
    except ValueError:
        raise StorageKeyWrong("the storage key is 32 bytes in base64url") from None


def _make(path: Path) -> None:
    """Write a new key of mode 0600; whoever starts at the same instant takes the first one's."""
    text = encode_binary(os.urandom(KEY_BYTES)).encode() + b"\n"
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return
    finally:
        draft.unlink()
