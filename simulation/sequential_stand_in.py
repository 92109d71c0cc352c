"""Sequences of stations like those of fare cards: stand-ins for the source's data, not public.

Spec: sequential-prefix-tree, section 5, `stm_like`. Stations belong to lines, the groups of a
taxonomy: consecutive stations, in equal parts. A card goes to and fro between a home and a second
station, and now and then elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.records.sequences import Sequences

Ints = NDArray[np.int64]

ZIPF: Final = 1.3
SHAPE: Final = 1.3
SAME_LINE: Final = 0.85
FLIPPED: Final = 1 / 8
FRESH: Final = 0.05


@dataclass(frozen=True, eq=False)
class StandIn:
    """Sequences over a public universe; taxonomy: the line of each station, in its order."""

    name: str
    dataset: Sequences
    taxonomy: tuple[str, ...]
    provenance: str

    def sample(self, sequences: int, generator: np.random.Generator) -> StandIn:
        """A random subset of this many sequences."""
        chosen = np.sort(generator.choice(self.dataset.count, sequences, replace=False))
        return self._with(_chosen(self.dataset, chosen), "a sample", len(self.taxonomy))

    def cut(self, items: int, sequences: int, generator: np.random.Generator) -> StandIn:
        """The first stations alone, of this many sequences that have any of them, drawn again."""
        held = self.dataset.items < items
        starts = np.concatenate(([0], np.cumsum(held)))[self.dataset.starts]
        universe = self.dataset.universe[:items]
        kept = Sequences(universe, self.dataset.items[held], starts)
        some = np.flatnonzero(np.diff(starts))
        data = _chosen(kept, generator.choice(some, sequences))
        return self._with(data, f"the first {items} stations, drawn again", items)

    def _with(self, dataset: Sequences, what: str, items: int) -> StandIn:
        described = f"{self.provenance}; {what}, {dataset.count} sequences"
        return StandIn(self.name, dataset, self.taxonomy[:items], described)


def _chosen(dataset: Sequences, chosen: Ints) -> Sequences:
    lengths = np.diff(dataset.starts)[chosen]
    starts = np.concatenate(([0], np.cumsum(lengths)))
    places = np.repeat(dataset.starts[chosen] - starts[:-1], lengths) + np.arange(starts[-1])
    return Sequences(dataset.universe, dataset.items[places], starts)


def metro(sequences: int = 847_668, seed: int = 1) -> StandIn:
    """68 stations, 4 lines."""
    return stm_like("Metro-like", sequences, 68, 4, 90, 4.21, seed)


def bus(sequences: int = 778_724, seed: int = 1) -> StandIn:
    """944 stops, 60 lines."""
    return stm_like("Bus-like", sequences, 944, 60, 121, 5.67, seed)


def network(sequences: int = 1_210_096, seed: int = 1) -> StandIn:
    """342 stations, 24 lines: the set of the n-gram experiments."""
    return stm_like("STM-like", sequences, 342, 24, 121, 6.7, seed)


@lru_cache(maxsize=4)
def stm_like(
    name: str, sequences: int, stations: int, lines: int, longest: int, mean: float, seed: int
) -> StandIn:
    """This many sequences, the first of them of the greatest length; mean length about `mean`."""
    generator = np.random.default_rng(seed)
    lengths = _lengths(sequences, longest, mean, generator)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    weights = generator.permutation(np.arange(1, stations + 1) ** -ZIPF)
    line = np.arange(stations) * lines // stations
    bounds = np.concatenate(([0.0], np.cumsum(weights / weights.sum())))
    bounds[-1] = 1.0
    first = np.searchsorted(line, np.arange(lines + 1))

    def drawn(low: NDArray[np.float64], high: NDArray[np.float64]) -> Ints:
        """A station by weight, of those whose parts of [0, 1) lie between."""
        point = low + (high - low) * generator.random(low.size)
        return np.minimum(np.searchsorted(bounds, point, side="right") - 1, stations - 1)

    def anywhere(count: int) -> Ints:
        return drawn(np.zeros(count), np.ones(count))

    home = anywhere(sequences)
    near = drawn(bounds[first[line[home]]], bounds[first[line[home] + 1]])
    second = np.where(generator.random(sequences) < SAME_LINE, near, anywhere(sequences))
    flipped = generator.random(sequences) < FLIPPED
    owner = np.repeat(np.arange(sequences), lengths)
    odd = (np.arange(owner.size) - starts[owner]) % 2 == 1
    items = np.where(odd ^ flipped[owner], second[owner], home[owner])
    fresh = np.flatnonzero(generator.random(owner.size) < FRESH)
    items[fresh] = anywhere(fresh.size)
    width = len(str(stations))
    universe = tuple(f"{place:0{width}}" for place in range(1, stations + 1))
    return StandIn(
        name,
        Sequences(universe, items.astype(np.int32), starts),
        tuple(f"line {number + 1}" for number in line.tolist()),
        f"{name}: generated, {sequences} sequences, {stations} stations, seed {seed}",
    )


def _lengths(count: int, longest: int, mean: float, generator: np.random.Generator) -> Ints:
    """1 + a negative binomial, drawn again above the greatest length, which the first one has."""
    chance = SHAPE / (SHAPE + mean - 1)
    lengths: Ints = 1 + generator.negative_binomial(SHAPE, chance, count)
    while (wrong := np.flatnonzero(lengths > longest)).size:
        lengths[wrong] = 1 + generator.negative_binomial(SHAPE, chance, wrong.size)
    lengths[:1] = longest
    return lengths
