"""Trajectories under (K,C)_L-privacy. Source: Chen's thesis, chapter 5. Spec: trajectory-kcl.

A syntactic property of one published table, and no differential privacy.

    parameters, problems   what a job is given, what is refused
    table, mining          paths as sorted pair ids; minimal violating sequences
    frequent               maximal frequent sequences
    incidence, scoring     which sequence is in which records; gain, loss, validity
    suppression            the greedy anonymiser
    kernel, compiled       what both kernels take and give; the one by numba
    paper                  the source's algorithms as printed
    checker                the independent check of what is published
    publication, report    what leaves a job
    evaluation             comparison with the true data
"""

from algorithms.trajectory_kcl.algorithm import ALGORITHM

__all__ = ["ALGORITHM"]
