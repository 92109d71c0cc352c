"""Sequential data: a differentially private tree of prefixes, and a synthetic file of sequences.

Source: Chen's thesis, sections 6.2 and 6.3 (published with Fung, Desai and Sossou, KDD 2012).
Spec: sequential-prefix-tree. Sequences are counted by their first items, level by level; a node
whose noisy count reaches a threshold is asked for longer prefixes.

    parameters   what a job is given, public choices, noise and thresholds, errors
    counts       the noisy tree: questions, answers, one keeper's data
    publication  the run: consistent counts, synthetic sequences
    report       what is true of its privacy     pictures     plots of the release
    evaluation   comparison with the true data, frequent patterns with gaps
    algorithm    as the catalogue knows it       federated    the same over curators
"""

from dataclasses import replace

from algorithms.sequential_prefix_tree import algorithm
from algorithms.sequential_prefix_tree.algorithm import check, preview, run
from algorithms.sequential_prefix_tree.federated import ROUNDS
from algorithms.sequential_prefix_tree.parameters import Parameters

ALGORITHM = replace(algorithm.ALGORITHM, rounds=ROUNDS)

__all__ = ["ALGORITHM", "Parameters", "check", "preview", "run"]
