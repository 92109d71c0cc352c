"""A file that is received in chunks, decompressed on arrival (.gz, .xz), within limits.

The ratio of plain to compressed bytes is limited, so that a small body cannot fill memory or disk.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from curator.errors import BadImport
from tacit.compression import GZIP_MAGIC, XZ_MAGIC, Decompressor, MalformedContent

MAX_LINE: Final = 16 * 1024 * 1024
_SLACK: Final = 1 << 20
_XZ_MEMORY: Final = 256 << 20


class _Plain:
    """A body that is not compressed, with the interface of a Decompressor."""

    whole = True

    def feed(self, data: bytes) -> list[bytes]:
        return [data]


async def plain_chunks(
    chunks: AsyncIterator[bytes], max_plain: int, max_ratio: int
) -> AsyncIterator[bytes]:
    """The plain bytes of a body, by its first bytes gzip, xz or as it is. Raises BadImport."""
    decoder: Decompressor | _Plain | None = None
    head, received, produced = b"", 0, 0
    async for chunk in chunks:
        received += len(chunk)
        if decoder is None:
            head += chunk
            if len(head) < len(XZ_MAGIC):
                continue
            packed = head.startswith((GZIP_MAGIC, XZ_MAGIC))
            chunk, decoder = head, Decompressor(head, _XZ_MEMORY) if packed else _Plain()
        try:
            for piece in decoder.feed(chunk):
                produced += len(piece)
                if produced > max_plain or produced > _SLACK + max_ratio * received:
                    raise BadImport("the file grows too much when it is decompressed")
                yield piece
        except MalformedContent:
            raise BadImport("the compressed file is damaged") from None
    if decoder is None and head:
        yield head
    if decoder is not None and not decoder.whole:
        raise BadImport("the compressed file is cut off")


async def after_lines(chunks: AsyncIterator[bytes], skipped: int) -> AsyncIterator[bytes]:
    """What follows the first lines of a file, which are no rows. Raises BadImport for an endless
    line among them."""
    rest = b""
    async for chunk in chunks:
        if not skipped:
            yield chunk
            continue
        rest += chunk
        while skipped and (end := rest.find(b"\n") + 1):
            rest, skipped = rest[end:], skipped - 1
        if skipped and len(rest) > MAX_LINE:
            raise BadImport("a line is too long")
        if not skipped and rest:
            yield rest
