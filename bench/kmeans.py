"""K-means: seconds and cost of the sound form, beside libraries in the same run.

    python -m bench.kmeans [--rows 1000000] [--large] [--no-quality]

One process; a case's figure is the best of its repetitions, "over sound" a ratio of CPU seconds.
Quality is the mean over runs of the cost over the best of 20 non-private runs. scikit-learn (not
private) and diffprivlib (its guarantee does not hold; spec: kmeans, section 8.3) are measured where
they are installed. `--large` adds 10^7 rows of 8 columns from a memory-mapped file, with the peak
of memory.
"""

from __future__ import annotations

import argparse
import importlib
import resource
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from algorithms.contract import SequentialContext
from algorithms.kmeans.algorithm import best_cost, cost
from algorithms.kmeans.paper import Settings, drawn_start
from algorithms.kmeans.paper import run as run_paper
from algorithms.kmeans.plan import make_plan
from algorithms.kmeans.sound_run import Rows, absorb, first, next_query, release, run_central
from bench.timing import cpu_seconds, seconds
from reproduction.kmeans_baselines import eugkm, su, su_hybrid
from reproduction.kmeans_data import datasets, s1_like
from simulation.populations import shared_data
from tacit.crypto.sharing import Additive
from tacit.encoders.kmeans import Floats, Grid
from tacit.noise import laplace
from tacit.randomness import SecureRandom, SeededRandom


@dataclass(frozen=True)
class Threads(SequentialContext):
    """Blocks on two threads: numpy's kernels release the lock."""

    def map_blocks(self, function: Any, blocks: Any) -> Any:
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(function, blocks))


def clusters_of(rows: int, dimension: int, clusters: int) -> Floats:
    """Gaussian clusters in the unit box, (rows, dimension)."""
    generator = np.random.default_rng(1)
    middles = generator.uniform(0.1, 0.9, (clusters, dimension))
    labels = generator.integers(0, clusters, rows)
    return np.clip(middles[labels] + generator.normal(0, 0.03, (rows, dimension)), 0, 1)


def sound(points: Floats, clusters: int, epsilon: str, context: SequentialContext) -> Floats:
    """Centres of one run on points of the unit box."""
    count, dimension = points.shape
    plan = make_plan(size=count, dimension=dimension, clusters=clusters, epsilon=Fraction(epsilon))
    grid = Grid((0.0,) * dimension, (1.0,) * dimension, plan.steps)
    return grid.raw(release(run_central(Rows(points), grid, plan, 1, context)).centres)


def library(name: str, points: Floats, clusters: int, epsilon: float) -> Callable[[], Any] | None:
    """A run of a library's k-means; None where it is not installed."""
    try:
        module = importlib.import_module(name)
    except ImportError:
        return None
    if name == "sklearn.cluster":
        model = module.KMeans(clusters, n_init=1, random_state=1)
    else:
        box = (np.zeros(points.shape[1]), np.ones(points.shape[1]))
        model = module.KMeans(clusters, epsilon=epsilon, bounds=box, random_state=1)
    return partial(model.fit, points)


def speed(rows: int) -> None:
    """CPU seconds by size, and seconds on two threads, with those of the libraries."""
    head = "rows x columns, k      sound  scikit-learn  over sound  diffprivlib"
    print(f"{head}   2 threads  scikit-learn   (CPU seconds; seconds)")
    for count, dimension, clusters in (
        (100_000, 2, 15),
        (100_000, 2, 100),
        (rows, 2, 15),
        (rows, 10, 16),
    ):
        points = clusters_of(count, dimension, clusters)
        key = bytes(32)
        one = cpu_seconds(partial(sound, points, clusters, "1", SequentialContext(key)))
        two = seconds(partial(sound, points, clusters, "1", Threads(key)))
        learn, private = (
            library(name, points, clusters, 1.0)
            for name in ("sklearn.cluster", "diffprivlib.models")
        )
        theirs = None if learn is None else cpu_seconds(learn)
        columns = (
            one,
            theirs,
            None if theirs is None else theirs / one,
            None if private is None else cpu_seconds(private, 1),
            two,
            None if learn is None else seconds(learn),
        )
        figures = "".join(f"{'-' if each is None else f'{each:.2f}':>12}" for each in columns)
        print(f"{count:>9,} x {dimension:<2}, {clusters:<4}{figures}", flush=True)


def quality() -> None:
    """Cost over the best non-private cost, by data set and epsilon."""
    print("\ncost over the best    epsilon    sound    SU   EUGkM   SU hybrid   (12 runs)")
    for data in datasets(shared_data()):
        best = best_cost(data.points, data.clusters)
        runs = 12 if len(data.points) < 20_000 else 4
        for epsilon in ("0.1", "0.5", "1", "2"):
            found: dict[str, list[float]] = {"sound": [], "SU": [], "EUGkM": [], "hybrid": []}
            for seed in range(runs):
                source = SeededRandom(seed)
                start = drawn_start(data.points, data.clusters, source.generator)
                budget, points, k = float(epsilon), data.points, data.clusters
                context = SequentialContext(test_seed=seed)
                found["sound"].append(cost(points, sound(points, k, epsilon, context)))
                found["SU"].append(cost(points, su(points, start, budget, source)))
                if points.shape[1] <= 6:  # a grid over ten columns would have too many cells
                    found["EUGkM"].append(cost(points, eugkm(points, k, budget, source)))
                    found["hybrid"].append(cost(points, su_hybrid(points, k, budget, source)))
            columns = "".join(
                f"{np.mean(each) / best:9.3f}" if each else f"{'-':>9}" for each in found.values()
            )
            print(f"{data.name:<12} {epsilon:>15} {columns}", flush=True)


def passes() -> None:
    """Milliseconds of one pass of the source's algorithm on S1."""
    points = s1_like() / 1e6
    for strategy in ("prior", "posterior"):
        generator = np.random.default_rng(1)
        start = drawn_start(points, 15, generator)
        settings = Settings(0.5, strategy, stop="move", move_tolerance=1e-300, max_passes=200)
        taken = seconds(lambda: run_paper(points, start, settings, generator))  # noqa: B023
        print(f"{strategy}: {taken / 200 * 1000:.2f} ms a pass (S1-like, k = 15)")


def federated(curators: int = 10_000) -> None:
    """Seconds of a job over curators with one record each, three aggregators, in process."""
    points = clusters_of(curators, 2, 15)
    plan = make_plan(
        size=curators,
        dimension=2,
        clusters=15,
        epsilon=Fraction(1, 2),
        noise_share=Fraction(3),
        max_cells=4096,
    )
    grid, scheme, source = Grid((0.0, 0.0), (1.0, 1.0)), Additive(3), SecureRandom()

    def job() -> None:
        state = first(plan, 1)
        while (query := next_query(state)) is not None:
            partial = {party: np.zeros(query.length, np.uint64) for party in range(3)}
            for row in points:
                own = query.sums(grid.quantise(row[None, :]))
                for party, piece in enumerate(scheme.split(own, source)):
                    partial[party] += piece
            scales = [block.scale() for block in query.blocks]
            sizes = [block.dimension for block in query.blocks]
            for sums in partial.values():
                sums += laplace(source, scales, sizes, 1)[0].view(np.uint64)
            state = absorb(state, query, scheme.combine(partial))
        release(state)

    print(f"\nfederated, {curators:,} curators, 3 aggregators: {seconds(job, 1):.2f} s")


def large(rows: int = 10_000_000, dimension: int = 8, clusters: int = 32) -> None:
    """A table that is read from a memory-mapped file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        held = np.lib.format.open_memmap(path, "w+", np.float64, (rows, dimension))
        for start in range(0, rows, 1_000_000):
            held[start : start + 1_000_000] = clusters_of(1_000_000, dimension, clusters)
        held.flush()
        del held
        points = np.load(path, mmap_mode="r")
        taken = seconds(lambda: sound(points, clusters, "1", Threads(bytes(32))), 1)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
        print(f"\n{rows:,} x {dimension}, k = {clusters}: {taken:.1f} s, peak {peak:.2f} GiB")


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--no-quality", action="store_true")
    asked = parser.parse_args()
    speed(asked.rows)
    passes()
    federated()
    if asked.large:
        large()
    if not asked.no_quality:
        quality()


if __name__ == "__main__":
    main()
