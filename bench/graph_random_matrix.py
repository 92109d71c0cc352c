"""Publishing a graph's spectrum: CPU seconds by stage, beside the plain way in numpy and scipy.

    python -m bench.graph_random_matrix [--large] [--columns 20,200]

Graphs are generated (power law). At 200,000 vertices and 2 million edges the plain way (float32
normals for the projection, a sparse product of scipy, float32 noise of numpy, a float32 Gram
matrix) runs in the same process and the same run. `--large` adds 3,097,165 vertices and 23,667,394
edges, the size of the source's Facebook graph; the published matrix is written to a file there, and
the peak of memory is that of the process, generator included. Compiling is
not in the figures; linear algebra has one thread on both sides.
"""

from __future__ import annotations

import argparse
import gc
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, Final

import numpy as np

from algorithms.contract import SequentialContext
from algorithms.graph_random_matrix.linear_algebra import Adjacency, Rows, gram_of, one_thread
from algorithms.graph_random_matrix.publication import (
    Cells,
    Release,
    adjacency,
    block_rows,
    product,
    publish,
)
from reproduction.stand_in_data import power_law
from tacit.encoders.graph_random_matrix import Projection, entries, forget
from tacit.noise.discrete_gaussian import DiscreteGaussian
from tacit.randomness import SecureRandom

SMALL: Final = (200_000, 2_000_000)
LARGE: Final = (3_097_165, 23_667_394)
GATES: Final = {20: 6.0, 200: 25.0}
"""CPU seconds at the large size."""
GATE_MEMORY: Final = 2.5
SIGMA: Final = Fraction("6.4076")


class Clock:
    """CPU and wall seconds of what ran under it."""

    cpu = 0.0
    wall = 0.0


@contextmanager
def clock() -> Iterator[Clock]:
    """Times a block."""
    found, cpu, wall = Clock(), time.process_time(), time.perf_counter()
    yield found
    found.cpu, found.wall = time.process_time() - cpu, time.perf_counter() - wall


def show(name: str, taken: Clock, note: str = "") -> None:
    """One line."""
    print(f"  {name:<34}{taken.cpu:8.2f} s CPU{taken.wall:8.2f} s wall  {note}", flush=True)


def peak() -> float:
    """GiB of the process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


def stages(graph: Adjacency, columns: int) -> None:
    """Each stage by itself."""
    projection = Projection("rademacher", graph.count, columns, 1)
    with clock() as taken:
        matrix = entries(projection)
    show("signs", taken)
    rows = block_rows(columns)
    with clock() as taken:
        for block in graph.blocks(rows):
            product(block, matrix, compiled=True)
    show("A S", taken)
    law, source = DiscreteGaussian(SIGMA**2 * columns), SecureRandom()
    cells = np.zeros(rows * columns, np.int32)
    with clock() as taken:
        for _ in graph.blocks(rows):
            source.words(cells.size)
    show("AES-CTR words", taken)
    with clock() as taken:
        for _ in graph.blocks(rows):
            law.add_to(cells, source, compiled=True)
    show("words and discrete Gaussian", taken)
    block_cells = cells.reshape(rows, columns)
    with clock() as taken:
        for _ in graph.blocks(rows):
            gram_of(block_cells)
    show("Gram matrix", taken)
    forget()


def whole(graph: Adjacency, columns: int, sink: Callable[[Rows, Cells], None]) -> Clock:
    """A whole release, from neighbours to the Gram matrix."""
    projection = Projection("rademacher", graph.count, columns, 1)
    release = Release.of(projection, SIGMA, "sound")
    with clock() as taken:
        publish(graph, release, SequentialContext(bytes(range(32))), sink)
    return taken


def plain(graph: Adjacency, columns: int) -> Clock:
    """By numpy and scipy, in floats."""
    from scipy.sparse import csr_array

    ones = np.ones(graph.entries, np.float32)
    matrix = csr_array((ones, graph.neighbours, graph.starts), (graph.count, graph.count))
    generator = np.random.Generator(np.random.SFC64(1))
    with clock() as taken:
        projected = generator.standard_normal((graph.count, columns), np.float32)
        projected /= np.float32(columns**0.5)
        published = matrix @ projected
        published += np.float32(SIGMA) * generator.standard_normal(published.shape, np.float32)
        _ = published.T @ published
    return taken


def small(columns: int) -> None:
    """All stages, all of it, and the plain way."""
    graph = adjacency(power_law(*SMALL, seed=1), compiled=True)
    print(f"\n{graph.count:,} vertices, {graph.entries // 2:,} edges, m = {columns}")
    whole(graph, columns, _dropped)  # compiles
    stages(graph, columns)
    ours = min((whole(graph, columns, _dropped) for _ in range(3)), key=lambda each: each.cpu)
    show("all of it", ours)
    theirs = min((plain(graph, columns) for _ in range(3)), key=lambda each: each.cpu)
    show("numpy and scipy, floats", theirs, f"{theirs.cpu / ours.cpu:.1f} times as much CPU")


def large(columns: tuple[int, ...]) -> None:
    """The source's size, written to a file."""
    adjacency(power_law(2_000, 20_000, 1), compiled=True)  # `small` has compiled the rest
    with clock() as taken:
        edges = power_law(*LARGE, seed=1)
    most = int(edges.degrees().max())
    print(f"\n{edges.count:,} vertices, {edges.edges:,} edges, at most {most:,} at one", flush=True)
    show("generator", taken, f"peak {peak():.2f} GiB")
    with clock() as taken:
        graph = adjacency(edges, compiled=True)
    show("neighbours of all rows", taken)
    del edges
    gc.collect()
    for number in columns:
        stages(graph, number)
        with tempfile.TemporaryFile() as file:

            def written(_rows: Rows, cells: Cells, file: Any = file) -> None:
                file.write(np.ascontiguousarray(cells).data)

            taken = whole(graph, number, written)
        gate = GATES.get(number)
        note = "" if gate is None else f"gate {gate} s: {'kept' if taken.cpu <= gate else 'MISSED'}"
        show(f"all of it, m = {number}", taken, note)
        kept = "kept" if peak() <= GATE_MEMORY else "MISSED"
        print(f"  peak of the process {peak():.2f} GiB, gate {GATE_MEMORY} GiB: {kept}", flush=True)


def _dropped(_rows: Rows, _cells: Cells) -> None:
    """Nobody keeps it."""


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--columns", default="20,200")
    asked = parser.parse_args()
    columns = tuple(int(each) for each in asked.columns.split(","))
    with one_thread():
        for number in columns:
            small(number)
        if asked.large:
            large(columns)


if __name__ == "__main__":
    main()
