"""The parameters of `trajectory-kcl` and their ranges, and what is refused.

Spec: trajectory-kcl, section 2 (names in small letters, as on the wire).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, Final, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from algorithms.contract import asked_metrics
from algorithms.datasets.trajectories import Ints
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
    """Before they are enumerated: their number, or the memory that they would take."""

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
        """For each group size 0..records, how many may have one listed value; exact."""
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
        """How many sequences of 1 to L pairs a path of this many pairs has; where that is more than
        `most`, a number above it, found without counting on."""
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
    method: Annotated[Method, Field(description="local: local and global suppression")] = "local"
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
