"""Prefix-tree release: seconds of tree, consistency and copies, by data set, size and universe.

    python -m bench.sequential_prefix_tree [--large]

One process, times after parsing; a case's figure is the best of its repetitions. Beside it, in the
same run: the naive way of counting (a dictionary of prefixes in Python), one coin for each empty
candidate in place of skipping, and the release with noise in floating point. `--large` adds ten
million sequences, with the peak of memory.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import resource
import time
from collections import Counter
from fractions import Fraction
from typing import BinaryIO, Final, cast

import numpy as np

from algorithms.contract import SequentialContext, Stance
from algorithms.counts.keeper import heads
from algorithms.sequential_prefix_tree import Parameters as SequentialPrefixTreeParameters
from algorithms.sequential_prefix_tree.counts import Release, grow, publish
from algorithms.sequential_prefix_tree.parameters import resolved
from bench.timing import seconds
from reproduction.stand_in_data import bus
from simulation.populations import shared_data
from simulation.stand_in_data import StandIn, metro, stm_like
from tacit.noise import Bernoulli
from tacit.randomness import SecureRandom
from tacit.records.item_files import read_msnbc
from tacit.records.items import Sequences

GATE: Final = 2.5
"""Seconds of MSNBC after parsing."""


def release_of(
    data: Sequences,
    taxonomy: tuple[str, ...] | None,
    height: int = 12,
    stance: Stance = "sound",
) -> Release:
    """A whole run after parsing, epsilon 1."""
    asked = SequentialPrefixTreeParameters(
        epsilon=Fraction(1),
        universe=len(data.universe),
        taxonomy=taxonomy,
        height=height,
        theta_item=None if taxonomy or stance == "sound" else Fraction(8),
    )
    test = SequentialContext(bytes(32) if stance == "sound" else None)
    return publish(data, resolved(asked, stance)[1], test)


def show(name: str, data: Sequences, taxonomy: tuple[str, ...] | None, height: int = 12) -> float:
    """One line; its seconds."""
    taken = seconds(lambda: release_of(data, taxonomy, height))
    release = release_of(data, taxonomy, height)
    form = "hybrid" if taxonomy else "simple"
    print(
        f"{name:<12}{form:<8}{height:>3}{data.count:>12,}{release.tree.nodes:>9,}{taken:>8.2f} s",
        flush=True,
    )
    return taken


def msnbc() -> Sequences | None:
    """The file, where it is beside the repository."""
    folder = shared_data()
    if folder is None or not (folder / "msnbc990928.seq.gz").exists():
        return None
    with gzip.open(folder / "msnbc990928.seq.gz") as stream:
        return read_msnbc(cast(BinaryIO, stream))


def naive(data: Sequences) -> None:
    """All prefixes by a dictionary, without any noise."""

    def count() -> int:
        places, bounds = data.items.tolist(), data.starts.tolist()
        prefixes: Counter[tuple[int, ...]] = Counter()
        for low, high in itertools.pairwise(bounds):
            for end in range(low + 1, min(high, low + 12) + 1):
                prefixes[tuple(places[low:end])] += 1
        return len(prefixes)

    slow = seconds(count, 1)
    asked = SequentialPrefixTreeParameters(
        epsilon=Fraction(1), universe=len(data.universe), height=12
    )
    chosen = resolved(asked, "sound")[1]
    fast = seconds(lambda: grow(data, chosen, SequentialContext(bytes(32))))
    print(f"\n{data.count:,} sequences, height 12: prefixes in plain Python {slow:.2f} s,")
    print(f"  the noisy tree {fast:.2f} s: {slow / fast:.0f} times as fast")


def empties() -> None:
    """Skipping from head to head, and one coin each."""
    coins, chance = 10_000_000, Fraction(1, 1_000)
    coin, source = Bernoulli(chance), SecureRandom()
    slow = seconds(lambda: np.flatnonzero(coin.draw(source, coins)))
    fast = seconds(lambda: heads(coins, chance, source))
    print(f"\n{coins:,} empty candidates, one in 1,000 passes: a coin each {slow:.3f} s,")
    print(f"  skipping {fast:.4f} s: {slow / fast:.0f} times as fast")


def noise(stand_in: StandIn) -> None:
    """Exact integers beside floating point."""
    data, lines = stand_in.dataset, stand_in.taxonomy
    exact = seconds(lambda: release_of(data, lines))
    floating = seconds(lambda: release_of(data, lines, stance="paper"))
    print(f"\n{stand_in.name}, hybrid: exact integers {exact:.2f} s, floating {floating:.2f} s")


def linear(stand_in: StandIn) -> None:
    """Microseconds a sequence by size: the claim is that they do not grow."""
    print(f"\n{stand_in.name}, hybrid, height 20: microseconds a sequence")
    generator = np.random.default_rng(1)
    for size in (200_000, 400_000, 778_724):
        part = stand_in.sample(size, generator)
        taken = seconds(lambda: release_of(part.dataset, part.taxonomy, 20))  # noqa: B023
        print(f"{size:>12,} sequences {taken:6.2f} s {1e6 * taken / size:6.2f} us", flush=True)


def large() -> None:
    """A million and ten million sequences over 1,000 items."""
    for size, aim in ((1_000_000, "5 s, 1 GiB"), (10_000_000, "60 s, 6 GiB")):
        made = stm_like("large", size, 1_000, 60, 121, 5.67, 1)
        start = time.perf_counter()
        release_of(made.dataset, made.taxonomy, 20)
        taken = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
        print(f"\n{size:,} sequences x 1,000 items, height 20: {taken:.1f} s (aim: {aim})")
        print(f"  peak of the process, generator included: {peak:.2f} GiB", flush=True)
        stm_like.cache_clear()


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true")
    asked = parser.parse_args()
    print("epsilon 1, sound      height   sequences    nodes")
    real = msnbc()
    if real is not None:
        share = show("MSNBC", real, None) / GATE
        print(f"  gate {GATE} s: {'kept' if share <= 1 else 'MISSED'}, {share:.0%} of it")
    trains, buses = metro(), bus()
    for stand_in in (trains, buses):
        for height in (12, 20):
            show(stand_in.name, stand_in.dataset, stand_in.taxonomy, height)
        show(stand_in.name, stand_in.dataset, None)
    naive(trains.dataset)
    empties()
    noise(trains)
    linear(buses)
    if asked.large:
        large()


if __name__ == "__main__":
    main()
