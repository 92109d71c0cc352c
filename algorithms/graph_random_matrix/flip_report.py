"""The privacy report of flipped pairs: pure epsilon for an edge, delta 0.

Spec: graph-random-matrix, sections 3.7 and 9. Made of public values only.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Final

from algorithms.graph_random_matrix.choice import Choice, flip_of
from algorithms.graph_random_matrix.facts import NAME, PLACES, Facts
from algorithms.graph_random_matrix.flipping import Flip
from algorithms.graph_random_matrix.forecast import squared_cosine_of_flips
from algorithms.graph_random_matrix.parameters import Parameters
from algorithms.graph_random_matrix.statements import NOT_PROTECTED, finding_caveats
from algorithms.path_publishing.coins import WORD
from tacit.report.builder import (
    EVALUATED,
    NOISE_SOURCE,
    ONE_RELEASE,
    RUN_TIME_UNSEEN,
    ReportBuilder,
)
from tacit.report.figures import amount, epsilon_amount
from tacit.report.model import PrivacyReport, SensitivityStatement

PUBLICATION: Final = (
    "flipping the edges of block models: Hehir, Slavkovic and Niu, 2022; of general graphs: "
    "arXiv 2309.06867. The amplification by shuffling of arXiv 2510.07136 is not used, since "
    "outputs name vertices"
)


def flip_report(params: Parameters, choice: Choice, facts: Facts | None) -> PrivacyReport:
    """Of a run, planned or done. Raises BadEpsilon."""
    law = flip_of(params)
    builder = ReportBuilder(NAME, "algorithms.path_publishing.coins", "sound", "edge")
    epsilon = Fraction(1) if params.epsilon is None else params.epsilon
    edge = "knows every other edge; one undirected edge more or less"
    held = () if facts is None else finding_caveats(params.mode, params.k, facts)
    return builder.report(
        "every pair of vertices flipped with one probability",
        {"mode": params.mode, "estimator": "flip", "k": params.k},
        method="the likelihood ratio of one coin, (1 - p) / p, is at most e^epsilon: p is rounded "
        "up to a multiple of 2^-64; all other coins are the same in neighbours",
        sensitivity=(
            SensitivityStatement(value="1", source="declared", part="pairs that an edge changes"),
        ),
        verified=(
            builder.laplace_line(
                "a",
                edge,
                epsilon,
                f"p = {law.threshold} / 2^64, and ln((1 - p) / p), rounded up, is "
                f"{epsilon_amount(law.epsilon)}",
                conditions=("the same vertices with and without the edge",),
            ),
        ),
        charged=builder.charge(epsilon),
        noise=(
            builder.noise("every pair of vertices", None, "flip").model_copy(
                update={"distribution": "coin", "probability": amount(law.probability)}
            ),
        ),
        public_parameters=(
            "the vertices and their order, and so their number",
            "every parameter",
        ),
        post_processing=(
            "the unbiased estimate of the adjacency matrix, its eigenvalues and vectors",
            "clusters by k-means on the vectors' rows, principal component centrality, ranking",
        ),
        not_protected=NOT_PROTECTED,
        voided_by=(
            "a seed given for the job: the coins can be repeated",
            "k or other parameters tuned on the true spectrum",
            "a pair flipped twice on its own: two releases, twice epsilon",
            "the evaluation published",
        ),
        assumptions=(
            "The coordinator keeps the graph and is trusted with it.",
            NOISE_SOURCE,
            "Parameters were chosen without looking at the graph.",
            "The vertices are public.",
            RUN_TIME_UNSEEN,
        ),
        caveats=(ONE_RELEASE, *held, *((EVALUATED,) if params.metrics is not None else ())),
        evaluation_attached=params.metrics is not None,
        error=_error(params, law, facts),
        details=_details(law, choice, facts),
    )


def _error(params: Parameters, law: Flip, facts: Facts | None) -> dict[str, Any]:
    """The forecast, sharp for each eigenvalue: 1 - n v / lambda^2."""
    found: dict[str, Any] = {
        "basis": "squared cosine between an eigenvector and its estimate is 1 - n v / lambda^2, n "
        "the vertices: lost below sqrt(n v); at most that of lambda_i^2 = degree n / i, for any "
        "graph with the guessed mean degree",
        "mean_degree": amount(params.mean_degree),
        "entry_variance": law.variance,
        "noise_deviation": math.sqrt(law.variance),
    }
    if facts is None:
        return found
    n, degree = facts.vertices, float(params.mean_degree)
    best = {
        str(place): round(
            squared_cosine_of_flips(math.sqrt(degree * n / place), n * law.variance), 4
        )
        for place in PLACES
        if place <= params.k
    }
    return found | {"best_squared_cosine": best, "signal_below_noise": facts.signal_below_noise}


def _details(law: Flip, choice: Choice, facts: Facts | None) -> dict[str, Any]:
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
