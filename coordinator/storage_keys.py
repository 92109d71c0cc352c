"""Storage keys: what private data on the coordinator's disk is sealed with, by generation.

Every purpose has its own key, derived by HKDF-SHA256. The newest generation seals, and each opens
its own; a value is "TS1", its generation in 4 bytes, nonce and ciphertext. A rotation goes `idle ->
sealing -> cleaning -> idle`, one transaction each; sealing again what an older key sealed is
`coordinator.key_rotation`. Spec: keys, section 5.4.
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

from common.runtime.process import make_private_directory
from common.store.database import exclusive
from common.store.transactions import Database, Transaction
from coordinator.errors import StorageKeyRotating, StorageKeyUnavailable, StorageKeyWrong
from coordinator.settings import CoordinatorSettings
from coordinator.store import registry as store
from coordinator.store.registry import Rotation, StorageKeyRow
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
        """32 bytes that identify equal contents; without the key no guess can be tested (HMAC)."""
        return hmac.digest(self.content_key(purpose), content_digest, "sha256")


@dataclass(frozen=True)
class KeySource:
    """Where this process finds storage keys: in a setting with one or two lines, the newer
    first; or in the data directory, in `storage.key` and, during a rotation, the new one in
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
        """All keys that exist now. Raises StorageKeyWrong for a file without a key."""
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
        """Store a new generation's key in the data directory, durably."""
        path = self._next(generation)
        path.unlink(missing_ok=True)  # of a rotation that did not begin: it sealed nothing
        _write(path, encode_binary(key._key))

    def promote(self, generation: int) -> None:
        """Overwrite and remove the file of the earlier key, and move this generation's file to
        its place; a repetition changes nothing."""
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
    """Write a new key of mode 0600; processes that start together all use the first one's."""
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


# The storage keys of a process, by generation: the newest seals, and each opens its own.
#
# Spec: keys, section 5.4. A value is "TS1", its generation in 4 bytes, nonce and ciphertext. A
# rotation makes the next generation; until it has ended,
# the key of the one before still opens what was not sealed again.

CONTENT: Final = "dataset content"
"""The purpose of hashes that recognise a dataset's content."""
LOCK: Final = "storage key"
GENERATION_BYTES: Final = 4
PROOF: Final = "storage_key_proof"
_MAGIC: Final = b"TS1"
_PREFIX_BYTES: Final = len(_MAGIC) + GENERATION_BYTES
_FIRST: Final = 1


class StorageKeys:
    """The keys of this process. `generation`: of the one in use, as last read."""

    def __init__(self, source: KeySource) -> None:
        self.source = source
        self.generation = _FIRST
        self._placed: dict[int, StorageKey] = {}

    def place(self, generation: int, key: StorageKey) -> None:
        """Let a key serve a generation."""
        self._placed[generation] = key

    def of(self, generation: int) -> StorageKey:
        """A generation's key. Raises StorageKeyUnavailable.

        A rotation may begin at another process: an unknown generation then has the one key here
        that serves no generation yet. What that key did not seal does not open with it.
        """
        if generation not in self._placed:
            spare = [key for key in self.source.found() if key not in self._placed.values()]
            if len(spare) != 1:
                raise StorageKeyUnavailable(extra={"generation": generation})
            return spare[0]
        return self._placed[generation]

    # --- values ---

    def seal(self, purpose: str, plain: bytes) -> bytes:
        """A value sealed under the generation that seals now."""
        return seal_value(self.generation, self.of(self.generation), purpose, plain)

    def open(self, purpose: str, sealed: bytes) -> bytes:
        """What was sealed for this purpose. Raises StorageKeyWrong, StorageKeyUnavailable."""
        return self.of(value_generation(sealed)).open(purpose, sealed[_PREFIX_BYTES:])

    def is_current(self, sealed: bytes) -> bool:
        """Whether the first bytes of a value name the generation of the current key."""
        return sealed.startswith(_prefix(self.generation))

    def forget_before(self, generation: int) -> None:
        """Drop older keys here, and destroy what the data directory has of them."""
        for older in range(_FIRST, generation):
            self._placed.pop(older, None)
        if not self.source.given:
            self.source.promote(generation)

    # --- contents that are recognised ---

    async def content_hashes(self, transaction: Transaction, digest: bytes) -> list[bytes]:
        """What a content is kept under, of each generation, the newest first."""
        await self.hold(transaction)
        current = self.of(self.generation)
        older = await store.content_keys(transaction)
        keys = [current.content_key(CONTENT)]
        keys += [self.open(CONTENT, older[generation]) for generation in sorted(older)[::-1]]
        return [hmac.digest(key, digest, "sha256") for key in keys]

    # --- the state ---

    async def refresh(self, transaction: Transaction) -> StorageKeyRow:
        """Read which generation is current. Raises StorageKeyUnavailable: this process was
        started without the new key."""
        return await self._learn(transaction, await store.state(transaction))

    async def hold(self, transaction: Transaction) -> StorageKeyRow:
        """The same, and it stays so until the transaction ends."""
        return await self._learn(transaction, await store.held_state(transaction))

    async def _learn(self, transaction: Transaction, row: StorageKeyRow) -> StorageKeyRow:
        if row.generation not in self._placed:
            proof = (await store.proofs(transaction))[row.generation]
            key = _opening(self.source.found(), proof)
            if key is None:
                raise StorageKeyUnavailable(extra={"generation": row.generation})
            self.place(row.generation, key)
        # A reading transaction may see the store of before: the generation never goes back here.
        self.generation = max(self.generation, row.generation)
        return row

    async def admit(self, transaction: Transaction, generation: int) -> None:
        """Raise StorageKeyUnavailable if values under this generation would not be sealed again."""
        row = await self.hold(transaction)
        if generation < row.generation and row.state is not Rotation.SEALING:
            raise StorageKeyUnavailable(
                "the storage key was rotated meanwhile: send it again",
                extra={"generation": generation},
            )


def seal_value(generation: int, key: StorageKey, purpose: str, plain: bytes) -> bytes:
    """A value under the key of a generation."""
    return _prefix(generation) + key.seal(purpose, plain)


def _prefix(generation: int) -> bytes:
    return _MAGIC + generation.to_bytes(GENERATION_BYTES, "big")


def seed_purpose(job_id: str) -> str:
    """What a job's sealed seed is bound to."""
    return f"job seed {job_id}"


def value_generation(sealed: bytes) -> int:
    """The generation that a sealed value names. Raises StorageKeyWrong for any other value."""
    if not sealed.startswith(_MAGIC):
        raise StorageKeyWrong
    return int.from_bytes(sealed[len(_MAGIC) : _PREFIX_BYTES], "big")


async def open_storage_keys(database: Database, settings: CoordinatorSettings) -> StorageKeys:
    """The keys in the settings, else those of the data directory; one is made at the first start.

    Each is checked against the proof of its generation. Raises StorageKeyWrong: better at the
    start than when the first dataset cannot be read.
    """
    keys = StorageKeys(KeySource.of(settings))
    keys.source.make_first()
    async with database.begin() as transaction:
        await exclusive(transaction, LOCK)
        row, proofs = await store.state(transaction), await store.proofs(transaction)
        keys_found = keys.source.found()
        if not proofs and keys_found:
            proofs = {row.generation: keys_found[0].seal(PROOF, b"")}
            await store.add_proof(transaction, row.generation, proofs[row.generation])
    for generation, proof in proofs.items():
        key = _opening(keys_found, proof)
        if key is not None:
            keys.place(generation, key)
        elif generation == row.generation or row.state is Rotation.SEALING:
            raise StorageKeyWrong(f"the storage key of generation {generation} is not here")
    keys.generation = row.generation
    return keys


def _opening(keys: tuple[StorageKey, ...], proof: bytes) -> StorageKey | None:
    for key in keys:
        try:
            key.open(PROOF, proof)
        except StorageKeyWrong:
            continue
        return key
    return None


# The transitions of a storage key's rotation, one transaction each.
#
# Spec: keys, section 5.4. `idle -> sealing -> cleaning -> idle`. What is sealed again in between,
# and that nothing is left, is the caller's.


async def begin_rotation(database: Database, keys: StorageKeys, key: StorageKey) -> StorageKeyRow:
    """Use a new key from now on; a repetition changes nothing. Raises StorageKeyRotating while
    another rotation is in progress, StorageKeyUnavailable if the keys are in the settings and
    the new one is not among them."""
    async with database.begin() as transaction:
        await exclusive(transaction, LOCK)
        row = await keys.refresh(transaction)
        if key == keys.of(row.generation):
            return row
        if row.state is not Rotation.IDLE:
            raise StorageKeyRotating(extra={"generation": row.generation})
        begun = StorageKeyRow(row.generation + 1, Rotation.SEALING)
        if not keys.source.given:
            keys.source.keep(begun.generation, key)
        elif key not in keys.source.given:
            raise StorageKeyUnavailable(
                "start every replica with two lines in the storage key's file first: the new key, "
                "and the one of now",
                extra={"generation": begun.generation},
            )
        content_keys_kept = {
            generation: keys.open(CONTENT, sealed)
            for generation, sealed in (await store.content_keys(transaction)).items()
        }
        content_keys_kept[row.generation] = keys.of(row.generation).content_key(CONTENT)
        await store.add_proof(transaction, begun.generation, key.seal(PROOF, b""))
        for generation, content_key in content_keys_kept.items():
            sealed = seal_value(begun.generation, key, CONTENT, content_key)
            await store.put_content_key(transaction, generation, sealed)
        await store.change(transaction, begun)
    keys.place(begun.generation, key)
    keys.generation = begun.generation
    return begun


async def clean_rotation(database: Database, generation: int) -> None:
    """Accept nothing of an older generation any more."""
    await _rotation_step(database, StorageKeyRow(generation, Rotation.SEALING), Rotation.CLEANING)


async def finish_rotation(database: Database, keys: StorageKeys, generation: int) -> None:
    """Forget the older key: nothing is left that it opens."""
    async with database.begin() as transaction:
        await exclusive(transaction, LOCK)
        if await store.state(transaction) != StorageKeyRow(generation, Rotation.CLEANING):
            return
        await store.remove_proofs_before(transaction, generation)
    keys.forget_before(generation)
    await _rotation_step(database, StorageKeyRow(generation, Rotation.CLEANING), Rotation.IDLE)


async def _rotation_step(database: Database, expected: StorageKeyRow, then: Rotation) -> None:
    async with database.begin() as transaction:
        await exclusive(transaction, LOCK)
        if await store.state(transaction) == expected:
            await store.change(transaction, StorageKeyRow(expected.generation, then))
