"""The words of a query: enumerations, identifiers and limits. Spec: aggregation, section 2."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

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


PRESENCE: Final = "curators_with_readings"
"""The part of a result that counts the curators with readings."""


class Function(StrEnum):
    SUM = "sum"
    COUNT = "count"
    MEAN = "mean"
    VARIANCE = "variance"
    HISTOGRAM = "histogram"
    VECTOR_SUM = "vector_sum"


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
    """The law of the noise of a distributed query; what a query without it has is `LAPLACE`."""

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
    """What ensures that a contribution lies in its declared range: its curator, or a proof."""

    DECLARED = "declared"
    PROVED = "proved"


class Completeness(StrEnum):
    """What a round releases, besides its function, on how complete the readings were."""

    CURATORS = "curators"


class PrivacyUnit(StrEnum):
    RECORD = "record"
    CURATOR = "curator"


class Coordinates(StrEnum):
    """How a reading becomes a vector: by the slot of the window it falls in, or as sent."""

    SLOTS = "slots"
    VALUES = "values"
