"""Streams of any length, sealed in chunks of 1 MiB under AES-256-GCM.

A chunk's nonce is its number and whether it is the last, so that none can be moved, repeated or cut
off unnoticed (the STREAM construction of Hoang, Reyhanitabar, Rogaway and Vizar, 2015). A key seals
one stream. Memory does not grow with the content.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import BinaryIO, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

CHUNK_BYTES: Final = 1 << 20
TAG_BYTES: Final = 16
_SEALED_BYTES: Final = CHUNK_BYTES + TAG_BYTES


def _nonce(number: int, last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes((last,))


class StreamSealer(io.RawIOBase):
    """Encrypts plain bytes into `file`, which is complete only after `finish`."""

    def __init__(self, file: BinaryIO, key: bytes) -> None:
        super().__init__()
        self._file, self._cipher = file, AESGCM(key)
        self._waiting = bytearray()
        self._number = 0

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._waiting += data
        while len(self._waiting) > CHUNK_BYTES:  # a full chunk waits: it may be the last
            self._put(bytes(self._waiting[:CHUNK_BYTES]), last=False)
            del self._waiting[:CHUNK_BYTES]
        return len(data)

    def finish(self) -> None:
        """Seal the last chunk."""
        self._put(bytes(self._waiting), last=True)
        self._waiting.clear()

    def _put(self, plain: bytes, *, last: bool) -> None:
        self._file.write(self._cipher.encrypt(_nonce(self._number, last), plain, None))
        self._number += 1


class StreamOpener(io.RawIOBase):
    """The plain bytes of a stream in `file`, from its current position to its end; seekable.
    Raises what `broken` returns if a seal is broken; immediately for a truncated stream."""

    def __init__(self, file: BinaryIO, key: bytes, broken: Callable[[], Exception]) -> None:
        super().__init__()
        self._file, self._cipher, self._broken = file, AESGCM(key), broken
        self._first = file.tell()
        sealed = file.seek(0, io.SEEK_END) - self._first
        self._chunks = -(-sealed // _SEALED_BYTES)
        self._size = sealed - self._chunks * TAG_BYTES
        self._place = 0
        self._open: tuple[int, bytes] = (-1, b"")
        self._chunk(max(0, self._chunks - 1))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = max(0, start + offset)
        return self._place

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: memoryview | bytearray) -> int:  # type: ignore[override]
        if self._place >= self._size:
            return 0
        number, offset = divmod(self._place, CHUNK_BYTES)
        plain = self._chunk(number)[offset : offset + len(buffer)]
        buffer[: len(plain)] = plain
        self._place += len(plain)
        return len(plain)

    def close(self) -> None:
        self._open = (-1, b"")
        super().close()

    def _chunk(self, number: int) -> bytes:
        if self._open[0] != number:
            self._file.seek(self._first + number * _SEALED_BYTES)
            sealed = self._file.read(_SEALED_BYTES)
            try:
                plain = self._cipher.decrypt(
                    _nonce(number, number == self._chunks - 1), sealed, None
                )
            except (InvalidTag, ValueError):
                raise self._broken() from None
            self._open = (number, plain)
        return self._open[1]
