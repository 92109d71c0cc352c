"""A path published so that holders of the exact map recover it.

Source: Lu's thesis, chapter 6. Spec: path-publishing. The source's levelled graph (stance paper)
protects nothing; what the sound modes protect is written in their reports. Recovery is not part of
a job: it runs on the user's side (`tacit.paths`).

    parameters      what a job is given, errors   algorithm    run, preview, check, pictures
    levelled_graph  the source's graph on levels; the sound modes: complement, noisy labels
    report          what is true of its privacy   evaluation   attacks, only for the owner
"""

from algorithms.path_publishing.algorithm import ALGORITHM, check, preview, run
from algorithms.path_publishing.parameters import Parameters

__all__ = ["ALGORITHM", "Parameters", "check", "preview", "run"]
