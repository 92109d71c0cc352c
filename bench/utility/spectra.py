"""Eigenvectors of graphs: range, subspace, flip and flips that are not corrected."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np

from algorithms.contract import SequentialContext
from algorithms.datasets.edge_list import EdgeList
from algorithms.graph_der.regions import Ints
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
from bench.utility.graph_peers import degrees_of, noisy_degrees
from bench.utility.graphs import graphs

PRODUCT: Final = {
    "+ cosine of the first vector": "auto",
    "+ overlap of the first 100": "auto",
}


def spectrum(runs: int) -> Iterator[Comparison]:
    """Eigenvectors, clusters and rankings: flips against range, subspace and noisy degrees."""
    for name, data in graphs():
        truth = reference_spectrum(adjacency(data), 8)
        ends = data.first.astype(np.int32), data.second.astype(np.int32)
        degrees = degrees_of(ends, data.count)
        for epsilon in ("0.5", "1", "2", "4"):
            contenders: dict[str, Contender] = {
                estimator: partial(spectral, data, epsilon, estimator)
                for estimator in ("auto", "range", "subspace", "flip")
            }
            contenders["flips, not corrected"] = partial(_flips_alone, data, truth, epsilon)
            contenders["noisy degrees"] = partial(_degrees_alone, truth, degrees, float(epsilon))
            yield compare(
                f"{name}, epsilon {epsilon}, k = 8",
                contenders,
                runs,
                algorithm="graph-random-matrix",
                product=PRODUCT,
                simple=("flips, not corrected", "noisy degrees"),
            )


def _degrees_alone(truth: Spectrum, degrees: Ints, epsilon: float, seed: int) -> Figures:
    """The vector of noisy degrees, none below 0, with all of epsilon."""
    found = noisy_degrees(degrees, epsilon, seed)
    vector = found / (np.linalg.norm(found) or 1.0)
    return {
        "+ cosine of the first vector": float(abs(truth.vectors[:, 0] @ vector)),
        "+ overlap of the first 100": overlap(centrality(truth.scaled), found, 100),
    }


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
