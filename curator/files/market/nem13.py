"""NEM13 files: readings of accumulation meters of the Australian market, as counters.

    100 header   250 two readings of a register, and the quantity between them   550   900 end

Source: AEMO, Meter Data File Format Specification NEM12 & NEM13, section 5 (record 250: NMI, NMI
configuration, register id, suffix, data stream, serial number, direction, previous reading with its
time, quality flag, reason code and description, then the current reading with the same, quantity,
unit). Its rules here:

- A register's readings are totals of a counter, at their times in eastern standard time (UTC+10).
  The current reading of a record is the previous one of the next: it is a duplicate.
- Direction E ("export from grid") is what the customer takes, I ("import to grid") what the
  customer feeds in: with suffix 11 and the like the direction alone says which.
- Reading times are YYYYMMDDhhmmss. Quality A actual, E estimate, F final substitute, S substitute.
- A quantity that is not the difference of the readings (a rollover, a multiplier, another meter)
  is reported, and neither reading of the record is taken: which one is right would be a guess.
- The file begins with 100 and ends with 900; without these it is cut off and nothing is stored.
"""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Final

from common.runtime.clock import epoch_microseconds
from curator.errors import BadImport
from curator.files.market.nem12 import NEM_TIME, TAKEN, UNITS_OF_MEASURE
from curator.files.metered import LineReader, MeterMap, Series
from curator.files.tables.header import misplaced
from tacit.units import Kind

DIRECTIONS: Final = {"E": "energy_import", "I": "energy_export"}
"""As the market sees them: E is energy that the grid exports, I what it imports."""
_NUMBER: Final = re.compile(r"\d{1,15}(\.\d{1,9})?")
_NMI: Final = re.compile(r"[A-Z0-9]{10,11}")
_TIME: Final = re.compile(r"\d{14}")
PREVIOUS, CURRENT, QUANTITY, UNIT = 8, 13, 18, 19
"""Indexes of a 250 record. A reading is followed by its time and its quality."""


class Nem13Reader(LineReader):
    """Reads records one after the other."""

    def __init__(self, mapping: MeterMap) -> None:
        super().__init__()
        self._accepted = {quality.strip() for quality in (mapping.accept or TAKEN).split(",")}
        self._begun = self._ended = False
        self._series: dict[tuple[str, ...], Series] = {}

    def line(self, number: int, text: bytes) -> None:
        """The next record."""
        cells = text.decode("utf-8", "replace").split(",")
        if b" " in text or b"\t" in text:
            cells = [cell.strip() for cell in cells]
        if not self._begun:
            if cells[:2] != ["100", "NEM13"]:
                raise misplaced("a NEM13 file begins with 100,NEM13", number)
            self._begun = True
        elif not text.strip():
            return
        elif self._ended:
            raise misplaced("the file continues after its 900 record", number)
        elif cells[0] == "250":
            self._readings(number, cells)
        elif cells[0] == "900":
            self._ended = True
        elif cells[0] != "550":
            detail = "the row is no record of NEM13: 250, 550 or 900 is expected"
            raise misplaced(detail, number, 1)

    def end(self) -> None:
        """The file is at its end. Raises BadImport for one that is cut off."""
        super().end()
        if not self._ended:
            raise BadImport("the file is cut off: it has no 900 record")

    def _readings(self, line: int, cells: list[str]) -> None:
        cells += [""] * (24 - len(cells))
        unit, register = UNITS_OF_MEASURE.get(cells[UNIT].upper()), DIRECTIONS.get(cells[7])
        totals = [cells[PREVIOUS], cells[CURRENT]]
        numbers = all(map(_NUMBER.fullmatch, (*totals, cells[QUANTITY])))
        if not (numbers and unit and register and cells[3] and _NMI.fullmatch(cells[1])):
            self._misfit(line, cells)
            return
        if Decimal(totals[1]) - Decimal(totals[0]) != Decimal(cells[QUANTITY]):
            detail = "the quantity is not the difference of the readings"
            self.found.fault(line, f"column {QUANTITY + 1}", detail, 2)
            return
        device = ":".join(name for name in (cells[1], cells[6], cells[3]) if name)
        key = (cells[1], device, register, unit)
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = Series(*key, Kind.TOTAL_INCREASING, "250")
        for at, total in zip((PREVIOUS, CURRENT), totals, strict=True):
            if cells[at + 2][:1] not in self._accepted:
                detail = "the quality is not one that accept names"
                self.found.fault(line, f"column {at + 3}", detail)
                continue
            time = _moment(cells[at + 1])
            if time is None:
                detail = "the time is not of the form YYYYMMDDhhmmss"
                self.found.fault(line, f"column {at + 2}", detail)
                continue
            self.found.add(series, line, time, total.encode())

    def _misfit(self, line: int, cells: list[str]) -> None:
        """Report the first cell because of which the readings of a record cannot be used."""
        faults = [
            (not _NMI.fullmatch(cells[1]), 1, "the NMI is not of 10 or 11 signs"),
            (not cells[3], 3, "the register id is missing"),
            (cells[7] not in DIRECTIONS, 7, "the direction is neither E (export from grid) nor I"),
            (cells[UNIT].upper() not in UNITS_OF_MEASURE, UNIT, "the unit is not Wh, kWh or MWh"),
            *(
                (not _NUMBER.fullmatch(cells[at]), at, "is not a decimal number")
                for at in (PREVIOUS, CURRENT, QUANTITY)
            ),
        ]
        at, reason = next((at, reason) for wrong, at, reason in faults if wrong)
        self.found.fault(line, f"column {at + 1}", reason, 2)


@lru_cache(maxsize=100_000)
def _moment(text: str) -> int | None:
    if not _TIME.fullmatch(text):
        return None
    try:
        wall = datetime.strptime(text, "%Y%m%d%H%M%S")  # noqa: DTZ007
    except ValueError:
        return None
    if not 1 < wall.year < 9999:
        return None
    return epoch_microseconds(wall.replace(tzinfo=NEM_TIME))
