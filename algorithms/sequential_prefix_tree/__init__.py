"""Sequential data: a differentially private tree of prefixes, and a synthetic file of sequences.

Source: Chen's thesis, sections 6.2 and 6.3 (published with Fung, Desai and Sossou, KDD 2012).
Spec: sequential-prefix-tree. Sequences are counted by their first items, level by level; a node
whose noisy count reaches a threshold is asked for longer prefixes.

    parameters   what a job is given             settings      a run's public choices
    laws         noise and thresholds            counts        questions, and their answers
    growth       the tree of one keeper's data   tree          its shape, prefixes
    consistency  children below their parents    publication   the run, synthetic sequences
    report       what is true of its privacy     patterns      frequent patterns with gaps
    evaluation   comparison with the true data   pictures      plots of the release
    problems     what is refused
    federated    the same over curators
"""

from dataclasses import replace

from algorithms.sequential_prefix_tree import algorithm
from algorithms.sequential_prefix_tree.algorithm import check, preview, run
from algorithms.sequential_prefix_tree.federated import ROUNDS
from algorithms.sequential_prefix_tree.parameters import Parameters

ALGORITHM = replace(algorithm.ALGORITHM, rounds=ROUNDS)

__all__ = ["ALGORITHM", "Parameters", "check", "preview", "run"]
