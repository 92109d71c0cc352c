"""The privacy report of flipped pairs and of noisy degrees: pure epsilon for an edge, delta 0.

Spec: graph-random-matrix, sections 3.7, 3.9 and 9.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final

from algorithms.graph_der.degrees import laplace_variance
from algorithms.graph_random_matrix.degree_vector import COUNT_SHARE
from algorithms.graph_random_matrix.flipping import Choice, Flip, epsilon_left, flip_of
from algorithms.graph_random_matrix.parameters import Parameters, squared_cosine_of_flips
from algorithms.graph_random_matrix.statements import (
    NAME,
    NO_SIGNAL,
    NOT_PROTECTED,
    PLACES,
    Facts,
    finding_caveats,
    with_expected_cosine,
)
from algorithms.path_publishing.levelled_graph import WORD
from tacit.noise import sampler_delta
from tacit.report.builder import (
    EVALUATED,
    NOISE_SOURCE,
    ONE_RELEASE,
    RUN_TIME_UNSEEN,
    ReportBuilder,
)
from tacit.report.figures import amount, epsilon_amount
from tacit.report.model import NoiseStatement, PrivacyReport, SensitivityStatement
from tacit.wire import format_exact

# Spec: graph-random-matrix, sections 3.7 and 9. Made of public values only.

PUBLICATION: Final = (
    "flipping the edges of block models: Hehir, Slavkovic and Niu, 2022; of general graphs: "
    "arXiv 2309.06867. The amplification by shuffling of arXiv 2510.07136 is not used, since "
    "outputs name vertices"
)


COUNTED: Final = (
    "The number of edges, with a fiftieth of epsilon, decides between flips and degrees: what is "
    "stated here is of the one that is named."
)


def flip_report(params: Parameters, choice: Choice, facts: Facts | None) -> PrivacyReport:
    """Of a run, planned or done. Raises BadEpsilon."""
    law = flip_of(params)
    builder = ReportBuilder(NAME, "algorithms.path_publishing.levelled_graph", "sound", "edge")
    return _pure_report(
        builder,
        "every pair of vertices flipped with one probability",
        params,
        choice,
        facts,
        method="the likelihood ratio of one coin, (1 - p) / p, is at most e^epsilon: p is rounded "
        "up to a multiple of 2^-64; all other coins are the same in neighbours",
        reason=f"p = {law.threshold} / 2^64, and ln((1 - p) / p), rounded up, is "
        f"{epsilon_amount(law.epsilon)}",
        touched=("1", "pairs that an edge changes"),
        noise=builder.noise("every pair of vertices", None, "flip").model_copy(
            update={"distribution": "coin", "probability": amount(law.probability)}
        ),
        estimate="the unbiased estimate of the adjacency matrix, its eigenvalues and vectors",
        voided=(
            "a seed given for the job: the coins can be repeated",
            "a pair flipped twice on its own: two releases, twice epsilon",
        ),
        error=_flip_error(params, law, facts),
        details=_flip_details(law, choice, facts),
    )


def degrees_report(params: Parameters, choice: Choice, facts: Facts | None) -> PrivacyReport:
    """Of a run by noisy degrees, planned or done."""
    builder = ReportBuilder(NAME, "tacit tacit.noise.discrete_laplace", "sound", "edge")
    scale = 2 / epsilon_left(params)
    details: dict[str, Any] = {
        "method": choice.described,
        "not_of_the_source": True,
        "publication": "noisy degrees: Karwa and Slavkovic, 2012; graphs of expected degrees: "
        "Chung and Lu, 2002",
        "several_edges": "k edges together: k times epsilon",
        "evaluation_is_private": True,
    }
    if facts is not None:
        details |= {"vertices": facts.vertices, "vertices_declared": facts.declared}
    return _pure_report(
        builder,
        "noisy degrees",
        params,
        choice,
        facts,
        method="an edge changes the degrees of two vertices by 1",
        reason="discrete Laplace noise on integers of L1 sensitivity 2",
        touched=("2", "degrees"),
        noise=builder.noise("every degree", scale),
        estimate="the law of degrees, and each vertex's mean degree given its noisy one",
        voided=("a seed given for the job: the noise can be repeated",),
        error=_degrees_error(params, facts),
        details=details,
        sampler=sampler_delta(3, _whole_epsilon(params)),
    )


def _whole_epsilon(params: Parameters) -> Fraction:
    return Fraction(1) if params.epsilon is None else params.epsilon


def _degrees_error(params: Parameters, facts: Facts | None) -> dict[str, Any]:
    result: dict[str, Any] = {
        "basis": "expected cosine of the first vector, where the cosine between it and the vector "
        "of degrees is .75 (on five graphs .23 to .98); the noise of a degree",
        "mean_degree": amount(params.mean_degree),
        "degree_deviation": math.sqrt(laplace_variance(float(2 / epsilon_left(params)))),
    }
    if facts is None:
        return result
    return result | {"signal_below_noise": facts.signal_below_noise}


def _pure_report(
    builder: ReportBuilder,
    mechanism: str,
    params: Parameters,
    choice: Choice,
    facts: Facts | None,
    *,
    method: str,
    reason: str,
    touched: tuple[str, str],
    noise: NoiseStatement,
    estimate: str,
    voided: tuple[str, ...],
    error: dict[str, Any],
    details: dict[str, Any],
    sampler: Fraction | None = None,
) -> PrivacyReport:
    """The common part of the reports of flips and degrees: all of epsilon for an edge, delta 0."""
    epsilon = _whole_epsilon(params)
    edge = "knows every other edge; one undirected edge more or less"
    noises, touches = [noise], [touched]
    caveats_found = () if facts is None else finding_caveats(params.mode, params.k, facts)
    if choice.asked == "auto":
        noises.append(builder.noise("number of edges", 1 / (epsilon * COUNT_SHARE)))
        touches.append(("1", "number of edges"))
        method += "; the number of edges has a fiftieth of epsilon, the rest the remainder"
        reason += (
            f"; the number of edges has {format_exact(epsilon * COUNT_SHARE)}, and both add up"
        )
        sampler = sampler_delta(1, epsilon) + (sampler or 0)
        if facts is None:
            caveats_found = (*caveats_found, COUNTED)
    if choice.described.get("no_signal_expected"):
        caveats_found = (*caveats_found, NO_SIGNAL)
    return builder.report(
        mechanism,
        {"mode": params.mode, "estimator": choice.chosen, "k": params.k},
        method=method,
        sensitivity=tuple(
            SensitivityStatement(value=value, source="declared", part=part)
            for value, part in touches
        ),
        verified=(
            builder.laplace_line(
                "a",
                edge,
                epsilon,
                reason,
                conditions=("the same vertices with and without the edge",),
            ),
        ),
        charged=builder.charge(epsilon),
        noise=tuple(noises),
        **({} if sampler is None else {"sampler": sampler}),
        public_parameters=(
            "the vertices and their order, and so their number",
            "every parameter",
        ),
        post_processing=(
            estimate,
            "clusters by k-means on the vectors' rows, principal component centrality, ranking",
        ),
        not_protected=NOT_PROTECTED,
        voided_by=(
            *voided,
            "k or other parameters tuned on the true spectrum",
            "the evaluation published",
        ),
        assumptions=(
            "The coordinator keeps the graph and is trusted with it.",
            NOISE_SOURCE,
            "Parameters were chosen without looking at the graph.",
            "The vertices are public.",
            RUN_TIME_UNSEEN,
        ),
        caveats=(
            ONE_RELEASE,
            *caveats_found,
            *((EVALUATED,) if params.metrics is not None else ()),
        ),
        evaluation_attached=params.metrics is not None,
        error=with_expected_cosine(error, choice, choice.chosen, facts),
        details=details,
    )


def _flip_error(params: Parameters, law: Flip, facts: Facts | None) -> dict[str, Any]:
    """The forecast, sharp for each eigenvalue: 1 - n v / lambda^2."""
    result: dict[str, Any] = {
        "basis": "squared cosine between an eigenvector and its estimate is 1 - n v / lambda^2, n "
        "the vertices: lost below sqrt(n v); at most that of lambda_i^2 = degree n / i, for any "
        "graph with the guessed mean degree",
        "mean_degree": amount(params.mean_degree),
        "entry_variance": law.variance,
        "noise_deviation": math.sqrt(law.variance),
    }
    if facts is None:
        return result
    n, degree = facts.vertices, float(params.mean_degree)
    best = {
        str(place): round(
            squared_cosine_of_flips(math.sqrt(degree * n / place), n * law.variance), 4
        )
        for place in PLACES
        if place <= params.k
    }
    return result | {"best_squared_cosine": best, "signal_below_noise": facts.signal_below_noise}


def _flip_details(law: Flip, choice: Choice, facts: Facts | None) -> dict[str, Any]:
    details: dict[str, Any] = {
        "method": choice.described,
        "not_of_the_source": True,
        "publication": PUBLICATION,
        "several_edges": "k edges together: k times epsilon",
        "evaluation_is_private": True,
        "flip": {
            "probability": f"{law.threshold}/{WORD}",
            "epsilon": epsilon_amount(law.epsilon),
        },
    }
    if facts is not None:
        details["vertices"] = facts.vertices
        details["vertices_declared"] = facts.declared
        details["flip"] |= {
            "bulk_edge": 2 * math.sqrt(facts.vertices * law.variance),
            "values_above_noise": facts.values_above_noise,
        }
    return details
