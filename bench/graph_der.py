"""Graph release: seconds of exploration and arrangement, by graph, grid step and stance.

    python -m bench.graph_der [--large]

One process, times after parsing; a case's figure is the best of its repetitions, with the peak of
memory of the process so far. Beside it, in the same run: the kernel of splitting points against its
numpy twin, and all leaves at once against one leaf after the other. `--large` adds 3.1 million
vertices and 23.7 million edges.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from algorithms.contract import SequentialContext, Stance
from algorithms.datasets.edge_list import EdgeList, read_snap
from algorithms.graph_der import Parameters as GraphDerParameters
from algorithms.graph_der import exploration, publication
from algorithms.graph_der.exploration import PlainKernel
from algorithms.graph_der.parameters import Labelling, plan_of
from algorithms.graph_der.publication import Release, publish
from simulation.populations import shared_data

GATES: Final = {"ca-GrQc, step 4": 1.5, "ca-GrQc, paper, step 1": 5.0, "power law": 20.0}
"""Wall seconds after parsing."""


def power_law(vertices: int, edges: int, seed: int = 1) -> EdgeList:
    """Ends with a chance like 1 / (rank + 10)^0.7, and half of them near each other."""
    generator = np.random.default_rng(seed)
    weight = (np.arange(vertices) + 10.0) ** -0.7
    sums = np.cumsum(weight)
    ends = [np.searchsorted(sums, generator.random(edges) * sums[-1]) for _ in range(2)]
    near = ends[0] + generator.geometric(50 / vertices, edges)
    ends[1] = np.where(generator.random(edges) < 0.5, near % vertices, ends[1])
    shuffled = [each.clip(max=vertices - 1).astype(np.int32) for each in ends]
    return EdgeList.from_pairs(np.arange(vertices), *shuffled)


@lru_cache(maxsize=1)
def collaboration() -> EdgeList | None:
    """ca-GrQc, where it is beside the repository."""
    folder = shared_data()
    if folder is None:
        return None
    with (folder / "ca-GrQc.txt").open("rb") as stream:
        return read_snap(stream)


def seconds(work: Callable[[], object], repetitions: int = 3) -> tuple[float, float]:
    """Wall and CPU of the fastest of `repetitions` calls."""
    taken = []
    for _ in range(repetitions):
        start, used = time.perf_counter(), time.process_time()
        work()
        taken.append((time.perf_counter() - start, time.process_time() - used))
    return min(taken)


def release(
    graph: EdgeList, step: int | None, stance: Stance = "sound", labelling: Labelling = "given"
) -> Release:
    """A whole run after parsing, epsilon 1."""
    plan = plan_of(GraphDerParameters(epsilon=Fraction(1), step=step), stance, graph.count)
    context = SequentialContext(bytes(32) if stance == "sound" else None)
    return publish(graph, plan, labelling, 0, context)


def show(
    name: str,
    graph: EdgeList,
    step: int | None,
    stance: Stance = "sound",
    labelling: Labelling = "given",
    repetitions: int = 3,
) -> None:
    """One line."""
    made = release(graph, step, stance, labelling)
    wall, used = seconds(lambda: release(graph, step, stance, labelling), repetitions)
    gate = GATES.get(name)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    against = "" if gate is None else f"   gate {gate:g} s: {'held' if wall <= gate else 'MISSED'}"
    print(
        f"{name:<26}{graph.count:>10,}{graph.edges:>12,}{made.plan.grid.step:>6}"
        f"{made.counts.size:>9,}{wall:>8.2f} s{used:>8.2f} s{peak:>8,.0f} MiB{against}",
        flush=True,
    )


def kernels(graph: EdgeList) -> None:
    """Loops and arrays."""
    compiled = exploration.kernel()
    if isinstance(compiled, PlainKernel):
        print("\nnumba is not installed: splitting points by numpy")
        return
    fast, _ = seconds(lambda: release(graph, 4))
    exploration.kernel = PlainKernel  # type: ignore[assignment]
    try:
        slow, _ = seconds(lambda: release(graph, 4), 1)
    finally:
        exploration.kernel = lambda: compiled  # type: ignore[assignment]
    print(f"\nca-GrQc, step 4, splitting points by numpy {slow:.2f} s,")
    print(f"  compiled {fast:.2f} s: {slow / fast:.0f} times as fast")


def together(graph: EdgeList) -> None:
    """All leaves of a block at once, and a block for each leaf, as the source has it."""
    fast, _ = seconds(lambda: release(graph, None), 1)
    whole = publication.BLOCK_EDGES
    publication.BLOCK_EDGES = 1  # type: ignore[misc]
    try:
        slow, _ = seconds(lambda: release(graph, None), 1)
    finally:
        publication.BLOCK_EDGES = whole  # type: ignore[misc]
    print(f"\n{graph.count:,} vertices, {graph.edges:,} edges, leaf after leaf {slow:.2f} s,")
    print(f"  all at once {fast:.2f} s: {slow / fast:.1f} times as fast")


def main() -> None:
    """All cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="3.1 million vertices too")
    large = parser.parse_args().large
    print(
        f"{'graph':<26}{'vertices':>10}{'edges':>12}{'step':>6}{'leaves':>9}"
        f"{'wall':>10}{'CPU':>10}{'peak':>12}"
    )
    known = collaboration()
    if known is not None:
        show("ca-GrQc, step 4", known, 4)
        show("ca-GrQc, step 10", known, 10)
        show("ca-GrQc, step 1", known, 1)
        show("ca-GrQc, paper, step 4", known, 4, "paper", "first_appearance")
        show("ca-GrQc, paper, step 1", known, 1, "paper", "first_appearance")
    generated = power_law(200_000, 2_000_000)
    show("power law", generated, 50, repetitions=2)
    show("power law, default step", generated, None, repetitions=2)
    if known is not None:
        kernels(known)
    together(power_law(50_000, 300_000))
    if large:
        show("power law, large", power_law(3_100_000, 23_700_000), None, repetitions=1)


if __name__ == "__main__":
    main()
