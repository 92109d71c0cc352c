"""What imports of every format share: the bytes as they arrive, and progress.

A body is plain or one part of a multipart form; it is decompressed on arrival (.gz, .xz), within
limits on the ratio of plain to compressed bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, Final

from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from common.runtime.clock import Clock, uuid7
from common.web.wire import content_type
from curator.errors import BadImport, UnknownImport
from tacit.answers.curator import ImportedReadings, UnreadPlace
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
    """The plain bytes of a body, which its first bytes show to be gzip, xz or plain. Raises
    BadImport."""
    decoder: Decompressor | _Plain | None = None
    head, received, produced, blank = b"", 0, 0, 0
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
                blank = 0 if piece.strip() else blank + len(piece)
                if blank > _SLACK:
                    raise BadImport(f"the file has {_SLACK} blanks and empty lines in a row")
                yield piece
        except MalformedContent:
            raise BadImport("the compressed file is damaged") from None
    if decoder is None and head:
        yield head
    if decoder is not None and not decoder.whole:
        raise BadImport("the compressed file is cut off")


async def after_lines(chunks: AsyncIterator[bytes], skipped: int) -> AsyncIterator[bytes]:
    """The file after its first lines, which are not rows. Raises BadImport if one of these never
    ends."""
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

    Raises BadImport for any other body; the iterator also for one that breaks off.
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
    """Collects the first part that has a file name, and the fields before it."""

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
        """The bytes received since the last call."""
        pieces, self._pieces = self._pieces, []
        return pieces

    def fields(self) -> dict[str, str]:
        """The fields received so far, as text. Raises BadImport."""
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


KEPT_IMPORTS: Final = 100


class Progress:
    """The progress of an import; its sender may poll it."""

    def __init__(self, import_id: str, max_errors: int) -> None:
        self.id, self.state = import_id, "running"
        self.lines = self.accepted = self.duplicates = self.conflicts = self.rejected = 0
        self.taken_for: str | None = None
        self.errors: list[UnreadPlace] = []
        self.unknown: Counter[str] = Counter()
        self._max_errors = max_errors

    def error(
        self,
        line: int,
        column: int | None,
        detail: str,
        count: int = 1,
        *,
        element: str | None = None,
    ) -> None:
        """Record an error at a line (in XML: an element); all are counted, the first ones
        listed."""
        self.rejected += count
        if len(self.errors) < self._max_errors:
            named = {} if element is None else {"element": element}
            self.errors.append(UnreadPlace(line=line, column=column, detail=detail, **named))

    def answer(self) -> ImportedReadings:
        """The progress as the API answers it."""
        taken_for = {} if self.taken_for is None else {"taken_for": self.taken_for}
        return ImportedReadings(
            id=self.id,
            state=self.state,
            lines=self.lines,
            accepted=self.accepted,
            duplicates=self.duplicates,
            conflicts=self.conflicts,
            rejected=self.rejected,
            unknown_curators=[name for name, _ in self.unknown.most_common(100)],
            unknown_curators_count=len(self.unknown),
            errors=self.errors,
            **taken_for,
        )


class Imports:
    """The newest imports of this process, by name; a reused name starts a new import."""

    def __init__(self, clock: Clock, max_errors: int) -> None:
        self._clock, self._max_errors = clock, max_errors
        self._kept: dict[str, Progress] = {}

    def begin(self, name: str | None) -> Progress:
        """The progress of a new import; without a name it gets one."""
        progress = Progress(name or str(uuid7(self._clock)), self._max_errors)
        self._kept.pop(progress.id, None)
        self._kept[progress.id] = progress
        while len(self._kept) > KEPT_IMPORTS:
            self._kept.pop(next(iter(self._kept)))
        return progress

    def find(self, name: str) -> Progress:
        """Raises UnknownImport."""
        progress = self._kept.get(name)
        if progress is None:
            raise UnknownImport
        return progress
