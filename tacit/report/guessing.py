"""The guessing game: a guarantee as one figure that a person can judge.

A coin decides whether one unit's data are in. Who saw all that some group could see guesses, and is
right in at most this share of the cases; a half is a coin flip, one is knowing. It is what
(epsilon, delta) allows a test between two hypotheses. Source: Kairouz, Oh and Viswanath 2015.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Final

_PLACES: Final = 4
_FLOAT_ERROR: Final = 1e-6
"""Of a share in units of the last place: so little above it is not rounded up."""


def most_right(points: Iterable[tuple[str | None, str | None]]) -> float:
    """The largest share of right guesses that all these (epsilon, delta) of one guarantee allow,
    from 0.5 to 1.

    The least over them of (e^epsilon + delta) / (1 + e^epsilon); 1 where there is no guarantee.
    """
    return min((_most_right(epsilon, delta) for epsilon, delta in points), default=1.0)


def guess(points: Iterable[tuple[str | None, str | None]]) -> str:
    """The same as an amount, rounded up to four places."""
    rounded = math.ceil(most_right(points) * 10**_PLACES - _FLOAT_ERROR) / 10**_PLACES
    return f"{rounded:.{_PLACES}f}".rstrip("0").rstrip(".")


def of_a_hundred(share: str | None) -> int:
    """A guess as cases of 100, rounded up; 100 where nothing is stated."""
    return math.ceil(100 * Fraction(share or "1"))


@lru_cache(maxsize=4096)  # every report of the same query tells the same figures
def _most_right(epsilon: str | None, delta: str | None) -> float:
    if epsilon is None or epsilon == "inf":
        return 1.0
    right = 1 / (1 + math.exp(-float(Fraction(epsilon))))
    return min(1.0, right + (1 - right) * float(Fraction(delta or "0")))
