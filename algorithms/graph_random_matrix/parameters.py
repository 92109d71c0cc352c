"""The parameters of `graph-random-matrix`, and their ranges.

Spec: graph-random-matrix, section 2; jobs, "Parameters". The vertex set is part of the dataset.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from algorithms.contract import Stance
from algorithms.graph_random_matrix.problems import (
    BadColumns,
    BadDelta,
    BadEigenvectors,
    BadEpsilon,
    BadSigma,
)
from algorithms.parameters import asked_metrics, schema_range
from algorithms.problems import MethodNeedsSound
from tacit.encoders.graph_random_matrix.projection import Kind
from tacit.encoders.graph_random_matrix.reports import MOST_VERTICES
from tacit.errors import Invalid
from tacit.wire import Exact, WireModel

Mode = Literal["publish", "spectral", "pcc"]
Estimator = Literal["range", "subspace", "flip"]

MOST_EPSILON: Final = Fraction(100)
MOST_DELTA: Final = Fraction(1, 1000)
MOST_SIGMA: Final = Fraction(10**6)
MOST_COLUMNS: Final = 1000
MOST_EIGENVECTORS: Final = 64
MOST_SEED: Final = 1 << 64


class Metrics(WireModel):
    """What an evaluation compares with the true data."""

    clusterings: Annotated[
        int, Field(ge=1, le=20, description="of the true and of the noisy eigenvectors, for NMI")
    ] = 5
    top: tuple[Annotated[int, Field(ge=1, le=1_000_000)], ...] = Field(
        (10, 100, 1_000, 10_000), max_length=10, description="sizes of the rankings' heads"
    )
    seed: Annotated[int, Field(ge=0, lt=1 << 63, description="drives the clusterings")] = 0


class Parameters(WireModel):
    """Parameters of `graph-random-matrix`."""

    model_config = ConfigDict(title="GraphRandomMatrixParameters")

    mode: Mode = Field(
        "publish",
        description="publish: the matrix alone; spectral: clusters of the vertices and their "
        "ranking too; pcc: their ranking by principal component centrality too",
    )
    m: Literal["auto"] | int = Field(
        "auto",
        description="columns of the matrix, at least 2 k, below the number of vertices, at most "
        "1,000; auto: by the noise and mean_degree (paper: 200)",
        json_schema_extra=schema_range(minimum=2, maximum=MOST_COLUMNS),
    )
    k: int = Field(
        8,
        description="leading eigenvectors to estimate, and clusters; at most m / 2",
        json_schema_extra=schema_range(minimum=1, maximum=MOST_EIGENVECTORS),
    )
    epsilon: Exact | None = Field(
        None, description="budget of the job, above 0, at most 100; 1 unless sigma is given"
    )
    delta: Exact = Field(
        Fraction(1, 10**6),
        description="above 0, at most 0.001; below 1 / vertices to mean much; 0 with flip",
    )
    sigma: Exact | None = Field(
        None,
        description="in place of epsilon: the deviation of the noise, for rows of the projection "
        "of length 1",
    )
    projection: Kind | None = Field(
        None,
        description="rademacher: signs (default); gaussian (default of paper); sparse: few signs "
        "in each row",
    )
    nonzeros: Annotated[int, Field(description="signs in each row of a sparse projection")] = 8
    projection_seed: Annotated[
        int | None, Field(description="public, 64 bits; drawn for the job unless given")
    ] = None
    estimator: Estimator | Literal["auto"] | None = Field(
        None,
        description="range: singular vectors of the published matrix (default of publish and of "
        "paper); subspace: noisy subspace iteration; flip: every pair flipped with a small "
        "probability, delta 0; auto: flip or subspace, by the number of vertices (default of "
        "spectral and pcc); all but range in sound only",
    )
    iterations: Annotated[
        int, Field(description="steps of the subspace estimator, 1 to 32", ge=1, le=32)
    ] = 4
    mean_degree: Exact = Field(
        Fraction(20),
        description="a public guess of edges at a vertex, for auto and forecasts; no privacy "
        "depends on it",
    )
    vertices: tuple[str, ...] | None = Field(
        None,
        max_length=MOST_VERTICES,
        description="over curators alone, and needed there: the ids of the curators that are "
        "vertices, in order of rows; public",
    )
    evaluate: bool | Metrics = False

    @property
    def metrics(self) -> Metrics | None:
        """What to evaluate; None: nothing."""
        return asked_metrics(self.evaluate, Metrics)

    def estimator_of(self, stance: Stance) -> Estimator | Literal["auto"]:
        """As given, or the mode's own."""
        if self.estimator is not None:
            return self.estimator
        matrix = self.mode == "publish" and self.delta > 0
        return "range" if stance == "paper" or matrix else "auto"

    def projection_of(self, stance: Stance) -> Kind:
        """As given, or the stance's own."""
        return self.projection or ("gaussian" if stance == "paper" else "rademacher")


def check_parameters(params: Parameters, stance: Stance) -> None:
    """All that needs no graph.

    Raises BadEpsilon, BadDelta, BadSigma, BadEigenvectors, BadColumns, MethodNeedsSound, Invalid
    for the seed and the guess; each names the field.
    """
    if params.epsilon is not None and params.sigma is not None:
        raise BadEpsilon("epsilon or sigma, not both", pointer="/params/epsilon")
    if params.epsilon is not None and not 0 < params.epsilon <= MOST_EPSILON:
        raise BadEpsilon("must lie above 0 and be at most 100", pointer="/params/epsilon")
    pure = stance == "sound" and params.estimator_of(stance) in ("flip", "auto")
    if not (0 < params.delta <= MOST_DELTA or (pure and params.delta == 0)):
        raise BadDelta(
            "must lie above 0 and be at most 0.001; 0 with flip", pointer="/params/delta"
        )
    if params.delta == 0 and params.sigma is not None:
        raise BadDelta("Gaussian noise needs one above 0", pointer="/params/delta")
    if params.sigma is not None and not 0 < params.sigma <= MOST_SIGMA:
        raise BadSigma(f"must lie above 0 and be at most {MOST_SIGMA}", pointer="/params/sigma")
    if not 1 <= params.k <= MOST_EIGENVECTORS:
        raise BadEigenvectors("must lie between 1 and 64", pointer="/params/k")
    if params.m != "auto" and not 2 <= params.m <= MOST_COLUMNS:
        raise BadColumns("must lie between 2 and 1000", pointer="/params/m")
    if params.m != "auto" and 2 * params.k > params.m:
        raise BadEigenvectors("must be at most half of m", pointer="/params/k")
    if not 1 <= params.nonzeros <= MOST_COLUMNS:
        raise BadColumns("must lie between 1 and m", pointer="/params/nonzeros")
    if params.projection_seed is not None and not 0 <= params.projection_seed < MOST_SEED:
        raise Invalid("must be a number of 64 bits", pointer="/params/projection_seed")
    if params.mean_degree < 0:
        raise Invalid("is not negative", pointer="/params/mean_degree")
    if stance == "paper" and params.estimator not in (None, "range"):
        raise MethodNeedsSound("the source has range alone", pointer="/params/estimator")
    if params.estimator == "flip" and params.sigma is not None:
        raise BadEpsilon("flips take an epsilon, not a sigma", pointer="/params/sigma")
