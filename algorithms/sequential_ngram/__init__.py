"""Sequential data: differentially private counts of n-grams, and a synthetic file of sequences.

Source: Chen's thesis, section 6.4 (published with Acs and Castelluccia, CCS 2012).
Spec: sequential-ngram. Grams are explored from single items on; noisy counts decide which ones are
explored further and how much of the budget each gets.

    parameters   what a job is given             settings      a run's public choices, errors
    counts       the tree of noisy grams: questions, answers, one keeper's data
    publication  the run: consistent counts, longer grams, synthetic sequences
    report       what is true of its privacy
    evaluation   comparison with the true data, frequent runs
    algorithm    a run, its pictures, the same over curators, and the catalogue's entry
"""

from algorithms.sequential_ngram.algorithm import ALGORITHM, check, preview, run
from algorithms.sequential_ngram.parameters import Parameters

__all__ = ["ALGORITHM", "Parameters", "check", "preview", "run"]
