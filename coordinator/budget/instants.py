"""What the rounds around each instant cost a record, kept from one reading to the next.

A round that is debited or settled touches the instants of its own window, and only these are looked
at again. Sums of charges are largest where a window starts, so no other instants are kept. Most
instants of a schedule cost the same: what one costs is kept once, and every instant has its number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from common.interned import Interned
from tacit.accounting.sweep import Ints, sums_at

MOST_TOUCHED: Final = 4096
"""Windows that are remembered as touched one by one."""
UNKNOWN: Final = -1
ALL_UNVERIFIED, ALL_EPSILON, UNVERIFIED, EPSILON, DELTA = range(5)
"""The rows of what an instant costs, (5, scenarios): summed over its rounds, rounds without a
finite figure and epsilons; then the most of any one curator."""

Look = Callable[[Ints], Ints]
"""(n, 5, scenarios): what each of n instants costs, as it is now."""


class Instants:
    """The instants (n,) at which some window starts, rising, and what each costs."""

    def __init__(self, scenarios: int) -> None:
        self._scenarios = scenarios
        self._times: Ints = np.zeros(0, np.int64)
        self._costs: NDArray[np.int32] = np.zeros(0, np.int32)
        self._known = Interned()
        self._touched: set[tuple[int, int]] = set()

    def touch(self, start: int, end: int) -> None:
        """What a round of this window charges has changed."""
        self._touched.add((start, end))
        if len(self._touched) > MOST_TOUCHED:
            self._forget()

    def _forget(self) -> None:
        """Forget what the instants of the touched windows cost."""
        if not self._touched:
            return
        starts, ends = np.array(sorted(self._touched), np.int64).T
        times = np.union1d(self._times, starts)
        costs = np.full(times.size, UNKNOWN, np.int32)
        costs[np.searchsorted(times, self._times)] = self._costs
        costs[sums_at(starts, ends, np.ones_like(starts), times) > 0] = UNKNOWN
        self._times, self._costs, self._touched = times, costs, set()

    def refresh(self, look: Look) -> None:
        """Look at the instants whose costs are not known."""
        self._forget()
        unknown = np.flatnonzero(self._costs == UNKNOWN)
        if unknown.size:
            found = look(self._times[unknown])
            self._costs[unknown] = [self._known.add(cost.tobytes()) for cost in found]
            self._drop_unused()

    def worst(self, scenario: int) -> tuple[int | None, int, int | None]:
        """The most of one curator at one instant: epsilon (None: infinite), delta, and the instant
        that bears epsilon, None where it is 0.

        Of several such instants it is the one whose rounds have most without a finite figure in
        all, then the one with most epsilon in all, then the first. All costs are known.
        """
        used = np.unique(self._costs)
        if not used.size:
            return 0, 0, None
        cost = self._table()[used, :, scenario].T
        delta, unbounded = int(cost[DELTA].max()), bool(cost[UNVERIFIED].any())
        most = cost[UNVERIFIED] > 0 if unbounded else cost[EPSILON] == cost[EPSILON].max()
        if not unbounded and not cost[EPSILON].any():
            return 0, delta, None
        for row in (ALL_UNVERIFIED, ALL_EPSILON):
            most &= cost[row] == cost[row][most].max()
        instant = int(self._times[np.isin(self._costs, used[most]).argmax()])
        return None if unbounded else int(cost[EPSILON][most][0]), delta, instant

    def _table(self) -> Ints:
        """(k, 5, scenarios) all costs by number; the next `add` needs it to be gone."""
        table: Ints = np.frombuffer(self._known.parts()[0], np.int64).reshape(
            -1, 5, self._scenarios
        )
        return table

    def _drop_unused(self) -> None:
        used, renamed = np.unique(self._costs, return_inverse=True)
        if len(self._known) > 2 * used.size + MOST_TOUCHED:
            kept = Interned()
            for number in used.tolist():
                kept.add(self._known[number])
            self._known, self._costs = kept, renamed.reshape(-1).astype(np.int32)

    def parts(self) -> dict[str, Any]:
        """What it holds, by name: views."""
        self._forget()
        known, ends = self._known.parts()
        return {
            "times": self._times,
            "costs": self._costs,
            "known": known,
            "known_ends": ends,
        }

    def restore(self, parts: Mapping[str, Any]) -> None:
        """Restore the state returned by `parts()`."""
        self._times, self._costs = parts["times"], parts["costs"]
        self._known = Interned.of(parts["known"], parts["known_ends"])
