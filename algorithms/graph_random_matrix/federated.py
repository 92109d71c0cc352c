"""Spectrum publication without a keeper: every vertex sends its own noisy row.

Spec: federated-counting, section 11. The rows are those of the central form, with the same law of
noise; a vertex that sends none has no row. All that is read off the matrix is shared.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from algorithms.contract import (
    Collected,
    Context,
    FederatedReports,
    MethodNeedsSound,
    Outcome,
    Stance,
)
from algorithms.graph_random_matrix.linear_algebra import gram_of, one_thread
from algorithms.graph_random_matrix.outcome import (
    found_in_matrix,
    matrix_file,
    matrix_result,
    outcome_of,
)
from algorithms.graph_random_matrix.parameters import Parameters, settings_of
from algorithms.graph_random_matrix.publication import Release
from algorithms.graph_random_matrix.report import spectrum_report
from algorithms.graph_random_matrix.statements import Facts
from tacit.encoders.graph_random_matrix import RowReports
from tacit.errors import Invalid
from tacit.report.figures import delta_amount, epsilon_amount
from tacit.report.model import Charge, PrivacyReport

SCENARIO: Final = "coordinator and all curators but the two ends of the edge"
_ADVERSARY: Final = (
    "the coordinator, which sees each row alone, with the sets of all curators but the two ends; "
    "one undirected edge more or less"
)
_ENDS: Final = "An edge from who is one end of it, or shares that end's set."
_SILENT: Final = "Which vertices send no row."
_HONEST: Final = "a curator's own software adds its row up and draws its noise"
_KEEPER: Final = "The coordinator keeps"


def asked_of(params: Parameters, stance: Stance) -> Parameters:
    """The settings with what curators need. Raises Invalid, and what `settings_of` raises."""
    if stance != "sound":
        raise MethodNeedsSound("curators draw whole numbers", pointer="/stance")
    if params.estimator not in (None, "auto", "range"):
        raise Invalid("over curators range alone", pointer="/params/estimator")
    if params.projection == "gaussian":
        raise Invalid("over curators a projection of signs", pointer="/params/projection")
    if params.metrics is not None:
        raise Invalid("nobody holds the graph", pointer="/params/evaluate")
    if params.vertices is None or len(set(params.vertices)) != len(params.vertices):
        raise Invalid("over curators their ids, each once", pointer="/params/vertices")
    if len(params.vertices) < 3:
        raise Invalid("three vertices at least", pointer="/params/vertices")
    result = params.model_copy(
        update={"estimator": "range", "projection_seed": params.projection_seed or 0}
    )
    settings_of(result, stance, len(params.vertices))
    return result


def encoded(params: Parameters) -> RowReports:
    """What a curator needs to know, of parameters that were checked."""
    assert params.vertices is not None
    assert params.projection_seed is not None
    settings = settings_of(params, "sound", len(params.vertices))
    privacy = settings.privacy
    assert privacy is not None
    projection = settings.projection(len(params.vertices), params.projection_seed)
    return RowReports(params.vertices, projection, privacy.sigma, privacy.epsilon, privacy.delta)


def encoding(params: Parameters, stance: Stance) -> dict[str, Any]:
    """The same as a document. Raises Invalid."""
    return encoded(asked_of(params, stance)).document()


def aggregate(
    params: Parameters, stance: Stance, collected: Collected, context: Context
) -> Outcome:
    """The matrix of the rows that came, in order of vertices."""
    params = asked_of(params, stance)
    encoding = encoded(params)
    context.progress(0.2, "reading rows")
    rows = {report.curator: report.values for _, report in collected.reports}
    vertices = tuple(vertex for vertex in encoding.vertices if vertex in rows)
    release = Release(encoding.projection, encoding.sigma, "sound", 2 * encoding.length)
    matrix = np.array([rows[vertex] for vertex in vertices], release.cell_type())
    matrix = matrix.reshape(len(vertices), encoding.projection.columns)
    with one_thread():
        gram = gram_of(matrix)
    findings = found_in_matrix(
        release,
        matrix,
        gram,
        settings_of(params, "sound", len(encoding.vertices)),
        params.mode,
        context,
        vectors=params.mode != "publish",
    )
    facts = Facts(len(encoding.vertices), True, release)
    published = matrix_result(release)
    outcome = outcome_of(
        np.array(vertices),
        params,
        "sound",
        facts,
        findings,
        published,
        (matrix_file(matrix),),
        encoding.projection.seed,
        context,
    )
    return replace(outcome, report=_of_rows(outcome.report, encoding))


def preview(params: Parameters, stance: Stance) -> PrivacyReport:
    """The report that a result would carry. Raises Invalid."""
    params = asked_of(params, stance)
    encoding = encoded(params)
    release = Release(encoding.projection, encoding.sigma, "sound", 2 * encoding.length)
    facts = Facts(len(encoding.vertices), True, release)
    return _of_rows(spectrum_report(params, "sound", facts), encoding)


def _of_rows(report: PrivacyReport, encoding: RowReports) -> PrivacyReport:
    """The report of the central form, against anyone who sees single rows."""
    cost = encoding.cost
    place = {"scenario": SCENARIO, "key": None, "description": _ADVERSARY}
    kept = tuple(item for item in report.assumptions if not item.startswith(_KEEPER))
    return report.model_copy(
        update={
            "verified": tuple(line.model_copy(update=place) for line in report.verified),
            "charged": Charge(
                ledger="curators",
                privacy_unit="record",
                epsilon=epsilon_amount(cost.epsilon),
                delta=delta_amount(cost.delta),
            ),
            "not_protected": (*report.not_protected, _ENDS, _SILENT),
            "assumptions": (*kept, _HONEST),
        }
    )


REPORTS: Final = FederatedReports(
    encoding=encoding,
    columns=lambda _params: 1,
    aggregate=aggregate,
    preview=preview,
    when="estimator range with a projection of signs: each curator is a vertex and its set of "
    "items are its neighbours, curators too",
)
