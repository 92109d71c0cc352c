"""A graph's leading eigenvectors from a small matrix with Gaussian noise, under edge privacy.

Source: "Publishing Social Network Data with Privacy Guarantees", chapter 11, Algorithms 1 to 5
(after Ahmed, Jin and Liu, arXiv 1307.0475). Spec: graph-random-matrix.

    parameters   what a job is given           settings     a run's public choices, calibration
    rows         neighbours, in blocks         adjacency    made from edges
    product      rows times a matrix           compiled     the same by numba
    publication  A P + Q, block by block       subspace     noisy subspace iteration
    spectrum     singular vectors, centrality  clustering   k-means on rows
    flipping     every pair flipped     flipped_spectrum  what such a graph shows
    choice       which estimator runs   facts, flip_report  of the report
    findings     what is read off a release    forecast     what noise leaves, by theory
    report       what is true of its privacy   pictures     plots of the release
    reference    the true spectrum             scores       distances from it
    evaluation   comparison with the truth     baselines    LNPP, which is not private
    problems     what is refused               algorithm    the catalogue's entry
    outcome      result and files              collected    over curators, row by row
"""

from algorithms.graph_random_matrix.algorithm import ALGORITHM, check, preview, run
from algorithms.graph_random_matrix.parameters import Parameters

__all__ = ["ALGORITHM", "Parameters", "check", "preview", "run"]
