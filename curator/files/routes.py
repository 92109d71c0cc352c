"""The routes that import files of readings."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query, Request, Response
from starlette.responses import JSONResponse

from common.runtime.memory import give_back
from common.web.parts import part
from common.web.wire import content_type
from curator import examples
from curator.errors import BadImport
from curator.files.csv_import import Import
from curator.files.green_button_import import FeedImport, FeedMap
from curator.files.multipart import uploaded
from curator.files.options import ImportOptions
from curator.files.progress import Imports
from curator.intake.intake import Intake
from curator.settings import CuratorSettings
from curator.web import Operator, Sender

Running = Annotated[Imports, Depends(part(Imports))]
_XML = frozenset({"application/atom+xml", "application/xml", "text/xml"})


def add_imports(app: FastAPI) -> None:
    """Add the routes to an app."""

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
        options: Annotated[ImportOptions, Query()],
        intake: Annotated[Intake, Depends(part(Intake))],
        settings: Annotated[CuratorSettings, Depends(part(CuratorSettings))],
        imports: Running,
    ) -> Response:
        xml = options.form is None and content_type(request) in _XML
        feed = xml or options.form == "green-button"
        mapping = options.feed_map() if feed else options.column_map()
        progress = imports.begin(options.import_id)
        work: Import | FeedImport
        if isinstance(mapping, FeedMap):
            work = FeedImport(intake, settings, mapping, caller, progress)
        else:
            work = Import(intake, settings, mapping, caller, progress)
        await intake.look()
        try:
            await work.run(uploaded(request))
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
    async def import_progress(import_id: str, _: Operator, imports: Running) -> dict[str, Any]:
        return imports.find(import_id).document()
