"""How long a piece of work takes."""

from __future__ import annotations

import time
from collections.abc import Callable


def seconds(work: Callable[[], object], repetitions: int = 3) -> float:
    """The fastest of so many calls."""
    taken = []
    for _ in range(repetitions):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken)


def cpu_seconds(work: Callable[[], object], repetitions: int = 3) -> float:
    """CPU time of all threads, the least of so many calls: steadier on a shared machine."""
    taken = []
    for _ in range(repetitions):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)
