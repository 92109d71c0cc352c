"""`dpbv-clustering`: clustering of encoded records, and of noisy grids (spec: dpbv-clustering).

`paper` is the source's DPBV as printed; `sound` a noisy grid, noisy points, or DPBV with exactly
accounted bits. The curator's half is in `tacit.encoders.dpbv_clustering`.

    parameters  what a job is given, errors     algorithm   one run, and the catalogue's entry
    paper       DPBV as printed, attack         distances   distances from flipped bits
    grid        noisy grids                     clustering_methods  kCluster, k-means, baselines
    outcome     results and pictures            federated   rounds and reports of curators
    report      privacy of grids, points and bits
    compiled    Hamming kernels by numba
"""

from algorithms.dpbv_clustering.algorithm import ALGORITHM

__all__ = ["ALGORITHM"]
