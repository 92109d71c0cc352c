"""Eigenvectors of graphs: range, subspace, flip and flips that are not corrected."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Any

from algorithms.contract import SequentialContext
from algorithms.datasets.edge_list import EdgeList
from algorithms.graph_random_matrix import Parameters as SpectrumParameters
from algorithms.graph_random_matrix import run as run_spectrum
from algorithms.graph_random_matrix.evaluation import (
    agreement,
    clusterings,
    cosines,
    overlap,
    reference_spectrum,
    subspace_share,
)
from algorithms.graph_random_matrix.flipping import Flip, flipped
from algorithms.graph_random_matrix.linear_algebra import Spectrum, centrality
from algorithms.graph_random_matrix.publication import adjacency
from bench.utility.compare import Comparison, Contender, Figures, compare
from bench.utility.graphs import graphs


def spectrum(runs: int) -> Iterator[Comparison]:
    """Eigenvectors, clusters and rankings: flips against range and subspace."""
    for name, data in graphs():
        truth = reference_spectrum(adjacency(data), 8)
        for epsilon in ("2", "4"):
            contenders: dict[str, Contender] = {
                estimator: partial(spectral, data, epsilon, estimator)
                for estimator in ("range", "subspace", "flip")
            }
            contenders["flips, not corrected"] = partial(_flips_alone, data, truth, epsilon)
            yield compare(f"{name}, epsilon {epsilon}, k = 8", contenders, runs)


def _flips_alone(data: EdgeList, truth: Spectrum, epsilon: str, seed: int) -> Figures:
    """Randomised response as published for local settings: the flipped graph's own eigenvectors."""
    law = Flip.of(Fraction(epsilon))
    released = adjacency(flipped(data, law, SequentialContext(test_seed=seed)))
    found = reference_spectrum(released, 8)
    labels = [clusterings(each.vectors, 2, number) for number, each in enumerate((truth, found))]
    scores = [centrality(each.scaled) for each in (truth, found)]
    return {
        "+ cosine of the first vector": float(cosines(truth.vectors, found.vectors)[0]),
        "+ share of the subspace": subspace_share(truth.vectors, found.vectors),
        "+ NMI of clusters": agreement(*labels),
        "+ overlap of the first 100": overlap(*scores, 100),
    }


def spectral(data: EdgeList, epsilon: str, estimator: Any, seed: int) -> Figures:
    asked = SpectrumParameters(
        epsilon=epsilon,
        mode="spectral",
        estimator=estimator,
        evaluate={"clusterings": 2, "top": (100,)},  # type: ignore[arg-type]
    )
    found = run_spectrum(data, asked, "sound", SequentialContext(test_seed=seed)).evaluation
    assert found is not None
    return {
        "+ cosine of the first vector": found["ev_cosine"][0],
        "+ share of the subspace": found["subspace_share"],
        "+ NMI of clusters": found["nmi"]["private"],
        "+ overlap of the first 100": found["overlap"][0]["share"],
    }
