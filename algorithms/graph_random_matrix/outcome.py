"""A run's result: what is shown of the release, and its files.

Spec: graph-random-matrix, section 2; jobs, "Result".
"""

from __future__ import annotations

import io
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context, Outcome, ResultFile, Stance
from algorithms.graph_random_matrix.choice import chosen_estimator
from algorithms.graph_random_matrix.facts import Facts
from algorithms.graph_random_matrix.findings import Findings
from algorithms.graph_random_matrix.parameters import Parameters
from algorithms.graph_random_matrix.pictures import pictures
from algorithms.graph_random_matrix.publication import Release
from algorithms.graph_random_matrix.report import spectrum_report
from algorithms.graph_random_matrix.spectrum import ROWS, Floats
from tacit.records.delimited import line_of, written

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
