"""The character encoding of a file: by its byte-order mark, else as the map names it, else UTF-8.

Everything behind this reads UTF-8. A mark that contradicts the map is refused, as is text that is
not of its encoding: no character is replaced.
"""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterator
from typing import Final

from curator.errors import BadImport

UTF_8: Final = "utf-8"
MARKS: Final = {
    codecs.BOM_UTF8: UTF_8,
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_TAKEN: Final = frozenset(
    [
        *(UTF_8, "utf-16", "utf-16-le", "utf-16-be", "ascii", "mac-roman", "koi8-r", "koi8-u"),
        *(f"iso8859-{part}" for part in range(1, 17) if part != 12),
        *(f"cp{page}" for page in (437, 850, 852, 858, *range(1250, 1259))),
        *("big5", "gb18030", "gbk", "gb2312", "euc_jp", "euc_kr", "shift_jis", "cp932", "cp949"),
    ]
)


def encoding_named(name: str) -> str:
    """The codec of a name such as latin-1 or windows-1252. Raises ValueError."""
    try:
        codec = codecs.lookup(name).name
    except (LookupError, ValueError):
        codec = ""
    if codec == "utf-8-sig":
        codec = UTF_8
    if codec not in _TAKEN:
        raise ValueError("is no character encoding: utf-8, utf-16, latin-1, windows-1252, ...")
    return codec


def marked(head: bytes) -> tuple[str | None, int]:
    """The encoding that a byte-order mark at the beginning names, and the mark's length."""
    for mark, name in MARKS.items():
        if head.startswith(mark):
            return name, len(mark)
    return None, 0


class Decoder:
    """The bytes of one file as UTF-8, piece by piece. Raises BadImport."""

    def __init__(self, encoding: str | None) -> None:
        self._named = None if encoding is None else encoding_named(encoding)
        self._head: bytes | None = b""
        self._decoder: codecs.IncrementalDecoder | None = None
        self._line = 1

    def feed(self, data: bytes, *, last: bool = False) -> bytes:
        """The next piece; `last` where the file ends with it."""
        if self._head is not None:
            self._head += data
            if len(self._head) < 3 and not last:
                return b""
            data, self._head = self._begin(self._head), None
        if self._decoder is None:
            return data
        try:
            text = self._decoder.decode(data, last)
        except UnicodeDecodeError as error:
            before = bytes(error.object)[: error.start].decode(error.encoding, "ignore")
            line = self._line + before.count("\n")
            detail = f"line {line}: not text in {self._name}"
            raise BadImport(detail, pointer="/encoding", extra={"line": line}) from None
        self._line += text.count("\n")
        return text.encode("utf-8", "surrogatepass")

    def _begin(self, head: bytes) -> bytes:
        encoding, length = marked(head)
        named = self._named
        if encoding is not None and named not in (None, encoding, encoding[:6]):
            detail = (
                f"the file begins with a byte-order mark of {encoding}, and encoding is {named}"
            )
            raise BadImport(detail, pointer="/encoding")
        if encoding is None and named == "utf-16":
            detail = "the file has no byte-order mark: utf-16-le or utf-16-be?"
            raise BadImport(detail, pointer="/encoding")
        self._name = encoding or named or UTF_8
        if self._name != UTF_8:
            self._decoder = codecs.getincrementaldecoder(self._name)()
        return head[length:]


async def as_utf8(chunks: AsyncIterator[bytes], encoding: str | None) -> AsyncIterator[bytes]:
    """The bytes of a file as UTF-8 without its mark. Raises BadImport."""
    decoder = Decoder(encoding)
    async for chunk in chunks:
        if piece := decoder.feed(chunk):
            yield piece
    if piece := decoder.feed(b"", last=True):
        yield piece
