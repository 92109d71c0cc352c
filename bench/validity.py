"""Proved contributions: microseconds per contribution to prove and to verify, beside the goals.

    python -m bench.validity [--seconds 1.0] [--cases sum] [--json]

One process, CPU seconds, the least of the repetitions that fit into `--seconds`: the machine may be
shared. Numpy, and compiled where numba is installed. *verify* is that of one aggregator: of one
that holds seeds, and of index 0, which holds its share; *decide* is that of one aggregator. The
rate is what one core of an aggregator verifies and decides in a second. Goals and the figures of
the proof of concept (plain Python) are those of the specification. Spec: validity, section 15.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tacit.randomness import SecureRandom
from tacit.validity.arithmetic import NUMPY, Arithmetic
from tacit.validity.functions import (
    ProvedFunction,
    ProvedMean,
    ProvedSum,
    ProvedVariance,
    ProvedVector,
    ReadingBounds,
    proved_histogram,
)
from tacit.validity.vectors import Block

CONTEXT = b"tacit proved v1 bench"
KEY = bytes(32)
SHARES = 5


@dataclass(frozen=True)
class Case:
    """A function, how many contributions at once, and the stated goals per second, if any."""

    name: str
    make: Callable[[Arithmetic], ProvedFunction]
    values: tuple[int, ...]
    count: int
    goals: tuple[tuple[str, float], ...] = ()

    @cached_property
    def coordinates(self) -> np.ndarray:
        """The same valid value for all."""
        return np.repeat(np.array([self.values]), self.count, axis=0)


def sum13(arithmetic: Arithmetic) -> ProvedFunction:
    """A sum of 13 bits."""
    return ProvedSum(ReadingBounds(0, 8191, 1), arithmetic=arithmetic)


def histogram(arithmetic: Arithmetic) -> ProvedFunction:
    """100 bins, one reading."""
    return proved_histogram(100, 1, arithmetic=arithmetic)


def vector(arithmetic: Arithmetic) -> ProvedFunction:
    """1,000 entries of 16 bits."""
    return ProvedVector((Block(1000, 65535, 10**6 - 1),), arithmetic=arithmetic)


def day(bound: int, *, l2: bool = True) -> Callable[[Arithmetic], ProvedFunction]:
    """A day of 96 entries of 13 bits, unsigned, its norm at most `bound`, in L2 or L1."""
    return lambda each: ProvedVector((Block(96, 8191, bound, l2=l2),), arithmetic=each)


DAY = (500,) * 96
BIN = (*(0,) * 50, 1, *(0,) * 49)
SUM_GOALS = (("numpy", 20_000.0), ("compiled", 120_000.0))
CASES = (
    Case("sum 13 bits", sum13, (1000,), 1),
    Case("sum 13 bits", sum13, (1000,), 1000, SUM_GOALS),
    Case("sum 13 bits", sum13, (1000,), 20_000, SUM_GOALS),
    Case(
        "sum 32 bits",
        lambda each: ProvedSum(ReadingBounds(0, 2**32 - 1, 1), arithmetic=each),
        (1000,),
        1000,
    ),
    Case("histogram 100", histogram, BIN, 1),
    Case("histogram 100", histogram, BIN, 1000, (("numpy", 4500.0), ("compiled", 17_000.0))),
    Case("vector 1,000 x 16", vector, (9,) * 1000, 1),
    Case("vector 1,000 x 16", vector, (9,) * 1000, 20, (("numpy", 50.0), ("compiled", 150.0))),
    Case("day 96 x 13, L1", day(150_000, l2=False), DAY, 200),
    Case("day 96 x 13, L2", day(18_500), DAY, 1),
    Case("day 96 x 13, L2", day(18_500), DAY, 200),
    Case(
        "day 96 x 26, L2, a part",
        lambda each: ProvedVector((Block(96, 2**26 - 1, 4096 * 18_500, l2=True),), arithmetic=each),
        DAY,
        50,
    ),
    Case(
        "mean, m = 1, 13 bits",
        lambda each: ProvedMean(ReadingBounds(-4095, 4095, 1), arithmetic=each),
        (100, 1),
        500,
    ),
    Case(
        "variance, m = 1, 13 bits",
        lambda each: ProvedVariance(ReadingBounds(-4095, 4095, 1), 4096, arithmetic=each),
        (100, 10_000, 1),
        500,
    ),
    Case(
        "variance, m = 96, Field128",
        lambda each: ProvedVariance(ReadingBounds(-8191, 8191, 96), 4096 * 96, arithmetic=each),
        (100, 10_000, 1),
        50,
    ),
    Case(
        "histogram 100, m = 96",
        lambda each: proved_histogram(100, 96, arithmetic=each),
        BIN,
        64,
    ),
)


@dataclass(frozen=True)
class Measured:
    """CPU microseconds per contribution."""

    case: str
    count: int
    arithmetic: str
    prove_us: float
    verify_us: float
    verify_first_us: float
    decide_us: float
    per_second: float
    goal_per_second: float | None


def least_us(work: Callable[[], object], seconds: float) -> float:
    """CPU microseconds of the fastest call among those that fit into `seconds` (at least two)."""
    least, end, calls = float("inf"), time.perf_counter() + seconds, 0
    while calls < 2 or time.perf_counter() < end:
        start = time.process_time()
        work()
        least, calls = min(least, time.process_time() - start), calls + 1
    return 1e6 * least


def measure(case: Case, name: str, arithmetic: Arithmetic, seconds: float) -> Measured:
    """All steps of one case."""
    function = case.make(arithmetic)
    prio3, source = function.prio3(SHARES), SecureRandom()

    def prove() -> object:
        nonces, randomness = prio3.draw_randomness(source, case.count)
        measurement = function.encode(case.coordinates)
        return prio3.shard(CONTEXT, measurement, nonces, randomness)

    nonces, randomness = prio3.draw_randomness(source, case.count)
    split = prio3.shard(CONTEXT, function.encode(case.coordinates), nonces, randomness)
    found = [
        prio3.verify(KEY, CONTEXT, index, nonces, split.public_shares, share)
        for index, share in enumerate(split.input_shares)
    ]
    shares = [each.verifier_shares for each in found]
    assert not prio3.outcomes(found[1], prio3.decide(CONTEXT, shares)).any()

    def verify(index: int) -> object:
        share = split.input_shares[index]
        return prio3.verify(KEY, CONTEXT, index, nonces, split.public_shares, share)

    spent = [
        least_us(work, seconds) / case.count
        for work in (
            prove,
            lambda: verify(1),
            lambda: verify(0),
            lambda: prio3.outcomes(found[1], prio3.decide(CONTEXT, shares)),
        )
    ]
    rate = 1e6 / (spent[1] + spent[3])
    return Measured(
        case.name,
        case.count,
        name,
        spent[0],
        spent[1],
        spent[2],
        spent[3],
        rate,
        dict(case.goals).get(name),
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="microseconds per proved contribution")
    parser.add_argument("--seconds", type=float, default=1.0, help="time per figure")
    parser.add_argument("--cases", default="", help="only those whose name begins so")
    parser.add_argument("--json", action="store_true", help="the figures as one JSON object")
    arguments = parser.parse_args()
    kinds = {"numpy": NUMPY}
    if importlib.util.find_spec("numba"):
        from tacit.validity.compiled import COMPILED

        kinds["compiled"] = COMPILED
    found = [
        measure(case, name, arithmetic, arguments.seconds)
        for case in CASES
        if case.name.startswith(arguments.cases)
        for name, arithmetic in kinds.items()
    ]
    if arguments.json:
        print(json.dumps({"shares": SHARES, "cases": [vars(each) for each in found]}))
        return
    print(f"CPU us per contribution, {SHARES} aggregators")
    titles = f"{'prove':>9}{'verify':>9}{'first':>9}{'decide':>8}  per second"
    print(f"{'case':28}{'n':>7} {'by':9}{titles}")
    for each in found:
        goal = each.goal_per_second
        beside = f", {each.per_second / goal:.2f} of the goal {goal:,.0f}" if goal else ""
        print(
            f"{each.case:28}{each.count:>7,} {each.arithmetic:9}{each.prove_us:>9,.1f}"
            f"{each.verify_us:>9,.1f}{each.verify_first_us:>9,.1f}{each.decide_us:>8,.1f}"
            f"  {each.per_second:,.0f}{beside}"
        )


if __name__ == "__main__":
    main()
