"""Set-valued release: seconds of DiffPart, by data set and size, and of the exact noise.

    python -m bench.set_valued [--large]

One process, times after parsing; a case's figure is the best of its repetitions. Beside it, in the
same run: the naive way of grouping (a dictionary of sets in Python), the same release with noise in
floating point in place of exact integers, and a reader that splits line by line. `--large` adds ten
million records over ten thousand items, with the peak of memory.
"""

from __future__ import annotations

import argparse
import io
import itertools
import resource
import time
from collections import Counter
from fractions import Fraction
from typing import Final

import numpy as np

from algorithms.contract import SequentialContext
from algorithms.set_valued.counts import publish
from algorithms.set_valued.records import record_masks
from algorithms.set_valued.settings import PaperLaw, Settings, SoundLaw
from bench.timing import seconds
from reproduction.stand_in_data import stm_like_concentrated, stm_like_diffuse
from simulation.stand_in_data import Population, msnbc_like
from tacit.encoders.set_valued_counts import Taxonomy
from tacit.records.item_files import read_text
from tacit.records.items import Transactions

GATE: Final = 13.0
"""Seconds of the diffuse set after parsing."""
HALF: Final = Fraction(1, 2)
SOUND: Final = SoundLaw(HALF, HALF)


def released(dataset: Transactions, epsilon: Fraction, fanout: int = 10) -> tuple[int, int]:
    """A whole run after parsing; rows and splits."""
    taxonomy, context = Taxonomy(len(dataset.items), fanout), SequentialContext(bytes(32))
    masks = record_masks(dataset, dataset.items, taxonomy, context)
    run = publish(masks, taxonomy, Settings(epsilon, SOUND), context)
    return len(run.rows), run.transcript.splits


def sets() -> list[Population]:
    """The three stand-ins at full size."""
    return [msnbc_like(), stm_like_diffuse(), stm_like_concentrated()]


def speed(populations: list[Population]) -> None:
    """Seconds of each part."""
    print("epsilon 1, fan-out 10        records   masks  release    whole     rows   splits  (s)")
    for population in populations:
        data = population.dataset
        taxonomy, context = Taxonomy(len(data.items), 10), SequentialContext(bytes(32))
        masks = record_masks(data, data.items, taxonomy, context)
        first = seconds(lambda: record_masks(data, data.items, taxonomy, context))  # noqa: B023
        second = seconds(
            lambda: publish(masks, taxonomy, Settings(Fraction(1), SOUND), context)  # noqa: B023
        )
        rows, splits = released(data, Fraction(1))
        figures = f"{first:8.2f}{second:9.2f}{first + second:9.2f}{rows:9,}{splits:9,}"
        print(f"{population.name:<26}{data.records:>10,}{figures}", flush=True)
        if population.name.endswith("diffuse"):
            share = (first + second) / GATE
            print(f"  gate {GATE:.0f} s: {'kept' if share <= 1 else 'MISSED'}, {share:.0%} of it")


def linear(population: Population) -> None:
    """Microseconds a record by size: the claim is that they do not grow."""
    print(f"\n{population.name}: microseconds a record by size")
    generator = np.random.default_rng(1)
    for size in (200_000, 400_000, 800_000, 1_200_000):
        part = population.sample(size, generator).dataset
        taken = seconds(lambda: released(part, Fraction(1)))  # noqa: B023
        print(f"{size:>12,} records {taken:8.2f} s {1e6 * taken / size:8.2f} us", flush=True)


def peers(population: Population) -> None:
    """Grouping by a dictionary in Python; floating noise in place of exact."""
    data = population.sample(200_000, np.random.default_rng(2)).dataset
    bounds, values = data.offsets.tolist(), data.values.tolist()

    def naive() -> int:
        """The first split alone, record by record: an item's child of the root is its thousand."""
        groups: Counter[frozenset[int]] = Counter()
        for low, high in itertools.pairwise(bounds):
            groups[frozenset(item // 1000 for item in values[low:high])] += 1
        return len(groups)

    slow = seconds(naive, 1)
    taxonomy, context = Taxonomy(len(data.items), 10), SequentialContext(test_seed=1)
    fast = seconds(lambda: record_masks(data, data.items, taxonomy, context))
    levels = taxonomy.root.level
    print(f"\n200,000 records: one level in plain Python {slow:.2f} s; all {levels} levels here")
    print(f"  {fast:.2f} s: {levels * slow / fast:.0f} times as fast a level")
    masks = record_masks(data, data.items, taxonomy, context)
    exact = Settings(Fraction(1), SOUND)
    floating = Settings(Fraction(1), PaperLaw(3.0, 5.0))
    one = seconds(lambda: publish(masks, taxonomy, exact, context))
    two = seconds(lambda: publish(masks, taxonomy, floating, context))
    print(f"  release: exact integers {one:.2f} s, floating point (C2 = 5) {two:.2f} s")


def reading(population: Population) -> None:
    """Seconds of the text reader, beside `str.split` line by line."""
    data = population.sample(400_000, np.random.default_rng(3)).dataset
    bounds, names = data.offsets.tolist(), data.items
    values = [names[place] for place in data.values.tolist()]
    lines = (" ".join(values[low:high]) for low, high in itertools.pairwise(bounds))
    content = ("\n".join(lines) + "\n").encode()

    def naive() -> int:
        places = {name: place for place, name in enumerate(names)}
        held = [[places[item] for item in line.split()] for line in io.StringIO(content.decode())]
        return len(held)

    ours = seconds(lambda: read_text(io.BytesIO(content), names))
    plain = seconds(naive)
    print(f"\nreading {len(content) / 1e6:.0f} MB of text: {ours:.2f} s; ", end="")
    print(f"lines in plain Python {plain:.2f} s ({plain / ours:.1f} times)", flush=True)


def large(records: int = 10_000_000, items: int = 10_000) -> None:
    """Ten million records: 95% from a pool of common sets, the rest at random."""
    generator = np.random.default_rng(4)
    lengths = np.minimum(generator.geometric(0.2, records), 40)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    pool = (items * generator.random(20_000) ** 2).astype(np.int32)
    start = (19_000 * generator.random(records) ** 4).astype(np.int64)
    steps = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    values = pool[np.repeat(start, lengths) + steps]
    rare = generator.random(values.size) < 0.01
    values[rare] = generator.integers(0, items, int(rare.sum()))
    del steps, start, rare
    data = Transactions(tuple(map(str, range(items))), values, offsets)
    begin = time.perf_counter()
    rows, splits = released(data, Fraction(1))
    taken = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(f"\n{records:,} records x {items:,} items: {taken:.1f} s, peak {peak:.2f} GiB, ", end="")
    print(f"{rows:,} rows, {splits:,} splits (aim: 300 s, 12 GiB)")


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true")
    asked = parser.parse_args()
    populations = sets()
    speed(populations)
    linear(populations[1])
    peers(populations[2])
    reading(populations[1])
    if asked.large:
        del populations
        large()


if __name__ == "__main__":
    main()
