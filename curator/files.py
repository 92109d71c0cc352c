"""A file as lines: received in chunks, decompressed as it comes (.gz, .xz), held within limits.

A compressed byte may stand for so many plain ones and no more, so that a small body cannot fill
memory or disk.
"""

from __future__ import annotations

import lzma
import zlib
from collections.abc import AsyncIterator
from typing import Final, Protocol

from curator.errors import BadImport

MAX_LINE: Final = 16 * 1024 * 1024
_SLACK: Final = 1 << 20
_STEP: Final = 1 << 20


class _Decoder(Protocol):
    def feed(self, data: bytes) -> list[bytes]:
        """Plain pieces of at most a megabyte or so."""
        ...

    def whole(self) -> bool:
        """Whether what was fed ends where a file may end."""
        ...


class _Plain:
    def feed(self, data: bytes) -> list[bytes]:
        return [data]

    def whole(self) -> bool:
        return True


class _Gzip:
    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)
        self._whole = False

    def whole(self) -> bool:
        return self._whole

    def feed(self, data: bytes) -> list[bytes]:
        pieces = []
        while data:
            pieces.append(self._inner.decompress(data, _STEP))
            data = self._inner.unconsumed_tail
            self._whole = self._inner.eof
            if self._inner.eof:
                data = self._inner.unused_data
                self._inner = zlib.decompressobj(wbits=31)
        return pieces


class _Xz:
    def __init__(self) -> None:
        self._inner = lzma.LZMADecompressor(memlimit=256 * 1024 * 1024)

    def whole(self) -> bool:
        return self._inner.eof

    def feed(self, data: bytes) -> list[bytes]:
        pieces: list[bytes] = []
        while True:
            if self._inner.eof:
                data = self._inner.unused_data + data
                if not data.strip(b"\x00"):
                    return pieces
                self._inner = lzma.LZMADecompressor(memlimit=256 * 1024 * 1024)
            piece = self._inner.decompress(data, _STEP)
            pieces.append(piece)
            data = b""
            if not self._inner.eof and (self._inner.needs_input or not piece):
                return pieces


def _decoder(head: bytes) -> _Decoder:
    if head.startswith(b"\x1f\x8b"):
        return _Gzip()
    if head.startswith(b"\xfd7zXZ\x00"):
        return _Xz()
    return _Plain()


async def plain_chunks(
    chunks: AsyncIterator[bytes], max_plain: int, max_ratio: int
) -> AsyncIterator[bytes]:
    """The plain bytes of a body, by its first bytes gzip, xz or as it is. Raises BadImport."""
    decoder: _Decoder | None = None
    head, received, produced = b"", 0, 0
    async for chunk in chunks:
        received += len(chunk)
        if decoder is None:
            head += chunk
            if len(head) < 6:
                continue
            chunk, decoder = head, _decoder(head)
        try:
            pieces = decoder.feed(chunk)
        except (zlib.error, lzma.LZMAError):
            raise BadImport("the compressed file is damaged") from None
        for piece in pieces:
            produced += len(piece)
            if produced > max_plain or produced > _SLACK + max_ratio * received:
                raise BadImport("the file grows too much when it is decompressed")
            yield piece
    if decoder is None and head:
        yield head
    if decoder is not None and not decoder.whole():
        raise BadImport("the compressed file is cut off")


async def lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    """Whole lines without their ends, in lots. Raises BadImport for an endless line."""
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        if whole:
            yield whole
        if len(rest) > MAX_LINE:
            raise BadImport("a line is too long")
    if rest:
        yield [rest]
