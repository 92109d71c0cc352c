"""Set-valued data: a differentially private multiset of itemsets.

Source: Chen's thesis, chapter 4 (published with Mohammed, Fung, Desai and Xiong, VLDB 2011).
Spec: set-valued. Records are partitioned from the root of a public taxonomy down; noisy counts
decide which partitions live, and what ends as an itemset is released with its noisy count.

    parameters   what a job is given             settings      a run's public choices
    records      private records as sets         cuts          what a partition is in public
    laws         noise and thresholds            counts        questions, and their answers
    partitioning the run on one keeper's records rest          what DiffPart leaves out
    histogram    the baseline `basic`            report        what is true of a run's privacy
    supports     exact supports, top itemsets    evaluation    comparison with the true data
    pictures     plots of the release            problems      what is refused
    federated    the same over curators
"""

from dataclasses import replace

from algorithms.set_valued import algorithm
from algorithms.set_valued.algorithm import check, preview, run
from algorithms.set_valued.federated import ROUNDS
from algorithms.set_valued.parameters import Parameters

ALGORITHM = replace(algorithm.ALGORITHM, rounds=ROUNDS)

__all__ = ["ALGORITHM", "Parameters", "check", "preview", "run"]
