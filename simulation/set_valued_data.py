"""Populations of itemsets: seeded stand-ins for the source's two data sets, and the file of one.

Spec: set-valued, section 5. MSNBC: page categories of a visit, taken as a set. STM: stations of a
fare card in a week; the original is not public.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.records.transactions import Ints, Transactions

MSNBC_RECORDS: Final = 989_818
STM_RECORDS: Final = 1_210_096
ZONES: Final = 44
STATIONS: Final = 23
"""Of each zone."""
TEMPLATES: Final = 500
_BLOCK: Final = 1 << 17
_FILE: Final = "msnbc990928.seq.gz"


@dataclass(frozen=True, eq=False)
class Population:
    """Itemsets over a public universe, and where they come from."""

    name: str
    dataset: Transactions
    provenance: str

    @property
    def universe(self) -> tuple[str, ...]:
        """The items in the order of the taxonomy."""
        return self.dataset.items

    def sample(self, records: int, generator: np.random.Generator) -> Population:
        """A random subset of this many records."""
        kept = np.sort(generator.choice(self.dataset.records, records, replace=False))
        lengths = np.diff(self.dataset.offsets)[kept]
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        entries = np.repeat(self.dataset.offsets[kept] - offsets[:-1], lengths)
        values = self.dataset.values[entries + np.arange(offsets[-1])]
        return Population(
            self.name, Transactions(self.universe, values, offsets), f"{self.provenance}, a sample"
        )

    def cut(self, items: int, records: int, generator: np.random.Generator) -> Population:
        """The first items alone, of this many records that have any of them, drawn again."""
        bounds, kept = self.dataset.offsets, self.dataset.values < items
        lengths = np.diff(np.concatenate(([0], np.cumsum(kept)))[bounds])
        first = np.cumsum(lengths) - lengths
        values = self.dataset.values[kept]
        chosen = generator.choice(np.flatnonzero(lengths), records)
        sizes = lengths[chosen]
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        entries = np.repeat(first[chosen] - offsets[:-1], sizes) + np.arange(offsets[-1])
        return Population(
            self.name,
            Transactions(self.universe[:items], values[entries], offsets),
            f"{self.provenance}, the first {items} items, {records} records drawn again",
        )


def _zipf(count: int) -> NDArray[np.float64]:
    weights = 1 / np.arange(1, count + 1)
    shares: NDArray[np.float64] = weights / weights.sum()
    return shares


def _lengths(records: int, mean: float, most: int, generator: np.random.Generator) -> Ints:
    """Geometric with a mean, cut; the first record has the greatest length."""
    lengths = np.minimum(generator.geometric(1 / mean, records), most)
    lengths[:1] = most
    return lengths


def _population(name: str, items: int, values: Ints, lengths: Ints, seed: int) -> Population:
    width = len(str(items))
    universe = tuple(f"{place:0{width}}" for place in range(1, items + 1))
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    dataset = Transactions(universe, values.astype(np.int32), offsets)
    return Population(name, dataset, f"{name}: generated, {lengths.size} records, seed {seed}")


@lru_cache(maxsize=4)
def msnbc_like(records: int = MSNBC_RECORDS, items: int = 17, seed: int = 1) -> Population:
    """Lengths geometric of mean 1.72, at most all items; items Zipf(1) without replacement."""
    generator = np.random.default_rng(seed)
    lengths = _lengths(records, 1.72, items, generator)
    order = np.log(_zipf(items))
    parts = []
    for start in range(0, records, _BLOCK):
        part = lengths[start : start + _BLOCK]
        drawn = np.argsort(-(order + generator.gumbel(size=(part.size, items))), axis=1)
        parts.append(drawn[np.arange(items) < part[:, None]])
    return _population("MSNBC-like", items, np.concatenate(parts), lengths, seed)


@lru_cache(maxsize=2)
def stm_like_diffuse(records: int = STM_RECORDS, seed: int = 1) -> Population:
    """Stations of a home and a work zone for three quarters, anywhere for the rest.

    Zones, stations of a zone, and stations overall (in a separate order) by Zipf(1).
    """
    generator = np.random.default_rng(seed)
    stations = ZONES * STATIONS
    lengths = _lengths(records, 4.82, 64, generator)
    zones = generator.choice(ZONES, (records, 2), p=_zipf(ZONES))
    anywhere = generator.permutation(stations)
    owner = np.repeat(np.arange(records), lengths)
    values = np.empty(owner.size, np.int64)
    wrong = np.arange(owner.size)
    while wrong.size:
        side = generator.integers(0, 2, wrong.size)
        near = zones[owner[wrong], side] * STATIONS
        near += generator.choice(STATIONS, wrong.size, p=_zipf(STATIONS))
        far = anywhere[generator.choice(stations, wrong.size, p=_zipf(stations))]
        values[wrong] = np.where(generator.random(wrong.size) < 0.75, near, far)
        keys = owner * stations + values
        order = np.argsort(keys, kind="stable")
        held = keys[order]
        wrong = np.sort(order[1:][held[1:] == held[:-1]])
    return _population("STM-like, diffuse", stations, values, lengths, seed)


@lru_cache(maxsize=4)
def stm_like_concentrated(records: int = STM_RECORDS, seed: int = 1) -> Population:
    """The diffuse set with 95% of its records replaced by a template of the same length.

    A length k has ceil(500 Pr[k]) templates, drawn by Zipf(1).
    """
    diffuse = stm_like_diffuse(records, seed).dataset
    generator = np.random.default_rng((seed, 95))
    lengths = np.diff(diffuse.offsets)
    values = diffuse.values.astype(np.int64)
    replaced = generator.random(records) < 0.95
    replaced[:1] = False
    for length in np.unique(lengths).tolist():
        same = np.flatnonzero(lengths == length)
        pool = generator.choice(same, min(same.size, -(-TEMPLATES * same.size // records)), False)
        where = same[replaced[same]]
        template = pool[generator.choice(pool.size, where.size, p=_zipf(pool.size))]
        steps = np.arange(length)
        values[diffuse.offsets[where][:, None] + steps] = diffuse.values[
            diffuse.offsets[template][:, None] + steps
        ]
    return _population("STM-like, concentrated", ZONES * STATIONS, values, lengths, seed)


def msnbc(folder: Path | None) -> Population | None:
    """The page categories of every visit, from the file in the folder; None where it is absent."""
    if folder is None or not (folder / _FILE).exists():
        return None
    content = gzip.decompress((folder / _FILE).read_bytes())
    lines = [line.strip() for line in content.splitlines()]
    rows = [line for line in lines[lines.index(b"% Sequences:") + 1 :] if line]
    lengths = np.array([len(line.split()) for line in rows])
    values = np.array(b" ".join(rows).split()).astype(np.int64) - 1
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    universe = tuple(f"{place:02}" for place in range(1, 18))
    dataset = Transactions(universe, values.astype(np.int32), offsets)
    return Population("MSNBC", dataset, "MSNBC anonymous web data (UCI), the whole file")
