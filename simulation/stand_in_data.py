"""Generated stand-ins for the sources' data sets, which are not public or not shipped. All seeded.

A graph of communities, sequences of stations like those of fare cards, itemsets, and users with
readings. More of them, for
reproductions and benchmarks: `reproduction.stand_in_data`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.datasets.edge_list import EdgeList
from algorithms.datasets.tables import Texts, UserSeries
from tacit.randomness import SeededRandom
from tacit.records.items import Ints, Sequences, Transactions


def blocks(sizes: tuple[int, ...], inside: float, between: float, seed: int) -> EdgeList:
    """A stochastic block model: pairs are joined with these chances."""
    generator = np.random.default_rng(seed)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    first, second = np.triu_indices(groups.size, 1)
    chance = np.where(groups[first] == groups[second], inside, between)
    there = generator.random(first.size) < chance
    ends = first[there].astype(np.int32), second[there].astype(np.int32)
    return EdgeList.from_pairs(np.arange(groups.size), *ends)


# Spec: sequential-prefix-tree, section 5, `stm_like`. Stations belong to lines, the groups of a
# taxonomy: consecutive stations, in equal parts. A card alternates between a home and a second
# station, and sometimes goes elsewhere.

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
        is_kept = self.dataset.items < items
        starts = np.concatenate(([0], np.cumsum(is_kept)))[self.dataset.starts]
        universe = self.dataset.universe[:items]
        sequences_kept = Sequences(universe, self.dataset.items[is_kept], starts)
        some = np.flatnonzero(np.diff(starts))
        data = _chosen(sequences_kept, generator.choice(some, sequences))
        return self._with(data, f"the first {items} stations, drawn again", items)

    def _with(self, dataset: Sequences, description: str, items: int) -> StandIn:
        described = f"{self.provenance}; {description}, {dataset.count} sequences"
        return StandIn(self.name, dataset, self.taxonomy[:items], described)


def _chosen(dataset: Sequences, chosen: Ints) -> Sequences:
    lengths = np.diff(dataset.starts)[chosen]
    starts = np.concatenate(([0], np.cumsum(lengths)))
    places = np.repeat(dataset.starts[chosen] - starts[:-1], lengths) + np.arange(starts[-1])
    return Sequences(dataset.universe, dataset.items[places], starts)


def metro(sequences: int = 847_668, seed: int = 1) -> StandIn:
    """68 stations, 4 lines."""
    return stm_like("Metro-like", sequences, 68, 4, 90, 4.21, seed)


@lru_cache(maxsize=4)
def stm_like(
    name: str, sequences: int, stations: int, lines: int, longest: int, mean: float, seed: int
) -> StandIn:
    """This many sequences with a mean length of about `mean`; the first has the greatest length."""
    generator = np.random.default_rng(seed)
    lengths = _path_lengths(sequences, longest, mean, generator)
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


def _path_lengths(count: int, longest: int, mean: float, generator: np.random.Generator) -> Ints:
    """1 + a negative binomial, drawn again above the greatest length, which the first one has."""
    chance = SHAPE / (SHAPE + mean - 1)
    lengths: Ints = 1 + generator.negative_binomial(SHAPE, chance, count)
    while (wrong := np.flatnonzero(lengths > longest)).size:
        lengths[wrong] = 1 + generator.negative_binomial(SHAPE, chance, wrong.size)
    lengths[:1] = longest
    return lengths


# Spec: set-valued, section 5. MSNBC: page categories of a visit, taken as a set.

MSNBC_RECORDS: Final = 989_818
_BLOCK: Final = 1 << 17


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
        chosen = np.sort(generator.choice(self.dataset.records, records, replace=False))
        lengths = np.diff(self.dataset.offsets)[chosen]
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        entries = np.repeat(self.dataset.offsets[chosen] - offsets[:-1], lengths)
        values = self.dataset.values[entries + np.arange(offsets[-1])]
        return Population(
            self.name, Transactions(self.universe, values, offsets), f"{self.provenance}, a sample"
        )

    def cut(self, items: int, records: int, generator: np.random.Generator) -> Population:
        """The first items alone, of this many records that have any of them, drawn again."""
        bounds, is_kept = self.dataset.offsets, self.dataset.values < items
        lengths = np.diff(np.concatenate(([0], np.cumsum(is_kept)))[bounds])
        first = np.cumsum(lengths) - lengths
        values = self.dataset.values[is_kept]
        chosen = generator.choice(np.flatnonzero(lengths), records)
        sizes = lengths[chosen]
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        entries = np.repeat(first[chosen] - offsets[:-1], sizes) + np.arange(offsets[-1])
        return Population(
            self.name,
            Transactions(self.universe[:items], values[entries], offsets),
            f"{self.provenance}, the first {items} items, {records} records drawn again",
        )


def zipf(count: int) -> NDArray[np.float64]:
    weights = 1 / np.arange(1, count + 1)
    shares: NDArray[np.float64] = weights / weights.sum()
    return shares


def record_lengths(records: int, mean: float, most: int, generator: np.random.Generator) -> Ints:
    """Geometric with a mean, cut; the first record has the greatest length."""
    lengths = np.minimum(generator.geometric(1 / mean, records), most)
    lengths[:1] = most
    return lengths


def item_population(name: str, items: int, values: Ints, lengths: Ints, seed: int) -> Population:
    width = len(str(items))
    universe = tuple(f"{place:0{width}}" for place in range(1, items + 1))
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    dataset = Transactions(universe, values.astype(np.int32), offsets)
    return Population(name, dataset, f"{name}: generated, {lengths.size} records, seed {seed}")


@lru_cache(maxsize=4)
def msnbc_like(records: int = MSNBC_RECORDS, items: int = 17, seed: int = 1) -> Population:
    """Lengths geometric of mean 1.72, at most all items; items Zipf(1) without replacement."""
    generator = np.random.default_rng(seed)
    lengths = record_lengths(records, 1.72, items, generator)
    order = np.log(zipf(items))
    parts = []
    for start in range(0, records, _BLOCK):
        part = lengths[start : start + _BLOCK]
        drawn = np.argsort(-(order + generator.gumbel(size=(part.size, items))), axis=1)
        parts.append(drawn[np.arange(items) < part[:, None]])
    return item_population("MSNBC-like", items, np.concatenate(parts), lengths, seed)


# Spec: crowd-tasking, section 5 ("Data"). The source's own recordings were never published. Nothing
# here is a real person's reading.

Floats = NDArray[np.float64]

HEART_BOUNDS: Final = (50.0, 150.0)
_PERSISTENCE: Final = 0.98


def heart_rates(users: int, rounds: int, source: SeededRandom) -> Floats:
    """(users, T) beats a minute: a level N(72, 6) for each user, an autoregression (0.98, unit
    innovations, stationary), 8 sin of a period U(150, 400) rounds, clipped to 50..150."""
    generator = source.generator
    level = generator.normal(72, 6, (users, 1))
    state = generator.normal(0, 1 / math.sqrt(1 - _PERSISTENCE**2), users)
    wandering = np.empty((users, rounds))
    for number, shock in enumerate(generator.normal(size=(rounds, users))):
        state = _PERSISTENCE * state + shock
        wandering[:, number] = state
    period = generator.uniform(150, 400, (users, 1))
    phase = generator.uniform(0, 2 * math.pi, (users, 1))
    swing = 8 * np.sin(2 * math.pi * np.arange(rounds) / period + phase)
    return np.asarray(np.clip(level + wandering + swing, *HEART_BOUNDS), np.float64)


def heart_series(users: int, rounds: int, source: SeededRandom) -> UserSeries:
    """The same as a data set of kind `user-series`."""
    values = heart_rates(users, rounds, source)
    return UserSeries(
        ("heart_rate",),
        Texts.of(range(users)).repeated(rounds),
        np.tile(np.arange(1, rounds + 1), users),
        values.reshape(-1, 1),
    )
