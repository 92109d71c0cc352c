"""Trajectories under (K,C)_L-privacy. Source: Chen's thesis, chapter 5. Spec: trajectory-kcl.

A syntactic property of one published table, and no differential privacy.

    parameters   what a job is given, what is refused; paths as sorted pair ids
    mining       maximal frequent and minimal violating sequences
    suppression  which sequence is in which records; gain, loss and validity; the greedy anonymiser
    compiled     the kernel of suppression by numba
    paper        the source's algorithms as printed
    checker      the independent check of what is published
    algorithm    a run, its pictures and evaluation, and the catalogue's entry
    report       what is true of the published table
"""

from algorithms.trajectory_kcl.algorithm import ALGORITHM

__all__ = ["ALGORITHM"]
