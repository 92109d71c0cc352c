"""Graphs: density-based exploration and reconstruction of the adjacency matrix.

Source: Chen's thesis, chapter 7 (published with Fung, Yu and Desai, VLDB Journal 2014, which adds a
private labelling that is not here). Spec: graph-der. Regions of the matrix are cut into four where
densities differ most, by noisy choices; counts of the leaves are noisy; edges are placed again
inside each leaf.

    parameters     what a job is given           settings        a run's public choices
    budget         height, geometric budget      labelling       numbers of the vertices
    geometry       regions, cells, table         splitting       points, exponential mechanism
    exploration    the noisy tree                kernel          what both kernels take and give
    compiled       the kernel by numba           consistency     counts that add up
    hypergeometric true edges that are kept      arrangement     edges inside leaves
    publication    the run                       numerics        what rounding costs
    report         what is true of its privacy
    blocks         adaptive grid, degrees        block_graph     edges from them
    blocks_report  what is true of its privacy   federated     blocks over curators
    metrics        how close a graph is          evaluation      comparison with the true graph
    baselines      random graph, noisy cells     pictures        plots of the release
    algorithm      as the catalogue knows it     problems        what is refused
"""

from dataclasses import replace

from algorithms.graph_der import algorithm
from algorithms.graph_der.algorithm import check, preview, run
from algorithms.graph_der.federated import ROUNDS
from algorithms.graph_der.parameters import Parameters

ALGORITHM = replace(algorithm.ALGORITHM, rounds=ROUNDS)
"""The entry of the catalogue."""

__all__ = ["ALGORITHM", "Parameters", "check", "preview", "run"]
