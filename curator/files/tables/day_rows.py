"""A day a row: which interval a column is, and where it begins on a date of a zone.

    clock     headers are times of day (00:00, 00:30, ...; 00:30 to 24:00 name ends; 00:00-00:30)
    counted   headers are numbers (q0, q1, ... or 1, 2, ...): the k-th interval since midnight

On the days when the clocks change, counted rows have as many values as the day has intervals (46 or
50 of half an hour), or the row is refused. By the clock, cells of the hour that is skipped are
empty, or the row is refused: its values may be counted. The hour that comes twice has columns for
both passes, or `ambiguous` says which is meant.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import Final, Literal
from zoneinfo import ZoneInfo

from curator.errors import BadItem
from curator.files.units_and_local_time import SKIPPED, Twice, begin_of_gap, moments

DAY_S: Final = 86_400
_HOUR_S: Final = 3600
_STEPS: Final = {
    (DAY_S + change) // step: step
    for step in (3600, 1800, 900, 600, 300, 60)
    for change in (-_HOUR_S, 0, _HOUR_S)
}
_FEWEST: Final = 23
_TIME: Final = re.compile(
    r"(\d{1,2})[:.h]?([0-5]\d)(?::00)?(?:\s*(?:-|–|to|bis)\s*(\d{1,2})[:.h]?([0-5]\d)(?::00)?)?",
    re.ASCII,
)
_NUMBERED: Final = re.compile(r"(.*?)(\d{1,4})", re.ASCII | re.DOTALL)
_DATE: Final = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d\d|\d{4})", re.ASCII
)
_COMPACT: Final = re.compile(r"(19|20)\d\d(0[1-9]|1[0-2])([0-2]\d|3[01])", re.ASCII)
DATE_NAMES: Final = frozenset(("date", "day", "datum", "tag", "fecha", "data", "reading_date"))


class NoDays(ValueError):
    """The columns are not the intervals of a day. `pointer`: the offending parameter."""

    def __init__(self, detail: str, pointer: str = "/columns") -> None:
        super().__init__(detail)
        self.pointer = pointer


@dataclass(frozen=True)
class DayColumns:
    """The columns of a day's intervals: `count` from the index `first` on, each of `step_s`.

    `walls`: the start of each by the clock, in seconds after midnight, and whether it is the
    first or second pass of a repeated hour; None if columns are counted. `passes`: 2 if any
    column is a second pass.
    """

    first: int
    step_s: int
    walls: tuple[tuple[int, int], ...] | None
    count: int

    @property
    def passes(self) -> int:
        """2 where the hour that comes twice has columns for both passes."""
        return 1 + max((second for _, second in self.walls or ()), default=0)


@dataclass(frozen=True)
class DayBegins:
    """The starts of the intervals of one date: microseconds since 1970 of each column.

    `absent`: columns that the date does not have, with the reason; a value in one means that the
    row may not be by the clock. `twice`: columns that mean two intervals. `expected`: for
    counted columns, how many values the date has.
    """

    times: tuple[int, ...]
    absent: dict[int, str]
    twice: frozenset[int]
    expected: int | None


def day_columns(
    header: Sequence[str],
    *,
    columns: tuple[int, int] | None = None,
    step_s: int | None = None,
    stamp: Literal["start", "end"] = "start",
) -> DayColumns:
    """The intervals that a header names. `columns`: first and last index. Raises NoDays."""
    named = [_time_of_day(name) for name in header]
    numbered = _numbered(header)
    begin, end = columns or _run([label is not None for label in named])
    clock = end - begin + 1 >= max(_FEWEST, 1 + numbered[1] - numbered[0])
    if (columns or clock) and all(label is not None for label in named[begin : end + 1]):
        times = [label for label in named[begin : end + 1] if label is not None]
        day_of_columns = _by_the_clock(begin, times, stamp)
        if any(label is not None for label in (*named[:begin], *named[end + 1 :])) and not columns:
            raise NoDays("the columns with times of day are not adjacent")
    else:
        begin, end = columns or numbered
        if begin > end:
            raise NoDays(
                "the header has no columns of a day's intervals: times of day from 00:00 on, or "
                "consecutive numbers from 0 or 1; else give `columns`"
            )
        day_of_columns = _counted(begin, end - begin + 1, step_s)
    if step_s not in (None, day_of_columns.step_s):
        raise NoDays(
            f"the columns are {day_of_columns.step_s} s apart, and step_s is another", "/step_s"
        )
    return day_of_columns


def _time_of_day(name: str) -> tuple[int, int | None] | None:
    """The time that a header names in seconds after midnight, and the end of a range."""
    match = _TIME.fullmatch(name.strip())
    if match is None:
        return None
    begin = int(match[1]) * _HOUR_S + int(match[2]) * 60
    end = None if match[3] is None else int(match[3]) * _HOUR_S + int(match[4]) * 60
    return None if max(begin, end or 0) > DAY_S else (begin, end)


def names_a_time(name: str) -> bool:
    """Whether the name of a column is a time of day."""
    return _time_of_day(name) is not None


def _run(members: Sequence[bool]) -> tuple[int, int]:
    """First and last index of the longest run of true ones; (0, -1) for none."""
    best, begin = (0, -1), 0
    for index, member in enumerate(members):
        if not member:
            begin = index + 1
        elif index - begin > best[1] - best[0]:
            best = (begin, index)
    return best


def _numbered(header: Sequence[str]) -> tuple[int, int]:
    """The longest run of names with one beginning and consecutive numbers from 0 or 1,
    as first and last index; (0, -1) for none."""
    parts = [_NUMBERED.fullmatch(name.strip()) for name in header]
    best, begin = (0, -1), 0
    for index, part in enumerate(parts):
        before = parts[index - 1] if index else None
        follows = (
            part is not None
            and before is not None
            and part[1] == before[1]
            and int(part[2]) == int(before[2]) + 1
        )
        begin = begin if follows else index
        if part is not None and index - begin > best[1] - best[0]:
            best = (begin, index)
    first = parts[best[0]]
    if first is None or best[1] - best[0] + 1 < _FEWEST or int(first[2]) > 1:
        return 0, -1
    return best


def _counted(first: int, count: int, step_s: int | None) -> DayColumns:
    step = step_s or _STEPS.get(count)
    if step is None:
        raise NoDays(f"{count} columns of a day: give step_s", "/step_s")
    if not DAY_S - _HOUR_S <= count * step <= DAY_S + _HOUR_S:
        raise NoDays(f"{count} columns of {step} s are no day", "/step_s")
    return DayColumns(first, step, None, count)


def _by_the_clock(
    first: int, names: Sequence[tuple[int, int | None]], stamp: Literal["start", "end"]
) -> DayColumns:
    if len(names) < 2:
        raise NoDays("one column is no day")
    labels, ranges = [begin for begin, _ in names], [end for _, end in names]
    if labels[0] and not labels[-1]:  # 00:30 to 00:00
        if stamp == "start":
            raise NoDays(
                'the columns end with 00:00: give stamp = "end" if they are ends', "/stamp"
            )
        labels[-1] = DAY_S
    once = sorted(set(labels))
    step = once[1] - once[0]
    if once != [once[0] + step * k for k in range(len(once))] or len(once) * step != DAY_S:
        raise NoDays("the columns that are times of day do not cover a day by one step")
    ends = once[0] == step
    if once[0] not in (0, step):
        raise NoDays("the columns that are times of day begin neither at 00:00 nor one step later")
    if not ends and stamp == "end" and None in ranges:
        raise NoDays(
            'the columns begin at 00:00, which ends no interval: stamp = "start"', "/stamp"
        )
    if any(
        end is not None and end != begin + step for begin, end in zip(labels, ranges, strict=True)
    ):
        raise NoDays("a column is a range that is not one step long")
    walls, earlier_labels = [], set[int]()
    for label in labels:
        walls.append((label - step * ends, int(label in earlier_labels)))
        earlier_labels.add(label)
    second = [wall for wall, again in walls if again]
    if len(second) != len(set(second)) or (second and ends):
        raise NoDays("columns of the repeated hour are read if they name starts, twice")
    if [wall for wall, again in walls if not again] != sorted(
        wall for wall, again in walls if not again
    ):
        raise NoDays("the columns that are times of day do not ascend")
    return DayColumns(first, step, tuple(walls), len(walls))


def is_date(text: str, name: str = "") -> bool:
    """Whether a cell looks like a date; eight digits do in a column with a name of dates."""
    compact = name.strip().lower() in DATE_NAMES and _COMPACT.fullmatch(text.strip())
    return bool(compact or _DATE.fullmatch(text.strip()))


def date_of(text: str, form: str | None) -> date:
    """The date of a cell. Raises BadItem for any other text, and for a time other than midnight."""
    try:
        # A date of the map's zone: its offset is that of each interval.
        moment = datetime.strptime(text, form) if form else datetime.fromisoformat(text)  # noqa: DTZ007
    except ValueError:
        form_words = "in time_format" if form is not None else "YYYY-MM-DD: give time_format"
        raise BadItem(f"is not of the form {form_words}") from None
    if moment.time() != time() or moment.tzinfo is not None:
        raise BadItem("is followed by a time, but a row is a day")
    return moment.date()


@lru_cache(maxsize=10_000)
def begins(columns: DayColumns, day: date, zone: ZoneInfo, twice: Twice) -> DayBegins:
    """Where the intervals of a date begin. Raises BadItem."""
    if not 1 < day.year < 9998:
        raise BadItem("is no time that exists")
    step = columns.step_s * 10**6
    start, end = (_midnight(day + timedelta(days=ahead), zone) for ahead in (0, 1))
    if columns.walls is None:
        if (end - start) % step:
            raise BadItem("is a day that has no whole number of intervals")
        return DayBegins(
            tuple(start + step * k for k in range(columns.count)),
            {},
            frozenset(),
            (end - start) // step,
        )
    times, absent, unclear = [], dict[int, str](), set[int]()
    for index, (wall, second) in enumerate(columns.walls):
        instants = moments(datetime.combine(day, time()) + timedelta(seconds=wall), zone)
        chosen = second
        if not instants:
            absent[index] = f"the time {SKIPPED}"
        elif second and len(instants) == 1:
            absent[index] = "the time occurs once on this day, but the row has two values for it"
        elif len(instants) == 2 and columns.passes == 1:
            chosen = int(twice is Twice.LATER)
            if twice not in (Twice.EARLIER, Twice.LATER):
                unclear.add(index)
        times.append(start if index in absent else instants[chosen].time)
    return DayBegins(tuple(times), absent, frozenset(unclear), None)


def _midnight(day: date, zone: ZoneInfo) -> int:
    """The start of a date, also if the clocks skip its midnight, or show it twice."""
    wall = datetime.combine(day, time())
    instants = moments(wall, zone)
    if instants:
        return instants[0].time
    gap = begin_of_gap(wall, zone)
    if gap is None:
        raise BadItem(SKIPPED)
    return gap
