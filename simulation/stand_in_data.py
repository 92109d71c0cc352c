"""Generated stand-ins for the sources' data sets, which are not public or not shipped. All seeded.

Graphs in place of large social networks, sequences of stations like those of fare cards, itemsets,
and users with readings for the reproductions of the book's chapter 12.
"""

from __future__ import annotations

import gzip
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.datasets.edge_list import EdgeList
from algorithms.datasets.tables import Texts, UserSeries
from tacit.randomness import SeededRandom
from tacit.records.items import Ints, Sequences, Transactions

GROUPS: Final = 16
INSIDE: Final = 0.8

Places = NDArray[np.int64]


def power_law(vertices: int, edges: int, seed: int, groups: int = 1) -> EdgeList:
    """A graph with exactly these numbers; groups: 1, or as many communities of unequal size."""
    generator = np.random.default_rng(seed)
    sizes = np.arange(1, groups + 1) / (groups * (groups + 1) / 2)
    borders = np.rint(np.concatenate(([0], np.cumsum(sizes))) * vertices).astype(np.int64)
    place = np.concatenate([np.arange(size) for size in np.diff(borders)])
    weights = np.cumsum((place + 10.0) ** (-1 / 1.5))
    keys = np.zeros(0, np.int64)
    while keys.size < edges:
        wanted = int((edges - keys.size) * 1.1) + 100
        first = _drawn(weights, generator.random(wanted))
        second = _drawn(weights, generator.random(wanted))
        if groups > 1:
            _move_inside(second, first, weights, borders, generator)
        low, high = np.minimum(first, second), np.maximum(first, second)
        fresh = (low * vertices + high)[low != high]
        del first, second, low, high
        keys = np.unique(np.concatenate([keys, fresh]))
    keys = keys[np.sort(generator.permutation(keys.size)[:edges])] if keys.size > edges else keys
    places = generator.permutation(vertices).astype(np.int32)
    left, right = places[keys // vertices], places[keys % vertices]
    del keys
    return EdgeList.from_pairs(np.arange(vertices), left, right)


def blocks(sizes: tuple[int, ...], inside: float, between: float, seed: int) -> EdgeList:
    """A stochastic block model: pairs are joined with these chances."""
    generator = np.random.default_rng(seed)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    first, second = np.triu_indices(groups.size, 1)
    chance = np.where(groups[first] == groups[second], inside, between)
    there = generator.random(first.size) < chance
    ends = first[there].astype(np.int32), second[there].astype(np.int32)
    return EdgeList.from_pairs(np.arange(groups.size), *ends)


def _drawn(weights: NDArray[np.float64], uniform: NDArray[np.float64]) -> Places:
    """Places by their cumulated weights; sorted look-ups stay in the cache."""
    uniform *= weights[-1]
    order = np.argsort(uniform)
    found = np.empty(uniform.size, np.int64)
    found[order] = np.searchsorted(weights, uniform[order], side="right")
    return np.minimum(found, weights.size - 1)


def _move_inside(
    second: Places,
    first: Places,
    weights: NDArray[np.float64],
    borders: Places,
    generator: np.random.Generator,
) -> None:
    """Draw again, within the first end's group, the second end of most pairs."""
    moved = np.flatnonzero(generator.random(first.size) < INSIDE)
    group = np.searchsorted(borders, first[moved], side="right") - 1
    totals = np.concatenate(([0.0], weights))
    low, high = totals[borders[group]], totals[borders[group + 1]]
    uniform = low + (high - low) * generator.random(moved.size)
    found = np.searchsorted(weights, uniform, side="right")
    second[moved] = np.clip(found, borders[group], borders[group + 1] - 1)


# Sequences of stations like those of fare cards: stand-ins for the source's data, not public.
#
# Spec: sequential-prefix-tree, section 5, `stm_like`. Stations belong to lines, the groups of a
# taxonomy: consecutive stations, in equal parts. A card goes to and fro between a home and a second
# station, and now and then elsewhere.

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


# Populations of itemsets: seeded stand-ins for the source's two data sets, and the file of one.
#
# Spec: set-valued, section 5. MSNBC: page categories of a visit, taken as a set. STM: stations of a
# fare card in a week; the original is not public.

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


def _record_lengths(records: int, mean: float, most: int, generator: np.random.Generator) -> Ints:
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
    lengths = _record_lengths(records, 1.72, items, generator)
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
    lengths = _record_lengths(records, 4.82, 64, generator)
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


# Users and readings for the reproductions of the book's chapter 12, generated.
#
# Spec: crowd-tasking, section 5 ("Data"). The source's own recordings were never published. Nothing
# here is a real person's reading; iris comes with scikit-learn.

Floats = NDArray[np.float64]

HEART_BOUNDS: Final = (50.0, 150.0)
DECLARED_WIDTH: Final = 100.0
OBSERVED_WIDTH: Final = 34.323
"""The range of a heart rate that Figure 12.3 needs: observed, not declared."""
SKIN: Final = 1_500
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


def waypoints(users: int, rounds: int, source: SeededRandom) -> Floats:
    """(users, T, 2) places in a square of 100 by 100: straight to a random place, then the next;
    a leg takes 20 to 120 rounds."""
    generator = source.generator
    paths = np.empty((users, rounds, 2))
    for user in range(users):
        here, number = generator.uniform(0, 100, 2), 0
        while number < rounds:
            there, leg = generator.uniform(0, 100, 2), int(generator.integers(20, 121))
            steps = (np.arange(1, leg + 1) / leg)[: rounds - number, None]
            paths[user, number : number + leg] = here + steps * (there - here)
            here, number = there, number + leg
    return paths


def user_limits(source: SeededRandom) -> tuple[Fraction, ...]:
    """epsilon_u of the 20 participants of Figure 12.11: 9 U(20,30), 3 U(15,20), 8 U(5,15)."""
    generator = source.generator
    drawn = np.concatenate(
        [generator.uniform(20, 30, 9), generator.uniform(15, 20, 3), generator.uniform(5, 15, 8)]
    )
    return tuple(Fraction(round(limit * 1000) + 1, 1000) for limit in drawn.tolist())


def balance_scale() -> tuple[Floats, Ints]:
    """The full factorial 1..5 of weight and distance on both sides: 625 rows, classes by
    sign(w1 d1 - w2 d2): 288 left, 49 balanced, 288 right."""
    places = np.array(np.meshgrid(*[np.arange(1, 6)] * 4, indexing="ij")).reshape(4, -1).T
    lean = np.sign(places[:, 0] * places[:, 1] - places[:, 2] * places[:, 3])
    return places.astype(np.float64), np.asarray(lean + 1, np.int64)


def two_activities(source: SeededRandom, count: int = SKIN) -> tuple[Floats, Ints]:
    """(count, 3) accelerations of two activities, half each: Gaussians of the spec."""
    half = count // 2
    generator = source.generator
    one = generator.normal((2, 6, 6), 1.2, (half, 3))
    other = generator.normal((-5, 2, 7), (2.5, 2.5, 2.0), (count - half, 3))
    labels = np.repeat([0, 1], [half, count - half]).astype(np.int64)
    return np.concatenate([one, other]), labels


def iris() -> tuple[Floats, Ints]:
    """Fisher's iris: 150 rows of 4 lengths, 3 classes."""
    from sklearn.datasets import load_iris

    found = load_iris()
    return np.asarray(found.data, np.float64), np.asarray(found.target, np.int64)
