"""What clamping the noise of curators adds to delta (spec: validity, section 5).

In a proved query a curator adds clamp(Z, -T, T). Over a round that changes the law of the noise by
a total variation of at most tau, so a mechanism that was (epsilon, delta) is
(epsilon, delta + (1 + e^epsilon) tau). Of the 2^-64 of a query that names no tau that is next to
nothing, and a report has it beside `sampler_delta`; from 2^-50 on it is counted: in what is
verified, compared with the declared delta, and debited.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Final

from tacit.accounting.loss.rounding import UP, capped, decimal_up
from tacit.query.mechanisms import clamped_tail
from tacit.query.query import Query
from tacit.validity import noise_bound

NEGLIGIBLE: Final = Fraction(1, 1 << 50)
"""The largest addition to delta that is stated and not counted."""


def clamp_delta(query: Query, epsilon: Fraction) -> Fraction:
    """(1 + e^epsilon) tau, at most 1; 0 where no curator's noise is clamped."""
    tail = clamped_tail(query)
    return Fraction(0) if tail is None else noise_bound.clamp_delta(tail, epsilon)


def counts_clamping(query: Query, epsilon: Fraction) -> bool:
    """Whether clamping is counted in delta at this epsilon."""
    return clamp_delta(query, epsilon) > NEGLIGIBLE


def with_clamping(query: Query, epsilon: Fraction, delta: Decimal) -> Decimal:
    """delta at this epsilon, with what clamping adds where that is counted; at most 1."""
    added = clamp_delta(query, epsilon)
    return capped(UP.add(delta, decimal_up(added))) if added > NEGLIGIBLE else delta
