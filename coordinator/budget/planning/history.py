"""What the worst curator had spent, step by step of time: a budget's past as a line.

At each instant it is the largest sum of any one curator, over the rounds that had been opened by
then, each charged as it stands now (a credit given later is in it). Basic composition, as limits
count. Spec: budget, section 3; console, section 7 (5).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coordinator.budget.spending import ZERO, Figure, Spending, worst_of
from coordinator.budget.totals import Totals
from tacit.accounting.scenarios import Scenario
from tacit.accounting.sweep import Ints, covering
from tacit.query.words import PrivacyUnit


@dataclass(frozen=True, slots=True)
class Point:
    """An instant in microseconds since 1970; what the worst curator had spent then, of a limit with
    periods in the instant's own period; and how many rounds that was of."""

    at: int
    worst: Figure
    rounds: int


def history(
    spending: Spending,
    unit: PrivacyUnit,
    scenario: Scenario,
    times: Sequence[int],
    period: int | None = None,
) -> list[Point]:
    """A point for each of these instants, which rise. `period`: microseconds, unit curator only.

    Raises ValueError for a period of unit record.
    """
    if unit is PrivacyUnit.RECORD and period is not None:
        raise ValueError("the unit record has no periods")
    with spending.lock:
        walk = _records(spending, scenario, times)
        if unit is PrivacyUnit.CURATOR:
            walk = _curators(spending, scenario, times, period)
        return list(walk)


def period_start(at: int, period: int | None) -> int:
    """Where the period of an instant begins; periods count from 1970. Without periods: never."""
    return np.iinfo(np.int64).min if period is None else at // period * period


def _curators(
    spending: Spending, scenario: Scenario, times: Sequence[int], period: int | None
) -> Iterator[Point]:
    """All rounds of a curator add up, in their period."""
    made = spending.rounds.column("made")
    totals, begun, seen, rounds = Totals(1, spending.size), None, 0, 0
    for at in times:
        start = period_start(at, period)
        if start != begun:
            totals, begun, seen, rounds = Totals(1, spending.size), start, start, 0
            new = np.flatnonzero((start <= made) & (made <= at))
        else:
            new = np.flatnonzero((seen < made) & (made <= at))
        spending.add_to(totals, new, PrivacyUnit.CURATOR, scenario)
        seen, rounds = at, rounds + new.size
        yield Point(at, worst_of(totals.column(0)), rounds)


def _records(spending: Spending, scenario: Scenario, times: Sequence[int]) -> Iterator[Point]:
    """Rounds whose windows cover an instant add up there. Only instants that a new round covers can
    have become worse."""
    made, starts, ends = (spending.rounds.column(name) for name in ("made", "start", "end"))
    known: dict[bytes, Figure] = {}
    worst, seen = ZERO, np.iinfo(np.int64).min
    for at in times:
        there = np.flatnonzero(made <= at)
        new = there[made[there] > seen]
        for instant in _covered(starts[there], starts[new], ends[new]):
            here = there[covering(starts[there], ends[there], int(instant))]
            kinds, counts = spending.rounds.kinds(here)
            key = kinds.tobytes() + counts.tobytes()
            if key not in known:
                known[key] = worst_of(spending.sums(here, PrivacyUnit.RECORD, scenario))
            worst = _larger(worst, known[key])
        seen = at
        yield Point(at, worst, there.size)


def _covered(instants: Ints, starts: Ints, ends: Ints) -> NDArray[np.int64]:
    """Those of these instants that one of the windows covers, each once."""
    found = np.unique(instants)
    begun = np.searchsorted(np.sort(starts), found, side="right")
    over = np.searchsorted(np.sort(ends), found, side="right")
    return found[begun > over]


def _larger(one: Figure, other: Figure) -> Figure:
    """The larger of each figure."""
    unbounded = one.epsilon is None or other.epsilon is None
    epsilon = None if unbounded else max(one.epsilon or 0, other.epsilon or 0)
    return Figure(epsilon, max(one.delta, other.delta))
