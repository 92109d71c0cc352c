"""(K,C)_L: seconds by stage, beside the literal algorithm and the naive count; and privacy-check.

    python -m bench.trajectory_kcl [--million] [--rows 1000000]

One process. `--million`: a million records over 8,000 pairs as well (minutes, 8 GiB). The literal
algorithm (stance paper) and a count of sequences in plain Python run on a small table, where they
end; the sound form runs on the same in the same run. Spec: trajectory-kcl, sections 5, 7 and 10.4.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from algorithms.contract import SequentialContext
from algorithms.datasets.tables import Table, Texts
from algorithms.privacy_check import ALGORITHM as CHECK
from algorithms.privacy_check.parameters import Parameters as CheckParameters
from algorithms.trajectory_kcl import ALGORITHM
from algorithms.trajectory_kcl.algorithm import anonymise, instance_loss
from algorithms.trajectory_kcl.checker import check
from algorithms.trajectory_kcl.mining import mine
from algorithms.trajectory_kcl.parameters import Method, Model, PairTable, Parameters, code
from algorithms.trajectory_kcl.suppression import Greedy, PlainKernel, best_kernel, build
from reproduction.trajectory_kcl_data import Routes, city, metro, routes_like
from tacit.randomness import SeededRandom

MODEL = Model(30, Fraction(3, 5), 3)
METHODS: tuple[Method, ...] = ("global", "local")


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """What it gives, wall seconds, processor seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    found = work()
    return found, time.perf_counter() - wall, time.process_time() - processor


def peak() -> float:
    """The most memory so far, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


def table_of(routes: Routes) -> PairTable:
    return code(routes_like(routes, SeededRandom(1)), routes.sensitive_values).table


def whole_job(name: str, routes: Routes) -> None:
    """The job as a user has it, from dataset to files."""
    data = routes_like(routes, SeededRandom(1))
    params = Parameters(sensitive_values=routes.sensitive_values)
    context = SequentialContext(bytes(32))
    outcome, wall, processor = timed(lambda: ALGORITHM.run(data, params, "sound", context))
    left = outcome.result["verification"]["violating_left"]
    print(
        f"{name:<24}{wall:8.1f} s{processor:8.1f} s CPU"
        f"   loss {outcome.result['instance_loss']:.3f}   violating {left}   peak {peak():.2f} GiB",
        flush=True,
    )


def stages(name: str, table: PairTable) -> None:
    """Mining, suppression, check, each alone."""
    context = SequentialContext()
    mined, mining, _ = timed(lambda: mine(table, MODEL, context))
    incidence, building, _ = timed(lambda: build(table, MODEL, mined, None))
    best_kernel(incidence.state)  # compiled before it is timed
    _, suppressing, _ = timed(lambda: Greedy(incidence, "instances", "local").run())
    _, checking, _ = timed(lambda: check(table, MODEL))
    print(
        f"{name:<24} mining {mining:.2f}, indexing {building:.2f}, suppression {suppressing:.2f}, "
        f"check {checking:.2f} s",
        flush=True,
    )


def peers() -> None:
    """The literal algorithm, a count in plain Python, and the kernel without numba."""
    routes = city(1_000)
    table, model = table_of(routes), replace(MODEL, least=5)
    context = SequentialContext()
    best_kernel(build(table, model, mine(table, model, context), None).state)
    sound, own, _ = timed(lambda: anonymise(table, model, context))
    paper, literal, _ = timed(lambda: anonymise(table, model, context, stance="paper"))
    print("\n1,000 records, K = 5")
    print(f"  sound {own:.2f} s, loss {instance_loss(table, sound.table):.3f}")
    print(
        f"  literal {literal:.2f} s ({literal / own:.0f} times), loss "
        f"{instance_loss(table, paper.table):.3f}, violating {paper.verdict.violating}"
    )
    _, ours, _ = timed(lambda: check(table, model))
    _, naive, _ = timed(lambda: count(table, 3))
    print(
        f"  check {ours:.2f} s; counting in plain Python {naive:.2f} s ({naive / ours:.0f} times)"
    )
    large = table_of(city())
    mined = mine(large, MODEL, context)
    seconds = {}
    for kernel in (PlainKernel, best_kernel):
        incidence = build(large, MODEL, mined, None)
        kernel(incidence.state)
        run = Greedy(incidence, "instances", "local", make_kernel=kernel)
        _, seconds[kernel.__name__], _ = timed(run.run)
    print(f"80,000 records, suppression by kernel: {seconds}", flush=True)


def check_ins() -> None:
    """Local suppression against global on paths that share no routes, as check-ins."""
    table = table_of(replace(city(3_079, noise=1.0), blocks=9, hours=56, routes=1_000, mean=16))
    print(f"\n3,079 records like check-ins, {len(table.items):,} pairs")
    for least in (10, 30):
        for method in METHODS:
            model, context = replace(MODEL, least=least), SequentialContext()
            job = partial(anonymise, table, model, context, method=method)
            released, _, processor = timed(job)
            loss = instance_loss(table, released.table)
            print(f"  K = {least}, {method}: {processor:.1f} s CPU, loss {loss:.3f}", flush=True)


def count(table: PairTable, longest: int) -> Counter[tuple[int, ...]]:
    """All sequences and their records, the plain way."""
    found: Counter[tuple[int, ...]] = Counter()
    for row in range(table.records):
        path = table.path(row)
        for size in range(1, longest + 1):
            found.update(combinations(path, size))
    return found


def partition_models(rows: int) -> None:
    """privacy-check on rows of five quasi-identifiers and a text."""
    draw = np.random.default_rng(1)
    names = tuple(f"value {place}" for place in range(20))
    columns = tuple(f"q{place}" for place in range(5))
    cells = [Texts(names[:10], draw.integers(0, 10, rows, np.int32)) for _ in columns[:3]]
    cells += [Texts(names[:8], draw.integers(0, 8, rows, np.int32)) for _ in columns[3:]]
    sensitive = Texts(names, draw.integers(0, 20, rows, np.int32))
    table = Table((*columns, "s"), (*cells, sensitive))
    params = CheckParameters(qid=columns, sensitive=("s",))
    _, wall, processor = timed(lambda: CHECK.run(table, params, "sound", SequentialContext()))
    print(f"\nprivacy-check, {rows:,} rows x 5: {wall:.1f} s, {processor:.1f} s CPU", flush=True)


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description="speed of trajectory-kcl")
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--rows", type=int, default=1_000_000)
    asked = parser.parse_args()
    print("whole jobs, K = 30, C = 60 %, L = 3 (the first one compiles)")
    whole_job("City80K-like, easy", city())
    whole_job("City80K-like, hard", city(noise=0.03))
    whole_job("STM460K-like", metro())
    stages("City80K-like, easy", table_of(city()))
    stages("STM460K-like", table_of(metro()))
    peers()
    check_ins()
    if asked.million:
        routes = replace(city(1_000_000), blocks=8_000 // 24, routes=8_000 * 300 // 624)
        whole_job("a million x 8,000 pairs", routes)
    partition_models(asked.rows)


if __name__ == "__main__":
    main()
