"""The routes by which readings come in: JSON, arrays, NDJSON, and files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, Request, Response
from fastapi import Query as Parameter
from pydantic import ValidationError
from pydantic_core import to_json
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.responses import JSONResponse

from common.errors import UnsupportedForm
from common.service.auth import Principal, require
from common.service.clock import uuid7
from common.service.memory import give_back
from common.service.problems import invalid_from
from common.service.tokens import Scope
from common.service.wire import JSON, NDJSON, content_type
from curator import examples
from curator.column_map import ColumnMap
from curator.errors import BadImport, UnknownImport
from curator.feed_import import FeedImport, FeedMap
from curator.importing import Import
from curator.items import items_of
from curator.progress import Progress
from curator.service import Service
from curator.settings import CuratorSettings

Sender = Annotated[Principal, Depends(require(Scope.OPERATOR, Scope.DEVICE, Scope.CURATOR))]
_LINES = frozenset({NDJSON, "application/ndjson", "application/jsonl"})
_XML = frozenset({"application/atom+xml", "application/xml", "text/xml"})
_KEPT_IMPORTS = 100


def add_intake(app: FastAPI, settings: CuratorSettings) -> None:
    """Add the routes to an app."""

    @app.post(
        "/v1/readings",
        tags=["readings"],
        summary="Readings: one object, an array, or a line each; one answer per item",
        openapi_extra=examples.readings_body(),
    )
    async def post_readings(request: Request, caller: Sender) -> Response:
        raws = await _raw_items(request, settings.max_items)
        service: Service = app.state.service
        answers = await service.gathering.take(raws, caller)
        return JSONResponse({"items": [answer.document() for answer in answers]})

    @app.post(
        "/v1/readings/import",
        tags=["readings"],
        summary="A file of readings (CSV or Green Button XML; plain, .gz or .xz), raw or multipart",
        description="The column map of a CSV file is given as query parameters; a Green Button "
        "file says itself what its readings are. What cannot be read is listed with line and "
        "column, or line and element; all else is stored.",
        openapi_extra=examples.IMPORT_BODY,
    )
    async def import_readings(
        request: Request,
        caller: Sender,
        unit: Annotated[
            str | None, Parameter(description="Of CSV: Wh, kWh, MWh, W, kW, m3, l or 1")
        ] = None,
        form: Annotated[
            Literal["csv", "green-button"] | None,
            Parameter(description="Default: green-button for a body of an XML type, else csv."),
        ] = None,
        layout: str = "long",
        register: str = "energy_import",
        kind: Annotated[
            str | None,
            Parameter(description="delta, instant or total_increasing; default: the register's"),
        ] = None,
        rollover: str | None = None,
        delimiter: str = ",",
        decimal: str = ".",
        header_line: int = 1,
        curator: str | None = None,
        curator_column: str | None = None,
        device_column: str | None = None,
        date_column: str | None = None,
        time_column: str = "time",
        value_column: str = "value",
        time_format: Annotated[
            str | None, Parameter(description="As in strptime, such as %d.%m.%Y %H:%M")
        ] = None,
        timezone: Annotated[
            str | None, Parameter(description="IANA zone of stamps without an offset")
        ] = None,
        ambiguous: Annotated[
            str, Parameter(description="The hour that comes twice: refuse, order, earlier, later")
        ] = "refuse",
        offset_column: str | None = None,
        stamp: Annotated[
            str, Parameter(description="Which end of its interval a stamp names: start or end")
        ] = "start",
        start: str | None = None,
        step_s: int | None = None,
        columns: str | None = None,
        usage_points: Annotated[
            str | None,
            Parameter(description="Of Green Button: a JSON object of usage point to curator"),
        ] = None,
        import_id: Annotated[str | None, Parameter(pattern=r"^[A-Za-z0-9._-]{1,64}$")] = None,
    ) -> Response:
        feed = form == "green-button" or (form is None and content_type(request) in _XML)
        mapping: ColumnMap | FeedMap
        if feed:
            mapping = _feed_map(curator, usage_points)
        else:
            mapping = _column_map(
                {
                    "unit": unit,
                    "layout": layout,
                    "register": register,
                    "kind": kind,
                    "rollover": rollover,
                    "delimiter": "\t" if delimiter in ("tab", "\\t") else delimiter,
                    "decimal": decimal,
                    "header_line": header_line,
                    "curator": curator,
                    "curator_column": curator_column,
                    "device_column": device_column,
                    "date_column": date_column,
                    "time_column": time_column,
                    "value_column": value_column,
                    "time_format": time_format,
                    "timezone": timezone,
                    "ambiguous": ambiguous,
                    "offset_column": offset_column,
                    "stamp": stamp,
                    "start": start,
                    "step_s": step_s,
                    "columns": columns,
                }
            )
        service: Service = app.state.service
        progress = _begin(service, import_id, settings)
        work: Import | FeedImport
        if isinstance(mapping, FeedMap):
            work = FeedImport(service.intake, settings, mapping, caller, progress)
        else:
            work = Import(service.intake, settings, mapping, caller, progress)
        await service.intake.look()
        try:
            await work.run(_file(request))
        except BadImport as error:
            progress.state = "failed"
            extra = {**error.extra, "import": progress.document()}
            raise BadImport(error.detail, pointer=error.pointer or "", extra=extra) from None
        except BaseException:
            progress.state = "failed"
            raise
        finally:
            await asyncio.to_thread(give_back)
        return JSONResponse(progress.document())

    @app.get(
        "/v1/readings/imports/{import_id}",
        tags=["readings"],
        summary="How far an import is, while it runs (give it an `import_id`)",
    )
    async def import_progress(
        import_id: str, _: Annotated[Principal, Depends(require(Scope.OPERATOR))]
    ) -> dict[str, Any]:
        service: Service = app.state.service
        found = service.imports.get(import_id)
        if found is None:
            raise UnknownImport
        return found.document()


def _begin(service: Service, import_id: str | None, settings: CuratorSettings) -> Progress:
    name = import_id or str(uuid7(service.clock))
    progress = Progress(name, settings.import_max_errors)
    service.imports.pop(name, None)
    service.imports[name] = progress
    while len(service.imports) > _KEPT_IMPORTS:
        service.imports.pop(next(iter(service.imports)))
    return progress


def _column_map(fields: dict[str, Any]) -> ColumnMap:
    given = {name: value for name, value in fields.items() if value is not None}
    try:
        return ColumnMap.model_validate_json(to_json(given))
    except ValidationError as error:
        raise invalid_from(error, given) from None


def _feed_map(curator: str | None, usage_points: str | None) -> FeedMap:
    given: dict[str, Any] = {} if curator is None else {"curator": curator}
    if usage_points is not None:
        try:
            given["usage_points"] = json.loads(usage_points)
        except ValueError:
            raise BadImport("is not a JSON object", pointer="/usage_points") from None
    try:
        return FeedMap.model_validate_json(to_json(given))
    except ValidationError as error:
        raise invalid_from(error, given) from None


async def _raw_items(request: Request, most: int) -> list[Any]:
    form = content_type(request)
    if form not in _LINES and form != JSON:
        raise UnsupportedForm(extra={"supported": [JSON, *sorted(_LINES)]})
    return items_of(await request.body(), form, most)


async def _file(request: Request) -> AsyncIterator[bytes]:
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
