"""The largest of many integers that are added and removed: O(log n) amortised for each."""

from __future__ import annotations

import heapq


class Maxima:
    """A multiset of integers with fast access to its largest.

    A removed value stays in the heap until it reaches the top, and the heap is rebuilt when it
    holds more removed values than current ones. Heap and counts share their integers, negated.
    """

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._heap: list[int] = []

    def add(self, value: int, times: int = 1) -> None:
        """One more of this value, or several."""
        key = -value
        known = self._counts.get(key, 0)
        self._counts[key] = known + times
        if not known:
            heapq.heappush(self._heap, key)
            if len(self._heap) > 2 * len(self._counts) + 64:
                self._heap = list(self._counts)
                heapq.heapify(self._heap)

    def remove(self, value: int) -> None:
        """One fewer; KeyError if there is none."""
        left = self._counts[-value] - 1
        if left:
            self._counts[-value] = left
        else:
            del self._counts[-value]

    def largest(self, default: int = 0) -> int:
        """The largest, or the default of an empty multiset."""
        while self._heap and self._heap[0] not in self._counts:
            heapq.heappop(self._heap)
        return -self._heap[0] if self._heap else default
