"""N-grams: seconds of parsing, counting and a whole release, by data set and size.

    python -m bench.sequential_ngram [--large]

One process, best of the repetitions. Beside it in the same run: counting with a dictionary of
tuples in Python, a reader that splits line by line, and the noisy prefix tree. MSNBC is the file
where it is beside the repository, else a stand-in. `--large` adds ten times as many click paths,
with the peak of memory.
"""

from __future__ import annotations

import argparse
import gzip
import io
import resource
from collections import Counter
from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np

from algorithms.contract import SequentialContext
from algorithms.counts.keeper import adder, no_noise
from algorithms.sequential_ngram import Parameters as SequentialNgramParameters
from algorithms.sequential_ngram import algorithm
from algorithms.sequential_ngram.counts import BLOCK_SYMBOLS, first, grow
from algorithms.sequential_ngram.publication import Release, publish
from algorithms.sequential_ngram.settings import Settings, empty_threshold
from bench.timing import seconds
from reproduction.sequential_ngram_data import Population, clicks_like, msnbc, stm_like
from reproduction.sequential_ngram_prefix import prefix_text
from simulation.populations import shared_data
from tacit.encoders.counts import Level
from tacit.encoders.sequential_ngram_counts import COUNTER, Successors
from tacit.records.item_files import read_msnbc, read_text_sequences
from tacit.records.items import Sequences

GATE: Final = 1.5
"""Seconds of a release of MSNBC at epsilon 1, in numpy alone."""
PARSING_GATE: Final = 3.0


def settings_for(dataset: Sequences, epsilon: str) -> Settings:
    """The defaults of the sound stance."""
    items = len(dataset.universe)
    threshold = partial(empty_threshold, l_max=20, items=items, paper=False)
    return Settings(items, Fraction(epsilon), 20, 5, threshold)


def released(dataset: Sequences, epsilon: str) -> Release:
    """A whole run after parsing, without files and pictures."""
    settings = settings_for(dataset, epsilon)
    return publish(dataset, settings, adder("sound"), SequentialContext(bytes(32)))


def parsing() -> None:
    """Seconds of the file, and of a plain loop over its lines."""
    folder = shared_data()
    if folder is not None and (folder / "msnbc990928.seq.gz").exists():
        name, content = "MSNBC", gzip.decompress((folder / "msnbc990928.seq.gz").read_bytes())
        own = seconds(lambda: read_msnbc(io.BytesIO(content)))
    else:
        data = clicks_like(989_818).dataset
        lines = np.split(data.items + 1, data.starts[1:-1])
        text = "\n".join(" ".join(map(str, line.tolist())) for line in lines)
        name, content = "MSNBC-like", text.encode()
        own = seconds(lambda: read_text_sequences(io.BytesIO(content)))

    def by_line() -> None:
        places: dict[bytes, int] = {}
        found = []
        for line in io.BytesIO(content):
            found.append([places.setdefault(item, len(places)) for item in line.split()])

    naive = seconds(by_line, 1)
    print(f"{name}: parsing {own:.2f} s (gate {PARSING_GATE}); line by line {naive:.2f} s, "
          f"{naive / own:.1f} times")  # fmt: skip


def counting(population: Population) -> None:
    """Seconds of all counts up to 5 items at epsilon 1, and with a dictionary of tuples."""
    data = population.dataset
    tree = grow(data, first(settings_for(data, "1")), adder("sound"), SequentialContext(bytes(32)))

    def fixed() -> None:
        levels = tuple(Level(*each) for each in tree.levels)
        walks: list[Any] = data.lists.blocks(BLOCK_SYMBOLS // 21)
        for depth in range(tree.depth):
            asked = Successors(17, 20, levels[:depth])
            size = 17 if not depth else (tree.bounds[depth + 1] - tree.bounds[depth]) * 18
            walks = [COUNTER.counted(walk, asked, size)[0] for walk in walks]

    own = seconds(fixed)
    share = 20
    part = [
        tuple(data.items[low:high].tolist())
        for low, high in zip(data.starts[:-1:share], data.starts[1::share], strict=False)
    ]

    def by_hand() -> None:
        found: Counter[tuple[int, ...]] = Counter()
        for row in part:
            cut = (*row[:20], -1)
            for length in range(1, 6):
                found.update(cut[start : start + length] for start in range(len(cut) - length + 1))

    naive = seconds(by_hand, 1) * share
    print(f"{population.name}: counting {own:.2f} s; a dictionary of tuples {naive:.1f} s, "
          f"{naive / own:.0f} times")  # fmt: skip


def releases(populations: list[Population]) -> None:
    """Seconds of whole runs."""
    print(f"\n{'data':<22} epsilon  counts with noise   grams     release   without noise   prefix")
    for population in populations:
        data = population.dataset
        for epsilon in ("1", "0.1"):
            found = released(data, epsilon)
            taken = seconds(lambda: released(data, epsilon))  # noqa: B023
            settings = settings_for(data, epsilon)
            plain = seconds(
                lambda: publish(data, settings, no_noise, SequentialContext())  # noqa: B023
            )
            prefix = seconds(
                lambda: prefix_text(data, Fraction(epsilon), 12, SequentialContext()),  # noqa: B023
                1,
            )
            print(
                f"{population.name:<22} {epsilon:>7} {found.transcript.draws:>18,} "
                f"{found.grams.size:>9,} {taken:>9.2f} s {plain:>13.2f} s {prefix:>7.2f} s"
            )
    print(f"gate of MSNBC at epsilon 1: {GATE} s")


def files(population: Population) -> None:
    """Seconds of a whole job with its files."""
    asked = SequentialNgramParameters(epsilon="1", universe=population.dataset.universe)
    taken = seconds(
        lambda: algorithm.run(population.dataset, asked, "sound", SequentialContext(bytes(32)))
    )
    print(f"{population.name}: a job with its files {taken:.2f} s")


def large() -> None:
    """Ten times as many click paths."""
    population = clicks_like(9_898_180)
    taken = seconds(lambda: released(population.dataset, "1"), 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(f"\n{population.dataset.count:,} sequences: {taken:.1f} s, peak {peak:.2f} GiB")


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true")
    asked = parser.parse_args()
    parsing()
    clicks = msnbc(shared_data())
    counting(clicks)
    releases([clicks, stm_like()])
    files(clicks)
    if asked.large:
        large()


if __name__ == "__main__":
    main()
