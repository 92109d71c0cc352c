"""Draws per second of the exact samplers, beside OpenDP's integer Laplace in the same run.

    python -m bench.noise [--seconds 1.0]

One process, one thread, words from `SecureRandom`. Each figure is the best of the repetitions
that fit into `--seconds`: the machine may be shared, and the best is what the code can do. The
specification's figures (another run of another day, words from os.urandom) stand beside them.
"""

import argparse
import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tacit.noise import DiscreteLaplace, PolyaShare, self_test
from tacit.noise.discrete_laplace import laplace_tables
from tacit.noise.polya import share_tables
from tacit.randomness import SecureRandom

DRAWS = 1_000_000
PEER_DRAWS = 20_000


@dataclass(frozen=True)
class Case:
    """One sampler, with the million draws per second that the specification states."""

    name: str
    sampler: DiscreteLaplace | PolyaShare
    specified: float


CASES = (
    Case("discrete Laplace b = 10", DiscreteLaplace(Fraction(10)), 5.5),
    Case("discrete Laplace b = 1e4", DiscreteLaplace(Fraction(10**4)), 4.7),
    Case("discrete Laplace b = 1e7", DiscreteLaplace(Fraction(10**7)), 3.8),
    Case("share r = 1e-3, b = 10", PolyaShare(Fraction(10), Fraction(1, 1000)), 15.0),
    Case("share r = 1e-3, b = 1e4", PolyaShare(Fraction(10**4), Fraction(1, 1000)), 15.0),
    Case("share r = 1e-3, b = 1e7", PolyaShare(Fraction(10**7), Fraction(1, 1000)), 15.0),
    Case("share r = 0.1, b = 10", PolyaShare(Fraction(10), Fraction(1, 10)), 3.7),
    Case("share r = 0.1, b = 1e4", PolyaShare(Fraction(10**4), Fraction(1, 10)), 1.0),
    Case("share r = 0.1, b = 1e7", PolyaShare(Fraction(10**7), Fraction(1, 10)), 0.6),
)


def best(work: Callable[[], object], seconds: float) -> float:
    """Seconds of the fastest call among those that fit into `seconds` (at least two)."""
    fastest, end, calls = float("inf"), time.perf_counter() + seconds, 0
    while calls < 2 or time.perf_counter() < end:
        start = time.perf_counter()
        work()
        fastest, calls = min(fastest, time.perf_counter() - start), calls + 1
    return fastest


def opendp_laplace(scale: float) -> Callable[[], object] | None:
    """`PEER_DRAWS` draws of OpenDP's integer Laplace in one call, if it is installed."""
    try:
        opendp: Any = importlib.import_module("opendp.prelude")
    except ImportError:
        return None
    opendp.enable_features("contrib")
    space = (
        opendp.vector_domain(opendp.atom_domain(T="i64")),
        opendp.l1_distance(T="i64"),
    )
    measurement = opendp.m.make_laplace(*space, scale=scale)
    zeros = [0] * PEER_DRAWS
    return lambda: measurement(zeros)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="draws per second of the samplers")
    parser.add_argument("--seconds", type=float, default=1.0, help="time per figure")
    seconds: float = parser.parse_args().seconds
    source = SecureRandom()

    keystream = best(lambda: source.words(1 << 15), seconds) / (1 << 15)
    print(f"keystream            {1e9 * keystream:8.2f} ns a word")
    peers: dict[Fraction, float] = {}
    for scale in dict.fromkeys(case.sampler.scale for case in CASES):
        peer = opendp_laplace(float(scale))
        if peer is None:
            print("opendp not installed: pip install opendp")
            break
        peers[scale] = PEER_DRAWS / best(peer, seconds) / 1e6
        print(f"OpenDP integer Laplace, b = {float(scale):g}: {peers[scale]:.3f} M/s")

    print(
        f"\n{'million draws per second':28}{'here':>8}{'spec':>8}{'ratio':>8}{'/ OpenDP':>10}"
        f"{'one draw':>12}"
    )
    for case in CASES:
        sampler = case.sampler
        rate = DRAWS / best(lambda s=sampler: s.draw(source, DRAWS), seconds) / 1e6  # type: ignore[misc]
        single = best(lambda s=sampler: s.draw(source, 1), min(seconds, 0.2))  # type: ignore[misc]
        peer_rate = peers.get(sampler.scale)
        against = f"{rate / peer_rate:10.0f}" if peer_rate else f"{'-':>10}"
        print(
            f"{case.name:28}{rate:8.2f}{case.specified:8.1f}{rate / case.specified:8.1f}"
            f"{against}{1e6 * single:9.0f} us"
        )

    def tables() -> None:
        laplace_tables.cache_clear()
        share_tables.cache_clear()
        laplace_tables(Fraction(10**7))
        share_tables(Fraction(10**7), Fraction(1, 10))

    print(f"\ntables for b = 1e7, Laplace and share r = 0.1: {1e3 * best(tables, 0.2):.1f} ms")
    print(
        f"self-test at the start of a service: {1e3 * best(lambda: self_test(source), 0.2):.1f} ms"
    )


if __name__ == "__main__":
    main()
