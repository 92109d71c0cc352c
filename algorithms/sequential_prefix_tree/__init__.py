"""Sequential data: a differentially private tree of prefixes, and a synthetic file of sequences.

Source: Chen's thesis, sections 6.2 and 6.3 (published with Fung, Desai and Sossou, KDD 2012).
Spec: sequential-prefix-tree. Sequences are counted by their first items, level by level; a node
whose noisy count reaches a threshold is extended to longer prefixes.

    parameters   what a job is given, public choices, noise and thresholds, errors
    counts       the noisy tree: questions, answers, one keeper's data; consistent counts, copies
    report       what is true of its privacy
    evaluation   comparison with the true data, frequent patterns with gaps
    algorithm    a run, its pictures, the same over curators, and the catalogue's entry
"""

from algorithms.sequential_prefix_tree.algorithm import ALGORITHM, check, preview, run
from algorithms.sequential_prefix_tree.parameters import Parameters

__all__ = ["ALGORITHM", "Parameters", "check", "preview", "run"]
