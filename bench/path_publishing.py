"""Path publishing: usability sweeps, levels, large complements, decoding, sealing.

    python -m bench.path_publishing [--large]

One process. Beside each figure, in the same run, the plain way of the same thing: a search for
levels in place of the orientation test, sets of pairs in place of arrays, all permutations in place
of subsets, one sealed copy of the path for each recipient. `--large` adds a million vertices.
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import time
from collections.abc import Callable
from typing import Final

import numpy as np

from algorithms.path_publishing.evaluation import orientable
from algorithms.path_publishing.levelled_graph import (
    arranged,
    drawn_relations,
    graph_path,
    off_path,
)
from reproduction.path_publishing_networks import SIZES, random_network
from reproduction.path_publishing_study import Setting, usable_share
from tacit.crypto.sealing import SEED_BYTES, SealKey
from tacit.paths.network import NetworkMap, NetworkPath
from tacit.paths.published import ComplementEdges, opened, sealed, written
from tacit.paths.recovery import best_paths, recover
from tacit.randomness import SeededRandom

GATE_SWEEP_S: Final = 30
GATE_DECODE_S: Final = 5
REPETITIONS: Final = 1000


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """(CPU seconds, wall seconds) of one call."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def peak_mib() -> float:
    """Of the process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def show(name: str, taken: tuple[float, float], more: str = "") -> None:
    """One line."""
    cpu, wall = taken
    print(f"{name:<58}{cpu:>9.3f} s CPU{wall:>9.3f} s wall  {more}", flush=True)


def sweep() -> None:
    """Figure 6.8a at 1,000 repetitions, and the search that it does without."""
    source = SeededRandom(1)

    def work() -> None:
        for size in SIZES:
            usable_share(Setting(*size), REPETITIONS, source)

    taken = timed(work)
    verdict = "kept" if taken[1] <= GATE_SWEEP_S else "MISSED"
    show("fig-6.8a, 122 sizes x 1,000", taken, f"gate {GATE_SWEEP_S} s: {verdict}")
    generator = np.random.default_rng(2)
    shown = [
        drawn_relations(random_network(*size, generator), (1,) * size[0], None, source).together
        for size in SIZES
        for _ in range(20)
    ]
    fast = timed(lambda: [orientable(each) for each in shown])
    slow = timed(lambda: [arranged(each, 2000).splits for each in shown])
    show(f"orientation test, {len(shown):,} networks", fast)
    show("the same by inserting levels, budget 2,000", slow, f"{slow[0] / fast[0]:.0f} times")


def levels() -> None:
    """Whole levelled graphs."""
    for size, edges in ((10, 20), (10, 36), (30, 90), (60, 240)):
        generator, source = np.random.default_rng(3), SeededRandom(3)
        networks = [random_network(size, edges, generator) for _ in range(20)]

        def work(networks: list[NetworkPath] = networks, size: int = size) -> None:
            for network in networks:
                shown = drawn_relations(network, (1,) * size, 1.0, source)  # noqa: B023
                graph_path(shown, network.network.vertices, 2000)

        cpu, wall = timed(work)
        show(f"graph-path, {size} vertices, {edges} edges, one", (cpu / 20, wall / 20))


def large_network(vertices: int, edges: int) -> NetworkPath:
    """A path through all vertices, and random other edges."""
    generator = np.random.default_rng(4)
    path = generator.permutation(vertices)
    ends = np.concatenate(
        (
            np.stack((path[:-1], path[1:]), axis=1),
            generator.integers(0, vertices, (edges - vertices + 1, 2)),
        )
    )
    ends = np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1)
    codes = np.unique(ends[:, 0] * vertices + ends[:, 1])
    kept = np.stack(np.divmod(generator.permutation(codes), vertices), axis=1)
    return NetworkPath(NetworkMap(tuple(range(vertices)), kept), path)


def complement(vertices: int, edges: int, *, naive: bool) -> None:
    """Publish and recover; beside it sets of pairs in plain Python."""
    network = large_network(vertices, edges)
    before = peak_mib()
    held: list[ComplementEdges] = []
    show(
        f"complement, {vertices:,} vertices, {len(network.network.edges):,} edges: publish",
        timed(lambda: held.append(off_path(network))),
    )
    published = held[0]
    found: list[tuple[object, ...]] = []
    recovering = timed(lambda: found.append(recover(network.network, published).paths))
    show("  recover", recovering, f"peak {peak_mib():.0f} MiB (network {before:.0f})")
    assert network.ids() in found[0]
    if not naive:
        return
    show("  write as JSON", timed(lambda: written(published)))

    def plain() -> None:
        path = network.path.tolist()
        steps = {frozenset(pair) for pair in itertools.pairwise(path)}
        every = {frozenset(edge) for edge in network.network.edges.tolist()}
        left = every - steps
        neighbours: dict[int, list[int]] = {}
        for one, other in map(tuple, every - left):
            neighbours.setdefault(one, []).append(other)
            neighbours.setdefault(other, []).append(one)
        here = next(each for each, near in neighbours.items() if len(near) == 1)
        seen = [here]
        while near := [each for each in neighbours[here] if each not in seen[-2:]]:
            here = near[0]
            seen.append(here)

    slow = timed(plain)
    show("  both by sets of pairs", slow, f"{slow[0] / recovering[0]:.1f} times recovering")


def decoding() -> None:
    """The likeliest path among all."""
    for size in (9, 16, 18):
        generator = np.random.default_rng(size)
        weights = np.triu(generator.choice(np.array([-1, 1], np.int8), (size, size)), 1)
        weights = weights + weights.T
        taken = timed(lambda: best_paths(weights))  # noqa: B023
        gate = f"gate {GATE_DECODE_S} s: {'kept' if taken[1] <= GATE_DECODE_S else 'MISSED'}"
        show(f"randomized, {size} vertices, complete map: decode", taken, gate * (size == 16))
        if size == 9:
            slow = timed(
                lambda: max(
                    sum(int(weights[pair]) for pair in itertools.pairwise(path))  # noqa: B023
                    for path in itertools.permutations(range(9))
                )
            )
            show("  by all permutations", slow, f"{slow[0] / taken[0]:.0f} times")


def sealing() -> None:
    """A path for many recipients."""
    keys = [SealKey(os.urandom(SEED_BYTES)) for _ in range(100)]
    public = [key.public.raw for key in keys]
    path = list(range(10_000))
    fast = timed(lambda: sealed(path, public, "bench"))
    show("sealed, 10,000 vertices, 100 recipients", fast)
    slow = timed(lambda: [sealed(path, [each], "bench") for each in public])
    show("  a copy for each recipient", slow, f"{slow[0] / fast[0]:.1f} times")
    made = sealed(path, public, "bench")
    show("  open, as the last of them", timed(lambda: opened(made, keys[-1])))


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true")
    asked = parser.parse_args()
    print(f"{os.cpu_count()} cores, one process")
    sweep()
    levels()
    complement(100_000, 1_100_000, naive=True)
    decoding()
    sealing()
    if asked.large:
        complement(1_000_000, 6_000_000, naive=False)


if __name__ == "__main__":
    main()
