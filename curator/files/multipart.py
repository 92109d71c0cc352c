"""The bytes of an uploaded file, as they arrive: a plain body, or one part of a multipart body."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from common.web.wire import content_type
from curator.errors import BadImport

FORM: Final = "multipart/form-data"
FIELDS_BYTES: Final = 64 * 1024
"""What the fields of a form may have together; what comes behind the file is not read."""
FIELD_BYTES: Final = 64
"""What a field counts beside its name and value."""


async def uploaded(request: Request) -> AsyncIterator[bytes]:
    """The bytes of the file: the body, or the first file part of a multipart body."""
    if content_type(request) != FORM:
        async for chunk in request.stream():
            if chunk:
                yield chunk
        return
    _, chunks = await form_with_file(request)
    async for chunk in chunks:
        yield chunk


async def form_with_file(request: Request) -> tuple[dict[str, str], AsyncIterator[bytes]]:
    """The fields of a form that come before its file, and the file's bytes as they arrive.

    Raises BadImport for a body that is no such form; the iterator does, too, for one that breaks
    off.
    """
    _, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary")
    if not boundary:
        raise BadImport("the multipart body has no boundary")
    parts = _Parts()
    parser = MultipartParser(boundary, parts.callbacks())
    stream = request.stream()
    async for chunk in stream:
        _feed(parser, chunk)
        if parts.found:
            break
    if not parts.found:
        raise BadImport("the multipart body has no file")

    async def chunks() -> AsyncIterator[bytes]:
        for piece in parts.take():
            yield piece
        async for chunk in stream:
            _feed(parser, chunk)
            for piece in parts.take():
                yield piece

    return parts.fields(), chunks()


def _feed(parser: MultipartParser, chunk: bytes) -> None:
    try:
        parser.write(chunk)
    except BadImport:
        raise
    except Exception:
        raise BadImport("the multipart body is damaged") from None


class _Parts:
    """Collects the first part that carries a file name, and the fields before it."""

    def __init__(self) -> None:
        self.found = False
        self._inside = False
        self._fields: dict[bytes, bytearray] = {}
        self._current: bytearray | None = None
        self._left = FIELDS_BYTES
        self._field, self._value, self._headers = b"", b"", dict[bytes, bytes]()
        self._pieces: list[bytes] = []

    def callbacks(self) -> Any:
        """For the parser."""
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._on_field,
            "on_header_value": self._on_value,
            "on_header_end": self._on_header,
            "on_headers_finished": self._on_headers,
            "on_part_data": self._on_data,
            "on_part_end": self._end,
        }

    def take(self) -> list[bytes]:
        """What has come since the last call."""
        pieces, self._pieces = self._pieces, []
        return pieces

    def fields(self) -> dict[str, str]:
        """The fields that have come, as text. Raises BadImport."""
        try:
            return {name.decode(): value.decode() for name, value in self._fields.items()}
        except UnicodeDecodeError:
            raise BadImport("a field of the form is not text in UTF-8") from None

    def _begin(self) -> None:
        self._headers = {}

    def _on_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]

    def _on_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header(self) -> None:
        self._headers[self._field.lower()] = self._value
        self._field = self._value = b""

    def _on_headers(self) -> None:
        disposition = self._headers.get(b"content-disposition", b"")
        _, options = parse_options_header(disposition)
        self._inside = b"filename" in options and not self.found
        if not self.found and not self._inside:
            name = options.get(b"name", b"")
            self._spend(len(name) + FIELD_BYTES)
            self._current = self._fields[name] = bytearray()
        self.found |= self._inside

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        if self._inside:
            self._pieces.append(data[start:end])
        elif self._current is not None:
            self._spend(end - start)
            self._current += data[start:end]

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise BadImport("the fields of the form are too large")

    def _end(self) -> None:
        self._inside, self._current = False, None
