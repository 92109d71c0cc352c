"""Which estimator a job runs: a pure function of public numbers, never of edges.

Flips hide an edge by noise that grows with the vertices, the subspace iteration by noise that does
not. Both are measured by n v, the squared noise that an eigenvalue has to pass: of the iteration it
is D0 k T / (2 rho) where the basis's heaviest row weighs D0 = 20 times an even one.

Spec: graph-random-matrix, section 3.8.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from algorithms.contract import Stance
from algorithms.graph_random_matrix.flipping import Flip, expected_edges, pairs_of
from algorithms.graph_random_matrix.parameters import (
    BadDelta,
    BadEpsilon,
    Estimator,
    GraphTooLarge,
    Parameters,
    automatic_columns,
    check_parameters,
    privacy_of,
)
from tacit.errors import Invalid

HEAVY: Final = 20
"""D0: how much heavier than an even row the heaviest of the iteration's bases is taken to be."""
MOST_STORED: Final = 200_000_000
"""Edges of a flipped graph that are in memory at the same time."""
MOST_PAIRS: Final = 20_000_000_000
EXAMPLES: Final = (1_000, 10_000, 100_000)
"""Numbers of vertices that a preview mentions."""


@dataclass(frozen=True)
class Choice:
    """asked: as named, `auto`, or by default; chosen: None where it takes the number of vertices,
    which is not known yet; described: rule and forecasts, for preview and report."""

    asked: str
    chosen: Estimator | None
    described: dict[str, Any]


def flip_of(params: Parameters) -> Flip:
    """The coins of a job. Raises BadEpsilon."""
    if params.sigma is not None:
        raise BadEpsilon("flips take an epsilon, not a sigma", pointer="/params/sigma")
    try:
        return Flip.of(_epsilon(params))
    except ValueError:
        raise BadEpsilon("too small for flips", pointer="/params/epsilon") from None


def resolved(params: Parameters, choice: Choice) -> Parameters:
    """The parameters with the estimator's name; the one that needs a delta where both may run."""
    return params.model_copy(update={"estimator": choice.chosen or "subspace"})


def check_size(vertices: int, params: Parameters) -> None:
    """Raises GraphTooLarge for more vertices than can be flipped."""
    law = flip_of(params)
    if not _fits(vertices, params.mean_degree, law):
        raise GraphTooLarge(vertices, _largest(params.mean_degree, law))


def chosen_estimator(params: Parameters, stance: Stance, vertices: int | None = None) -> Choice:
    """The choice. Raises what `check_parameters` raises, and BadEpsilon."""
    check_parameters(params, stance)
    asked = params.estimator_of(stance)
    if stance == "paper":
        return Choice(asked, "range", {"asked": asked, "chosen": "range"})
    described: dict[str, Any] = {"asked": asked}
    chosen: Estimator | None = None
    if asked != "auto":
        chosen = asked
    else:
        limit = flip_limit(params)
        if params.delta == 0:
            chosen = "flip"
        elif limit == 0:
            chosen = "subspace"
        elif vertices is not None:
            chosen = "flip" if vertices <= limit else "subspace"
        described["rule"] = {
            "flip_up_to_vertices": limit,
            "because": "noise of flips grows with the vertices n, that of the iteration does not: "
            f"flip if n v <= {HEAVY} k T / (2 rho) and R fits; at delta 0 always",
        }
    described["chosen"] = chosen
    sizes = EXAMPLES if vertices is None else (vertices,)
    described["eigenvalue_needed"] = {str(size): eigenvalues_needed(params, size) for size in sizes}
    described["eigenvalue_needed_note"] = (
        "an eigenvector whose |eigenvalue| is below it is lost; flip: theory, sharp; subspace: of "
        "a basis as heavy as the rule says; range: theory, for the guessed mean degree"
    )
    return Choice(asked, chosen, described)


def flip_limit(params: Parameters) -> int:
    """Vertices up to which `auto` takes flips; 0: never."""
    if params.sigma is not None:
        return 0
    try:
        law = flip_of(params)
    except BadEpsilon:
        return 0
    largest = _largest(params.mean_degree, law)
    if params.delta == 0:
        return largest
    return min(largest, math.floor(_iteration_noise(params) / law.variance))


def eigenvalues_needed(params: Parameters, vertices: int) -> dict[str, float | None]:
    """By estimator, which |eigenvalue| a graph must have to show at all; None: it does not serve
    these parameters. From public numbers only."""

    def for_range() -> float:
        sigma, degree = float(privacy_of(params).sigma), float(params.mean_degree)
        columns = params.m
        if columns == "auto":
            columns = automatic_columns(params.k, sigma, degree)
        return (degree + columns * sigma**2) * math.sqrt(vertices / columns)

    squares: dict[Estimator, Callable[[], float]] = {
        "flip": lambda: vertices * flip_of(params).variance,
        "subspace": lambda: _iteration_noise(params),
        "range": for_range,
    }
    result: dict[str, float | None] = {}
    for name, squared in squares.items():
        try:
            result[name] = float(f"{math.sqrt(squared()):.3g}")
        except Invalid:
            result[name] = None
    return result


def _iteration_noise(params: Parameters) -> float:
    """Squared, of the last step of the subspace iteration with a heavy basis. Raises BadDelta,
    BadEpsilon, BadSigma."""
    if params.delta == 0:
        raise BadDelta("Gaussian noise needs one above 0", pointer="/params/delta")
    return HEAVY * params.k * params.iterations / (2 * float(privacy_of(params).rho))


def _epsilon(params: Parameters) -> Fraction:
    return Fraction(1) if params.epsilon is None else params.epsilon


def _fits(vertices: int, mean_degree: Fraction, law: Flip) -> bool:
    if pairs_of(vertices) > MOST_PAIRS:
        return False
    return expected_edges(vertices, mean_degree, law) <= MOST_STORED


def _largest(mean_degree: Fraction, law: Flip) -> int:
    low, high = 0, 2 * math.isqrt(MOST_PAIRS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _fits(middle, mean_degree, law) else (low, middle)
    return low
