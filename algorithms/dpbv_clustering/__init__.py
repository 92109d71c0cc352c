"""`dpbv-clustering`: clustering of encoded records, and of noisy grids (spec: dpbv-clustering).

`paper` is the source's DPBV as printed; `sound` a noisy grid, noisy points, or DPBV with exactly
accounted bits. The curator's half is in `common.encoders.dpbv_clustering` and its neighbours.
"""

from algorithms.dpbv_clustering.entry import ALGORITHM

__all__ = ["ALGORITHM"]
