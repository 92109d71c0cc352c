"""Generated stand-ins for the sources' data sets, which are not public or not shipped. All seeded.

Graphs in place of large social networks, fare cards, itemsets, users with readings for the
reproductions of the book's chapter 12, and meters. The ones that samples use as well are in
`simulation.stand_in_data`.
"""

from __future__ import annotations

import gzip
import math
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.datasets.edge_list import EdgeList
from simulation import populations
from simulation.stand_in_data import (
    Population,
    StandIn,
    item_population,
    record_lengths,
    stm_like,
    zipf,
)
from tacit.randomness import SeededRandom
from tacit.records.items import Ints, Transactions

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

INSIDE: Final = 0.8
STM_RECORDS: Final = 1_210_096
ZONES: Final = 44
STATIONS: Final = 23
"""Of each zone."""
TEMPLATES: Final = 500
_FILE: Final = "msnbc990928.seq.gz"
DECLARED_WIDTH: Final = 100.0
OBSERVED_WIDTH: Final = 34.323
"""The range of a heart rate that Figure 12.3 needs: observed, not declared."""
SKIN: Final = 1_500

ELECTRICITY_METERS: Final = 370
ELECTRICITY_INSTANTS: Final = 140_256
ELECTRICITY_LARGEST_READING: Final = 192_500
ELECTRICITY_LARGEST_TOTAL: Final = 5_270_000_000
ELECTRICITY_GLOBAL_EPSILON: Final = Fraction(1466, 10_000)
ELECTRICITY_ROOT_SQUARES: Final = 200_000
_LARGE_METER_READING: Final = 60_000


# --- graphs --------------------------------------------------------------------------------------


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


# --- sequences and itemsets ----------------------------------------------------------------------


def bus(sequences: int = 778_724, seed: int = 1) -> StandIn:
    """944 stops, 60 lines."""
    return stm_like("Bus-like", sequences, 944, 60, 121, 5.67, seed)


def network(sequences: int = 1_210_096, seed: int = 1) -> StandIn:
    """342 stations, 24 lines: the set of the n-gram experiments."""
    return stm_like("STM-like", sequences, 342, 24, 121, 6.7, seed)


@lru_cache(maxsize=2)
def stm_like_diffuse(records: int = STM_RECORDS, seed: int = 1) -> Population:
    """Stations of a home and a work zone for three quarters, anywhere for the rest.

    Zones, stations of a zone, and stations overall (in a separate order) by Zipf(1).
    """
    generator = np.random.default_rng(seed)
    stations = ZONES * STATIONS
    lengths = record_lengths(records, 4.82, 64, generator)
    zones = generator.choice(ZONES, (records, 2), p=zipf(ZONES))
    anywhere = generator.permutation(stations)
    owner = np.repeat(np.arange(records), lengths)
    values = np.empty(owner.size, np.int64)
    wrong = np.arange(owner.size)
    while wrong.size:
        side = generator.integers(0, 2, wrong.size)
        near = zones[owner[wrong], side] * STATIONS
        near += generator.choice(STATIONS, wrong.size, p=zipf(STATIONS))
        far = anywhere[generator.choice(stations, wrong.size, p=zipf(stations))]
        values[wrong] = np.where(generator.random(wrong.size) < 0.75, near, far)
        keys = owner * stations + values
        order = np.argsort(keys, kind="stable")
        held = keys[order]
        wrong = np.sort(order[1:][held[1:] == held[:-1]])
    return item_population("STM-like, diffuse", stations, values, lengths, seed)


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
        template = pool[generator.choice(pool.size, where.size, p=zipf(pool.size))]
        steps = np.arange(length)
        values[diffuse.offsets[where][:, None] + steps] = diffuse.values[
            diffuse.offsets[template][:, None] + steps
        ]
    return item_population("STM-like, concentrated", ZONES * STATIONS, values, lengths, seed)


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


# --- users with readings -------------------------------------------------------------------------
# Spec: crowd-tasking, section 5.


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


# --- meters --------------------------------------------------------------------------------------


def joined(
    name: str, first: populations.Population, second: populations.Population
) -> populations.Population:
    """Two populations of the same unit as one, with the wider declarations."""
    if first.unit != second.unit:
        raise ValueError("two populations of one unit")
    return populations.Population(
        name,
        np.concatenate([first.counts, second.counts]),
        np.concatenate([first.values, second.values]),
        first.unit,
        (min(first.bounds[0], second.bounds[0]), max(first.bounds[1], second.bounds[1])),
        max(first.max_readings, second.max_readings),
        min(first.resolution, second.resolution),
        f"{first.provenance}; {second.provenance}",
    )


def electricity_like(source: SeededRandom) -> populations.Marginals:
    """370 meters with the four figures that the sources' tables fix of ElectricityLoadDiagrams.

    D_X = 5.27e9; 370 max_i D_i/f(x_i) = 0.1466 (a meter that ran for a short part of the four
    years); sqrt(sum_i D_i^2) = 2.0e5 to 1 %; no reading above 192,500 in any of 140,256 instants,
    whose product 2.7e10 is the global sensitivity. One large meter holds D_X. The other largest
    readings are log-normal (sigma 0.5), scaled to the sum of squares, and their meters ran at 10 %
    to 60 % of it on average. Integers, in the file's raw unit (kW in each quarter-hour).

    The tables say that the curators' noise is nearly normal (E|L| = 0.798 standard deviations), so
    no single D_i dominates: 192,500 is a bound here, which no meter reaches.
    """
    generator = source.generator
    others = ELECTRICITY_METERS - 1
    drawn = np.exp(generator.normal(0, 0.5, others))
    left = ELECTRICITY_ROOT_SQUARES**2 - _LARGE_METER_READING**2
    most = np.rint(drawn * math.sqrt(left / float((drawn**2).sum()))).astype(np.int64)
    factor = generator.uniform(0.1, 0.6, others)
    totals = np.rint(most * factor * ELECTRICITY_INSTANTS).astype(np.int64)
    brief = int(np.argsort(most)[others // 2])  # an ordinary meter
    ratio = ELECTRICITY_GLOBAL_EPSILON / ELECTRICITY_METERS
    totals[brief] = math.ceil(int(most[brief]) / ratio)
    return populations.Marginals(
        "electricity-like",
        np.full(ELECTRICITY_METERS, ELECTRICITY_INSTANTS, np.int64),
        np.concatenate([[ELECTRICITY_LARGEST_TOTAL], totals]),
        np.concatenate([[_LARGE_METER_READING], most]),
        "kW",
        "generated to the four figures that the sources' tables fix of ElectricityLoadDiagrams "
        "2011-2014; the readings themselves are not here",
    )
