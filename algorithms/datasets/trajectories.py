"""Trajectories: for each record a path of (location, time) points and its sensitive attributes.

Spec: jobs, section "Datasets" (kind `trajectories`); trajectory-kcl, section 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Codes = NDArray[np.int32]

MAX_RECORDS: Final = 5 * 10**6
ABSENT: Final = -1


@dataclass(frozen=True, eq=False)
class Attribute:
    """A sensitive attribute: `codes` (n,) are places in `values`; ABSENT where a record has none.

    Raises ValueError for values that repeat and codes that are out of range.
    """

    name: str
    values: tuple[str, ...]
    codes: Codes

    def __post_init__(self) -> None:
        if len(set(self.values)) != len(self.values):
            raise ValueError("values of an attribute differ")
        if self.codes.size and not (
            self.codes.min() >= ABSENT and self.codes.max() < len(self.values)
        ):
            raise ValueError("a code is a place in the values, or absent")


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Kind `trajectories`: n records, their points one after the other.

    offsets (n + 1,): the points of record i are offsets[i]..offsets[i + 1]. times (points,):
    finite, strictly increasing in a record; whole numbers stay exact up to 2^53. A point's location
    is either a name, locations[places[j]], or a position coordinates[j] = (x, y) for points that
    have no name yet (then `places` and `locations` are empty). Empty paths and no records at all
    are legal. Raises ValueError for arrays that do not fit.
    """

    offsets: Ints
    times: Floats
    places: Codes
    locations: tuple[str, ...]
    attributes: tuple[Attribute, ...] = ()
    coordinates: Floats | None = None

    def __post_init__(self) -> None:
        points = self.times.size
        if self.offsets.size < 1 or self.offsets[0] != 0 or self.offsets[-1] != points:
            raise ValueError("offsets run from 0 to the number of points")
        if (np.diff(self.offsets) < 0).any():
            raise ValueError("offsets never fall")
        if self.coordinates is not None:
            if self.places.size or self.locations:
                raise ValueError("a point has a name or a position")
            if self.coordinates.shape != (points, 2) or not np.isfinite(self.coordinates).all():
                raise ValueError("a position is two finite numbers")
        elif self.places.shape != (points,):
            raise ValueError("one location for each point")
        elif points and not 0 <= self.places.min() <= self.places.max() < len(self.locations):
            raise ValueError("a place is an index of the locations")
        if len(set(self.locations)) != len(self.locations):
            raise ValueError("locations differ")
        if not np.isfinite(self.times).all():
            raise ValueError("times are finite")
        if late_points(self.offsets, self.times).size:
            raise ValueError("times increase strictly in a record")
        if len({each.name for each in self.attributes}) != len(self.attributes):
            raise ValueError("attributes differ")
        if any(each.codes.shape != (self.records,) for each in self.attributes):
            raise ValueError("an attribute has one code for each record")

    @property
    def records(self) -> int:
        """How many records; private."""
        return int(self.offsets.size - 1)


def late_points(offsets: Ints, times: Floats) -> Ints:
    """The points whose time is not above that of the point before them in their record."""
    late = np.zeros(times.size, bool)
    late[1:] = times[1:] <= times[:-1]
    starts = offsets[:-1]
    late[starts[starts < times.size]] = False
    return np.flatnonzero(late)
