"""Predictable crowd sensing with Salus. Spec: crowd-tasking.

    parameters  what a publisher posts            task        all choices made, noise, budget, cost
    prediction  law of the noise, expected error  aggregates  averages, histograms, classifiers
    algorithm   the central form                  federated   users send their own noisy reports
    report      what is true of its privacy
    evaluation  errors, attacks on reports, plots of results and evaluations

Bounded reports and devices: `tacit.encoders.crowd_tasking`.
"""

from dataclasses import replace

from algorithms.crowd_tasking import algorithm
from algorithms.crowd_tasking.federated import REPORTS

ALGORITHM = replace(algorithm.ALGORITHM, reports=REPORTS)

__all__ = ["ALGORITHM"]
