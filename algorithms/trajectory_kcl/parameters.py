"""The parameters of `trajectory-kcl` and their ranges, and what is refused.

Spec: trajectory-kcl, section 2 (names in small letters, as on the wire).

A trajectory table as sorted pair ids: the form on which everything else works.

Spec: trajectory-kcl, sections 2 and 3.1. A pair is (location, time). Times are part of the pair and
increase strictly in a record, so "subsequence" is "subset": with ids in the order of (time,
location), a path is an ascending array of ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Annotated, ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from algorithms.contract import ValueUnknown, asked_metrics
from algorithms.datasets.trajectories import ABSENT, Codes, Floats, Ints, Trajectories
from tacit.errors import Invalid
from tacit.wire import Exact, WireModel, require


class BadK(Invalid):
    name = "bad_k"
    title = "K is a whole number from 1"


class BadC(Invalid):
    name = "bad_c"
    title = "C is a rational between 0 and 1"


class BadL(Invalid):
    name = "bad_l"
    title = 'L is a whole number from 1, or "all"'


class KprimeRequired(Invalid):
    name = "kprime_required"
    title = "The utility mfs needs Kprime, the least support of a frequent sequence"


class MissingSensitive(Invalid):
    name = "missing_sensitive"
    title = "A record lacks an attribute that sensitive_values names"


class BadGrid(Invalid):
    name = "bad_grid"
    title = "The grid does not fit the points"


class TooManySequences(Invalid):
    """Raised before sequences are enumerated: their number, or the memory for them, is too
    large."""

    name = "too_many_sequences"
    title = "Too many sequences: choose a smaller L, a coarser grid, or split long paths"

    def __init__(self, detail: str) -> None:
        super().__init__(detail, pointer="/params/L")


Method = Literal["local", "global"]
Utility = Literal["instances", "mfs"]

LARGEST: Final = 10**9
MOST_VALUES: Final = 1_000
_PLAIN: Final = 1 << 32
"""Products of a denominator up to here and a number of records stay below 2^63."""


@dataclass(frozen=True)
class Model:
    """What (K,C)_L requires of a group: at least `least` records, no listed value above
    `confidence`.

    `length`: the longest sequence that an attacker knows; None: no limit.
    """

    least: int
    confidence: Fraction
    length: int | None

    def most(self, records: int) -> Ints:
        """For each group size 0..records, the largest number with one listed value; exact."""
        limit = self.confidence
        sizes: Ints = np.arange(records + 1, dtype=np.int64)
        if limit.denominator <= _PLAIN:
            return sizes * limit.numerator // limit.denominator
        exact = sizes.astype(object) * limit.numerator // limit.denominator
        return exact.astype(np.int64)

    def longest(self, path: int) -> int:
        """The longest sequence that counts in paths of at most this many pairs."""
        return path if self.length is None else min(self.length, path)

    def sequences(self, path: int, most: int) -> int:
        """How many sequences of 1 to L pairs a path of this many pairs has; beyond `most`, some
        number above it, without counting further."""
        total = term = 0
        for size in range(1, self.longest(path) + 1):
            term = path if size == 1 else term * (path - size + 1) // size
            total += term
            if total > most:
                break
        return total


class Grid(WireModel):
    """Turns points into (cell, slot) pairs; a value divided by its size, rounded down."""

    cell: Annotated[
        float | None,
        Field(description="side of a cell in the unit of x and y; for points with positions"),
    ] = None
    slot: Annotated[float, Field(description="length of a slot in the unit of time")]

    @field_validator("cell", "slot")
    @classmethod
    def _sizes(cls, value: float | None) -> float | None:
        if value is not None and not value > 0:
            raise BadGrid("sizes are above 0", pointer="/params/grid")
        return value


class Metrics(WireModel):
    """What an evaluation compares with the true data."""

    mfs: bool = Field(True, description="maximal frequent sequences that survive; needs Kprime")
    suppressed_pairs: bool = Field(True, description="how often each pair was suppressed")


class Parameters(WireModel):
    """Parameters of `trajectory-kcl`."""

    _EVERYTHING: ClassVar[Metrics] = Metrics(mfs=True, suppressed_pairs=True)

    K: Annotated[
        int,
        Field(
            description="records that share every sequence, at least",
            json_schema_extra={"minimum": 1, "maximum": LARGEST},
        ),
    ] = 30
    C: Exact = Field(
        Fraction(3, 5), description="confidence of a sensitive value, at most; between 0 and 1"
    )
    L: Annotated[
        int | Literal["all"],
        Field(
            description='pairs that an attacker knows, from 1; "all": whole paths',
        ),
    ] = 3
    sensitive_values: Annotated[
        tuple[tuple[str, str], ...],
        Field(description="[attribute, value] pairs; empty: only K counts"),
    ]
    method: Annotated[
        Method,
        Field(
            description="local: local and global suppression; slower, omits less where many "
            "records share their routes"
        ),
    ] = "local"
    utility: Annotated[Utility, Field(description="what suppression tries to keep")] = "instances"
    Kprime: Annotated[
        int | None,
        Field(
            ge=1,
            le=LARGEST,
            description="least support of a maximal frequent sequence; mfs needs it",
        ),
    ] = None
    empty_paths: Annotated[
        Literal["keep", "drop"], Field(description="records without pairs in the result")
    ] = "keep"
    grid: Grid | None = None
    evaluate: bool | Metrics = False

    @field_validator("K")
    @classmethod
    def _least(cls, value: int) -> int:
        if not 1 <= value <= LARGEST:
            raise BadK(pointer="/params/K")
        return value

    @field_validator("C")
    @classmethod
    def _confidence(cls, value: Fraction) -> Fraction:
        if not 0 <= value <= 1:
            raise BadC(pointer="/params/C")
        return value

    @field_validator("L")
    @classmethod
    def _length(cls, value: int | str) -> int | str:
        if isinstance(value, int) and not 1 <= value <= LARGEST:
            raise BadL(pointer="/params/L")
        return value

    @field_validator("sensitive_values")
    @classmethod
    def _values(cls, value: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        require(len(set(value)) == len(value), value, "names each value once")
        return require(len(value) <= MOST_VALUES, value, f"names at most {MOST_VALUES} values")

    @model_validator(mode="after")
    def _support(self) -> Parameters:
        if self.utility == "mfs" and self.Kprime is None:
            raise KprimeRequired(pointer="/params/Kprime")
        return self

    @property
    def model(self) -> Model:
        """The requested model of privacy."""
        return Model(self.K, self.C, self.L if isinstance(self.L, int) else None)

    @property
    def metrics(self) -> Metrics | None:
        """What to evaluate; None: nothing."""
        return asked_metrics(self.evaluate, lambda: self._EVERYTHING)


Flags = NDArray[np.bool_]

_LARGEST_CELL: Final = 2.0**53


@dataclass(frozen=True, eq=False)
class PairTable:
    """n paths over d pairs: record i has the ids items[offsets[i]:offsets[i + 1]], ascending.

    locations, times: of the d pairs. classes (n,): which combination of the s sensitive values a
    record has; class_marks (classes, s) says which values that is.
    """

    offsets: Ints
    items: Codes
    locations: tuple[str, ...]
    times: tuple[float, ...]
    classes: Codes
    class_marks: Flags

    @property
    def records(self) -> int:
        """How many records; private."""
        return int(self.offsets.size - 1)

    @property
    def pairs(self) -> int:
        """d, the number of different pairs."""
        return len(self.locations)

    @property
    def lengths(self) -> Ints:
        """Pairs in each record (n,)."""
        return np.diff(self.offsets)

    @cached_property
    def rows(self) -> Codes:
        """The record of each instance."""
        return np.repeat(np.arange(self.records, dtype=np.int32), self.lengths)

    @cached_property
    def marks(self) -> Flags:
        """Which sensitive values each record has, (n, s)."""
        result: Flags = self.class_marks[self.classes]
        return result

    def path(self, record: int) -> tuple[int, ...]:
        """The ids of one record."""
        return tuple(self.items[self.offsets[record] : self.offsets[record + 1]].tolist())

    @cached_property
    def _instances(self) -> Ints:
        """(record, pair) of each instance as one number; ascending."""
        return self.rows.astype(np.int64) * self.pairs + self.items

    def places(self, rows: Codes, item: int) -> Ints:
        """The place of a pair in these records, all of which have it; counted from 0."""
        codes = rows.astype(np.int64) * self.pairs + item
        result: Ints = np.searchsorted(self._instances, codes) - self.offsets[rows]
        return result

    def kept(self, alive: Flags) -> PairTable:
        """The same records without the instances that are not alive."""
        instances_left = np.bincount(self.rows[alive], minlength=self.records)
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(instances_left)))
        return replace(self, offsets=offsets, items=self.items[alive])


@dataclass(frozen=True)
class Coded:
    """A table, how many points had a slot that was already taken, and values that never occur."""

    table: PairTable
    merged: int


def code(
    data: Trajectories, sensitive_values: Sequence[tuple[str, str]], grid: Grid | None = None
) -> Coded:
    """The pair ids of a dataset. Raises MissingSensitive if a named attribute is absent, BadGrid
    if positions have no grid (or names have cells)."""
    marks = _marks(data, sensitive_values)
    class_marks, classes = _classes(marks)
    offsets, times, names, places = _points(data, grid)
    merged = int(data.times.size - times.size)
    rank = np.argsort(np.argsort(np.array(names, object))) if names else np.zeros(0, np.int64)
    slots, slot = np.unique(times, return_inverse=True)
    by_rank = [names[place] for place in np.argsort(rank)] if names else []
    keys, items = np.unique(slot * max(len(names), 1) + rank[places], return_inverse=True)
    table = PairTable(
        offsets,
        items.astype(np.int32),
        tuple(by_rank[key] for key in (keys % max(len(names), 1)).tolist()),
        tuple(slots[keys // max(len(names), 1)].tolist()),
        classes,
        class_marks,
    )
    return Coded(table, merged)


def _marks(data: Trajectories, sensitive_values: Sequence[tuple[str, str]]) -> Flags:
    attributes = {attribute.name: attribute for attribute in data.attributes}
    marks = np.zeros((data.records, len(sensitive_values)), bool)
    for place, (name, value) in enumerate(sensitive_values):
        if not data.records:
            break
        attribute = attributes.get(name)
        pointer = f"/params/sensitive_values/{place}"
        if attribute is None or (attribute.codes == ABSENT).any():
            raise MissingSensitive("every record needs the attribute", pointer=pointer)
        if value in attribute.values:
            marks[:, place] = attribute.codes == attribute.values.index(value)
    return marks


def check_values(table: PairTable) -> None:
    """Raise ValueUnknown if no record has a sensitive value: the intended records would not be
    protected."""
    unseen = np.flatnonzero(~table.class_marks.any(axis=0))
    if table.records and unseen.size:
        reason = "no record has this value; values are compared as they are written"
        raise ValueUnknown(reason, pointer=f"/params/sensitive_values/{unseen[0]}")


def _classes(marks: Flags) -> tuple[Flags, Codes]:
    """The different rows of marks (n, s), and which of them each record has."""
    if not marks.size:
        return np.zeros((1, marks.shape[1]), bool), np.zeros(len(marks), np.int32)
    packed = np.packbits(marks, axis=1)
    _, first, classes = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return marks[first], classes.reshape(-1).astype(np.int32)


def _points(data: Trajectories, grid: Grid | None) -> tuple[Ints, Floats, tuple[str, ...], Ints]:
    """Offsets, times, names of locations, and the name of each point, after gridding."""
    if (data.coordinates is not None) != (grid is not None and grid.cell is not None):
        reason = "positions need a grid with cells, names of locations none"
        if data.times.size:
            raise BadGrid(reason, pointer="/params/grid")
    if grid is None:
        return data.offsets, data.times, data.locations, data.places.astype(np.int64)
    with np.errstate(over="ignore"):
        slots = np.floor(data.times / grid.slot)
    if not (np.abs(slots) <= _LARGEST_CELL).all():
        raise BadGrid("slots are too short for these times", pointer="/params/grid/slot")
    rows = np.repeat(np.arange(data.records), np.diff(data.offsets))
    first = np.ones(slots.size, bool)
    first[1:] = (rows[1:] != rows[:-1]) | (slots[1:] != slots[:-1])
    instances_left = np.bincount(rows[first], minlength=data.records)
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(instances_left)))
    if data.coordinates is None or grid.cell is None:
        return offsets, slots[first], data.locations, data.places[first].astype(np.int64)
    with np.errstate(over="ignore"):
        cells = np.floor(data.coordinates[first] / grid.cell)
    if not (np.abs(cells) <= _LARGEST_CELL).all():
        raise BadGrid("cells are too small for these points", pointer="/params/grid/cell")
    corners, places = np.unique(cells.astype(np.int64), axis=0, return_inverse=True)
    names = tuple(f"{x}:{y}" for x, y in corners.tolist())
    return offsets, slots[first], names, places.reshape(-1)
