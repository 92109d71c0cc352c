"""Percentiles of a released histogram: post-processing, so they cost no privacy.

Counts are noisy, so their running sums may fall; the estimate takes, at each edge, the middle of
the largest sum so far and the smallest that follows (both are monotone), and interpolates inside a
bin. All in whole numbers and fractions: a browser that verifies a round computes the same text.
An interval inverts a test of the rank at each edge. Spec: aggregation, section 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Final, NamedTuple

from tacit.wire import format_exact

NORMAL_95: Final = 1.959964
"""Deviations that a normal law passes in 5 of 100 cases."""


class Interval(NamedTuple):
    """Two edges between which a percentile lies."""

    low: Fraction
    high: Fraction


class CountNoise(NamedTuple):
    """Noise of one count, a whole number: its standard deviation, and the `half_width` within
    which it stays in at least 95 of 100 cases."""

    half_width: float
    deviation: float

    def reach(self, share: float, below: int, above: int) -> float:
        """How far the rank of an edge is wrong at most in 95 of 100 cases.

        The error is 1 - share times the noise of the counts below it, minus share times that of
        those above. The quantile of such a sum is at most as many deviations away as that of one
        count or of a normal law, and one step further, since it takes single values.
        """
        if not self.deviation:
            return 0.0
        spread = math.sqrt((1 - share) ** 2 * below + share**2 * above)
        most = max(self.half_width, NORMAL_95 * self.deviation)
        return most * spread + max(share, 1 - share)


def percentile_name(percentile: Fraction) -> str:
    """Name of a percentile's figure in a result, such as `p50` or `p99.9`."""
    return f"p{format_exact(percentile)}"


def percentile_of(
    percentile: Fraction, counts: Sequence[int], edges: Sequence[Fraction]
) -> Fraction | None:
    """The value below which this share of readings lies, in 0..100 %; None where the counts sum
    to less than 1. `counts`: one for each bin, noisy; `edges`: one more, rising."""
    total = sum(counts)
    if total < 1:
        return None
    doubled = _doubled_sums(counts)
    target = 2 * total * percentile / 100
    if doubled[0] >= target:
        return edges[0]
    upper = next(place for place, value in enumerate(doubled) if value >= target)
    before, after = doubled[upper - 1], doubled[upper]
    step = (target - before) / (after - before)
    return edges[upper - 1] + step * (edges[upper] - edges[upper - 1])


def _doubled_sums(counts: Sequence[int]) -> list[int]:
    """Twice the monotone estimate of the running sums at each edge, between 0 and twice the sum."""
    sums = [0, *accumulate(counts)]
    highest = accumulate(sums, max)
    lowest = [*accumulate(reversed(sums), min)][::-1]
    return [
        min(max(high + low, 0), 2 * sums[-1]) for high, low in zip(highest, lowest, strict=True)
    ]


def percentile_interval(
    percentile: Fraction, counts: Sequence[int], edges: Sequence[Fraction], noise: CountNoise
) -> Interval | None:
    """The interval that contains the percentile of the counted readings in at least 95 of 100
    cases.

    It is the hull of the bins at whose two edges a test does not reject the percentile. None if
    the counts sum to less than 1. `noise`: of each count, independent of the others.
    """
    total, bins, share = sum(counts), len(counts), float(percentile) / 100
    if total < 1:
        return None
    target = total * percentile / 100
    sums = [0, *accumulate(counts)]
    reach = [noise.reach(share, place, bins - place) for place in range(bins + 1)]
    admitted = [
        place
        for place in range(1, bins + 1)
        if (place == bins or sums[place] + reach[place] >= target)
        and (place == 1 or sums[place - 1] - reach[place - 1] <= target)
    ]
    return Interval(edges[min(admitted) - 1], edges[max(admitted)])  # the sums cross the target


def rank_half_width(percentile: Fraction, bins: int, readings: int, noise: CountNoise) -> float:
    """How far the rank of a percentile is wrong at most in 95 of 100 cases, as a share of this
    many readings, wherever they lie; `noise` as for `percentile_interval`."""
    share = float(percentile) / 100
    return max(noise.reach(share, 0, bins), noise.reach(share, bins, 0)) / readings
