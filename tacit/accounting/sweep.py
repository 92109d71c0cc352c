"""Sums over windows of time: which windows cover an instant, and the most that they add up to.

Spec: budget, section 3. A record touches only rounds whose window covers its instant, and windows
are half-open, [start, end). Sums of amounts that are not negative are largest where a window
starts, so no other instants are tried.

Columns (k,) int64 describe k windows: `starts` and `ends` are times in any one unit, `amounts` are
whole numbers in any one unit (micro-epsilons, or numerators over a common denominator). An amount
without a finite figure is the caller's: it has no number here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Worst:
    """The largest summed amount, and an instant that bears it (None: no window at all)."""

    amount: int
    instant: int | None


def worst_instant(starts: Ints, ends: Ints, amounts: Ints) -> Worst:
    """The most that windows add up to at one instant; the first such one. O(k log k).

    Raises ValueError as `check_windows`.
    """
    check_windows(starts, ends, amounts)
    if not starts.size:
        return Worst(0, None)
    instants = np.unique(starts)
    totals = sums_at(starts, ends, amounts, instants)
    place = int(np.argmax(totals))
    return Worst(int(totals[place]), int(instants[place]))


def worst_move(starts: Ints, ends: Ints, amounts: Ints) -> int:
    """The most that windows add up to that cover one *or* another of two instants.

    That is a reading moved in time: a removal at one instant and an addition at another, at most
    twice the worst instant. A window that holds both sees one reading swapped for another, which
    its sensitivity covers once. O(k^2 log k). Raises ValueError as `check_windows`.
    """
    check_windows(starts, ends, amounts)
    instants, worst = np.unique(starts), 0
    for instant in instants:
        here = (starts <= instant) & (instant < ends)
        elsewhere = sums_at(starts[~here], ends[~here], amounts[~here], instants)
        worst = max(worst, int(amounts[here].sum() + elsewhere.max()))
    return worst


def sums_at(starts: Ints, ends: Ints, amounts: Ints, instants: Ints) -> Ints:
    """What windows add up to at each of these instants."""
    return _sums_until(starts, amounts, instants) - _sums_until(ends, amounts, instants)


def covering(starts: Ints, ends: Ints, instant: int) -> NDArray[np.intp]:
    """The places of the windows that cover an instant, rising."""
    return np.flatnonzero((starts <= instant) & (instant < ends))


def covering_each(
    starts: Ints, ends: Ints, instants: Ints
) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """For each place of these instants, which rise: the places of the windows that cover it.

    Halves the instants, and looks only at windows near each half: O(k log n) and what is found.
    """

    def each(first: int, last: int, near: NDArray[np.intp]) -> Iterator[tuple[int, Any]]:
        near = near[(starts[near] <= instants[last]) & (instants[first] < ends[near])]
        if first == last:
            yield first, near
        else:
            middle = (first + last) // 2
            yield from each(first, middle, near)
            yield from each(middle + 1, last, near)

    if instants.size:
        around = (starts <= instants[-1]) & (instants[0] < ends)
        yield from each(0, instants.size - 1, np.flatnonzero(around))


def covering_within(
    starts: Ints, ends: Ints, start: int, end: int
) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Each instant of [start, end) at which a sum may be largest, rising, and the places of the
    windows that cover it."""
    for instant in np.unique([start, *starts[(start < starts) & (starts < end)]]):
        yield int(instant), covering(starts, ends, instant)


def _sums_until(times: Ints, amounts: Ints, instants: Ints) -> Ints:
    """The sum of the amounts whose time is not after each instant."""
    order = np.argsort(times, kind="stable")
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(amounts[order])])
    found: Ints = sums[np.searchsorted(times[order], instants, side="right")]
    return found


def check_windows(starts: Ints, ends: Ints, amounts: Ints) -> None:
    """Raise ValueError for columns of different lengths, windows that end before they start,
    negative amounts, and sums beyond 62 bits."""
    if not starts.shape == ends.shape == amounts.shape or starts.ndim != 1:
        raise ValueError("one start, one end and one amount for each window")
    if (ends < starts).any() or (amounts < 0).any():
        raise ValueError("a window ends after its start, and an amount is not negative")
    if float(amounts.sum(dtype=np.float64)) >= 2.0**62:
        raise ValueError("the amounts add up to more than 62 bits")
