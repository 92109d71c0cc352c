"""K-means: cluster centres of numeric records, released with differential privacy.

Source: Lu's thesis, chapter 7. Spec: kmeans. The sound form requests a few noisy sums of integers,
planned before any data is read, and computes everything else from them; the source's own algorithm
(`paper`) protects nobody and is kept to repeat its figures.

    parameters  what a job is given             plan        queries and budgets, from public inputs
    starts      synopsis, packing, projection   weighted    weighted k-means of points
    sound_run   the steps, over stored rows     federated   the steps as rounds over curators
    paper       the source's algorithm, zones   evaluation  the true data, other methods
    report      what is true of its privacy     pictures    plots of published values
"""

from dataclasses import replace

from algorithms.kmeans import algorithm
from algorithms.kmeans.algorithm import preview, publish, run
from algorithms.kmeans.federated import ROUNDS
from algorithms.kmeans.parameters import Parameters

ALGORITHM = replace(algorithm.ALGORITHM, rounds=ROUNDS)

__all__ = ["ALGORITHM", "Parameters", "preview", "publish", "run"]
