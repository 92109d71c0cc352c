"""Graphs: density-based exploration and reconstruction of the adjacency matrix.

Source: Chen's thesis, chapter 7 (published with Fung, Yu and Desai, VLDB Journal 2014, which adds a
private labelling that is not here). Spec: graph-der. Regions of the matrix are cut into four where
densities differ most, by noisy choices; counts of the leaves are noisy; edges are placed again
inside each leaf.

    parameters   what a job is given, public choices, budget of the levels, errors
    regions      regions, cells and counts of the matrix; what method `blocks` measures
    exploration  the noisy tree: splitting points, counts that add up
    publication  the run: labels, leaves, edges inside leaves
    block_graph  edges from what `blocks` measured
    report       what is true of its privacy    evaluation   comparison with the true graph, plots
    compiled     splitting points by numba
    algorithm    a run, `blocks` over curators, and the catalogue's entry
"""

from algorithms.graph_der.algorithm import ALGORITHM, check, preview, run
from algorithms.graph_der.parameters import Parameters

__all__ = ["ALGORITHM", "Parameters", "check", "preview", "run"]
