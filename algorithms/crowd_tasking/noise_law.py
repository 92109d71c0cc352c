"""The law of the noise in one coordinate of one report: c Laplaces of one scale b added up.

Source: "Predictable Privacy-Preserving Mobile Crowd Sensing", Algorithms 1 and 2; the closed forms:
spec: crowd-tasking, section 3.2. With u = |z| / b and c = 1, 2, 3 parts

    density      e^-u / (2b),  e^-u (1+u) / (4b),  e^-u (3+3u+u^2) / (16b)
    P(|Z| > ub)  e^-u,         e^-u (1 + u/2),     e^-u (1 + 5u/8 + u^2/8)
    E|Z|         b,            1.5 b,              1.875 b
    variance     2 c b^2

They hold for continuous noise; the integer noise of the sound stance differs by the grid's step.
All functions are pure and take floats: they predict errors and never decide on privacy.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]

_MEAN: Final = {1: 1.0, 2: 1.5, 3: 1.875}
_TAIL: Final = {1: (1.0,), 2: (1.0, 0.5), 3: (1.0, 0.625, 0.125)}
"""Coefficients of the polynomial factor of e^-u in P(|Z| > ub)."""
_DENSITY: Final = {1: (0.5,), 2: (0.25, 0.25), 3: (3 / 16, 3 / 16, 1 / 16)}
_FARTHEST: Final = 80.0


def mean_absolute(parts: int) -> float:
    """E|Z| / b."""
    return _MEAN[parts]


def variance(parts: int) -> float:
    """Var Z / b^2."""
    return 2.0 * parts


def tail(u: ArrayLike, parts: int) -> Floats:
    """P(|Z| > u b) for u >= 0, elementwise."""
    at = np.asarray(u, np.float64)
    polynomial = np.polynomial.polynomial.polyval(at, _TAIL[parts])
    return np.asarray(np.exp(-at) * polynomial, np.float64)


def cumulative(z: ArrayLike, scale: float, parts: int) -> Floats:
    """P(Z <= z), elementwise; `scale` b in the unit of z. Infinite z are allowed."""
    at = np.asarray(z, np.float64) / scale
    half = tail(np.minimum(np.abs(at), 700.0), parts) / 2
    return np.where(at < 0, half, 1 - half)


def autocovariance(lag: int, components: tuple[str, ...], persistence: float) -> float:
    """Cov(Z_t, Z_(t+lag)) / b^2 = 2 (Y at lag 0, G always, L with p^lag)."""
    found = float("Y" in components and lag == 0) + float("G" in components)
    if "L" in components:
        found += math.pow(persistence, lag)
    return 2 * found


def mean_of_rounds_variance(rounds: int, components: tuple[str, ...], persistence: float) -> float:
    """Var of one user's noise averaged over rounds 1..T, / b^2: G does not average out.

    2 (1/T [Y] + 1 [G] + 1/T^2 sum_{s,t} p^|s-t| [L]).
    """
    found = ("Y" in components) / rounds + float("G" in components)
    if "L" in components:
        lags = np.arange(1, rounds, dtype=np.float64)
        pairs = rounds + 2 * float(((rounds - lags) * persistence**lags).sum())
        found += pairs / rounds**2
    return 2.0 * found


@lru_cache(maxsize=256)
def mean_shift(dimension: int, parts: int) -> float:
    """E ||(Z_1, ..., Z_k)||_2 / b: how far a reading moves, to about 1e-4 of its value.

    E sqrt(S) = pi^(-1/2) int_0^infinity (1 - E e^(-t^2 S)) t^-2 dt with S = sum Z_j^2, and
    E e^(-t^2 S) is a k-th power.
    """
    nodes, weights = np.polynomial.legendre.leggauss(32)
    edges = np.concatenate([[0.0], np.geomspace(1e-4, _FARTHEST, 60)])
    half, middle = np.diff(edges) / 2, (edges[1:] + edges[:-1]) / 2
    u = (middle[:, None] + half[:, None] * nodes).ravel()
    polynomial = np.polynomial.polynomial.polyval(u, _DENSITY[parts])
    mass = 2 * np.exp(-u) * polynomial * (half[:, None] * weights).ravel()
    t = np.geomspace(1e-5, 1e4, 1500)
    below = np.array([float(-(mass * np.expm1(-((at * u) ** 2))).sum()) for at in t])
    inside = -np.expm1(dimension * np.log1p(-np.minimum(below, 1 - 1e-15))) / t**2
    inner = float(np.trapezoid(inside * t, np.log(t)))
    first = dimension * variance(parts) * t[0]  # (1 - L^k) / t^2 tends to k Var
    return float((inner + first + 1 / t[-1]) / math.sqrt(math.pi))
