"""A run's result: what is shown of the release, its files and its pictures.

Pictures of the release: singular values and the noise, sizes of clusters. Those of an evaluation
(eigenvectors, influential vertices and clusters next to the true ones) are for the operator only.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context, Outcome, Plot, ResultFile, Stance
from algorithms.drawing import BLUE, GREY, can_draw, picture
from algorithms.graph_random_matrix.estimator_choice import chosen_estimator
from algorithms.graph_random_matrix.findings import Findings
from algorithms.graph_random_matrix.linear_algebra import ROWS, Floats
from algorithms.graph_random_matrix.parameters import Parameters
from algorithms.graph_random_matrix.publication import Release
from algorithms.graph_random_matrix.report import Facts, spectrum_report
from tacit.records.text_files import line_of, written

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES: Final = (5.4, 4.0)
_BLUE: Final = "#1b6ca8"
_RED: Final = "#c8553d"


def pictures(findings: Findings, beat: Callable[[], None] = lambda: None) -> tuple[Plot, ...]:
    """One or both plots; none without matplotlib."""
    beat()
    if not can_draw():
        return ()
    found = [
        picture(
            "graph-random-matrix", "singular-values", lambda axes: _values(axes, findings), _INCHES
        )
    ]
    if findings.labels is not None:
        beat()
        sizes = np.bincount(findings.labels)
        found.append(
            picture(
                "graph-random-matrix",
                "clusters",
                lambda axes: _clusters(axes, sizes.tolist()),
                _INCHES,
            )
        )
    return tuple(found)


def _values(axes: Axes, findings: Findings) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_title("Singular values of what is published")
    places = np.arange(1, findings.values.size + 1)
    axes.plot(places, findings.values, "o-", color=_BLUE, markersize=3, label="published")
    axes.axhline(
        findings.noise_level,
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


def _clusters(axes: Axes, sizes: list[int]) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_title("Vertices by cluster")
    axes.bar(range(len(sizes)), sizes, color=_BLUE)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("cluster")
    axes.set_ylabel("vertices")


# Spec: jobs, section "Result"; graph-random-matrix, section 5. Visible only to the operator; drawn
# where the evaluation is read.

_NAME: Final = "graph-random-matrix"


def evaluation_pictures(
    evaluation: Mapping[str, Any],
    summary: Mapping[str, Any],  # noqa: ARG001 - one signature for all algorithms
) -> tuple[Plot, ...]:
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
    axes.bar(places, [abs(each) for each in cosines], color=BLUE, label="released")
    if theory is not None:
        expected = [max(each, 0.0) ** 0.5 for each in theory]
        axes.plot(places, expected, "_", color=GREY, markersize=14, label="foretold")
    axes.set_xticks(places)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("eigenvector")
    axes.set_ylabel("cosine (1: the same)")
    axes.legend(frameon=False)


def _overlap(axes: Axes, shares: Sequence[Mapping[str, Any]]) -> None:
    axes.set_title("Most influential vertices found (private)")
    names = [f"first {each['top']}" for each in shares]
    axes.bar(names, [each["share"] for each in shares], color=BLUE)
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
    """Of a release and what is read off it; the vertices in order of rows."""
    facts = replace(
        facts,
        signal_below_noise=findings.signal_below_noise,
        values_above_noise=findings.values_above_noise,
    )
    choice = chosen_estimator(params, stance, len(vertices))
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
        plots=pictures(findings, partial(context.progress, 0.9, "plotting")),
        public_seeds={"projection_seed": seed},
    )
    context.progress(0.95, "releasing")
    return outcome


def matrix_result(release: Release) -> dict[str, Any]:
    """What a result holds of a published matrix."""
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
    return ResultFile("matrix.npy", "application/octet-stream", buffer.getvalue(), MATRIX)


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
        parts = {name: each[first : first + ROWS].tolist() for name, each in columns.items()}
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
