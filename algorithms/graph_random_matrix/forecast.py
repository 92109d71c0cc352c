"""How much of the leading eigenvectors noise leaves: from public numbers alone.

The columns of the published matrix are m samples of covariance (A^2 + m sigma^2 I) / m, whose bulk
is v = d + m sigma^2 (d: the mean degree) and whose spikes are squared eigenvalues: theory of spiked
covariances (J. Baik, J. Silverstein; D. Paul). An eigenvector of eigenvalue w is lost unless
w^2 > v sqrt(n / m).

Spec: graph-random-matrix, section 3.5, and "What cannot be reproduced" of section 5.
"""

from __future__ import annotations

import math

MOST_AUTOMATIC = 200
"""Columns that `auto` asks for at most."""
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
