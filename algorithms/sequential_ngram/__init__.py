"""Sequential data: differentially private counts of n-grams, and a synthetic file of sequences.

Source: Chen's thesis, section 6.4 (published with Acs and Castelluccia, CCS 2012).
Spec: sequential-ngram. Grams are explored from single items on; noisy counts decide which ones are
explored further and how much of the budget each gets.

    parameters   what a job is given             settings      a run's public choices, errors
    counts       the tree of noisy grams: questions, answers, one keeper's data
    publication  the run: consistent counts, longer grams, synthetic sequences
    report       what is true of its privacy     pictures      plots of the release
    evaluation   comparison with the true data, frequent runs
    algorithm    as the catalogue knows it       federated     the same over curators
"""

from dataclasses import replace

from algorithms.sequential_ngram import algorithm
from algorithms.sequential_ngram.algorithm import check, preview, run
from algorithms.sequential_ngram.federated import ROUNDS
from algorithms.sequential_ngram.parameters import Parameters

ALGORITHM = replace(algorithm.ALGORITHM, rounds=ROUNDS)

__all__ = ["ALGORITHM", "Parameters", "check", "preview", "run"]
