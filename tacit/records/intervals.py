"""Items that are a place during an interval of time, and readings that fall into one.

An interval item is written `PLACE@START+SECONDS`, a reading `PLACE@SECOND`, both in seconds of one
clock. A universe of interval items thus says by itself how timestamps are discretised, for a keeper
and for every curator alike. Spec: sequential-prefix-tree, section 10.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

_INTERVAL: Final = re.compile(r"(.*)@(-?[0-9]{1,15})\+([0-9]{1,15})", re.DOTALL)
_READING: Final = re.compile(r"(.*)@(-?[0-9]{1,15}(?:\.[0-9]{1,9})?)", re.DOTALL)


def interval_item(place: str, start_s: int, grain_s: int) -> str:
    """A place from a second on, for as many seconds as the grain has."""
    return f"{place}@{start_s}+{grain_s}"


class PlaceIndex:
    """The places of a universe's items. Made once for many lists of items."""

    def __init__(self, universe: Sequence[str]) -> None:
        self._universe = universe
        self._places = {item: place for place, item in enumerate(universe)}

    def of(self, items: Sequence[str]) -> NDArray[np.int32]:
        """The index of each item: its own, or that of the interval that contains a reading (from
        its start, before its end); -1 for none."""
        result = np.array([self._places.get(item, -1) for item in items], np.int32)
        for number in np.flatnonzero(result < 0).tolist():
            result[number] = self._interval_of(items[number])
        return result

    @cached_property
    def _intervals(self) -> dict[str, list[tuple[int, int, int]]]:
        """(start, end, place in the universe) of the intervals of each place, rising."""
        intervals: dict[str, list[tuple[int, int, int]]] = {}
        for number, item in enumerate(self._universe):
            if parts := _INTERVAL.fullmatch(item):
                start_s = int(parts[2])
                interval = start_s, start_s + int(parts[3]), number
                intervals.setdefault(parts[1], []).append(interval)
        for listed in intervals.values():
            listed.sort()
        return intervals

    def _interval_of(self, item: str) -> int:
        parts = _READING.fullmatch(item)
        if parts is None or not (listed := self._intervals.get(parts[1])):
            return -1
        second = math.floor(Decimal(parts[2]))
        place = bisect_right(listed, (second, math.inf, 0)) - 1
        if place < 0 or second >= listed[place][1]:
            return -1
        return listed[place][2]
