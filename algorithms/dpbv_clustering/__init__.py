"""`dpbv-clustering`: clustering of encoded records, and of noisy grids (spec: dpbv-clustering).

`paper` is the source's DPBV as printed; `sound` a noisy grid, noisy points, or DPBV with exactly
accounted bits. The curator's half is in `tacit.encoders.dpbv_clustering`.
"""

from algorithms.dpbv_clustering.algorithm import ALGORITHM

__all__ = ["ALGORITHM"]
