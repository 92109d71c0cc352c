"""The guessing game: a guarantee as one figure that a person can judge.

A coin decides whether one unit's data are in. Who saw all that some group could see guesses, and is
right in at most this share of the cases; a half is a coin flip, one is knowing. It is what
(epsilon, delta) allows a test between two hypotheses. Source: Kairouz, Oh and Viswanath 2015.
"""

from __future__ import annotations

import math
from fractions import Fraction

from tacit.report.model import VerifiedStatement


def most_right(statement: VerifiedStatement) -> float:
    """The largest share of right guesses that the statement allows, from 0.5 to 1.

    The least over the curve's points of (e^epsilon + delta) / (1 + e^epsilon); 1 where there is no
    guarantee.
    """
    allowed = [_most_right(point.epsilon, point.delta) for point in statement.curve]
    return min([_most_right(statement.epsilon, statement.delta), *allowed])


def of_a_hundred(statement: VerifiedStatement) -> int:
    """The same of 100 cases, rounded up."""
    return math.ceil(100 * most_right(statement) - 1e-9)


def _most_right(epsilon: str | None, delta: str | None) -> float:
    if epsilon is None or epsilon == "inf":
        return 1.0
    right = 1 / (1 + math.exp(-float(Fraction(epsilon))))
    return min(1.0, right + (1 - right) * float(Fraction(delta or "0")))
