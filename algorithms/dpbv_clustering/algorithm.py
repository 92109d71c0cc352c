"""The catalogue's entry."""

from __future__ import annotations

from algorithms.contract import Algorithm
from algorithms.dpbv_clustering.collected import REPORTS
from algorithms.dpbv_clustering.evaluation_pictures import evaluation_pictures
from algorithms.dpbv_clustering.federated import ROUNDS
from algorithms.dpbv_clustering.parameters import Parameters
from algorithms.dpbv_clustering.report.parts import NAME
from algorithms.dpbv_clustering.run import check, check_outline, preview, run

ALGORITHM = Algorithm(
    name=NAME,
    title="Clustering of encoded or gridded records",
    source="L. Sun, J. Zhao, X. Ye, Distributed Clustering in the Anonymized Space with Local "
    "Differential Privacy: equations 1 to 23, Algorithms 1 and 2",
    purpose="Several custodians cluster the union of their numeric records. Sound: a noisy grid, "
    "whose labels each custodian gives to its own rows. Paper: flipped bit vectors and kCluster.",
    dataset_kind="numeric-table",
    params=Parameters,
    stances=("sound", "paper"),
    run=run,
    preview=preview,
    result={
        "method": "what was released",
        "k": "clusters found",
        "centres": "of the clusters, in data units (grids and noisy points)",
        "plan": "mode, start and budget of each query (grid-core, adaptive)",
        "truncated": "whether an aborted round ended the run (grid-core, adaptive, over curators)",
        "masses": "noisy number of records of each cluster (grids)",
        "sizes": "records of each cluster, counted over noisy labels (bits and noisy points)",
        "objective": "sum of mean distances to the own cluster, equation 17 (kCluster)",
        "iterations": "of each restart",
        "converged": "whether the best restart ended by itself",
        "unreached_pairs": "pairs that no closure reached (paper)",
        "warning": "no_utility_expected, or no_cell_above_the_noise",
    },
    complexity="grids: O(n + G^d); kCluster: O(n^2 (s d / 64 + k)); one attribute: O(n s k)",
    rounds=ROUNDS,
    reports=REPORTS,
    check=check,
    check_outline=check_outline,
    evaluation_pictures=evaluation_pictures,
)
