"""A run's result: what is shown of the release, its files and its pictures.

Pictures of the release: singular values and the noise, sizes of clusters. Those of an evaluation
(eigenvectors, influential vertices and clusters next to the true ones) are for the operator only.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context, Drawing, Outcome, Picture, Plot, ResultFile, Stance
from algorithms.drawing import BLUE, GREY, floats, picture
from algorithms.graph_random_matrix.degree_vector import DegreeVector
from algorithms.graph_random_matrix.flipping import FlippedSpectrum, chosen_estimator
from algorithms.graph_random_matrix.linear_algebra import (
    ROWS,
    Beat,
    Floats,
    Spectrum,
    centrality,
    from_gram,
    quiet,
    singular_values,
)
from algorithms.graph_random_matrix.parameters import Mode, Parameters, Settings, noise_edge
from algorithms.graph_random_matrix.publication import Iteration, Release
from algorithms.graph_random_matrix.report import spectrum_report
from algorithms.graph_random_matrix.statements import Facts
from algorithms.kmeans.starts import spread_start
from tacit.encoders.graph_random_matrix import philox
from tacit.records.text_files import line_of, written

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES: Final = (5.4, 4.0)
_BLUE: Final = "#1b6ca8"
_RED: Final = "#c8553d"


def plots_of(findings: Findings) -> tuple[Plot, ...]:
    """One or both plots."""
    values = Plot.of("singular-values", values=findings.values, noise=findings.noise_level)
    if findings.labels is None:
        return (values,)
    return values, Plot.of("clusters", vertices=np.bincount(findings.labels))


def _values(axes: Axes, values: Mapping[str, Any]) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_title("Singular values of what is published")
    places = np.arange(1, len(values["values"]) + 1)
    axes.plot(places, floats(values["values"]), "o-", color=_BLUE, markersize=3, label="published")
    axes.axhline(
        values["noise"],
        color=_RED,
        linestyle="--",
        linewidth=1,
        label="noise alone, with a margin of 20 % in squares",
    )
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("place")
    axes.set_ylabel("singular value")
    axes.legend(frameon=False)


def _clusters(axes: Axes, values: Mapping[str, Any]) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_title("Vertices by cluster")
    axes.bar(range(len(values["vertices"])), values["vertices"], color=_BLUE)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("cluster")
    axes.set_ylabel("vertices")


DRAWINGS: Final = {"singular-values": Drawing(_values), "clusters": Drawing(_clusters)}


# Spec: jobs, section "Result"; graph-random-matrix, section 5. Visible only to the operator; drawn
# where the evaluation is read.

_NAME: Final = "graph-random-matrix"


def evaluation_pictures(
    evaluation: Mapping[str, Any],
    summary: Mapping[str, Any],  # noqa: ARG001 - one signature for all algorithms
) -> tuple[Picture, ...]:
    """Those that the evaluation has figures for."""
    cosines = evaluation.get("ev_cosine")
    if not cosines:
        return ()
    theory = evaluation.get("squared_cosine_by_theory")
    drawn = [picture(_NAME, "eigenvectors", lambda axes: _vectors(axes, cosines, theory), _INCHES)]
    if evaluation["overlap"]:
        shares = evaluation["overlap"]
        drawn.append(picture(_NAME, "overlap", lambda axes: _overlap(axes, shares), _INCHES))
    agreement = evaluation["nmi"]
    drawn.append(picture(_NAME, "clusters", lambda axes: _true_clusters(axes, agreement), _INCHES))
    return tuple(drawn)


def _vectors(axes: Axes, cosines: Sequence[float], theory: Sequence[float] | None) -> None:
    axes.set_title("Released eigenvectors against the true ones (private)")
    places = range(1, len(cosines) + 1)
    axes.bar(places, [abs(cosine) for cosine in cosines], color=BLUE, label="released")
    if theory is not None:
        expected = [max(value, 0.0) ** 0.5 for value in theory]
        axes.plot(places, expected, "_", color=GREY, markersize=14, label="foretold")
    axes.set_xticks(places)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("eigenvector")
    axes.set_ylabel("cosine (1: the same)")
    axes.legend(frameon=False)


def _overlap(axes: Axes, shares: Sequence[Mapping[str, Any]]) -> None:
    axes.set_title("Most influential vertices found (private)")
    names = [f"first {share['top']}" for share in shares]
    axes.bar(names, [share["share"] for share in shares], color=BLUE)
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("share that is right")


def _true_clusters(axes: Axes, agreement: Mapping[str, float]) -> None:
    axes.set_title("Clusters against those of the true graph (private)")
    names = ["true, clustered again", "released"]
    axes.bar(names, [agreement["original"], agreement["private"]], color=[GREY, BLUE])
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("mutual information (1: the same)")


# Spec: graph-random-matrix, section 2; jobs, "Result".

Names = NDArray[Any]
"""Of vertices (n,), in order of rows."""
MATRIX: Final = "the projected adjacency matrix with noise, a row for each vertex"


def outcome_of(
    vertices: Names,
    params: Parameters,
    stance: Stance,
    facts: Facts,
    findings: Findings,
    published: dict[str, Any],
    files: tuple[ResultFile, ...],
    seed: int,
    context: Context,
) -> Outcome:
    """The outcome of a release and its findings; the vertices in order of rows."""
    facts = replace(
        facts,
        signal_below_noise=findings.signal_below_noise,
        values_above_noise=findings.values_above_noise,
    )
    choice = chosen_estimator(params, stance, len(vertices), facts.noisy_edges)
    outcome = Outcome(
        result={
            "mode": params.mode,
            "estimator": choice.chosen,
            "vertices": len(vertices),
            **published,
            **findings.summary(),
        },
        report=spectrum_report(params, stance, facts),
        files=(*files, _vertices_file(vertices, findings, context)),
        plots=plots_of(findings),
        public_seeds={"projection_seed": seed},
    )
    context.progress(0.95, "releasing")
    return outcome


def matrix_result(release: Release) -> dict[str, Any]:
    """The fields of a result about a published matrix."""
    projection = release.projection
    described: dict[str, Any] = {"kind": projection.kind}
    if projection.kind == "sparse":
        described["nonzeros"] = projection.nonzeros
    return {
        "columns": projection.columns,
        "projection": described,
        "unit": release.unit,
        "noise_deviation": release.deviation,
        "sigma": float(release.sigma),
    }


def matrix_file(matrix: NDArray[Any]) -> ResultFile:
    """A published matrix, a row for each vertex."""
    buffer = io.BytesIO()
    np.save(buffer, matrix)
    return ResultFile.binary("matrix.npy", buffer.getvalue(), MATRIX)


def header(buffer: io.BytesIO, kind: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """The header of an .npy file, rows first."""
    np.lib.format.write_array_header_1_0(
        buffer,
        {
            "descr": np.lib.format.dtype_to_descr(kind),
            "fortran_order": False,
            "shape": shape,
        },
    )


def _vertices_file(vertices: Names, findings: Findings, context: Context) -> ResultFile:
    text = io.StringIO()
    columns: dict[str, Any] = {"vertex": vertices}
    if findings.labels is not None:
        columns["cluster"] = findings.labels
    if findings.scores is not None:
        columns["score"] = findings.scores
        columns["rank"] = _ranks(findings.scores)
    text.write(line_of(columns))
    for first in range(0, len(vertices), ROWS):
        context.progress(0.85, "writing")
        parts = {name: column[first : first + ROWS].tolist() for name, column in columns.items()}
        if "score" in parts:
            parts["score"] = [f"{score:.9g}" for score in parts["score"]]
        text.write(written(zip(*parts.values(), strict=True)))
    content = text.getvalue().encode()
    return ResultFile("vertices.csv", "text/csv", content, "the vertices in order of rows")


def _ranks(scores: Floats) -> NDArray[np.int64]:
    """From 1, by falling score, ties by the order of rows."""
    ranks = np.empty(scores.size, np.int64)
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, scores.size + 1)
    return ranks


RESTARTS: Final = 10
ROUNDS: Final = 300
STILL: Final = 1e-4
LARGE: Final = 1_000_000
RESTARTS_OF_LARGE: Final = 3
SAMPLE: Final = 100_000

Labels = NDArray[np.int64]


def clusters(
    points: Floats, count: int, generator: np.random.Generator, beat: Beat = quiet
) -> Labels:
    """Labels (n,) from 0 of points (n, d): those of the restart with the least inertia."""
    large = len(points) > LARGE
    best, least = np.zeros(len(points), np.int64), np.inf
    for _ in range(RESTARTS_OF_LARGE if large else RESTARTS):
        sampled = points
        if large:
            sampled = points[generator.choice(len(points), SAMPLE, replace=False)]
        start = spread_start(sampled, np.ones(len(sampled)), count, generator, beat)
        labels, inertia = _lloyd(points, start, beat)
        if inertia < least:
            best, least = labels, inertia
    return best


def _lloyd(points: Floats, centres: Floats, beat: Beat) -> tuple[Labels, float]:
    limit = STILL * _variance(points, beat)
    labels, sums, sizes, inertia = _assigned(points, centres, beat)
    for _ in range(ROUNDS):
        moved = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)
        shift = float(np.square(moved - centres).sum())
        centres = moved
        labels, sums, sizes, inertia = _assigned(points, centres, beat)
        if shift <= limit:
            break
    return labels, inertia


def _variance(points: Floats, beat: Beat) -> float:
    """The mean over the columns."""
    sums, squares = np.zeros(points.shape[1]), np.zeros(points.shape[1])
    middle = points[0]  # near the mean or not, it takes a common offset out
    for first in range(0, len(points), ROWS):
        beat()
        part = points[first : first + ROWS] - middle
        sums += part.sum(axis=0)
        squares += np.square(part).sum(axis=0)
    return float((squares / len(points) - np.square(sums / len(points))).mean())


def _assigned(points: Floats, centres: Floats, beat: Beat) -> tuple[Labels, Floats, Floats, float]:
    """The nearest centre of each point; sums and sizes of clusters; total squared distance."""
    labels = np.empty(len(points), np.int64)
    sums, sizes, inertia = np.zeros(centres.shape), np.zeros(len(centres)), 0.0
    lengths = np.square(centres).sum(axis=1)
    turned = -2 * centres.T
    for first in range(0, len(points), ROWS):
        beat()
        part = points[first : first + ROWS]
        distances = part @ turned
        distances += lengths
        nearest = distances.argmin(axis=1)
        labels[first : first + ROWS] = nearest
        inertia += float(distances.min(axis=1).sum() + np.square(part).sum())
        sizes += np.bincount(nearest, minlength=len(centres))
        for column in range(part.shape[1]):
            sums[:, column] += np.bincount(nearest, part[:, column], len(centres))
    return labels, sums, sizes, inertia


# What is read off a release: singular values, clusters, scores. Post-processing, no budget. Spec:
# graph-random-matrix, sections 3.3 to 3.5 (Algorithms 3 and 5 of the source).


@dataclass(frozen=True, eq=False)
class Findings:
    """values: singular values, falling; noise_level: what the largest one must exceed; spectrum,
    labels (n,) from 0, scores (n,): None if the mode does not request them."""

    values: Floats
    noise_level: float
    spectrum: Spectrum | None = None
    labels: Labels | None = None
    scores: Floats | None = None

    @property
    def signal_below_noise(self) -> bool:
        """By the largest published singular value."""
        return bool(self.values[0] < self.noise_level)

    @property
    def values_above_noise(self) -> int:
        """How many published singular values are larger than noise alone would show."""
        return int(np.count_nonzero(self.values >= self.noise_level))

    def summary(self) -> dict[str, Any]:
        """The fields of the result."""
        result: dict[str, Any] = {
            "singular_values": self.values.tolist(),
            "signal_below_noise": self.signal_below_noise,
            "values_above_noise": self.values_above_noise,
        }
        if self.labels is not None:
            result["cluster_sizes"] = np.bincount(self.labels).tolist()
        return result


def found_in_matrix(
    release: Release,
    matrix: NDArray[Any],
    gram: Floats,
    settings: Settings,
    mode: Mode,
    context: Context,
    *,
    vectors: bool,
) -> Findings:
    """By the source's estimator; the matrix is read once more if vectors are requested."""
    n, m = matrix.shape
    variance = release.deviation**2 + float(settings.mean_degree) / m
    level = math.sqrt(noise_edge(n, m, variance))
    if not vectors:
        return Findings(singular_values(gram)[0] * release.unit, level)
    beat = partial(context.progress, 0.65, "singular vectors")
    spectrum = from_gram(matrix, release.unit, gram, settings.eigenvectors, beat)
    return _completed(spectrum, level, mode, release.projection.seed, context)


def found_in_iteration(iteration: Iteration, mode: Mode, seed: int, context: Context) -> Findings:
    """By the last step of the subspace iteration."""
    n, k = iteration.spectrum.scaled.shape
    level = math.sqrt(noise_edge(n, k, iteration.deviation**2))
    return _completed(iteration.spectrum, level, mode, seed, context)


def found_in_flips(flips: FlippedSpectrum, mode: Mode, seed: int, context: Context) -> Findings:
    """By the flipped graph; clusters and scores only where a direction stands out."""
    sizes = np.abs(flips.raw)
    if not (flips.spectrum.values > 0).any():
        return Findings(sizes, flips.level, flips.spectrum)
    completed = _completed(flips.spectrum, flips.level, mode, seed, context)
    return replace(completed, values=sizes)


def found_in_degrees(vector: DegreeVector, mode: Mode, seed: int, context: Context) -> Findings:
    """By noisy degrees; clusters and scores only if they differ by more than noise."""
    if not vector.spectrum.values.any():
        return Findings(vector.spectrum.values, vector.level, vector.spectrum)
    return _completed(vector.spectrum, vector.level, mode, seed, context)


def _completed(
    spectrum: Spectrum, level: float, mode: Mode, seed: int, context: Context
) -> Findings:
    labels = scores = None
    if mode == "spectral":
        generator = np.random.Generator(philox(seed, "clusters"))
        count = spectrum.scaled.shape[1]
        labels = clusters(
            spectrum.vectors, count, generator, partial(context.progress, 0.7, "clustering")
        )
    if mode != "publish":
        scores = centrality(spectrum.scaled)
    return Findings(spectrum.values, level, spectrum, labels, scores)
