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
    found = 0
    for at in range(len(words)):
        word = words[at]
        place = guide[word >> np.uint64(52)]
        while bounds[place] < word:
            place += 1
        values[at] += place - reach
        if bounds[place] == word:
            if found == len(ties):
                ties = np.concatenate((ties, np.empty(found, np.int64)))
            ties[found] = at
            found += 1
    return ties[:found]
