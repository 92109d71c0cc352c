"""How an upload becomes sealed parts on disk: a multipart form, inline rows, or an address.

The plain content is in memory for about a megabyte at a time and never on the disk. `Vault` has the
content of datasets: sealed parts, read through whatever compresses them.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias
from urllib.parse import urlsplit

import httpx
from pydantic import JsonValue
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from algorithms.datasets.declaration import ColumnName, DatasetDeclaration, DatasetRequest
from algorithms.datasets.kinds import FILE, Format, exact_json, format_of, joined, kind_of, written
from common.bodies import JSON, MalformedBody, parse_json
from common.runtime.process import make_private_directory
from common.web.limits import body_within
from common.web.wire import content_type
from coordinator.errors import DatasetRefused, UrlRefused, UrlUnreachable
from coordinator.sealed_files import SealedWriter, file_generation, open_sealed, reseal_file
from coordinator.settings import CoordinatorSettings
from coordinator.storage_keys import StorageKeys
from tacit.compression import ContentTooLarge, Limits, expanded
from tacit.errors import UnsupportedForm

_READ_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Checked:
    """A content that matches its declaration. `digest` never leaves the process; `generation`: the
    oldest storage key that sealed a part."""

    outline: dict[str, Any]
    parts: Mapping[str, int]
    """Name and plain bytes of each part, in the order of reading."""
    digest: bytes
    generation: int

    @property
    def bytes(self) -> int:
        """Plain bytes of all parts."""
        return sum(self.parts.values())


@dataclass(frozen=True)
class Vault:
    """The directory of sealed contents; each dataset has its own directory in it."""

    directory: Path
    keys: StorageKeys
    limits: Limits

    def prepare(self, dataset_id: str) -> None:
        """Make the directory of a new dataset."""
        make_private_directory(self.directory / dataset_id)

    def writer(self, dataset_id: str, part: str) -> SealedWriter:
        """Where a part is written while it arrives."""
        return SealedWriter(self._path(dataset_id, part), self.keys, _purpose(dataset_id, part))

    def plain(self, dataset_id: str, part: str) -> BinaryIO:
        """The plain content of a part; reading raises ContentTooLarge."""
        sealed = open_sealed(self._path(dataset_id, part), self.keys, _purpose(dataset_id, part))
        return expanded(sealed, self.limits)

    def open(self, dataset_id: str, parts: Mapping[str, int]) -> BinaryIO:
        """The content as its kind's reader takes it."""
        if len(parts) == 1:
            return self.plain(dataset_id, next(iter(parts)))
        return joined({name: (size, self.plain(dataset_id, name)) for name, size in parts.items()})

    def check(self, dataset_id: str, declaration: DatasetDeclaration, sent: set[str]) -> Checked:
        """Validate all of a content. Raises what its reader raises. Blocks: call it in a thread."""
        kind, form = kind_of(declaration), format_of(declaration)
        parts = [name for name in form.parts if name in sent]
        sizes, digest = self.measure(dataset_id, parts)
        with self.open(dataset_id, sizes) as stream:
            dataset = form.read(declaration, stream)
        return Checked(kind.outline(dataset), sizes, digest, self.generation(dataset_id, parts))

    def measure(self, dataset_id: str, parts: Iterable[str]) -> tuple[dict[str, int], bytes]:
        """(plain bytes of each part, digest of all) in the order of reading. Blocks."""
        sizes, digest = {}, hashlib.sha256()
        for part in parts:
            size, own_digest = self._measure(dataset_id, part)
            sizes[part] = size
            digest.update(own_digest)
        return sizes, digest.digest()

    def generation(self, dataset_id: str, parts: Iterable[str]) -> int:
        """The oldest storage key that sealed a part. Raises StorageKeyWrong, FileNotFoundError."""
        return min(file_generation(self._path(dataset_id, part)) for part in parts)

    def reseal(self, dataset_id: str, parts: Iterable[str]) -> None:
        """Seal all parts again with the current key. Raises as `generation`. Blocks."""
        for part in parts:
            reseal_file(self._path(dataset_id, part), self.keys, _purpose(dataset_id, part))

    def remove(self, dataset_id: str) -> None:
        """Remove a content, whole or half."""
        shutil.rmtree(self.directory / dataset_id, ignore_errors=True)

    def _measure(self, dataset_id: str, part: str) -> tuple[int, bytes]:
        """(plain bytes, SHA-256) of a part; the limits are held here."""
        size, digest = 0, hashlib.sha256()
        with self.plain(dataset_id, part) as stream:
            while data := stream.read(_READ_BYTES):
                size += len(data)
                digest.update(data)
        return size, digest.digest()

    def _path(self, dataset_id: str, part: str) -> Path:
        return self.directory / dataset_id / f"{part}.sealed"


def expected_parts(form: Format, sent: set[str]) -> str | None:
    """What is wrong with the names of the uploaded files; None if nothing is."""
    if not sent <= set(form.parts):
        return f"files named {' or '.join(form.parts)} are expected"
    if form.parts[-1] not in sent:
        return f"a file named {form.parts[-1]} is expected"
    return None


def single_part(form: Format) -> str:
    """The name under which a content in one piece is kept."""
    return form.parts[-1] if len(form.parts) > 1 else FILE


def _purpose(dataset_id: str, part: str) -> str:
    return f"dataset {dataset_id} {part}"


# How a body becomes sealed parts: a multipart form, inline rows, or an address to fetch from.
#
# The plain content is in memory for about a megabyte at a time and never on the disk.

FORM: Final = "multipart/form-data"
BATCH_BYTES: Final = 1 << 20
FIELD_BYTES: Final = 4 << 20
FORM_BYTES: Final = 1 << 30
"""The service reads this much beyond the largest dataset before it cuts off; the limit itself is
enforced here, and answered as `too_large`."""
_STRUCTURED: Final = frozenset({"roles", "budget", "universe"})
_PART_NAME = re.compile(r"[a-z]{1,20}")
_FETCH_S: Final = 30.0


class InlineDataset(DatasetRequest):
    """A dataset in JSON: its `rows` (with `columns`, unless they are objects), or a `url` of a
    storage that the deployment allows."""

    columns: tuple[ColumnName, ...] | None = None
    rows: JsonValue = None
    url: str | None = None


@dataclass(frozen=True)
class Received:
    """The dataset's stated properties, and which of its parts are sealed now."""

    request: DatasetRequest
    sent: frozenset[str]


Fields: TypeAlias = dict[str, Any]
"""The fields of a form, by name."""


def as_it_is(fields: Fields) -> Fields:
    """The fields of the API's own form."""
    return fields


async def receive(
    request: Request,
    vault: Vault,
    dataset_id: str,
    settings: CoordinatorSettings,
    read: Callable[[Fields], Fields] = as_it_is,
) -> Received:
    """Read the body and encrypt its content under the id; `read`: how to read the fields of a form,
    if it is not the API's.

    Raises for any invalid body. A partial content can then be left in the vault for the caller
    to remove.
    """
    form = content_type(request)
    if form == FORM:
        return await _receive_form(request, vault, dataset_id, settings, read)
    if form != JSON:
        raise UnsupportedForm(extra={"supported": [FORM, JSON]})
    content = await body_within(request, settings.max_body_bytes, "send a large dataset as a file")
    body = await asyncio.to_thread(parse_json, content, InlineDataset)
    if (body.rows is None) == (body.url is None):
        raise DatasetRefused("either rows or a url are expected", pointer="/rows")
    values = body.model_dump(mode="json", exclude={"columns", "rows", "url"})
    declared = parse_json(json.dumps(values).encode(), DatasetRequest)
    part = single_part(format_of(declared))
    vault.prepare(dataset_id)
    if body.url is not None:
        writer = vault.writer(dataset_id, part)
        await _fetch(body.url, writer, settings)
    else:
        # as they were sent: the model's floats may have lost digits of an id
        exact = await asyncio.to_thread(exact_json, content)
        rows = await asyncio.to_thread(written, declared.format, body.columns, exact["rows"])
        await asyncio.to_thread(_seal, vault.writer(dataset_id, part), rows)
    return Received(declared, frozenset((part,)))


# --- forms ---------------------------------------------------------------------------------------


async def _receive_form(
    request: Request,
    vault: Vault,
    dataset_id: str,
    settings: CoordinatorSettings,
    read: Callable[[Fields], Fields],
) -> Received:
    _, options = parse_options_header(request.headers["content-type"])
    boundary = options.get(b"boundary")
    if not boundary:
        raise MalformedBody("The form has no boundary")
    most = settings.dataset_max_bytes + FIELD_BYTES
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > most:
        raise ContentTooLarge(extra={"max_bytes": settings.dataset_max_bytes})
    vault.prepare(dataset_id)
    form = _Form(vault, dataset_id, boundary)
    try:
        size = 0
        async for batch in _batches(request.stream()):
            size += len(batch)
            if size > most:
                raise ContentTooLarge(extra={"max_bytes": settings.dataset_max_bytes})
            await asyncio.to_thread(form.feed, batch)
        await asyncio.to_thread(form.finish)
    except MultipartParseError:
        raise MalformedBody("The form cannot be parsed") from None
    finally:
        form.abandon()
    content = json.dumps(read(form.said())).encode()
    said = await asyncio.to_thread(parse_json, content, DatasetRequest)
    wrong = expected_parts(format_of(said), form.sent)
    if wrong is not None:
        raise DatasetRefused(wrong, pointer="/file")
    return Received(said, frozenset(form.sent))


async def _batches(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in pieces that are worth a step into a thread."""
    waiting, size = [], 0
    async for piece in stream:
        waiting.append(piece)
        size += len(piece)
        if size >= BATCH_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


class _Form:
    """A form as it arrives: small fields are kept, files are sealed."""

    def __init__(self, vault: Vault, dataset_id: str, boundary: bytes) -> None:
        self.sent: set[str] = set()
        self._vault, self._id = vault, dataset_id
        self._fields: dict[str, bytearray] = {}
        self._header = self._value = b""
        self._disposition = b""
        self._field: bytearray | None = None
        self._unnamed: str | None = None
        self._writer: SealedWriter | None = None
        self._left = FIELD_BYTES
        self._ended = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": self._header_name,
                "on_header_value": self._header_value,
                "on_header_end": self._header_end,
                "on_headers_finished": self._headers_end,
                "on_part_data": self._data,
                "on_part_end": self._end,
                "on_end": self._all,
            },
        )

    def feed(self, data: bytes) -> None:
        self._parser.write(data)

    def finish(self) -> None:
        if not self._ended:
            raise MalformedBody("The form ends too early")

    def abandon(self) -> None:
        """Close what is still open."""
        if self._writer is not None:
            self._writer.abandon()

    def said(self) -> dict[str, Any]:
        """The fields as one JSON object; structured ones hold JSON."""
        fields: dict[str, Any] = {}
        for name, raw in self._fields.items():
            try:
                text = raw.decode("utf-8")
                fields[name] = json.loads(text) if name in _STRUCTURED else text
            except (ValueError, RecursionError):
                raise DatasetRefused("the field cannot be read", pointer=f"/{name}") from None
        return fields

    def _begin(self) -> None:
        self._disposition = self._header = self._value = b""
        self._field = self._unnamed = None

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = self._value
        self._header = self._value = b""

    def _headers_end(self) -> None:
        _, options = parse_options_header(self._disposition)
        name = options.get(b"name", b"").decode("utf-8", "replace")
        if not _PART_NAME.fullmatch(name.replace("_", "")):
            raise DatasetRefused("a part of the form has no name that is known here")
        if options.get(b"filename"):
            self._open(name)
        elif b"filename" in options:
            self._unnamed = name  # a browser's field without a file is such a part without content
        else:
            if name in self._fields:
                raise DatasetRefused("the field is there twice", pointer=f"/{name}")
            self._field = self._fields[name] = bytearray()

    def _open(self, name: str) -> None:
        if name in self.sent:
            raise DatasetRefused("two files have one name", pointer=f"/{name}")
        self.sent.add(name)
        self._writer = self._vault.writer(self._id, name)

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._unnamed is not None:
            self._open(self._unnamed)
            self._unnamed = None
        if self._writer is not None:
            self._writer.write(data[start:end])
        elif self._field is not None:
            self._left -= end - start
            if self._left < 0:
                raise ContentTooLarge("the fields of the form are too large")
            self._field += data[start:end]

    def _end(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _all(self) -> None:
        self._ended = True


# --- rows and addresses --------------------------------------------------------------------------


def _seal(writer: SealedWriter, content: bytes) -> None:
    writer.write(content)
    writer.close()


def allowed(url: str, prefixes: tuple[str, ...]) -> bool:
    """Whether an address begins with an allowed prefix and has nothing that a server could
    resolve to another place."""
    parts = urlsplit(url)
    plain = not parts.username and not parts.password and not parts.fragment
    steps = parts.path.replace("%2e", ".").replace("%2E", ".").split("/")
    return (
        plain
        and ".." not in steps
        and "\\" not in url
        and any(prefix.endswith("/") and url.startswith(prefix) for prefix in prefixes)
    )


async def _fetch(url: str, writer: SealedWriter, settings: CoordinatorSettings) -> None:
    """Seal what is at an address; redirections are not followed."""
    try:
        if not allowed(url, settings.dataset_url_prefixes):
            raise UrlRefused(pointer="/url")
        most, size = settings.dataset_max_bytes, 0
        async with (
            httpx.AsyncClient(trust_env=False, timeout=_FETCH_S) as client,
            client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as answer,
        ):
            if answer.status_code != 200:
                raise UrlUnreachable(extra={"status": answer.status_code})
            async for batch in _batches(answer.aiter_raw()):
                size += len(batch)
                if size > most:
                    raise ContentTooLarge(extra={"max_bytes": most})
                await asyncio.to_thread(writer.write, batch)
        await asyncio.to_thread(writer.close)
    except (httpx.HTTPError, httpx.InvalidURL):
        raise UrlUnreachable from None
    finally:
        with suppress(ValueError):
            writer.abandon()
