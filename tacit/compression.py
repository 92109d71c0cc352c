"""Content that came as .gz or .xz, read through, with limits on what it may expand to."""

from __future__ import annotations

import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, Final

from tacit.errors import Invalid, TooLarge

GZIP_MAGIC: Final = b"\x1f\x8b"
XZ_MAGIC: Final = b"\xfd7zXZ\x00"
_READ_BYTES: Final = 1 << 18
_PIECE_BYTES: Final = 1 << 20
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
    """`expanded`: bytes of the plain content; `ratio`: plain to compressed bytes (checked from 16
    MiB on)."""

    expanded: int = 4 << 30
    ratio: int = 200


class Decompressor:
    """Members of a .gz, or streams of a .xz, one after the other, decompressed as they arrive.

    `magic`: the first bytes of the content; `xz_memory`: bytes that an .xz may ask for.
    """

    def __init__(self, magic: bytes, xz_memory: int) -> None:
        xz = partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, memlimit=xz_memory)
        self._fresh: Callable[[], _Gzip | lzma.LZMADecompressor] = (
            _Gzip if magic.startswith(GZIP_MAGIC) else xz
        )
        self._member = self._fresh()

    @property
    def whole(self) -> bool:
        """Whether what was fed ends where a file may end."""
        return self._member.eof

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The plain content of the next bytes, in pieces of at most a megabyte.

        Raises MalformedContent where the compression is broken.
        """
        while True:
            if self._member.eof:
                data = data.lstrip(b"\0")  # a file may be padded after a member
                if not data:
                    return
                self._member = self._fresh()
            try:
                piece = self._member.decompress(data, _PIECE_BYTES)
            except (zlib.error, lzma.LZMAError):
                raise MalformedContent("the compressed content is broken") from None
            if piece:
                yield piece
            if self._member.eof:
                data = self._member.unused_data
            elif self._member.needs_input or not piece:
                return
            else:
                data = b""


class _Gzip:
    """One member of a gzip file, with the interface of LZMADecompressor."""

    def __init__(self) -> None:
        self._object = zlib.decompressobj(31)

    @property
    def eof(self) -> bool:
        return self._object.eof

    @property
    def unused_data(self) -> bytes:
        return self._object.unused_data

    @property
    def needs_input(self) -> bool:
        return not self._object.unconsumed_tail

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._object.decompress(self._object.unconsumed_tail + data, max_length)


def expanded(stream: io.BufferedReader, limits: Limits) -> BinaryIO:
    """The plain content of a stream, which its first bytes show to be compressed or not. Reading
    raises ContentTooLarge, and MalformedContent if the compression is broken."""
    start = stream.peek(len(XZ_MAGIC))[: len(XZ_MAGIC)]
    if start.startswith((GZIP_MAGIC, XZ_MAGIC)):
        return io.BufferedReader(_Expanding(stream, limits, start), _PIECE_BYTES)
    return stream


class _Expanding(io.RawIOBase):
    """The plain content of a compressed stream."""

    def __init__(self, stream: BinaryIO, limits: Limits, magic: bytes) -> None:
        super().__init__()
        self._stream = stream
        self._pieces = _pieces(stream, limits, Decompressor(magic, _XZ_MEMORY))
        self._piece = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview | bytearray) -> int:  # type: ignore[override]
        if not self._piece:
            self._piece = memoryview(next(self._pieces, b""))
        size = min(len(buffer), len(self._piece))
        buffer[:size], self._piece = self._piece[:size], self._piece[size:]
        return size

    def close(self) -> None:
        self._stream.close()
        super().close()


def _pieces(stream: BinaryIO, limits: Limits, members: Decompressor) -> Iterator[bytes]:
    read = made = 0
    while data := stream.read(_READ_BYTES):
        read += len(data)
        for piece in members.feed(data):
            made += len(piece)
            if made > limits.expanded:
                raise ContentTooLarge(extra={"max_bytes": limits.expanded})
            if made > max(_FREE_BYTES, limits.ratio * read):
                raise ContentTooLarge(
                    "the content expands more than is allowed", extra={"max_ratio": limits.ratio}
                )
            yield piece
    if not members.whole:
        raise MalformedContent("the compressed content ends too early")
