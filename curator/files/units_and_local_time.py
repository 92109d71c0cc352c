"""Units and local times as a column map or an MQTT mapping declares them.

Register, unit and kind of readings; and local times of a zone as moments, with the hour that occurs
twice in autumn and the one that is skipped in spring.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, Final, TypeAlias
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from common.runtime.clock import epoch_microseconds
from curator.errors import BadItem
from tacit import units
from tacit.units import Kind
from tacit.wire import Checked, WireModel, require

SKIPPED: Final = "does not exist in the zone: the clocks skip it"
TWICE: Final = "occurs twice in the zone: give an offset, or state which one is meant"
DISORDER: Final = "occurs twice in the zone, and the rows do not ascend there"
UNMARKED: Final = "has an offset that the zone does not have then"


class Twice(StrEnum):
    """Which instant an ambiguous local time means."""

    REFUSE = "refuse"
    ORDER = "order"
    EARLIER = "earlier"
    LATER = "later"


@dataclass(frozen=True)
class Moment:
    """One meaning of a local time: microseconds since 1970, and the zone's name of its offset."""

    time: int
    names: frozenset[str]


@lru_cache(maxsize=100_000)
def moments(wall: datetime, zone: ZoneInfo) -> tuple[Moment, ...]:
    """The instants that a naive local time can mean: none, one, or two in their order."""
    instants: list[Moment] = []
    for fold, letter in ((0, "A"), (1, "B")):
        local = wall.replace(tzinfo=zone, fold=fold)
        if local.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != wall:
            continue
        text = local.strftime("%z")
        names = {text, f"{text[:3]}:{text[3:]}", local.tzname() or "", letter, str(fold)}
        moment = Moment(epoch_microseconds(local), frozenset(names))
        if all(other.time != moment.time for other in instants):
            instants.append(moment)
    if len(instants) == 1:
        return (Moment(instants[0].time, instants[0].names | {"A", "B", "0", "1"}),)
    return tuple(instants)


def begin_of_gap(wall: datetime, zone: ZoneInfo) -> int | None:
    """The instant of a change of the clocks, if `wall` is the first local time that it skips."""
    if moments(wall, zone):
        return None
    local = wall.replace(tzinfo=zone, fold=0)
    moment = epoch_microseconds(local)
    before = datetime.fromtimestamp((moment - 1) // 10**6, UTC).astimezone(zone)
    changed = datetime.fromtimestamp(moment // 10**6, UTC).astimezone(zone)
    return moment if before.utcoffset() != changed.utcoffset() else None


class LocalTimes:
    """Resolves the stamps of one stream, device by device, in their order."""

    def __init__(self, zone: ZoneInfo, twice: Twice = Twice.REFUSE, *, ends: bool = False) -> None:
        self._zone, self._twice, self._ends = zone, twice, ends
        self._last: dict[Hashable, tuple[datetime, bool]] = {}

    def resolve(self, wall: datetime, device: Hashable = None, mark: str | None = None) -> int:
        """Microseconds since 1970 of a naive local time; `mark` is an offset, a zone's short name
        (CEST), A or B, 0 or 1. Raises BadItem with one of the messages above."""
        if not 1 < wall.year < MAXYEAR:
            raise BadItem("is no time that exists")  # in UTC it may be beyond the calendar
        instants = moments(wall, self._zone)
        if not instants:
            # An interval that ends as the clocks go forward: both 02:00 and 03:00 are its end.
            gap = begin_of_gap(wall, self._zone) if self._ends else None
            if gap is None:
                raise BadItem(SKIPPED)
            return gap
        if mark:
            instants = tuple(moment for moment in instants if mark in moment.names)
            if not instants:
                raise BadItem(UNMARKED)
        chosen = 0
        if self._twice is Twice.ORDER:
            chosen = self._in_order(wall, device, len(instants))
        elif len(instants) == 2:
            if self._twice is Twice.REFUSE:
                raise BadItem(TWICE)
            chosen = int(self._twice is Twice.LATER)
        return instants[chosen].time

    def _in_order(self, wall: datetime, device: Hashable, count: int) -> int:
        last, second = self._last.get(device, (None, False))
        if count == 1:
            self._last[device] = (wall, False)
            return 0
        if last is not None and wall <= last:
            inside = len(moments(last, self._zone)) == 2 and last.date() == wall.date()
            if second or not inside:
                raise BadItem(DISORDER)
            second = True
        self._last[device] = (wall, second)
        return int(second)


def _unit(unit: str) -> str:
    try:
        return units.unit_named(unit).symbol
    except ValueError as error:
        return require(False, unit, str(error))


def _register(name: str) -> str:
    try:
        return units.named(name)
    except ValueError as error:
        return require(False, name, str(error))


Unit: TypeAlias = Annotated[str, AfterValidator(_unit)]
RegisterName: TypeAlias = Annotated[str, AfterValidator(_register)]
"""An OBIS code becomes the register name that it denotes."""


class Declared(WireModel):
    """Register, unit and kind of all readings; unit and kind must fit the register."""

    register_name: RegisterName = Field(units.DEFAULT, alias="register")
    unit: Unit
    kind: Kind = Field(None, validate_default=True)
    """By default the first kind that the register takes."""
    rollover: Annotated[str, Field(max_length=40)] | None = None

    @field_validator("unit")
    @classmethod
    def _unit_of_the_register(cls, unit: str, info: ValidationInfo) -> str:
        return _suited(unit, units.mismatch(info.data.get("register_name", ""), unit))

    @field_validator("kind", mode="before")
    @classmethod
    def _own_kind(cls, kind: Any, info: ValidationInfo) -> Any:
        return kind or units.kind_of(info.data.get("register_name", ""))

    @field_validator("kind")
    @classmethod
    def _kind_of_the_register(cls, kind: Kind, info: ValidationInfo) -> Kind:
        return _suited(kind, units.kind_mismatch(info.data.get("register_name", ""), kind))


def _suited(value: Checked, reason: units.Mismatch | None) -> Checked:
    return value if reason is None else require(False, value, reason.detail)
