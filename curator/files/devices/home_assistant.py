"""Home Assistant's long-term statistics, as its action `recorder.get_statistics` answers them.

    {"service_response": {"statistics": {"sensor.heat_pump_energy": [
      {"start": "2025-11-03T18:00:00+00:00", "end": "2025-11-03T19:00:00+00:00", "change": 0.51}]}}}

The answer of the websocket command `recorder/statistics_during_period` has the same rows under
`result`, with times in epoch milliseconds. Sources: Home Assistant, documentation of the action
`recorder.get_statistics`; developers' blog of 16 November 2022, "Changes to long term statistics
APIs". Its rules here:

- Each statistic is a device. Its unit is not in the file: the map says it.
- `change` is what was used in a row: an amount, booked at `start`. Without it `sum` is a counter's
  total at `end`. Of a register of states `mean` is taken, at `start`.
- A row whose value is null is passed over. A `state` is not taken: it may be reset at any time.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from common.runtime.clock import epoch_microseconds
from curator.errors import BadImport, BadItem
from curator.files.devices.json_records import JsonRecords
from curator.files.metered import Found, MeterMap, Series
from tacit import units
from tacit.units import Kind

_NEEDED: Final = {
    Kind.DELTA: {"change", "sum"},
    Kind.TOTAL_INCREASING: {"sum"},
    Kind.INSTANT: {"mean"},
}
_WITHIN: Final = ("service_response", "result", "statistics")


class HomeAssistantReader:
    """Reads one answer, row by row."""

    def __init__(self, mapping: MeterMap) -> None:
        self.found = Found()
        if mapping.unit is None:
            raise BadImport("is needed: the unit of the statistics", pointer="/unit")
        self._unit = mapping.unit
        self._register = mapping.register_name or units.DEFAULT
        unsuited = units.mismatch(self._register, self._unit)
        if unsuited is not None:
            raise BadImport(unsuited.detail, pointer="/unit")
        self._kind = mapping.kind or units.kind_of(self._register)
        self._rows = JsonRecords(_WITHIN)
        self._name, self._number = "", 0
        self._made: dict[Kind, Series] = {}

    def feed(self, data: bytes) -> None:
        """The next piece."""
        self._take(data, last=False)

    def end(self) -> None:
        """Read it. Raises BadImport for what is no such answer."""
        self._take(b"", last=True)
        if not self._rows.any:
            raise BadImport("the file has no lists of statistics by their names")

    def _take(self, data: bytes, *, last: bool) -> None:
        rows = self._rows
        for name, row in rows.feed(data, last=last):
            if name != self._name:
                self._name, self._number, self._made = name, 0, {}
            self._number += 1
            try:
                self._row(name, row, self._made)
            except BadItem as error:
                element = f"{name[:128]}, row {self._number}"
                self.found.fault(rows.line, element, error.detail)
        self.found.lines = rows.line

    def _row(self, name: str, row: Any, series_of: dict[Kind, Series]) -> None:
        if not isinstance(row, dict):
            raise BadItem("is no row of statistics")
        kind, value, at = self._kind, row.get("mean"), "start"
        if kind is not Kind.INSTANT:
            value = row.get("change") if kind is Kind.DELTA else None
            if value is None and row.get("sum") is not None:
                kind, value, at = Kind.TOTAL_INCREASING, row["sum"], "end"
        if value is None:
            if not _NEEDED[kind] & row.keys():
                needed = " or ".join(sorted(_NEEDED[kind]))
                raise BadItem(f"the row has no {needed}: ask for it by types")
            return
        if not isinstance(value, Decimal) or not value.is_finite() or abs(value.adjusted()) > 60:
            raise BadItem("the value is not a decimal number")
        series = series_of.get(kind)
        if series is None:
            series = series_of[kind] = Series(
                name, name, self._register, self._unit, kind, name[:128]
            )
        self.found.add(series, self._rows.line, _moment(row.get(at)), format(value, "f").encode())


def _moment(time: Any) -> int:
    if isinstance(time, Decimal) and time.is_finite() and abs(time) < 10**15:
        return int(time * 1000)
    try:
        moment = datetime.fromisoformat(time) if isinstance(time, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise BadItem("the time is not RFC 3339 with an offset, and not epoch milliseconds")
    return epoch_microseconds(moment)
