"""The parameters of an import, as they are in the address and in the console's form."""

from __future__ import annotations

import json
from typing import Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import to_json

from common.bodies import invalid_from
from curator.errors import BadImport
from curator.files.market.green_button import FeedMap
from curator.files.market.nem12 import NemMap
from curator.files.metered import MeterMap
from curator.files.tables.columns import ColumnMap

Map = TypeVar("Map", ColumnMap, FeedMap, NemMap, MeterMap)
Form = Literal[
    "csv",
    "green-button",
    "nem12",
    "nem13",
    "dsmr",
    "iec62056",
    "mscons",
    "senml",
    "influx",
    "home-assistant",
]
_TAB: Final = frozenset({"tab", "\\t"})
"""Names of the delimiter that a query string can hardly hold."""
_NOT_OF_COLUMNS: Final = frozenset(
    {"form", "usage_points", "import_id", "dry_run", "read_at", "measurement", "precision"}
)
_OF_METERS: Final = frozenset(
    {
        *("accept", "timezone", "ambiguous", "stamp", "read_at", "register", "unit", "kind"),
        *("measurement", "value_column", "device_column", "curator_column", "precision"),
    }
)


class ImportOptions(BaseModel):
    """The options in the address: texts and numbers; the maps of the formats check their
    meaning. The order of the fields is that of the parameters in the API document."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    """A parameter that is not known, such as a column that is spelled wrong, is not passed over."""

    unit: str | None = Field(None, description="Of CSV: Wh, kWh, MWh, W, kW, m3, l or 1")
    form: Form | None = Field(None, description="Default: what the file looks like.")
    dry_run: bool = Field(
        False, description="Store nothing: answer the first readings in UTC and sums a day"
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
        description=(
            "delta: the amount of each interval; total_increasing: the meter's total; "
            "instant: a power or level. Default: the register's"
        ),
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
        None, description="The column that distinguishes the two passes of the repeated hour"
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
        description="Not of CSV: a JSON object of usage point, NMI or meter to curator",
    )
    read_at: str | None = Field(
        None, description="Of an OBIS list without a time: when it was read, RFC 3339"
    )
    measurement: str | None = Field(
        None, description="Of InfluxDB line protocol: only lines of this measurement"
    )
    precision: str = Field(
        "ns", description="Of InfluxDB line protocol: the unit of its times: ns, us, ms, s"
    )
    import_id: str | None = Field(None, pattern=r"^[A-Za-z0-9._-]{1,64}$")

    @property
    def given(self) -> dict[str, Any]:
        """The parameters that were given, by their names in the API."""
        return self.model_dump(by_alias=True, exclude_unset=True, exclude_none=True)

    def filled(self, parameters_found: dict[str, Any]) -> ImportOptions:
        """With what the file shows where nothing was given."""
        return ImportOptions.model_validate({**parameters_found, **self.given})

    def column_map(self) -> ColumnMap:
        """What the columns of a CSV file mean. Raises Invalid."""
        parameters = self.model_dump(by_alias=True, exclude=set(_NOT_OF_COLUMNS), exclude_none=True)
        if self.delimiter in _TAB:
            parameters["delimiter"] = "\t"
        return _map(ColumnMap, parameters)

    def feed_map(self) -> FeedMap:
        """Which curator each usage point of a Green Button file belongs to. Raises Invalid or
        BadImport."""
        return _map(FeedMap, self._owners())

    def nem_map(self) -> NemMap:
        """Which curator each NMI of a NEM12 file belongs to, and its qualities. Raises Invalid
        or BadImport."""
        parameters = self._owners()
        return _map(
            NemMap, parameters if self.accept is None else {**parameters, "accept": self.accept}
        )

    def meter_map(self) -> MeterMap:
        """What another file does not say itself. Raises Invalid or BadImport."""
        stated = {name: value for name, value in self.given.items() if name in _OF_METERS}
        return _map(MeterMap, self._owners() | stated)

    def _owners(self) -> dict[str, Any]:
        owners: dict[str, Any] = {} if self.curator is None else {"curator": self.curator}
        if self.usage_points is not None:
            try:
                owners["usage_points"] = json.loads(self.usage_points)
            except (ValueError, RecursionError):
                raise BadImport("is not a JSON object", pointer="/usage_points") from None
        return owners


def _map(kind: type[Map], parameters: dict[str, Any]) -> Map:
    try:
        return kind.model_validate_json(to_json(parameters))
    except ValidationError as error:
        raise invalid_from(error, parameters) from None
