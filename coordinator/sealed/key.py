"""The storage key: private data on the coordinator's disk is sealed with it.

Every purpose has its own key, derived by HKDF-SHA256, so that what was sealed for one cannot be
opened as another. Small values are sealed whole (AES-256-GCM, random nonce); files in chunks, see
`coordinator.sealed.files`. Without the key, sealed data is permanently lost.
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

from common.runtime.directories import make_private_directory
from common.store.database import exclusive
from common.store.transactions import Database, Transaction
from coordinator.errors import StorageKeyWrong
from coordinator.settings import CoordinatorSettings
from coordinator.store import registry as secrets
from tacit.wire import encode_binary, parse_binary

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
        """32 bytes that identify equal contents; nobody can test a guess: HMAC-SHA256."""
        return hmac.digest(self.derive(f"hash {purpose}"), content_digest, "sha256")


def seed_purpose(job_id: str) -> str:
    """What a job's sealed seed is bound to."""
    return f"job seed {job_id}"


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


async def prove_storage_key(database: Database, key: StorageKey) -> None:
    """Check the key against the store's own proof, made with the first one.

    Raises StorageKeyWrong: better at the start than when the first dataset cannot be read.
    """
    async with database.begin() as transaction:
        await exclusive(transaction, _PROOF)
        await _prove(transaction, key)


async def _prove(transaction: Transaction, key: StorageKey) -> None:
    known = await secrets.secret(transaction, _PROOF)
    if known is None:
        await secrets.add_secret(transaction, _PROOF, key.seal(_PROOF, b""))
    else:
        key.open(_PROOF, known)


def _parse(text: str) -> StorageKey:
    try:
        return StorageKey(parse_binary(text.strip()))
    except ValueError:
        raise StorageKeyWrong("the storage key is 32 bytes in base64url") from None


def _make(path: Path) -> None:
    """Write a new key of mode 0600; of processes that start together, all use the first one's."""
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
