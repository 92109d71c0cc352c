"""Perturbation, attacks and a whole task: times beside the specification's.

    python -m bench.crowd_tasking [--readings 10000000] [--users 100000] [--rounds 100]

One process. Noise of the sound stance comes from `SecureRandom`. Memory is the peak of the process.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from algorithms.contract import SequentialContext
from algorithms.crowd_tasking.algorithm import perturb_floating, run
from algorithms.crowd_tasking.evaluation import Prior, filterable_variance, pca, sf, wiener
from algorithms.crowd_tasking.parameters import Parameters as CrowdTaskingParams
from algorithms.crowd_tasking.prediction import histogram_error
from algorithms.datasets.tables import Texts, UserSeries
from tacit.encoders.crowd_tasking import Component, Perturbation, perturb
from tacit.randomness import PublicRandom, SecureRandom, SeededRandom

ALL: tuple[Component, ...] = ("Y", "G", "L")
ONE: tuple[Component, ...] = ("Y",)
BLOCK = 1_000_000


def timed(name: str, work: Callable[[], object], specified: str) -> None:
    """Run once and print."""
    start = time.perf_counter()
    work()
    print(f"{name:58}{time.perf_counter() - start:9.2f} s   spec: {specified}", flush=True)


def in_blocks(readings: int, work: Callable[[np.ndarray, np.ndarray], object]) -> None:
    """Blocks of 10^4 users of 100 rounds."""
    users = np.repeat(np.arange(BLOCK // 100), 100)
    rounds = np.tile(np.arange(1, 101), BLOCK // 100)
    for _ in range(max(1, readings // BLOCK)):
        work(users, rounds)


def attacks() -> None:
    """One attack on one user of 600 rounds, in milliseconds; and the set-up of the reference."""
    generator = np.random.default_rng(1)
    series = 72 + np.cumsum(generator.normal(size=(32, 600)), axis=1)
    variance = filterable_variance(20.0, ALL)
    for name, attack in (("pca", pca), ("sf", sf)):
        start = time.perf_counter()
        attack(series, variance)
        spent = 1e3 * (time.perf_counter() - start) / len(series)
        print(f"{name}, one user of 600 rounds{spent:42.2f} ms  spec: 5 ms")
    prior = Prior(series)
    timed(
        "wiener, 32 users of 600 rounds with its set-up",
        lambda: wiener(series, prior, 20.0, ALL, 0.5, (50, 150)),
        "-",
    )


def whole_task(users: int, rounds: int) -> None:
    """A data set of this many users through the central form."""
    generator = np.random.default_rng(2)
    values = generator.normal(74, 9, (users * rounds, 1))
    dataset = UserSeries(
        ("rate",),
        Texts.of(range(users)).repeated(rounds),
        np.tile(np.arange(1, rounds + 1), users),
        values,
    )
    sensor = {
        "name": "heart rate",
        "unit": "1/min",
        "coordinates": ({"name": "rate", "lower": 50, "upper": 150},),
    }
    common = {"sensor": sensor, "n": users, "epsilon": "1", "T": rounds}
    for stance, components in (("sound", ONE), ("sound", ALL), ("paper", ALL)):
        params = CrowdTaskingParams.model_validate({**common, "components": components})
        timed(
            f"{users} users x {rounds} rounds, {stance}, {len(components)} part(s)",
            lambda p=params, s=stance: run(dataset, p, s, SequentialContext(seed=bytes(32))),  # type: ignore[misc]
            "30 s",
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="crowd sensing: times")
    parser.add_argument("--readings", type=int, default=10_000_000)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=100)
    given = parser.parse_args()
    secure = SecureRandom()
    quantised = np.zeros((BLOCK, 1), np.int64)
    readings = np.zeros((BLOCK, 1))
    mechanism = Perturbation((50.0,), (150.0,), 1 << 16, Fraction(1 << 16), ALL, Fraction(1, 2))
    timed(
        f"{given.readings} readings, exact noise, three parts",
        lambda: in_blocks(given.readings, lambda u, r: perturb(mechanism, u, r, quantised, secure)),
        "5 s for 10^7",
    )
    seeded = SeededRandom(1)
    scales = np.array([100.0])
    timed(
        f"{given.readings} readings, floating noise, three parts",
        lambda: in_blocks(
            given.readings,
            lambda u, r: perturb_floating(ALL, scales, 0.5, u, r, readings, seeded),
        ),
        "1.3 s for 10^7",
    )
    attacks()
    edges = np.arange(50.0, 151.0, 10.0)
    timed(
        "histogram prediction, n = 10^5, 300 draws",
        lambda: histogram_error(100_000, np.full(10, 0.1), edges, 20.0, 3, PublicRandom(0)),
        "independent of n",
    )
    whole_task(given.users, given.rounds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(f"peak memory {peak:.2f} GiB   spec: 2 GB")


if __name__ == "__main__":
    main()
