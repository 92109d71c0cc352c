"""Sequences for the experiments on n-grams: click paths and trips.

Spec: sequential-ngram, section 5; sequential-prefix-tree, section 5 (`stm_like`). The trips of the
source are not public; where the file of click paths is absent a stand-in takes its place.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from reproduction.stand_in_data import network
from tacit.records.item_files import read_msnbc
from tacit.records.items import Sequences

MSNBC_SEQUENCES: Final = 989_818
STM_SEQUENCES: Final = 1_210_096
_FILE: Final = "msnbc990928.seq.gz"


@dataclass(frozen=True, eq=False)
class Population:
    """Sequences over a public universe; real: the file that the figures are of."""

    name: str
    dataset: Sequences
    provenance: str
    real: bool = False


@lru_cache(maxsize=2)
def msnbc(folder: Path | None) -> Population:
    """Click paths: the file in the folder; else a stand-in."""
    if folder is None or not (folder / _FILE).exists():
        return clicks_like(MSNBC_SEQUENCES)
    with gzip.open(folder / _FILE) as stream:
        dataset = read_msnbc(stream)  # type: ignore[arg-type]
    text = "MSNBC anonymous web data (UCI), the whole file"
    return Population("MSNBC", dataset, text, real=True)


@lru_cache(maxsize=2)
def clicks_like(sequences: int, seed: int = 1) -> Population:
    """Click paths over 17 pages: lengths geometric of mean 4.75; the next page is the same one with
    probability 0.55, else one by Zipf's law."""
    generator = np.random.default_rng(seed)
    lengths = generator.geometric(1 / 4.75, sequences)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    total = int(starts[-1])
    fresh = generator.random(total) >= 0.55
    fresh[starts[:-1]] = True
    drawn = generator.choice(17, total, p=_zipf(17, 1.0))
    last = np.maximum.accumulate(np.where(fresh, np.arange(total), 0))
    universe = tuple(str(page) for page in range(1, 18))
    dataset = Sequences(universe, drawn[last].astype(np.int32), starts)
    return Population("MSNBC-like", dataset, f"generated, {sequences} click paths, seed {seed}")


def stm_like(sequences: int = STM_SEQUENCES) -> Population:
    """Trips over 342 stations on 24 lines."""
    made = network(sequences)
    return Population(made.name, made.dataset, made.provenance)


def _zipf(count: int, exponent: float) -> NDArray[np.float64]:
    weights = np.arange(1, count + 1) ** -exponent
    shares: NDArray[np.float64] = weights / weights.sum()
    return shares
