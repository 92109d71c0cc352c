"""A graph's leading eigenvectors from a small matrix with Gaussian noise, under edge privacy.

Source: "Publishing Social Network Data with Privacy Guarantees", chapter 11, Algorithms 1 to 5
(after Ahmed, Jin and Liu, arXiv 1307.0475). Spec: graph-random-matrix.

    parameters        what a job is given, public choices, forecast of the noise, errors
    linear_algebra    rows of the adjacency matrix; leading singular vectors
    publication       A P + Q, block by block; noisy subspace iteration
    flipping          every pair flipped, the spectrum of such a graph; which estimator runs
    report            what is true of its privacy
    outcome           clusters and scores of a release; result, files, pictures
    evaluation        comparison with the truth
    algorithm         the catalogue's entry     federated   over curators, row by row
    compiled          kernels by numba
"""

from algorithms.graph_random_matrix.algorithm import ALGORITHM, check, preview, run
from algorithms.graph_random_matrix.parameters import Parameters

__all__ = ["ALGORITHM", "Parameters", "check", "preview", "run"]
