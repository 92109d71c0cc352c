"""Spectrum publication as the catalogue knows it: run, preview, check, and what a result holds.

Spec: graph-random-matrix, section 2; jobs, "Catalogue" and "Result".
"""

from __future__ import annotations

import io
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Algorithm, Context, Outcome, ResultFile, Stance
from algorithms.datasets.edge_list import EdgeList
from algorithms.graph_random_matrix.degree_vector import (
    DegreeVector,
    noisy_degrees,
    noisy_edges,
)
from algorithms.graph_random_matrix.evaluation import evaluate
from algorithms.graph_random_matrix.federated import REPORTS
from algorithms.graph_random_matrix.flipping import (
    Flip,
    check_signal,
    check_size,
    chosen_estimator,
    epsilon_left,
    flip_of,
    flipped,
    flipped_spectrum,
    packed,
    resolved,
)
from algorithms.graph_random_matrix.linear_algebra import Rows
from algorithms.graph_random_matrix.outcome import (
    DRAWINGS,
    MATRIX,
    evaluation_pictures,
    found_in_degrees,
    found_in_flips,
    found_in_iteration,
    found_in_matrix,
    header,
    matrix_result,
    outcome_of,
)
from algorithms.graph_random_matrix.parameters import (
    GraphTooSmall,
    Parameters,
    Settings,
    settings_of,
    squared_cosine,
    squared_cosine_of_flips,
)
from algorithms.graph_random_matrix.publication import (
    Cells,
    Iteration,
    Release,
    adjacency,
    can_compile,
    iterate,
    publish,
)
from algorithms.graph_random_matrix.report import spectrum_report
from algorithms.graph_random_matrix.statements import NAME, Facts
from algorithms.path_publishing.levelled_graph import WORD
from tacit.errors import Invalid
from tacit.report.model import PrivacyReport

LEAST_VERTICES: Final = 3
DENSE: Final = Fraction(1, 32)
"""Flips more probable than this are published as bits."""

RESULT: Final = {
    "mode": "publish, spectral or pcc",
    "estimator": "range, subspace, flip or degrees",
    "vertices": "how many rows there are",
    "columns": "of the published matrix (range)",
    "projection": "kind and nonzeros of the public matrix P; its seed stands with the public seeds",
    "unit": "what a number of the published matrix is worth",
    "sigma": "deviation of the noise for rows of P of length 1",
    "noise_deviation": "of one entry, after the unit (subspace: of each step; flip: of the "
    "unbiased estimate; degrees: of a degree)",
    "probability": "with which every pair was flipped (flip)",
    "released_edges": "how many the flipped graph has (flip)",
    "noisy_edges": "their number, by which auto chose; null where it was not counted (flip, "
    "degrees)",
    "eigenvalues": "with their sign and without what noise adds; 0: noise alone would show it "
    "(flip)",
    "singular_values": "falling; they estimate the largest |eigenvalues|, where above noise",
    "signal_below_noise": "whether the largest singular value is what noise alone would show",
    "values_above_noise": "how many of the singular values noise alone would not show; clusters "
    "and scores rest on k of them",
    "cluster_sizes": "how many vertices each cluster has (spectral)",
    "matrix.npy": "A P + Q divided by the unit, a row for each vertex (range)",
    "flipped.npy": "the flipped graph's edges (edges, 2) as rows, or the bits of its pairs where p "
    "is above 1/32 (flip, publish)",
    "degrees.npy": "noisy degrees, a number for each vertex (degrees, publish)",
    "iterates.npy": "A X + noise of each step, divided by the unit (subspace)",
    "vertices.csv": "the vertices in order of rows; with their cluster (spectral), and their score "
    "and rank by principal component centrality (spectral, pcc)",
}


def check(dataset: EdgeList, params: Parameters, stance: Stance) -> None:
    """Refuse a graph that is too small, and columns that are too many for it.

    Raises GraphTooSmall, and what the parameters raise.
    """
    if params.vertices is not None:
        raise Invalid("the dataset has the vertices", pointer="/params/vertices")
    if dataset.count < LEAST_VERTICES:
        raise GraphTooSmall("has three vertices at least", pointer="/dataset")
    if not dataset.edges and not dataset.declared:
        raise GraphTooSmall("has an edge, or a vertex set of its own", pointer="/dataset")
    choice = chosen_estimator(params, stance, dataset.count)
    check_signal(choice, params)
    if choice.chosen == "flip" or choice.counts_edges:
        check_size(dataset.count, params)
    elif choice.chosen != "degrees":
        settings_of(resolved(params, choice), stance, dataset.count)


def run(dataset: EdgeList, params: Parameters, stance: Stance, context: Context) -> Outcome:
    """A release. Raises what `check` raises, and Cancelled."""
    check(dataset, params, stance)
    choice = chosen_estimator(params, stance, dataset.count)
    seed = params.projection_seed
    if seed is None:
        seed = int(context.noise("projection seed").words(1)[0])
    context.progress(0.0, "neighbours")
    edges: int | None = None
    if choice.counts_edges:
        edges = noisy_edges(dataset, params.epsilon or Fraction(1), context)
        choice = chosen_estimator(params, stance, dataset.count, edges)
    if choice.chosen == "flip":
        return _flip(dataset, params, edges, seed, context)
    if choice.chosen == "degrees":
        return _degrees(dataset, params, edges, seed, context)
    settings = settings_of(resolved(params, choice), stance, dataset.count)
    graph = adjacency(dataset, compiled=can_compile(50 * dataset.edges))
    theory = None
    if settings.estimator == "subspace":
        assert settings.sigma is not None
        iteration = iterate(
            graph,
            settings.eigenvectors,
            settings.iterations,
            settings.sigma,
            settings.grid_bits,
            seed,
            context,
        )
        findings = found_in_iteration(iteration, params.mode, seed, context)
        facts = Facts(dataset.count, dataset.declared, None)
        file = _iterates_file(iteration)
        published = _iteration_result(iteration, settings.sigma)
    else:
        release = _release(settings, dataset.count, seed, context)
        facts = Facts(dataset.count, dataset.declared, release)
        buffer = _MatrixFile(release)
        gram = publish(graph, release, context, buffer.add)
        file = buffer.file()
        findings = found_in_matrix(
            release,
            buffer.matrix(file),
            gram,
            settings,
            params.mode,
            context,
            vectors=params.mode != "publish" or params.metrics is not None,
        )
        published = matrix_result(release)
        assert settings.columns is not None
        assert settings.sigma is not None
        theory = partial(
            squared_cosine,
            vertices=graph.count,
            columns=settings.columns,
            sigma=float(settings.sigma),
            mean_degree=graph.entries / graph.count,
        )
    outcome = outcome_of(
        dataset.vertices, params, stance, facts, findings, published, (file,), seed, context
    )
    if params.metrics is None:
        return outcome
    compared = evaluate(graph, findings, settings.eigenvectors, theory, params.metrics, context)
    return replace(outcome, evaluation=compared | _counts(dataset))


def _degrees(
    dataset: EdgeList, params: Parameters, edges: int | None, seed: int, context: Context
) -> Outcome:
    """A release of noisy degrees, and of the first vector that they show."""
    scale = 2 / epsilon_left(params)
    count = min(params.k, dataset.count)
    released = noisy_degrees(dataset, scale, context)
    vector = DegreeVector.of(released, scale, count)
    findings = found_in_degrees(vector, params.mode, seed, context)
    published = {"noise_deviation": vector.noise_variance**0.5, "noisy_edges": edges}
    files: tuple[ResultFile, ...] = ()
    if params.mode == "publish":
        buffer = io.BytesIO()
        np.save(buffer, released)
        described = "noisy degrees, in order of rows of vertices.csv"
        files = (ResultFile.binary("degrees.npy", buffer.getvalue(), described),)
    facts = Facts(dataset.count, dataset.declared, None, noisy_edges=edges)
    outcome = outcome_of(
        dataset.vertices, params, "sound", facts, findings, published, files, seed, context
    )
    if params.metrics is None:
        return outcome
    truth = adjacency(dataset, compiled=can_compile(50 * dataset.edges))
    compared = evaluate(truth, findings, count, None, params.metrics, context)
    return replace(outcome, evaluation=compared | _counts(dataset))


def _flip(
    dataset: EdgeList, params: Parameters, edges: int | None, seed: int, context: Context
) -> Outcome:
    """A release of the flipped graph, or of what it shows."""
    law = flip_of(params)
    released = flipped(dataset, law, context)
    graph = adjacency(released, compiled=can_compile(50 * released.edges))
    beat = partial(context.progress, 0.5, "eigenvectors")
    count = min(params.k, dataset.count)
    spectrum_of_flips = flipped_spectrum(graph, law, count, beat)
    findings = found_in_flips(spectrum_of_flips, params.mode, seed, context)
    published = {
        "probability": f"{law.threshold}/{WORD}",
        "released_edges": released.edges,
        "noisy_edges": edges,
        "noise_deviation": law.variance**0.5,
        "eigenvalues": (
            np.sign(spectrum_of_flips.raw) * spectrum_of_flips.spectrum.values
        ).tolist(),
    }
    files = (_flipped_file(released, law),) if params.mode == "publish" else ()
    facts = Facts(dataset.count, dataset.declared, None, noisy_edges=edges)
    outcome = outcome_of(
        dataset.vertices, params, "sound", facts, findings, published, files, seed, context
    )
    if params.metrics is None:
        return outcome
    theory = partial(squared_cosine_of_flips, noise=spectrum_of_flips.noise)
    truth = adjacency(dataset, compiled=can_compile(50 * dataset.edges))
    compared = evaluate(truth, findings, count, theory, params.metrics, context)
    return replace(outcome, evaluation=compared | _counts(dataset))


def _counts(dataset: EdgeList) -> dict[str, int]:
    """Counts of the true graph, for an evaluation."""
    return {"edges": dataset.edges, "loops": dataset.loops, "duplicates": dataset.duplicates}


def preview(params: Parameters, stance: Stance) -> PrivacyReport:
    """The report of a run, before any data. Raises what `check_parameters` raises."""
    return spectrum_report(params, stance)


def _release(settings: Settings, vertices: int, seed: int, context: Context) -> Release:
    assert settings.sigma is not None
    projection = settings.projection(vertices, seed)
    beat = partial(context.progress, 0.05, "projection")
    return Release.of(projection, settings.sigma, settings.stance, beat)


def _iteration_result(iteration: Iteration, sigma: Fraction) -> dict[str, Any]:
    deviations = [float(iterate.variance) ** 0.5 * iteration.unit for iterate in iteration.iterates]
    return {"unit": iteration.unit, "noise_deviation": deviations, "sigma": float(sigma)}


# ------------------------------------------------------------------------------------------- files


class _MatrixFile:
    """The published matrix, written block by block as an .npy file."""

    def __init__(self, release: Release) -> None:
        self._type = release.cell_type()
        self._shape = (release.projection.vertices, release.projection.columns)
        self._buffer = io.BytesIO()
        header(self._buffer, self._type, self._shape)
        self._start = self._buffer.tell()

    def add(self, _rows: Rows, cells: Cells) -> None:
        """Write the next block."""
        self._buffer.write(np.ascontiguousarray(cells).data)

    def file(self) -> ResultFile:
        """The complete file."""
        return ResultFile.binary(
            "matrix.npy",
            self._buffer.getvalue(),
            MATRIX,
        )

    def matrix(self, file: ResultFile) -> NDArray[Any]:
        """A view of the same bytes."""
        entries = np.frombuffer(file.content, self._type, offset=self._start)
        return entries.reshape(self._shape)


def _flipped_file(released: EdgeList, law: Flip) -> ResultFile:
    """As a list of edges, or as bits where those are fewer bytes."""
    buffer = io.BytesIO()
    if law.probability > DENSE:
        np.save(buffer, packed(released))
        described = "the flipped graph's pairs (i, j), i < j, in order of rows, as bits"
    else:
        np.save(buffer, np.column_stack([released.first, released.second]))
        described = "the flipped graph's edges, as pairs of rows of vertices.csv, from 0"
    return ResultFile.binary("flipped.npy", buffer.getvalue(), described)


def _iterates_file(iteration: Iteration) -> ResultFile:
    buffer = io.BytesIO()
    first = iteration.iterates[0].cells
    header(buffer, first.dtype, (len(iteration.iterates), *first.shape))
    for step in iteration.iterates:
        buffer.write(step.cells.data)
    return ResultFile.binary(
        "iterates.npy",
        buffer.getvalue(),
        "the noisy products of all steps, (steps, vertices, k)",
    )


ALGORITHM: Final = Algorithm(
    name=NAME,
    title="A graph's spectrum by random projection and Gaussian noise",
    source="Publishing Social Network Data with Privacy Guarantees (book chapter 11), Algorithms 1 "
    "to 5; Ahmed, Jin and Liu, arXiv 1307.0475",
    purpose="a small noisy matrix from which the leading eigenvectors of a graph can be estimated, "
    "so that no edge can be inferred: for clusters and influential vertices of large graphs",
    dataset_kind="edge-list",
    params=Parameters,
    stances=("sound", "paper"),
    run=run,
    preview=preview,
    result=RESULT,
    complexity="time O(m (edges + vertices) + vertices m^2), m columns; memory for each vertex 4 m "
    "bytes of the published matrix and m / 8 of the projection (subspace: 8 k for each step); "
    "flip: time O(vertices^2), 16 bytes for each edge of the flipped graph",
    reports=REPORTS,
    check=check,
    drawings=DRAWINGS,
    evaluation_pictures=evaluation_pictures,
)
