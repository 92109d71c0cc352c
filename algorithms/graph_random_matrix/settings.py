"""A run's public choices: noise, columns, projection.

Spec: graph-random-matrix, sections 3.5 and 3.6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

from algorithms.contract import Stance
from algorithms.graph_random_matrix.forecast import MOST_AUTOMATIC, automatic_columns
from algorithms.graph_random_matrix.parameters import (
    MOST_SIGMA,
    Estimator,
    Parameters,
    check_parameters,
)
from algorithms.graph_random_matrix.problems import (
    BadColumns,
    BadDelta,
    BadEigenvectors,
    BadEpsilon,
    BadSigma,
)
from tacit.accounting.gaussian import projection_theorem_sigma, zcdp_epsilon, zcdp_sigma
from tacit.encoders.graph_random_matrix.projection import Kind, Projection
from tacit.noise.discrete_gaussian import DEVIATION_LIMIT, gaussian_sampler_delta

EDGE: Final = math.sqrt(2)
"""L2 sensitivity of A P to an edge, with rows of P of length 1."""

MOST_ON_GRID: Final = 200
"""Sigma with rows on the grid 2^-20, so that the deviation stays below that of the sampler."""


@dataclass(frozen=True)
class Privacy:
    """What the noise of a sound run keeps for an edge.

    sigma: deviation for rows of length 1; rho = 1 / sigma^2; delta holds what imperfect draws add,
    `sampler_delta`.
    """

    sigma: Fraction
    epsilon: Fraction
    delta: Fraction
    sampler_delta: Fraction

    @property
    def rho(self) -> Fraction:
        """Of zero-concentrated privacy."""
        return 1 / self.sigma**2


@dataclass(frozen=True)
class Settings:
    """sigma: None where it depends on the number of vertices (the source's theorem), which is not
    known before. columns: None where it does. privacy: None in `paper`."""

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
        found = zcdp_epsilon(rho, float(delta) * (1 - 1e-9))
        epsilon = Fraction(math.ceil(found * 2**40), 2**40)
        extra = gaussian_sampler_delta(entries, epsilon)
        if extra > delta / 10**9:
            raise BadSigma("so little noise protects nothing", pointer="/params/sigma")
        return Privacy(sigma, epsilon, delta, extra)
    assert epsilon is not None
    extra = gaussian_sampler_delta(entries, epsilon)
    if extra > delta / 10**9:
        raise BadDelta("too small for so large an epsilon", pointer="/params/delta")
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
