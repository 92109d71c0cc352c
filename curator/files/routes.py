"""The routes that import files of readings: their query parameters, and the choice of the format.

`Importer` takes a file in, for the API and for the console's page.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeVar

from fastapi import Depends, Query, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import to_json

from common.bodies import invalid_from
from common.principals import Principal
from common.runtime.process import give_back
from common.web.dependencies import part
from common.web.openapi import api_router
from common.web.wire import content_type
from curator import examples
from curator.errors import BadImport
from curator.files.csv_columns import ColumnMap
from curator.files.csv_import import Import
from curator.files.green_button import FeedImport, FeedMap
from curator.files.nem12 import NemImport, NemMap
from curator.files.upload import Imports, Progress, uploaded
from curator.intake.intake import Intake
from curator.settings import CuratorSettings
from curator.web import Operator, Sender
from tacit.answers.curator import ImportedReadings

Map = TypeVar("Map", ColumnMap, FeedMap, NemMap)
_TAB: Final = frozenset({"tab", "\\t"})
"""Names of the delimiter that a query string can hardly hold."""
_NOT_OF_COLUMNS: Final = {"form", "usage_points", "import_id"}


class ImportOptions(BaseModel):
    """As they are in the address: texts and numbers, whose meaning `ColumnMap` and `FeedMap` check.

    The order of the fields is that of the parameters in the API document.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    """A parameter that is not known, such as a column that is spelled wrong, is not passed over."""

    unit: str | None = Field(None, description="Of CSV: Wh, kWh, MWh, W, kW, m3, l or 1")
    form: Literal["csv", "green-button", "nem12"] | None = Field(
        None, description="Default: green-button for a body of an XML type, else csv."
    )
    layout: str = Field(
        "long",
        description="long: a reading a line; wide: a meter a line, a column for each interval; "
        "day: a day a line; pivot: a time a line, a column for each meter",
    )
    register_name: str = Field(
        "energy_import", alias="register", description="What was measured: a name or an OBIS code"
    )
    kind: str | None = Field(
        None,
        description="delta: what was used in each interval; total_increasing: the meter's total; "
        "instant: a power or level. Default: the register's",
    )
    rollover: str | None = Field(
        None, description="Of a counter: the value at which it begins again at 0"
    )
    encoding: str | None = Field(
        None,
        description="Character encoding, such as latin-1. Default: by the byte-order mark, else "
        "UTF-8",
    )
    delimiter: str = Field(",", description="Between two cells: one character, or tab")
    decimal: str = Field(".", description="The decimal sign: . or ,")
    thousands: str | None = Field(
        None, description="The sign between thousands: , . ' or a blank. Default: there is none"
    )
    header_line: int = Field(1, description="Number of the line that names the columns")
    footer_lines: int = Field(0, description="Lines at the end that are no rows")
    curator: str | None = Field(None, description="Whose readings these are, if no column names it")
    curator_column: str | None = Field(None, description="The column that names the curator")
    device_column: str | None = Field(None, description="The column that names the meter")
    date_column: str | None = Field(
        None, description="The column of the date, if it is apart from the time"
    )
    time_column: str = Field("time", description="The column of the time")
    value_column: str = Field("value", description="The column of the reading")
    quality_column: str | None = Field(None, description="The column of the reading's quality")
    accept: str | None = Field(None, description="The qualities that are taken, as A,E")
    time_format: str | None = Field(None, description="As in strptime, such as %d.%m.%Y %H:%M")
    timezone: str | None = Field(None, description="IANA zone of stamps without an offset")
    ambiguous: str = Field(
        "refuse", description="The repeated hour of a clock change: refuse, order, earlier, later"
    )
    offset_column: str | None = Field(
        None, description="The column that tells the two passes of the repeated hour apart"
    )
    stamp: str = Field("start", description="Which end of its interval a stamp names: start or end")
    start: str | None = Field(
        None, description="Of layout wide: the time of the first interval's stamp"
    )
    step_s: int | None = Field(None, description="Length of an interval in seconds")
    columns: str | None = Field(
        None, description="Not of layout long: first and last column of readings, as q0:q95"
    )
    usage_points: str | None = Field(
        None,
        description="Of Green Button and NEM12: a JSON object of usage point or NMI to curator",
    )
    import_id: str | None = Field(None, pattern=r"^[A-Za-z0-9._-]{1,64}$")

    def column_map(self) -> ColumnMap:
        """What the columns of a CSV file mean. Raises Invalid."""
        given = self.model_dump(by_alias=True, exclude=_NOT_OF_COLUMNS, exclude_none=True)
        if self.delimiter in _TAB:
            given["delimiter"] = "\t"
        return _map(ColumnMap, given)

    def feed_map(self) -> FeedMap:
        """Whose the usage points of a Green Button file, or the NMIs of a NEM12 file, are.
        Raises Invalid or BadImport."""
        given: dict[str, Any] = {} if self.curator is None else {"curator": self.curator}
        if self.usage_points is not None:
            try:
                given["usage_points"] = json.loads(self.usage_points)
            except ValueError:
                raise BadImport("is not a JSON object", pointer="/usage_points") from None
        if self.form != "nem12":
            return _map(FeedMap, given)
        return _map(NemMap, given if self.accept is None else {**given, "accept": self.accept})


def _map(kind: type[Map], given: dict[str, Any]) -> Map:
    try:
        return kind.model_validate_json(to_json(given))
    except ValidationError as error:
        raise invalid_from(error, given) from None


@dataclass(frozen=True)
class Importer:
    """Imports files into the intake; `imports` reports their progress."""

    intake: Intake
    settings: CuratorSettings
    imports: Imports

    async def take(
        self, chunks: AsyncIterator[bytes], options: ImportOptions, caller: Principal, *, xml: bool
    ) -> Progress:
        """Read a file to its end. `xml`: its media type is Green Button's; options may override it.

        Raises Invalid or BadImport for a map that means nothing, and BadImport, which then shows
        the progress, for a file that is none of this map. What was stored by then stays.
        """
        feed = options.form in ("green-button", "nem12") or (xml and options.form is None)
        mapping = options.feed_map() if feed else options.column_map()
        progress = self.imports.begin(options.import_id)
        work: Import | FeedImport | NemImport
        if isinstance(mapping, NemMap):
            work = NemImport(self.intake, self.settings, mapping, caller, progress)
        elif isinstance(mapping, FeedMap):
            work = FeedImport(self.intake, self.settings, mapping, caller, progress)
        else:
            work = Import(self.intake, self.settings, mapping, caller, progress)
        await self.intake.look()
        try:
            await work.run(chunks)
        except BadImport as error:
            progress.state = "failed"
            extra = {**error.extra, "import": progress.answer().model_dump(exclude_unset=True)}
            raise BadImport(error.detail, pointer=error.pointer or "", extra=extra) from None
        except BaseException:
            progress.state = "failed"
            raise
        finally:
            await asyncio.to_thread(give_back)
        return progress


Running = Annotated[Imports, Depends(part(Imports))]
_XML = frozenset({"application/atom+xml", "application/xml", "text/xml"})


router = api_router("readings")


@router.post(
    "/v1/readings/import",
    response_model_exclude_unset=True,
    summary="A file of readings (CSV, Green Button, NEM12; plain, .gz or .xz), raw or multipart",
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
) -> ImportedReadings:
    importer = Importer(intake, settings, imports)
    xml = content_type(request) in _XML
    progress = await importer.take(uploaded(request), options, caller, xml=xml)
    return progress.answer()


@router.get(
    "/v1/readings/imports/{import_id}",
    response_model_exclude_unset=True,
    summary="Progress of an import while it runs (give it an `import_id`)",
)
async def get_import(import_id: str, _: Operator, imports: Running) -> ImportedReadings:
    return imports.find(import_id).answer()
