"""The routes that import files of readings."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query, Request, Response
from starlette.responses import JSONResponse

from common.web.bodies import gives
from common.web.parts import part
from common.web.wire import content_type
from curator import examples
from curator.files.importing import Importer
from curator.files.multipart import uploaded
from curator.files.options import ImportOptions
from curator.files.progress import Imports
from curator.intake.intake import Intake
from curator.settings import CuratorSettings
from curator.web import Operator, Sender
from tacit.answers.hosting import ImportedReadings

Running = Annotated[Imports, Depends(part(Imports))]
_XML = frozenset({"application/atom+xml", "application/xml", "text/xml"})


def add_imports(app: FastAPI) -> None:
    """Add the routes to an app."""

    @app.post(
        "/v1/readings/import",
        **gives(ImportedReadings),
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
        options: Annotated[ImportOptions, Query()],
        intake: Annotated[Intake, Depends(part(Intake))],
        settings: Annotated[CuratorSettings, Depends(part(CuratorSettings))],
        imports: Running,
    ) -> Response:
        importer = Importer(intake, settings, imports)
        xml = content_type(request) in _XML
        progress = await importer.take(uploaded(request), options, caller, xml=xml)
        return JSONResponse(progress.document())

    @app.get(
        "/v1/readings/imports/{import_id}",
        **gives(ImportedReadings),
        tags=["readings"],
        summary="How far an import is, while it runs (give it an `import_id`)",
    )
    async def get_import(import_id: str, _: Operator, imports: Running) -> dict[str, Any]:
        return imports.find(import_id).document()
