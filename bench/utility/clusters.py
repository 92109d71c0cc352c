"""Inertia of k-means: two-level, one grid and their peers."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import SequentialContext
from algorithms.kmeans.algorithm import best_cost, cost
from algorithms.kmeans.paper import drawn_start
from algorithms.kmeans.plan import make_plan
from algorithms.kmeans.sound_run import Rows, release, run_central
from bench.utility.compare import Comparison, Figures, compare
from bench.utility.peers import (
    privtree_means,
)
from reproduction.kmeans_baselines import eugkm, su
from reproduction.kmeans_data import datasets
from simulation.populations import shared_data
from tacit.encoders.kmeans import Floats, Grid
from tacit.randomness import SeededRandom


def unbalanced(
    heavy: int, many: int, light: int, few: int, dimension: int, seed: int
) -> NDArray[np.float64]:
    """Dense clusters beside light ones, in the unit box."""
    generator = np.random.default_rng(seed)
    middles = generator.uniform(0.08, 0.92, (heavy + light, dimension))
    sizes = [many] * heavy + [few] * light
    points = np.repeat(middles, sizes, axis=0)
    points = points + generator.normal(0, 0.015, points.shape)
    return np.clip(points, 0, 1)


def clusters(runs: int) -> Iterator[Comparison]:
    """Inertia over the best non-private one: two-level against one grid, EUGkM and SU."""
    cases = [(each.name, each.points, each.clusters) for each in datasets(shared_data())[:4]]
    for shape in ((4, 1_500, 6, 80, 2), (2, 4_000, 12, 120, 2), (3, 3_000, 5, 200, 3)):
        name = "{}x{} and {}x{}, d = {}".format(*shape)
        cases.append((name, unbalanced(*shape, seed=1), shape[0] + shape[2]))
    for name, points, k in cases:
        best = best_cost(points, k)
        for epsilon in ("0.1", "0.5", "1"):
            methods: dict[str, Callable[[int], Floats]] = {
                "grid": partial(centres, points, k, epsilon, "grid"),
                "auto": partial(centres, points, k, epsilon, "auto"),
                "EUGkM": partial(_grid_means, points, k, float(epsilon)),
                "SU": partial(_steps, points, k, float(epsilon)),
                "PrivTree": partial(privtree_means, points, k, float(epsilon)),
            }
            if find_spec("diffprivlib") is not None:
                methods["diffprivlib"] = partial(_library, points, k, float(epsilon))
            contenders = {
                each: partial(_measured, points, best, way) for each, way in methods.items()
            }
            yield compare(f"{name}, epsilon {epsilon}", contenders, runs)


def centres(points: Floats, k: int, epsilon: str, start: Any, seed: int) -> Floats:
    plan = make_plan(
        size=len(points),
        dimension=points.shape[1],
        clusters=k,
        epsilon=Fraction(epsilon),
        start=start,
    )
    grid = Grid((0.0,) * plan.dimension, (1.0,) * plan.dimension, plan.steps)
    state = run_central(Rows(points), grid, plan, seed, SequentialContext(test_seed=seed))
    return grid.raw(release(state).centres)


def _measured(points: Floats, best: float, method: Callable[[int], Floats], seed: int) -> Figures:
    return {"inertia over the best": cost(points, method(seed)) / best}


def _grid_means(points: Floats, k: int, epsilon: float, seed: int) -> Floats:
    return eugkm(points, k, epsilon, SeededRandom(seed))


def _steps(points: Floats, k: int, epsilon: float, seed: int) -> Floats:
    source = SeededRandom(seed)
    return su(points, drawn_start(points, k, source.generator), epsilon, source)


def _library(points: Floats, k: int, epsilon: float, seed: int) -> Floats:
    models = importlib.import_module("diffprivlib.models")
    box = (np.zeros(points.shape[1]), np.ones(points.shape[1]))
    model = models.KMeans(k, epsilon=epsilon, bounds=box, random_state=seed).fit(points)
    found: Floats = model.cluster_centers_
    return found
