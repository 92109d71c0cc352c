"""How fast: encoding, the Hamming kernels, kCluster with and without a matrix, grids, accounting.

    python -m bench.dpbv_clustering [--rows 5000]

Spec: dpbv-clustering, section 7. Seconds are wall clock and processor; the compiled kernel is
measured where numba is installed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from fractions import Fraction
from importlib.util import find_spec
from typing import Any

import numpy as np

from algorithms.contract import SequentialContext
from algorithms.datasets.tables import NumericTable
from algorithms.dpbv_clustering.algorithm import run
from algorithms.dpbv_clustering.clustering_methods import BitDistances, MatrixDistances, kcluster
from algorithms.dpbv_clustering.distances import (
    Combination,
    Kernel,
    distances,
    matrix,
    product,
)
from algorithms.dpbv_clustering.paper import recover
from algorithms.dpbv_clustering.parameters import Parameters
from tacit.accounting.randomised_response import response_epsilon, total_epsilon
from tacit.encoders.dpbv_clustering import Flip, encode, make_codes
from tacit.randomness import PublicRandom, SecureRandom

BITS = 1000
GOAL_S = 2.5
"""Wall clock of all Hamming distances of 20,000 records. The first matrix of a process can take
seconds more where the machine has to find memory; the second shows the kernel."""


def timed(name: str, work: Callable[[], Any]) -> Any:
    """Do it, print what it took, and hand on what it gave."""
    wall, processor = time.perf_counter(), time.process_time()
    found = work()
    took, used = time.perf_counter() - wall, time.process_time() - processor
    print(f"{name:58}{took:9.2f} s {used:9.2f} s CPU")
    return found


def kernels() -> dict[str, Kernel]:
    found: dict[str, Kernel] = {"product": product}
    if find_spec("numba") is not None:
        from algorithms.dpbv_clustering.compiled import hamming

        hamming(np.zeros((1, 1), np.uint64), np.zeros((1, 1), np.uint64), 64)  # compile
        found["compiled"] = hamming
    return found


def main() -> None:
    """Measure everything once."""
    parser = argparse.ArgumentParser(description="speed of dpbv-clustering")
    parser.add_argument("--rows", type=int, default=5000)
    rows = parser.parse_args().rows
    source, generator = SecureRandom(), PublicRandom(1).generator
    codes = make_codes(((0.0, 50.0),) * 2, (25.0, 25.0), BITS, "uniform", 1)
    flip = Flip.of_epsilon(Fraction(2))
    values = generator.uniform(0, 50, (rows, 2))
    words = timed(
        f"encode, flip, pack {rows} x 2 x {BITS} bits", lambda: encode(values, codes, flip, source)
    )
    first = np.ascontiguousarray(words[:, 0])
    for name, kernel in kernels().items():
        timed(f"Hamming matrix of {rows}, {name}", lambda k=kernel: matrix(first, BITS, k))  # type: ignore[misc]
    if find_spec("numba") is not None:
        matrix(first[:200], BITS)  # compile
    for which in ("as a job makes it", "the same again"):
        timed(f"Hamming matrix of {rows}, {which}", lambda: matrix(first, BITS))
    print(f"{'  (goal, for 20,000 on two free cores)':58}{GOAL_S:9.2f} s")
    combination = Combination.of(codes, flip, "euclidean", correct=False)
    held = timed(f"distances of {rows}, d = 2", lambda: distances(words, codes, flip, combination))
    timed(
        f"kCluster on the matrix of {rows}, k = 7, one start",
        lambda: kcluster(MatrixDistances(held), 7, PublicRandom(1).generator, 1),
    )
    timed(
        f"kCluster without a matrix, {rows}, d = 1, k = 10, one start",
        lambda: kcluster(
            BitDistances(words[:, :1], codes[:1], flip), 10, PublicRandom(1).generator, 1, 20
        ),
    )
    timed(f"matched decoder, {rows}", lambda: recover(first, codes[0]))
    for method, size in (("grid-core", 20 * rows), ("grid-ldp", 20 * rows)):
        table = NumericTable(("a", "b"), generator.uniform(0, 50, (size, 2)))
        params = Parameters(
            bounds=((0.0, 50.0),) * 2,
            method=method,  # type: ignore[arg-type]
            k=7,
        )
        context = SequentialContext(seed=bytes(32))
        timed(
            f"{method}, {size} rows, 256 cells",
            lambda t=table, p=params, c=context: run(t, p, "sound", c),  # type: ignore[misc]
        )
    millionth = Fraction(1, 10**6)
    timed("epsilon of 64,000 bits", lambda: total_epsilon(64_000, Fraction(2), millionth))
    timed("budget of 64,000 bits", lambda: response_epsilon(64_000, Fraction(4), millionth))


if __name__ == "__main__":
    main()
