"""Edges put in the order of the simple path that they are. Spec: path-publishing, section 3.7."""

from __future__ import annotations

import numpy as np

from tacit.paths.network import Ints
from tacit.paths.problems import NotAPath


def walked(low: Ints, high: Ints, size: int) -> Ints:
    """The vertices (edges + 1,) of the path that these edges (m,) over `size` vertices are, from
    the end of smaller number. Raises NotAPath where they are not one simple path.

    A vertex of degree 2 needs only the sum of its neighbours: that sum minus the previous vertex is
    the next vertex.
    """
    if not low.size:
        raise NotAPath("no edge is left")
    ends = np.concatenate((low, high))
    degrees = np.bincount(ends, minlength=size)
    if degrees.max() > 2 or np.count_nonzero(degrees == 1) != 2:
        raise NotAPath
    # sums of two places stay far below 2^53, so that floats hold them exactly
    sums = np.bincount(ends, np.concatenate((high, low)), size).astype(np.int64).tolist()
    start, end = np.flatnonzero(degrees == 1).tolist()
    before, here, path = 0, start, [start]
    while here != end:
        before, here = here, sums[here] - (before if len(path) > 1 else 0)
        path.append(here)
    if len(path) != low.size + 1:
        raise NotAPath("a ring is left beside the path")
    return np.array(path, np.int64)
