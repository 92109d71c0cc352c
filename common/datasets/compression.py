"""Content that came as .gz or .xz, read through, with limits on what it may expand to."""

from __future__ import annotations

import io
import lzma
import zlib
from dataclasses import dataclass
from typing import BinaryIO, Final

from common.errors import Invalid, TooLarge

GZIP_MAGIC: Final = b"\x1f\x8b"
XZ_MAGIC: Final = b"\xfd7zXZ\x00"
_READ_BYTES: Final = 1 << 18
_FREE_BYTES: Final = 16 << 20
_XZ_MEMORY: Final = 512 << 20


class ContentTooLarge(TooLarge):
    """More bytes than are read, or a compression no honest file has."""

    name = "too_large"
    title = "The dataset is too large"


class MalformedContent(Invalid):
    """The content as a whole is not of its format."""

    name = "malformed_content"
    title = "The content is not of the format that was named"


@dataclass(frozen=True)
class Limits:
    """`expanded`: bytes of the plain content; `ratio`: plain to compressed bytes (looked at from
    16 MiB on)."""

    expanded: int = 4 << 30
    ratio: int = 200


def expanded(stream: io.BufferedReader, limits: Limits) -> BinaryIO:
    """The plain content of a stream that may be compressed, as its first bytes tell.

    Reading raises ContentTooLarge, and MalformedContent where the compression is broken.
    """
    start = stream.peek(len(XZ_MAGIC))[: len(XZ_MAGIC)]
    if start.startswith((GZIP_MAGIC, XZ_MAGIC)):
        return io.BufferedReader(_Expanding(stream, limits, start), 1 << 20)
    return stream


class _Expanding(io.RawIOBase):
    """Members of a compressed stream one after the other."""

    def __init__(self, stream: BinaryIO, limits: Limits, magic: bytes) -> None:
        super().__init__()
        self._stream, self._limits = stream, limits
        self._gzip = magic.startswith(GZIP_MAGIC)
        self._rest = b""
        self._read = self._made = 0
        self._member = self._fresh()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview | bytearray) -> int:  # type: ignore[override]
        while True:
            plain = self._expand(len(buffer))
            if plain is None:
                return 0
            if plain:
                self._made += len(plain)
                self._check()
                buffer[: len(plain)] = plain
                return len(plain)

    def close(self) -> None:
        self._stream.close()
        super().close()

    def _fresh(self) -> _Member:
        return _Gzip() if self._gzip else _Xz()

    def _expand(self, size: int) -> bytes | None:
        """Some bytes, none yet, or None at the end."""
        if self._member.eof:
            self._rest = self._member.unused
            self._fill()
            if not self._rest:
                return None
            self._member = self._fresh()
        if not self._rest and self._member.needs_input:
            self._fill()
            if not self._rest:
                raise MalformedContent("the compressed content ends too early")
        given, self._rest = self._rest, b""
        try:
            return self._member.expand(given, size)
        except (zlib.error, lzma.LZMAError):
            raise MalformedContent("the compressed content is broken") from None

    def _fill(self) -> None:
        if not self._rest:
            self._rest = self._stream.read(_READ_BYTES)
            self._read += len(self._rest)

    def _check(self) -> None:
        if self._made > self._limits.expanded:
            raise ContentTooLarge(extra={"max_bytes": self._limits.expanded})
        if self._made > max(_FREE_BYTES, self._limits.ratio * self._read):
            raise ContentTooLarge(
                "the content expands more than is allowed", extra={"max_ratio": self._limits.ratio}
            )


class _Gzip:
    """One member of a gzip file."""

    def __init__(self) -> None:
        self._object = zlib.decompressobj(31)

    @property
    def eof(self) -> bool:
        return self._object.eof

    @property
    def unused(self) -> bytes:
        return self._object.unused_data

    @property
    def needs_input(self) -> bool:
        return not self._object.unconsumed_tail

    def expand(self, given: bytes, size: int) -> bytes:
        return self._object.decompress(self._object.unconsumed_tail + given, size)


class _Xz:
    """One stream of an xz file."""

    def __init__(self) -> None:
        self._object = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)

    @property
    def eof(self) -> bool:
        return self._object.eof

    @property
    def unused(self) -> bytes:
        return self._object.unused_data

    @property
    def needs_input(self) -> bool:
        return self._object.needs_input

    def expand(self, given: bytes, size: int) -> bytes:
        return self._object.decompress(given, size)


_Member = _Gzip | _Xz
