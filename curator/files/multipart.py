"""The bytes of an uploaded file, as they arrive: a plain body, or one part of a multipart body."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from common.web.wire import content_type
from curator.errors import BadImport


async def uploaded(request: Request) -> AsyncIterator[bytes]:
    """The bytes of the file: the body, or the first file part of a multipart body."""
    if content_type(request) != "multipart/form-data":
        async for chunk in request.stream():
            if chunk:
                yield chunk
        return
    _, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary")
    if not boundary:
        raise BadImport("the multipart body has no boundary")
    parts = _Parts()
    parser = MultipartParser(boundary, parts.callbacks())
    async for chunk in request.stream():
        try:
            parser.write(chunk)
        except Exception:
            raise BadImport("the multipart body is damaged") from None
        for piece in parts.take():
            yield piece
    if not parts.found:
        raise BadImport("the multipart body has no file")


class _Parts:
    """Collects the content of the first part that carries a file name."""

    def __init__(self) -> None:
        self.found = False
        self._inside = False
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
        self.found |= self._inside

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        if self._inside:
            self._pieces.append(data[start:end])

    def _end(self) -> None:
        self._inside = False
