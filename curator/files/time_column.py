"""A column of time stamps as moments, as described by a column map."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import lru_cache

import numpy as np

from common.runtime.clock import epoch_microseconds
from curator.errors import BadItem
from curator.files import columns
from curator.files.column_map import ColumnMap
from curator.files.columns import Column
from curator.intake.reading import Times, parse_time


@dataclass(frozen=True)
class StampCells:
    """The cells of one lot of rows; `dates` and `marks` where the map names such columns."""

    times: Sequence[bytes]
    dates: Sequence[bytes] | None
    marks: Sequence[bytes] | None
    devices: Sequence[Hashable]


class Stamps:
    """Reads the stamps of one file, lot by lot, in the order of its rows."""

    def __init__(self, mapping: ColumnMap) -> None:
        self._map = mapping
        self._local = None if mapping.timezone is None else mapping.local_times()
        ends = mapping.stamp == "end" and mapping.step_s is not None
        self._back = (mapping.step_s or 0) * 10**6 if ends else 0

    def moments(self, cells: StampCells, allowed: Times) -> Column:
        """Microseconds since 1970, and what is wrong with the cells that gave none."""
        if self._local is None and self._map.time_format is None and cells.dates is None:
            return self._begins(columns.times(cells.times, allowed), allowed)
        values = np.zeros(len(cells.times), np.int64)
        faults = []
        for index, cell in enumerate(cells.times):
            text = _text(cell)
            if cells.dates is not None:
                text = f"{_text(cells.dates[index])} {text}"
            mark = None if cells.marks is None else _text(cells.marks[index])
            try:
                values[index] = allowed.check(
                    self._moment(text, cells.devices[index], mark, allowed)
                )
            except BadItem as error:
                faults.append((index, f"the time {error.detail}"))
        return self._begins(Column(values, tuple(faults)), allowed)

    def _moment(self, text: str, device: Hashable, mark: str | None, allowed: Times) -> int:
        number = text.isascii() and text.isdecimal() and len(text) <= 15
        if number and self._map.time_format is None:
            return parse_time(Decimal(text), allowed)
        parsed = _parsed(text, self._map.time_format)
        if parsed is None:
            if self._map.time_format is not None:
                raise BadItem("is not of the form in time_format")
            return parse_time(text, allowed)
        if parsed.tzinfo is not None:
            return epoch_microseconds(parsed)
        if self._local is None:
            raise BadItem("has no offset, and no timezone is given")
        return self._local.resolve(parsed, device, mark)

    def _begins(self, found: Column, allowed: Times) -> Column:
        if not self._back:
            return found
        begins = found.values - self._back
        faults = dict(found.faults)
        early = np.flatnonzero(begins < allowed.earliest).tolist()
        before = f"the time lies before {allowed.first_day}"
        faults |= {index: before for index in early if index not in faults}
        return Column(begins, tuple(sorted(faults.items())))


def _text(cell: bytes) -> str:
    return cell.decode("utf-8", "replace").strip()


@lru_cache(maxsize=100_000)
def _parsed(text: str, form: str | None) -> datetime | None:
    try:
        if form is None:
            return datetime.fromisoformat(text)
        return datetime.strptime(text, form)  # noqa: DTZ007 - the map's zone comes after
    except ValueError:
        return None
