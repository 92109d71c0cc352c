"""How large a group makes a result useful, from public values (spec: aggregation, section 9)."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from tacit.accounting.averages import AverageError, averages
from tacit.accounting.error import forecast
from tacit.query.functions import Part, parts
from tacit.query.query import Query
from tacit.query.sensitivity import Linear
from tacit.query.words import MAX_CURATORS


def typical_contribution(part: Part) -> Fraction:
    """Half of the most a curator can add to one coordinate, in the unit of its part.

    One reading falls into one bin, and an L1 bound is shared by the coordinates.
    """
    share = part.dimension if part.linear in (Linear.HISTOGRAM, Linear.VECTOR) else 1
    return part.largest * part.value / (2 * share)


def relative_error(query: Query, participants: int, typical: Fraction | None = None) -> float:
    """An upper bound of E|error| / typical value, of the noise and the worst rounding: the largest
    over the parts of a total, of which each curator adds a typical contribution, or the averages.

    `typical`: of the first part, if it is known better than half of what the bounds allow.
    """
    found = averages(query, participants)
    if found is None:
        return math.inf
    if found:
        return max(
            (each.mean_absolute + float(each.rounding.worst)) / float(_typical_average(query, each))
            for each in found
        )
    worst = 0.0
    for index, (part, error) in enumerate(
        zip(parts(query), forecast(query, participants), strict=True)
    ):
        each = typical if typical is not None and index == 0 else typical_contribution(part)
        off = error.mean_absolute + float(error.rounding.worst)
        worst = max(worst, off / float(each * participants))
    return worst


def _typical_average(query: Query, average: AverageError) -> Fraction:
    """Half of the largest mean that the bounds allow, and of the largest variance."""
    low, high = average.rounding.bounds or query.bounds
    if average.name == "mean":
        return max(abs(low), abs(high)) / 2
    return (high - low) ** 2 / 8


@lru_cache(maxsize=4096)  # every round's report asks it of its query
def smallest_useful_group(
    query: Query, share: Fraction, typical: Fraction | None = None
) -> int | None:
    """The smallest number of curators whose typical total is hit to within `share` on average.

    At least `min_participants` (no smaller group is ever released); None beyond 10^7 curators.
    The relative error falls with every curator: noise grows no faster than the square root, and
    rounding in proportion.
    """
    if share <= 0 or (typical is not None and typical <= 0):
        raise ValueError("a share and a typical contribution are above 0")
    low, high = query.min_participants, query.min_participants
    while relative_error(query, high, typical) > share:
        if high >= MAX_CURATORS:
            return None
        low, high = high, min(2 * high, MAX_CURATORS)
    while high - low > 1:
        middle = (low + high) // 2
        if relative_error(query, middle, typical) > share:
            low = middle
        else:
            high = middle
    return high
