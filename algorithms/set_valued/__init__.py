"""Set-valued data: a differentially private multiset of itemsets.

Source: Chen's thesis, chapter 4 (published with Mohammed, Fung, Desai and Xiong, VLDB 2011).
Spec: set-valued. Records are partitioned from the root of a public taxonomy down; noisy counts
decide which partitions live, and what ends as an itemset is released with its noisy count.

    parameters   what a job is given             settings    public choices, thresholds, errors
    records      private records, supports, the baseline `basic`
    counts       DiffPart: partitions, questions, the run on one keeper's records
    margins      noisy lengths, items and basis, shares   weights  consistent counts
    basis_model  sets of common items        remainder   what DiffPart omits, put back
    release_error  error of the released file
    report       what is true of its privacy
    algorithm    a run, its pictures, evaluation  federated  the same over curators
"""

from dataclasses import replace

from algorithms.set_valued import algorithm
from algorithms.set_valued.algorithm import check, preview, run
from algorithms.set_valued.federated import ROUNDS
from algorithms.set_valued.parameters import Parameters

ALGORITHM = replace(algorithm.ALGORITHM, rounds=ROUNDS)

__all__ = ["ALGORITHM", "Parameters", "check", "preview", "run"]
