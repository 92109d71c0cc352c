"""What the columns of a CSV file mean; its fields are the parameters of an import."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Final, Literal

from pydantic import Field, field_validator, model_validator

from common.runtime.clock import epoch_microseconds
from curator.errors import BadItem
from curator.files.localtime import LocalTimes, Twice, zone_named
from curator.files.units import Declared
from tacit.query.words import Identifier
from tacit.registers import Kind
from tacit.wire import require

MAX_STEP_S: Final = 31 * 86_400


class ColumnMap(Declared):
    """What the columns of a file mean. Names are those of its header.

    Stamps with an offset and epoch milliseconds are moments as they stand; others are local times
    of `timezone`. `stamp` says which end of its interval a stamp names: a reading is booked where
    its interval begins, so with `end` the step is taken off, in elapsed time.
    """

    layout: Literal["long", "wide"] = "long"
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    decimal: Literal[".", ","] = "."
    header_line: Annotated[int, Field(ge=1, le=1000)] = 1
    curator: Identifier | None = None
    curator_column: str | None = None
    device_column: str | None = None
    date_column: str | None = None
    time_column: str = "time"
    value_column: str = "value"
    time_format: Annotated[str, Field(min_length=2, max_length=64)] | None = None
    timezone: str | None = None
    ambiguous: Twice = Twice.REFUSE
    offset_column: str | None = None
    stamp: Literal["start", "end"] = "start"
    start: str | None = None
    step_s: Annotated[int, Field(ge=1, le=MAX_STEP_S)] | None = None
    columns: Annotated[str, Field(pattern=r"^[^:]+:[^:]+$")] | None = None

    @field_validator("time_format")
    @classmethod
    def _a_format(cls, form: str | None) -> str | None:
        try:
            datetime.strptime("", form or "%Y")  # noqa: DTZ007 - only the format counts
        except ValueError as error:
            require("bad directive" not in str(error), form, "is not of the form of strptime")
        except re.error:
            return require(False, form, "names a part of the time twice")
        return form

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, name: str | None) -> str | None:
        try:
            return name if name is None else zone_named(name).key
        except ValueError as error:
            return require(False, name, str(error))

    @model_validator(mode="after")
    def _consistent(self) -> ColumnMap:
        wide, counter = self.layout == "wide", self.kind is Kind.TOTAL_INCREASING
        timed = self.start is not None and self.step_s is not None
        require(not wide or timed, self, "layout wide needs start and step_s")
        require(not (wide and counter), self, "counters come in layout long")
        require(counter or self.rollover is None, self, "rollover is of counters")
        ends = self.stamp == "end"
        require(not ends or self.step_s is not None, self, "stamp end needs step_s")
        require(not (ends and counter), self, "a counter is read at a moment: stamp start")
        require(self.decimal != self.delimiter, self, "decimal and delimiter are the same")
        require(self.delimiter not in '"\r\n', self, "delimiter is no quote and no line break")
        local = self.ambiguous is not Twice.REFUSE or self.offset_column is not None
        require(not local or self.timezone is not None, self, "ambiguous hours need the timezone")
        if wide:
            _ = self.start_us
        return self

    @property
    def start_us(self) -> int:
        """Layout wide: microseconds since 1970 at which its first column begins."""
        assert self.start is not None
        assert self.step_s is not None
        try:
            moment = datetime.fromisoformat(self.start)
        except ValueError:
            moment = datetime.min  # noqa: DTZ901 - represents no time, refused below
        local = moment.tzinfo is None
        known = moment != datetime.min and (not local or self.timezone is not None)  # noqa: DTZ901
        require(known, self, "start is an RFC 3339 time, with an offset or a timezone beside it")
        if not local:
            begin = epoch_microseconds(moment)
        else:
            try:
                begin = self.local_times().resolve(moment)
            except BadItem as error:
                return require(False, 0, f"start {error.detail}")
        return begin - (self.step_s * 10**6 if self.stamp == "end" else 0)

    def local_times(self) -> LocalTimes:
        """A resolver of local times, for one file."""
        assert self.timezone is not None
        return LocalTimes(zone_named(self.timezone), self.ambiguous, ends=self.stamp == "end")
