"""A path published so that holders of the exact map recover it.

Source: Lu's thesis, chapter 6. Spec: path-publishing. The source's levelled graph (stance paper)
protects nothing; what the sound modes protect is written in their reports. Recovery is not part of
a job: it runs on the user's side (`tacit.paths`).

    parameters   what a job is given            algorithm   run, preview, check
    relations    copies, and pairs together     levels      where a piece fits
    insertion    search with backtracking       splitting   pieces of what fits nowhere
    assembly     the published graph            orientation when no split is needed
    complement   edges off the path             randomized  noisy labels; coins: their integers
    attacks      what an adversary finds        evaluation  for the owner's eyes
    report       what is true: forms, graph_path, sound, parts; statements: the words
    pictures     plots of what is published     problems    what is refused
"""

from algorithms.path_publishing.algorithm import ALGORITHM, check, preview, run
from algorithms.path_publishing.parameters import Parameters

__all__ = ["ALGORITHM", "Parameters", "check", "preview", "run"]
