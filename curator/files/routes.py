"""The routes that import files of readings, and report how far an import is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict, replace
from typing import Annotated, Final

from fastapi import Depends, Query, Request

from common.principals import Principal
from common.web.dependencies import part
from common.web.openapi import api_router
from common.web.wire import content_type
from curator import examples
from curator.files.dry_run import InMemory, outcome
from curator.files.importer import Importer
from curator.files.options import ImportOptions
from curator.files.upload import Imports, uploaded
from curator.intake.intake import Intake
from curator.settings import CuratorSettings
from curator.web import Operator, Sender
from tacit.answers.curator import DryReading, DrySumOfDay, ImportedReadings

MOST_DRY: Final = 500_000
"""Readings that a dry run of the service holds."""
MOST_SUMS: Final = 1_000
"""Sums of days that it answers."""
Running = Annotated[Imports, Depends(part(Imports))]
_XML = frozenset({"application/atom+xml", "application/xml", "text/xml"})


router = api_router("readings")


@router.post(
    "/v1/readings/import",
    response_model_exclude_unset=True,
    summary="A file of readings, plain, .gz or .xz, raw or multipart",
    description="CSV and other formats: `form`. The answer has what the file was taken for, and "
    "why (`taken_for`). The column map of a CSV file is given as query parameters. What cannot be "
    "read is listed with line and column, or line and element; all else is stored. Of a damaged "
    "file nothing is.",
    openapi_extra=examples.IMPORT_BODY,
)
async def import_readings(
    request: Request,
    caller: Sender,
    options: Annotated[ImportOptions, Query()],
    intake: Annotated[Intake, Depends(part(Intake))],
    settings: Annotated[CuratorSettings, Depends(part(CuratorSettings))],
    imports: Running,
) -> ImportedReadings:
    xml = content_type(request) in _XML
    return await imported(
        Importer(intake, settings, imports), uploaded(request), options, caller, xml=xml
    )


async def imported(
    importer: Importer,
    chunks: AsyncIterator[bytes],
    options: ImportOptions,
    caller: Principal,
    *,
    xml: bool,
) -> ImportedReadings:
    """Import a file, or show what would be stored. Raises Invalid or BadImport."""
    if not options.dry_run:
        progress = await importer.take(chunks, options, caller, xml=xml)
        return progress.answer()
    store = InMemory(importer.intake, importer.intake.times, MOST_DRY)
    dry = replace(importer, intake=store)
    progress = await dry.take(chunks, options, caller, xml=xml)
    run = await asyncio.to_thread(outcome, store, progress, options.timezone)
    first = tuple(DryReading(time=time, meter=meter, value=text) for time, meter, text in run.first)
    sums = tuple(DrySumOfDay(**asdict(total)) for total in run.sums[:MOST_SUMS])
    return run.counts.model_copy(
        update={"dry_run": True, "first": first, "sums": sums, "sums_count": len(run.sums)}
    )


@router.get(
    "/v1/readings/imports/{import_id}",
    response_model_exclude_unset=True,
    summary="Progress of an import while it runs (give it an `import_id`)",
)
async def get_import(import_id: str, _: Operator, imports: Running) -> ImportedReadings:
    return imports.find(import_id).answer()
