"""K-means: cluster centres of numeric records, released with differential privacy.

Source: Lu's thesis, chapter 7. Spec: kmeans. The sound form requests a few noisy sums of integers,
planned before any data is read, and computes everything else from them; the source's own algorithm
(`paper`) protects nobody and is kept to repeat its figures.

    parameters  what a job is given             plan        queries and budgets, from public inputs
    starts      synopsis, packing, projection, weighted k-means of points
    sound_run   the steps                       paper       the source's algorithm, zones
    report      what is true of its privacy
    algorithm   a run over stored rows or curators, pictures, evaluation, the catalogue's entry
"""

from algorithms.kmeans.algorithm import ALGORITHM, preview, publish, run
from algorithms.kmeans.parameters import Parameters

__all__ = ["ALGORITHM", "Parameters", "preview", "publish", "run"]
