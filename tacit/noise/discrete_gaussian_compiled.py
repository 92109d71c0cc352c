"""The look-up of discrete Gaussian draws, compiled; needs numba, and is imported only then.

The same as `CumulativeTable.select`, draw for draw.
"""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=False, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def add_looked_up(values, words, bounds, guide, reach):  # type: ignore[no-untyped-def]
    """Add to values (n,) what words (n,) choose; the places of words that equal a bound."""
    ties = np.empty(8, np.int64)
    tie_count = 0
    for at in range(len(words)):
        word = words[at]
        place = guide[word >> np.uint64(52)]
        while bounds[place] < word:
            place += 1
        values[at] += place - reach
        if bounds[place] == word:
            if tie_count == len(ties):
                ties = np.concatenate((ties, np.empty(tie_count, np.int64)))
            ties[tie_count] = at
            tie_count += 1
    return ties[:tie_count]
