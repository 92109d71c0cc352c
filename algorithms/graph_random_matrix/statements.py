"""What is public after a run, and the sentences that its report may have.

Spec: graph-random-matrix, sections 4.2 and 9.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from algorithms.contract import by_cosine, with_verdict, without_verdict
from algorithms.graph_random_matrix.degree_vector import LEAST_COSINE
from algorithms.graph_random_matrix.flipping import Choice
from algorithms.graph_random_matrix.parameters import Estimator, Mode
from algorithms.graph_random_matrix.publication import Release
from tacit.report.builder import FOR_SUBMITTER

NAME: Final = "graph-random-matrix"
PLACES: Final = (1, 2, 4, 8, 16)
"""Eigenvectors, from 1, that a forecast mentions."""


@dataclass(frozen=True)
class Facts:
    """What is public after a run. release: None unless a matrix was published."""

    vertices: int
    declared: bool
    release: Release | None
    signal_below_noise: bool = False
    values_above_noise: int = 0
    noisy_edges: int | None = None


# Spec: graph-random-matrix, section 4.2.

NOT_PROTECTED: Final = (
    "The unit is one edge. A vertex with all its edges is not protected; k edges are protected as "
    "one is at sigma / k.",
    "Hubs: a vertex with many edges stands out, and its number of edges can be estimated.",
    "Membership: which vertices there are is published.",
    "What many edges have in common, such as clusters, is what the release shows.",
    FOR_SUBMITTER,
)

TAKEN: Final = (
    "The vertices were taken from the edges: that each of them has an edge is published. Declare "
    "the dataset's universe to protect that."
)
BELOW: Final = (
    "signal_below_noise: the largest singular value is one that noise alone would show. Clusters "
    "and rankings of this release mean nothing."
)
PARTLY: Final = (
    "values_above_noise: {above} of the {used} directions in use stand out from the noise; the "
    "others may be noise, and so may the clusters and ranks that rest on them."
)
NO_SIGNAL: Final = (
    f"No signal expected: cosine below {LEAST_COSINE}. By public numbers no estimator is expected "
    "to show the first vector at this epsilon."
)


def finding_caveats(mode: Mode, used: int, facts: Facts | None) -> tuple[str, ...]:
    """Caveats that follow from a run's own figures; used: directions that clusters rest on."""
    if facts is None:
        return ()
    caveats = () if facts.declared else (TAKEN,)
    above = facts.values_above_noise
    if facts.signal_below_noise:
        return (*caveats, BELOW)
    if mode != "publish" and above < used:
        return (*caveats, PARTLY.format(above=above, used=used))
    return caveats


def with_expected_cosine(
    error: dict[str, Any], choice: Choice, estimator: Estimator | None, facts: Facts | None
) -> dict[str, Any]:
    """The forecast with the expected cosine of the first vector, once the number of vertices is
    known; `range`, and a given sigma, have no such expectation."""
    if choice.chosen == "range" and "expected_cosine" not in choice.described:
        return error
    if facts is None:
        return without_verdict(error, "needs the number of vertices; details name examples")
    if facts.signal_below_noise:
        return with_verdict(error, "noise", "no direction stands out from the noise")
    cosines = choice.described.get("expected_cosine", {}).get(str(facts.vertices), {})
    if estimator not in cosines:
        reason = f"nothing is expected of {estimator} by public numbers"
        return without_verdict(error, reason)
    figure = f"the first vector's cosine is expected to be {cosines[estimator]:.2g}"
    return with_verdict(error, by_cosine(cosines[estimator]), figure)
