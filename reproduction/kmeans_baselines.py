"""Methods that the source of k-means compares with: Lloyd, and five private ones as published."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from algorithms.kmeans.algorithm import cost
from algorithms.kmeans.paper import cluster_means, cluster_sums
from algorithms.kmeans.starts import weighted_kmeans
from tacit.encoders.kmeans import Floats, Ints, nearest
from tacit.noise import floating_laplace
from tacit.randomness import SeededRandom

BLUM_STEPS: Final = 5
DWORK_STEPS: Final = 7
SU_RHO: Final = 0.225
SU_STEPS: Final = (2, 7)
POPULATION: Final = 200
SELECTED: Final = 10
FEWEST_GENERATIONS: Final = 8
MOST_GENERATIONS: Final = 30
_GENERATIONS_RATE: Final = 1.25e-3
_MUTATION: Final = 0.1
_MUTATION_DECAY: Final = 0.95
_LLOYD_STEPS: Final = 10_000


@dataclass(frozen=True, eq=False)
class Exact:
    """Lloyd's result: means (k, d), and iterations with the one that confirms."""

    centres: Floats
    iterations: int


def lloyd(points: Floats, start: Floats) -> Exact:
    """Until the means repeat; an empty cluster keeps its centre."""
    centres = start
    for number in range(1, _LLOYD_STEPS + 1):
        means = cluster_means(points, nearest(points, centres), centres)
        if np.array_equal(means, centres):
            return Exact(means, number)
        centres = means
    return Exact(centres, _LLOYD_STEPS)


# -------------------------------------------------------------------------- noisy steps of Lloyd


def _noisy_step(
    points: Floats,
    centres: Floats,
    sum_scale: float,
    count_scale: float,
    source: SeededRandom,
    low: float = 0.0,
) -> Floats:
    """Noisy sums over noisy counts, clipped to [low, 1]; centres with counts below 1 stay."""
    clusters, dimension = centres.shape
    labels = nearest(points, centres)
    counts = np.bincount(labels, minlength=clusters) + floating_laplace(
        source, count_scale, clusters
    )
    noise = floating_laplace(source, sum_scale, clusters * dimension).reshape(clusters, dimension)
    sums = cluster_sums(points, labels, clusters) + noise
    moved = np.clip(sums / np.maximum(counts, 1.0)[:, None], low, 1.0)
    return np.where(counts[:, None] < 1, centres, moved)


def blum(points: Floats, start: Floats, epsilon: float, source: SeededRandom) -> Floats:
    """Five steps, each with a fifth of epsilon and L1 sensitivity d + 1."""
    scale = (points.shape[1] + 1) * BLUM_STEPS / epsilon
    centres = start
    for _ in range(BLUM_STEPS):
        centres = _noisy_step(points, centres, scale, scale, source)
    return centres


def dwork(points: Floats, start: Floats, epsilon: float, source: SeededRandom) -> Floats:
    """Step t = 1, 2, ... with epsilon / 2^t, seven of them."""
    centres = start
    for step in range(1, DWORK_STEPS + 1):
        scale = (points.shape[1] + 1) * 2**step / epsilon
        centres = _noisy_step(points, centres, scale, scale, source)
    return centres


def su_least_epsilon(size: int, dimension: int, clusters: int) -> float:
    """The budget of one useful step, sqrt(500 k^3 / n^2 (d + (4 d rho^2)^(1/3))^3)."""
    return math.sqrt(500 * clusters**3 / size**2 * (dimension + su_ratio(dimension)) ** 3)


def su_ratio(dimension: int) -> float:
    """(4 d rho^2)^(1/3): the budget of a count over that of one coordinate's sum."""
    return float((4 * dimension * SU_RHO**2) ** (1 / 3))


def su(
    points: Floats, start: Floats, epsilon: float, source: SeededRandom, size: int | None = None
) -> Floats:
    """DPLloyd-OPT: two to seven steps on [-1, 1]^d, budgets of sums and counts in su_ratio."""
    count, dimension = points.shape
    least = su_least_epsilon(size or count, dimension, len(start))
    steps = int(min(max(epsilon / least, SU_STEPS[0]), SU_STEPS[1]))
    return _su_steps(points, start, epsilon, steps, source)


def _su_steps(
    points: Floats, start: Floats, epsilon: float, steps: int, source: SeededRandom
) -> Floats:
    ratio, dimension = su_ratio(points.shape[1]), points.shape[1]
    each = epsilon / steps / (dimension + ratio)
    scaled, centres = 2 * points - 1, 2 * start - 1
    for _ in range(steps):
        centres = _noisy_step(scaled, centres, 1 / each, 1 / (ratio * each), source, low=-1.0)
    moved: Floats = (centres + 1) / 2
    return moved


# ------------------------------------------------------------------------------- no steps of Lloyd


def gupt(points: Floats, clusters: int, epsilon: float, source: SeededRandom) -> Floats:
    """Lloyd in round(n^0.4) random blocks, centres sorted and averaged, noise k d / (l epsilon)."""
    generator = source.generator
    blocks = round(len(points) ** 0.4)
    total = np.zeros((clusters, points.shape[1]))
    for block in np.array_split(generator.permutation(len(points)), blocks):
        own = points[block]
        start = own[generator.choice(len(own), clusters, replace=len(own) < clusters)]
        centres = lloyd(own, start).centres
        total += centres[np.lexsort(centres.T[::-1])]
    noise = floating_laplace(source, total.size / (blocks * epsilon), total.size)
    found: Floats = np.clip(total / blocks + noise.reshape(total.shape), 0, 1)
    return found


def priv_gene(
    points: Floats,
    clusters: int,
    epsilon: float,
    source: SeededRandom,
    progress: Callable[[], None] | None = None,
) -> Floats:
    """A genetic search: exponential mechanisms choose parents, then the last choose one.

    Sensitivity d of the fitness -cost; mutation by N(0, 0.1 0.95^g). As the original publication
    is remembered, with the plain exponential mechanism and at most 30 generations.
    """
    generator = source.generator
    count, dimension = points.shape
    wanted = math.floor(_GENERATIONS_RATE * count * epsilon / SELECTED)
    generations = min(max(FEWEST_GENERATIONS, wanted), MOST_GENERATIONS)
    share = epsilon / (generations * SELECTED)
    population = generator.random((POPULATION, clusters, dimension))
    for number in range(generations - 1):
        fitness = -_costs(points, population)
        chosen = population[_exponential(fitness, share, dimension, SELECTED, generator)]
        population = _offspring(chosen, _MUTATION * _MUTATION_DECAY**number, generator)
        if progress is not None:
            progress()
    fitness = -_costs(points, population)
    best = _exponential(fitness, SELECTED * share, dimension, 1, generator)[0]
    found: Floats = population[best]
    return found


def _costs(points: Floats, population: Floats) -> Floats:
    return np.array([cost(points, centres) for centres in population])


def _exponential(
    fitness: Floats, epsilon: float, sensitivity: float, count: int, generator: np.random.Generator
) -> Ints:
    """`count` places without replacement, by exp(epsilon f / (2 sensitivity)): Gumbel's top."""
    keys = epsilon * fitness / (2 * sensitivity) + generator.gumbel(size=len(fitness))
    return np.argsort(-keys)[:count]


def _offspring(parents: Floats, spread: float, generator: np.random.Generator) -> Floats:
    """Pairs swap a random prefix of centres; one centre of each child moves a little."""
    clusters, dimension = parents.shape[1:]
    mothers, fathers = (parents[generator.integers(0, len(parents), POPULATION)] for _ in range(2))
    cuts = generator.integers(0, clusters + 1, POPULATION)
    children = np.where((np.arange(clusters) < cuts[:, None])[..., None], mothers, fathers)
    moved = generator.integers(0, clusters, POPULATION)
    children[np.arange(POPULATION), moved] += generator.normal(0, spread, (POPULATION, dimension))
    return np.clip(children, 0, 1)


def eugkm(
    points: Floats, clusters: int, epsilon: float, source: SeededRandom, size: int | None = None
) -> Floats:
    """Weighted k-means of the positive cells of a noisy grid, m = (n epsilon / 10)^(2/(2+d))."""
    count, dimension = points.shape
    per_side = max(2, round(((size or count) * epsilon / 10) ** (2 / (2 + dimension))))
    places = np.minimum((points * per_side).astype(np.int64), per_side - 1)
    flat = np.ravel_multi_index(tuple(places.T), (per_side,) * dimension)
    cells = np.bincount(flat, minlength=per_side**dimension) + floating_laplace(
        source, 1 / epsilon, per_side**dimension
    )
    held = np.flatnonzero(cells > 0)
    if not held.size:
        held = np.arange(len(cells))
    middles = (np.stack(np.unravel_index(held, (per_side,) * dimension), axis=1) + 0.5) / per_side
    weights = np.maximum(cells[held], 1e-3)
    return weighted_kmeans(middles, weights, clusters, source.generator).centres


def su_hybrid(
    points: Floats, clusters: int, epsilon: float, source: SeededRandom, size: int | None = None
) -> Floats:
    """Half of epsilon on `eugkm`, half on one step of `su` from its centres."""
    start = eugkm(points, clusters, epsilon / 2, source, size)
    return _su_steps(points, start, epsilon / 2, 1, source)
