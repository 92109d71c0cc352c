"""The parameters of `graph-random-matrix`, their ranges, and what is refused.

From them follow a run's public choices (noise, columns, projection) and, from public numbers
alone, how much of the leading eigenvectors the noise leaves. Spec: graph-random-matrix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from algorithms.contract import MethodNeedsSound, Stance, asked_metrics, schema_range
from tacit.encoders.graph_random_matrix import MOST_VERTICES, Kind, Projection
from tacit.errors import Invalid, TooLarge
from tacit.noise.discrete_gaussian import DEVIATION_LIMIT, gaussian_sampler_delta
from tacit.noise.gaussian_privacy import projection_theorem_sigma, zcdp_epsilon, zcdp_sigma
from tacit.wire import Exact, WireModel


class BadEpsilon(Invalid):
    """Outside its range, or given together with sigma."""

    name = "bad_epsilon"
    title = "Epsilon is not valid"


class BadDelta(Invalid):
    """Delta is out of range."""

    name = "bad_delta"
    title = "Delta is not valid"


class BadSigma(Invalid):
    """Not above 0, or beyond what the samplers serve."""

    name = "bad_sigma"
    title = "Sigma is not valid"


class BadColumns(Invalid):
    """Too few for k, too many for the vertices, or too many in total."""

    name = "bad_columns"
    title = "The number of columns is not valid"


class BadEigenvectors(Invalid):
    """Outside its range, or more than the columns carry."""

    name = "bad_eigenvectors"
    title = "The number of eigenvectors is not valid"


class GraphTooSmall(Invalid):
    """Fewer than three vertices, or no edge although the vertex set is taken from the edges."""

    name = "graph_too_small"
    title = "The graph is too small"


class GraphTooLarge(TooLarge):
    """More vertices than can be flipped pair by pair, at this epsilon."""

    name = "graph_too_large"
    title = "The graph is too large"

    def __init__(self, vertices: int, most: int) -> None:
        super().__init__(
            f"{vertices} vertices, at most {most} with the estimator flip; take subspace",
            pointer="/dataset",
            extra={"vertices": vertices, "most_vertices": most},
        )


class NoSignalExpected(Invalid):
    """By public numbers no estimator is expected to show the first vector."""

    name = "no_signal_expected"
    title = "No signal is expected"


# Spec: graph-random-matrix, section 2; jobs, "Parameters". The vertex set is part of the dataset.

Mode = Literal["publish", "spectral", "pcc"]
Estimator = Literal["range", "subspace", "flip", "degrees"]

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
        "probability, delta 0; degrees: the first vector alone, by noisy degrees, delta 0; auto: "
        "the one that is expected to show most, by the number of vertices and a noisy number of "
        "edges (default of spectral and pcc); all but range in sound only",
    )
    iterations: Annotated[
        int, Field(description="steps of the subspace estimator, 1 to 32", ge=1, le=32)
    ] = 4
    anyway: bool = Field(
        False,
        description="run although no signal is expected: the first vector's cosine is below .1",
    )
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
        raise BadEpsilon("must be above 0 and at most 100", pointer="/params/epsilon")
    estimators = ("flip", "degrees", "auto")
    pure = stance == "sound" and params.estimator_of(stance) in estimators
    if not (0 < params.delta <= MOST_DELTA or (pure and params.delta == 0)):
        raise BadDelta("must be above 0 and at most 0.001; 0 with flip", pointer="/params/delta")
    if params.delta == 0 and params.sigma is not None:
        raise BadDelta("Gaussian noise needs one above 0", pointer="/params/delta")
    if params.sigma is not None and not 0 < params.sigma <= MOST_SIGMA:
        raise BadSigma(f"must be above 0 and at most {MOST_SIGMA}", pointer="/params/sigma")
    if not 1 <= params.k <= MOST_EIGENVECTORS:
        raise BadEigenvectors("must be between 1 and 64", pointer="/params/k")
    if params.m != "auto" and not 2 <= params.m <= MOST_COLUMNS:
        raise BadColumns("must be between 2 and 1000", pointer="/params/m")
    if params.m != "auto" and 2 * params.k > params.m:
        raise BadEigenvectors("must be at most half of m", pointer="/params/k")
    if not 1 <= params.nonzeros <= MOST_COLUMNS:
        raise BadColumns("must be between 1 and m", pointer="/params/nonzeros")
    if params.projection_seed is not None and not 0 <= params.projection_seed < MOST_SEED:
        raise Invalid("must be a number of 64 bits", pointer="/params/projection_seed")
    if params.mean_degree < 0:
        raise Invalid("is not negative", pointer="/params/mean_degree")
    if stance == "paper" and params.estimator not in (None, "range"):
        raise MethodNeedsSound("the source has range alone", pointer="/params/estimator")
    if params.estimator in ("flip", "degrees") and params.sigma is not None:
        raise BadEpsilon("they take an epsilon, not a sigma", pointer="/params/sigma")


# The columns of the published matrix are m samples of covariance (A^2 + m sigma^2 I) / m, whose
# bulk is v = d + m sigma^2 (d: the mean degree) and whose spikes are squared eigenvalues: theory of
# spiked covariances (J. Baik, J. Silverstein; D. Paul). An eigenvector of eigenvalue w is lost
# unless w^2 > v sqrt(n / m). Spec: graph-random-matrix, section 3.5, and "What cannot be
# reproduced" of section 5.

MOST_AUTOMATIC = 200
"""The most columns of `auto`."""
MARGIN = 1.2


def squared_cosine(
    eigenvalue: float, vertices: int, columns: int, sigma: float, mean_degree: float
) -> float:
    """Between an eigenvector and its estimate, in expectation, in [0, 1]; sigma >= 0."""
    bulk = mean_degree + columns * sigma**2
    if bulk == 0:
        return 1.0
    spike = eigenvalue**2 / bulk
    growth = vertices / columns
    if spike**2 <= growth:
        return 0.0
    return (1 - growth / spike**2) / (1 + growth / spike)


def squared_cosine_of_flips(eigenvalue: float, noise: float) -> float:
    """The same of a flipped graph; noise: n v, the vertices times the variance of an entry."""
    return max(0.0, 1 - noise / eigenvalue**2) if eigenvalue else 0.0


def best_squared_cosine(
    place: int, vertices: int, columns: int, sigma: float, mean_degree: float
) -> float:
    """Of the eigenvector number `place` (from 1), whatever the graph.

    The squared eigenvalues of n vertices with mean degree d add up to d n, so that the i-th largest
    is at most d n / i.
    """
    largest = math.sqrt(mean_degree * vertices / place)
    return squared_cosine(largest, vertices, columns, sigma, mean_degree)


def automatic_columns(
    eigenvectors: int, sigma: float, mean_degree: float, most: int = MOST_AUTOMATIC
) -> int:
    """Beyond about d / sigma^2 more columns only add noise: four times that, from 2 k + 10 to 200.

    mean_degree: a public guess.
    """
    useful = 4 * mean_degree / sigma**2
    return min(most, max(2 * eigenvectors + 10, math.ceil(min(useful, float(most)))))


def noise_edge(vertices: int, columns: int, variance: float) -> float:
    """An estimate of the largest squared singular value of noise alone, with a margin of a fifth.

    variance: of one entry.
    """
    return MARGIN * variance * (math.sqrt(vertices) + math.sqrt(columns)) ** 2


# Spec: graph-random-matrix, sections 3.5 and 3.6.

EDGE: Final = math.sqrt(2)
"""L2 sensitivity of A P to an edge, with rows of P of length 1."""

MOST_ON_GRID: Final = 200
"""Sigma with rows on the grid 2^-20, so that the deviation stays below that of the sampler."""


@dataclass(frozen=True)
class Privacy:
    """The guarantee of a sound run for an edge.

    sigma: deviation for rows of length 1; rho = 1 / sigma^2; delta includes what imperfect draws
    add, `sampler_delta`.
    """

    sigma: Fraction
    epsilon: Fraction
    delta: Fraction
    sampler_delta: Fraction

    @property
    def rho(self) -> Fraction:
        """The rho of zero-concentrated differential privacy."""
        return 1 / self.sigma**2


@dataclass(frozen=True)
class Settings:
    """sigma: None if it depends on the number of vertices (the source's theorem), which is not
    known before. columns: None if they do. privacy: None in `paper`."""

    stance: Stance
    estimator: Estimator
    kind: Kind
    columns: int | None
    eigenvectors: int
    nonzeros: int
    iterations: int
    mean_degree: Fraction
    sigma: Fraction | None
    privacy: Privacy | None

    def projection(self, vertices: int, seed: int) -> Projection:
        """The public matrix of a run. columns must be known."""
        assert self.columns is not None
        return Projection(self.kind, vertices, self.columns, seed, self.nonzeros)

    @property
    def grid_bits(self) -> int:
        """Of the subspace iteration: the finest grid up to 2^-20 whose noise can be drawn. A step's
        deviation is at most 2 sqrt(iterations / 2) sigma for orthonormal columns."""
        assert self.sigma is not None
        most = 2 * math.sqrt(self.iterations / 2) * float(self.sigma)
        return max(0, min(20, math.floor(math.log2(DEVIATION_LIMIT / most))))


def settings_of(params: Parameters, stance: Stance, vertices: int | None = None) -> Settings:
    """Public choices of `range` or `subspace`; with `vertices` all of them.

    Raises what `check_parameters` raises, BadColumns, BadEigenvectors where they do not fit the
    vertices, and ValueError for an estimator that is not one of the two.
    """
    check_parameters(params, stance)
    privacy = None if stance == "paper" else privacy_of(params)
    sigma = params.sigma if privacy is None else privacy.sigma
    if stance == "paper" and sigma is None and vertices is not None:
        exact = projection_theorem_sigma(_epsilon(params), float(params.delta), vertices)
        sigma = Fraction(exact)
    estimator = params.estimator_of(stance)
    if estimator == "auto" or estimator == "flip":
        raise ValueError("of range and subspace only")
    settings = Settings(
        stance,
        estimator,
        params.projection_of(stance),
        _columns(params, stance, sigma, vertices),
        params.k,
        params.nonzeros,
        params.iterations,
        params.mean_degree,
        sigma,
        privacy,
    )
    if settings.kind == "gaussian" and privacy is not None and privacy.sigma > MOST_ON_GRID:
        raise BadSigma(
            "too much noise for the grid of a gaussian projection", pointer=_noisy(params)
        )
    columns = settings.columns
    if settings.kind == "sparse" and columns is not None and params.nonzeros > columns:
        raise BadColumns("must be at most m", pointer="/params/nonzeros")
    return settings


def _noisy(params: Parameters) -> str:
    return "/params/epsilon" if params.sigma is None else "/params/sigma"


def _epsilon(params: Parameters) -> float:
    return 1.0 if params.epsilon is None else float(params.epsilon)


def _columns(
    params: Parameters,
    stance: Stance,
    sigma: Fraction | None,
    vertices: int | None,
) -> int | None:
    if params.m == "auto":
        most = MOST_AUTOMATIC if vertices is None else min(MOST_AUTOMATIC, vertices - 1)
        if stance == "paper":
            chosen = None if vertices is None else most
        else:
            assert sigma is not None
            chosen = automatic_columns(params.k, float(sigma), float(params.mean_degree), most)
    else:
        chosen = params.m
    if chosen is None:
        return None
    if vertices is not None and chosen >= vertices:
        raise BadColumns("must be below the number of vertices", pointer="/params/m")
    if 2 * params.k > chosen:
        raise BadEigenvectors("must be at most half of m", pointer="/params/k")
    return chosen


@lru_cache(maxsize=256)
def _privacy(
    epsilon: Fraction | None, sigma: Fraction | None, delta: Fraction, entries: int
) -> Privacy:
    if sigma is not None:
        rho = float(1 / sigma**2) * (1 + 1e-15)
        # Rounded up by far more than the conversion errs, to few digits.
        spent = zcdp_epsilon(rho, float(delta) * (1 - 1e-9))
        epsilon = Fraction(math.ceil(spent * 2**40), 2**40)
        extra = gaussian_sampler_delta(entries, epsilon)
        if extra > delta / 10**9:
            raise BadSigma("so little noise protects nothing", pointer="/params/sigma")
        return Privacy(sigma, epsilon, delta, extra)
    assert epsilon is not None
    extra = gaussian_sampler_delta(entries, epsilon)
    if extra > delta / 10**9:
        raise BadDelta("too small for an epsilon this large", pointer="/params/delta")
    chosen = zcdp_sigma(float(epsilon), float(delta) * (1 - 1e-9), EDGE)
    if chosen > MOST_SIGMA:
        raise BadEpsilon("too small for the noise that it needs", pointer="/params/epsilon")
    return Privacy(chosen, epsilon, delta, extra)


def privacy_of(params: Parameters) -> Privacy:
    """Of a sound run. Raises BadSigma for a sigma that protects nothing."""
    epsilon = params.epsilon
    if params.sigma is None and epsilon is None:
        epsilon = Fraction(1)
    columns = MOST_AUTOMATIC if params.m == "auto" else params.m
    # Only the entries of two rows matter, the others are the same in neighbours.
    entries = 2 * max(columns, params.k * params.iterations)
    return _privacy(epsilon, params.sigma, params.delta, entries)
