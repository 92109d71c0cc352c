"""The words of a query: enumerations, identifiers, limits, and the blocks of a vector.

Spec: aggregation, section 2.
"""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction
from typing import Annotated, Final

from pydantic import Field, field_validator

from tacit.wire import Exact, WireModel, require

IDENTIFIER: Final = r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$"
IDENTIFIER_RULE: Final = (
    "is a name of letters, digits and . _ : @ - without blanks, that begins with a letter or digit "
    "and has at most 128 of them"
)
Identifier = Annotated[str, Field(pattern=IDENTIFIER)]
Purpose = Annotated[str, Field(min_length=1, max_length=300, pattern=r"^[^\x00-\x1f\x7f]+$")]


RegisterName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$")]

MAX_DIMENSION = 65_536
"""Coordinates of a query, at most, unless it is a vector_sum with a bound in L2."""

LONGEST_VECTOR: Final = 1_000_000
"""Coordinates of a vector_sum with Gaussian noise and a bound on windows, at most."""

MAX_AGGREGATORS = 16

MAX_CURATORS = 10_000_000

LONGEST_PART: Final = 262_144
"""Roster numbers in one part of a host in a proved round, at most."""


MOST_RECORDS: Final = 1 << 16
"""Records that a curator's table holds, at most: more of them count in no query."""

RECORDS: Final = "records"
"""The register of queries over curators' own records."""

PRESENCE: Final = "curators_with_readings"
"""The part of a result that counts the curators with readings."""


class Function(StrEnum):
    SUM = "sum"
    COUNT = "count"
    MEAN = "mean"
    VARIANCE = "variance"
    HISTOGRAM = "histogram"
    VECTOR_SUM = "vector_sum"
    TABLE = "table"


class Mechanism(StrEnum):
    TWO_LAYER = "two-layer"
    LOCAL = "local"
    DISTRIBUTED = "distributed"
    EXACT = "exact"


class Layer(StrEnum):
    AGGREGATOR = "aggregator"
    CURATOR = "curator"
    BOTH = "both"


class Noise(StrEnum):
    """The law of the noise of a distributed query; a query that does not state it has `LAPLACE`."""

    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


class Sharing(StrEnum):
    ADDITIVE = "additive"
    SHAMIR = "shamir"
    NONE = "none"


class Stance(StrEnum):
    SOUND = "sound"
    PAPER = "paper"


class Validity(StrEnum):
    """What ensures that a contribution lies in its declared range: the curator's own honesty, or
    a proof."""

    DECLARED = "declared"
    PROVED = "proved"


class Completeness(StrEnum):
    """What a round releases, in addition to its function, about how complete the readings were."""

    CURATORS = "curators"


class PrivacyUnit(StrEnum):
    RECORD = "record"
    CURATOR = "curator"


class Coordinates(StrEnum):
    """How a reading becomes a vector: by the slot of the window into which it falls, or as sent."""

    SLOTS = "slots"
    VALUES = "values"


class Block(WireModel):
    """One part of a vector sum, with its own resolution, bound and part of epsilon."""

    name: Identifier
    dimension: Annotated[int, Field(ge=1, le=LONGEST_VECTOR)]
    l1_bound: Exact
    resolution: Exact
    window_bound: Exact | None = None

    @field_validator("l1_bound", "resolution", "window_bound")
    @classmethod
    def _positive(cls, value: Fraction | None) -> Fraction | None:
        return require(value is None or value > 0, value, "must be above 0")


def part_count(
    function: Function,
    blocks: tuple[Block, ...] | None = None,
    completeness: Completeness | None = None,
) -> int:
    """How many parts epsilon is split into: one for each coordinate group of the function, and one
    for the count of curators with readings."""
    return _function_parts(function, blocks) + (completeness is not None)


def _function_parts(function: Function, blocks: tuple[Block, ...] | None) -> int:
    if function is Function.MEAN:
        return 2
    if function is Function.VARIANCE:
        return 3
    if function is Function.VECTOR_SUM and blocks:
        return len(blocks)
    return 1
