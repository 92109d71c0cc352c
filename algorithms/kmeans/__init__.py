"""K-means: cluster centres of numeric records, released with differential privacy.

Source: Lu's thesis, chapter 7. Spec: kmeans. The sound form requests a few noisy sums of integers,
planned before any data is read, and computes everything else from them; the source's own algorithm
(`paper`, `zones`) protects nobody and is kept to repeat its figures.

    parameters   what a job is given           settings     queries and budgets, from public inputs
    steps        the run as pure steps         central      queries answered from stored rows
    starts       synopsis, packing, projection zone_round   what an opened zone round says
    weighted     weighted k-means of points    paper, zones the source's algorithm
    baselines    what it is compared with      report       what is true of a run's privacy
    pictures     plots of published values     evaluation   comparison with the true data
    federated    the steps as rounds over curators
"""

from dataclasses import replace

from algorithms.kmeans import algorithm
from algorithms.kmeans.algorithm import preview, publish, run
from algorithms.kmeans.federated import ROUNDS
from algorithms.kmeans.parameters import Parameters

ALGORITHM = replace(algorithm.ALGORITHM, rounds=ROUNDS)

__all__ = ["ALGORITHM", "Parameters", "preview", "publish", "run"]
