"""Sealed files for a passphrase or a recipient's key: the sealed stream, a service's next key pair,
and `tacit recipient-key`.

A sealed stream for one holder: of a passphrase, or of a private key.

The content is a sealed stream after a header. Its key is random and lies in the header: sealed by
HPKE (RFC 9180) with X-Wing (spec: keys, section 2.7), or under a key that scrypt (RFC 7914) derives
from the passphrase. The whole header is bound into the content.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, BinaryIO, Final, Protocol

import typer
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from cli.context import Answer, printed
from common.sealed_streams import CHUNK_BYTES, StreamOpener, StreamSealer
from tacit.crypto.sealing import SealBroken, SealKey, SealPublicKey
from tacit.crypto.signing import SECRET_BYTES
from tacit.wire import encode_binary, parse_binary

MAGIC: Final = b"tacit backup 1\n"
_KEY_BYTES: Final = 32
_SALT_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_MOST_WRAPPED: Final = 2048
_NEEDED: Final = {
    b"p": "a passphrase",
    b"x": "a private key (tctkey_...)",
}
"""By the byte of the header."""
_SCRYPT_N: Final = 2**17
"""With r = 8: 128 MiB and some tenths of a second for each guess."""


class BackupRefused(ValueError):
    """The archive, the key or the target is not valid; the message is one line."""


class Holder(Protocol):
    """The holder of a sealed file: wraps and unwraps the key of its content."""

    @property
    def kind(self) -> bytes:
        """The byte of the header for the kind of key."""

    def wrap(self, key: bytes, salt: bytes) -> bytes:
        """The wrapped key, as in the header."""

    def unwrap(self, wrapped: bytes, salt: bytes) -> bytes:
        """The key. Raises InvalidTag or ValueError for another holder."""


@dataclass(frozen=True, repr=False)
class Passphrase:
    """Anyone who knows this text."""

    text: str
    kind: bytes = b"p"

    def wrap(self, key: bytes, salt: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + AESGCM(self._derived(salt)).encrypt(nonce, key, MAGIC)

    def unwrap(self, wrapped: bytes, salt: bytes) -> bytes:
        nonce, rest = wrapped[:_NONCE_BYTES], wrapped[_NONCE_BYTES:]
        return AESGCM(self._derived(salt)).decrypt(nonce, rest, MAGIC)

    def _derived(self, salt: bytes) -> bytes:
        return Scrypt(salt, _KEY_BYTES, n=_SCRYPT_N, r=8, p=1).derive(self.text.encode())


@dataclass(frozen=True, repr=False)
class Recipient:
    """Anyone who has the private key; the public key is enough to seal. It is secure while X25519
    or ML-KEM-768 is."""

    public: SealPublicKey
    private: SealKey | None = None
    kind: bytes = b"x"

    def wrap(self, key: bytes, salt: bytes) -> bytes:
        return self.public.seal(key, MAGIC + salt)

    def unwrap(self, wrapped: bytes, salt: bytes) -> bytes:
        if self.private is None:
            raise ValueError("a public key cannot open a file")
        return self.private.open(wrapped, MAGIC + salt)


class Sealer(StreamSealer):
    """Seals plain bytes into `file`; the file is complete only after `finish`."""

    def __init__(self, file: BinaryIO, holder: Holder) -> None:
        key, salt = os.urandom(_KEY_BYTES), os.urandom(_SALT_BYTES)
        wrapped = holder.wrap(key, salt)
        header = MAGIC + holder.kind + salt + len(wrapped).to_bytes(2, "big") + wrapped
        file.write(header)
        super().__init__(file, _bound(key, header))


class Opener(StreamOpener):
    """The plain bytes of a sealed file, from its beginning to its end. Raises BackupRefused if
    it was sealed for another holder, or if anything was altered."""

    def __init__(self, file: BinaryIO, holder: Holder) -> None:
        key = _bound(*_unwrapped(file, holder))
        super().__init__(file, key, lambda: BackupRefused("the backup was altered or truncated"))

    def drain(self) -> None:
        """Read to the end, which detects a truncated file."""
        while self.read(CHUNK_BYTES):
            pass


def _unwrapped(file: BinaryIO, holder: Holder) -> tuple[bytes, bytes]:
    """(key, header) of a sealed file."""
    start = file.read(len(MAGIC) + 1 + _SALT_BYTES + 2)
    magic, rest = start[: len(MAGIC)], start[len(MAGIC) :]
    if magic != MAGIC or len(rest) != 1 + _SALT_BYTES + 2:
        raise BackupRefused("not a backup of this kind, or of a newer version")
    kind, salt, length = rest[:1], rest[1:-2], int.from_bytes(rest[-2:], "big")
    if kind != holder.kind:
        needed = _NEEDED.get(kind)
        raise BackupRefused(f"the backup opens with {needed}" if needed else "not a backup")
    wrapped = file.read(min(length, _MOST_WRAPPED))
    try:
        return holder.unwrap(wrapped, salt), start + wrapped
    except (InvalidTag, SealBroken, ValueError):
        raise BackupRefused(
            "the key does not open this backup, or the backup was altered"
        ) from None


def _bound(key: bytes, header: bytes) -> bytes:
    """The key of the content under this header."""
    return HKDF(SHA256(), _KEY_BYTES, salt=sha256(header).digest(), info=MAGIC).derive(key)


# The next key pair of a service's identity. Spec: keys, section 5.1.

CONTENT: Final = b"tacit next identity\n"


def opened_pair(file: Path, holder: Holder) -> bytes:
    """The secret bytes of a sealed pair. Raises BackupRefused, ValueError."""
    with file.open("rb") as stream:
        try:
            content = Opener(stream, holder).read()
        except BackupRefused as error:
            message = str(error).replace("the backup", "it").replace("a backup", "a sealed key")
            raise ValueError(f"{file}: {message}") from None
    if not content.startswith(CONTENT) or len(content) != len(CONTENT) + SECRET_BYTES:
        raise ValueError(f"{file}: has no next identity")
    return content.removeprefix(CONTENT)


# Key pairs of recipients of backups and sealed paths. A private key is a seed of 32 bytes, written
# `tctkey_...`; its public key has 1,216 bytes.

PREFIX: Final = "tctkey_"
_MOST_KEY_BYTES: Final = 4096


@printed
def recipient_key(
    file: Annotated[
        Path, typer.Argument(help="File for the private key; an existing one is not replaced.")
    ],
) -> Answer:
    """Make a key pair for backups and sealed paths.

    The private key is written to a file, the public key to the screen.
    """
    seed = SealKey.new_seed()
    private, shown = f"{PREFIX}{encode_binary(seed)}", SealKey(seed).public.raw
    opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(opened, "w") as target:
        target.write(private + "\n")
    public = encode_binary(shown)
    return Answer({"file": str(file), "public": public}, lambda: typer.echo(public))


def private_key(file: Path) -> SealKey:
    """The private key of a file. Raises OSError, ValueError."""
    with file.open("rb") as stream:
        content = stream.read(_MOST_KEY_BYTES)
    try:
        text = content.decode("ascii").strip()
        if not text.startswith(PREFIX):
            raise ValueError
        return SealKey(parse_binary(text.removeprefix(PREFIX)))
    except ValueError:
        raise ValueError(
            f"the file holds no private key: {PREFIX}... as `tacit recipient-key` wrote it"
        ) from None
