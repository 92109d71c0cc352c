"""Releases of sets of items, beside item counts alone and PrivBasis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np

from algorithms.contract import SequentialContext
from algorithms.set_valued import Parameters as SetParameters
from algorithms.set_valued import run as run_sets
from algorithms.set_valued.algorithm import mining_utility, precision, relative_errors
from algorithms.set_valued.records import (
    Itemsets,
    Supports,
    Weighted,
    deduplicated,
    itemsets,
    most_frequent,
)
from algorithms.set_valued.settings import Row
from bench.utility.compare import Comparison, Contender, Figures, compare
from bench.utility.simple_peers import item_counts, privbasis
from reproduction.stand_in_data import msnbc, stm_like_concentrated, stm_like_diffuse
from simulation.populations import shared_data
from tacit.encoders.kmeans import Floats
from tacit.records.items import Ints, Transactions

EPSILONS: Final = ("0.5", "1", "2")
PAIRS: Final = 300
MEASURES: Final = (
    "error of items",
    "error of common items",
    "error of common pairs",
    "+ first 100 found",
)
"""Those that simple methods have, too."""
PRODUCT: Final = dict(zip(MEASURES, ("items", "items", "auto", "auto"), strict=True))
"""By measure, `auto` with the aim that a user would choose."""
TOP: Final = 100


def sets(runs: int) -> Iterator[Comparison]:
    """Mass, items, pairs and frequent itemsets: `auto`, each method, and what anybody tries
    first."""
    for name, data in populations().items():
        raw = deduplicated(itemsets(data, data.items, SequentialContext()), len(data.items))
        truth = Truth.of(data, Supports.of(raw, len(data.items)))
        for epsilon in EPSILONS:
            contenders: dict[str, Contender] = {
                kind: partial(released_sets, data, kind, epsilon=epsilon)
                for kind in ("auto", "rest", "diffpart+rest", "diffpart")
            }
            contenders["items"] = partial(released_sets, data, "auto", epsilon=epsilon, aim="items")
            contenders["items alone"] = partial(_items_alone, truth, float(epsilon))
            contenders["PrivBasis"] = partial(_privbasis, truth, float(epsilon))
            yield compare(
                f"{name}, {data.records:,} records, epsilon {epsilon}",
                contenders,
                runs,
                algorithm="set-valued",
                product=PRODUCT,
                simple=("items alone", "PrivBasis"),
            )


def populations() -> dict[str, Transactions]:
    """Fare-card-like records, dense ones and attributes; where the shared folder is there, also the
    candidates that voters of Wikipedia voted for, and the pages of MSNBC's visitors."""
    found = {
        "dense": dense(20_000, 50, 12),
        "attributes": attributes(8_000, 22),
        "STM-like, diffuse": stm_like_diffuse(100_000).dataset,
        "STM-like, concentrated": stm_like_concentrated(100_000).dataset,
    }
    folder = shared_data()
    visits = msnbc(folder)
    if folder is not None and visits is not None:
        found["votes"] = _votes(folder / "wiki-Vote.txt")
        pages = visits.dataset
        found["MSNBC"] = _once(pages, 100_000)
    return found


def dense(records: int, items: int, mean: float) -> Transactions:
    """Six kinds of records of about this many items; each kind prefers a third of the items."""
    generator = np.random.default_rng(1)
    preferred = generator.random((6, items)) < 0.3
    kinds = generator.integers(0, 6, records)
    sizes = np.clip(generator.poisson(mean, records), 1, items)
    weights = np.where(preferred, 4.0, 1.0) / np.sqrt(np.arange(1, items + 1))
    keys = np.log(weights)[kinds] + generator.gumbel(size=(records, items))
    order = np.argsort(-keys, axis=1)
    return _of_rows([np.sort(row[:size]) for row, size in zip(order, sizes, strict=True)], items)


def attributes(records: int, count: int) -> Transactions:
    """Like mushrooms: one value of each of so many attributes, by eight hidden species."""
    generator = np.random.default_rng(1)
    values = generator.integers(2, 9, count)
    starts = np.concatenate(([0], np.cumsum(values)))
    species = generator.choice(8, records, p=np.arange(8, 0, -1) / 36)
    columns = []
    for start, size in zip(starts.tolist(), values.tolist(), strict=False):
        law = generator.dirichlet(np.full(size, 0.35), 8).cumsum(axis=1)[species]
        chosen = (law < generator.random((records, 1))).sum(axis=1)
        columns.append(start + np.minimum(chosen, size - 1))
    return _of_rows(list(np.stack(columns, axis=1)), int(starts[-1]))


def _of_rows(rows: list[Ints], items: int) -> Transactions:
    offsets = np.concatenate(([0], np.cumsum([row.size for row in rows])))
    names = tuple(str(item) for item in range(items))
    return Transactions(names, np.concatenate(rows).astype(np.int32), offsets)


def _once(visits: Transactions, records: int) -> Transactions:
    """The first records, each page of a visit once."""
    offsets = visits.offsets[: records + 1]
    owner = np.repeat(np.arange(records), np.diff(offsets))
    size = len(visits.items)
    kept = np.unique(owner * size + visits.values[: offsets[-1]])
    starts = np.searchsorted(kept, np.arange(records + 1) * size)
    return Transactions(visits.items, (kept % size).astype(np.int32), starts)


def _votes(path: Path) -> Transactions:
    lines = [line.split() for line in path.read_text().splitlines() if not line.startswith("#")]
    voters, candidates = np.array(lines, np.int64).T
    order = np.argsort(voters, kind="stable")
    names, places = np.unique(candidates[order], return_inverse=True)
    sizes = np.unique(voters, return_counts=True)[1]
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    return Transactions(tuple(map(str, names.tolist())), places.astype(np.int32), offsets)


@dataclass(frozen=True, eq=False)
class Truth:
    """What peers are compared with: the sets, supports, the commonest pairs and itemsets."""

    sets: Itemsets
    records: int
    supports: Supports
    pairs: list[tuple[int, int]]
    top: list[Row]

    @classmethod
    def of(cls, data: Transactions, supports: Supports) -> Truth:
        held = itemsets(data, data.items, SequentialContext())
        top = most_frequent(supports, TOP)
        return cls(held, data.records, supports, common_pairs(supports), top)

    def figures(self, single: Floats, of_pair: Callable[[tuple[int, int]], float]) -> Figures:
        """Of noisy counts of items (universe,) and pairs."""
        true = self.supports.single
        common = np.argsort(-true, kind="stable")[:TOP]
        pairs = [
            np.array([each(pair) for pair in self.pairs], np.float64)
            for each in (self.supports.support, of_pair)
        ]
        return {
            "error of items": relative_errors([true], [single], self.records).mean[0],
            "error of common items": relative_errors([true[common]], [single[common]], 0).mean[0],
            "error of common pairs": relative_errors([pairs[0]], [pairs[1]], 0).mean[0],  # type: ignore[list-item]
        }

    def found(self, supports: Mapping[tuple[int, ...], float]) -> float:
        """The share of the true first 100 itemsets among those of these counts."""
        first = sorted(supports, key=lambda chosen: -supports[chosen])[:TOP]
        return len({chosen for chosen, _ in self.top} & set(first)) / TOP


def released_sets(
    data: Transactions,
    method: Any,
    seed: int,
    epsilon: str = "1",
    *,
    whole: bool = True,
    aim: Any = "balanced",
) -> Figures:
    """Counts of all items by items.csv, where a run has it; whole: with what takes long, pairs and
    frequent itemsets."""
    asked = SetParameters(
        epsilon=Fraction(epsilon), universe=data.items, method=method, fanout=12, aim=aim
    )
    found = run_sets(data, asked, "sound", SequentialContext(test_seed=seed))
    place = {item: number for number, item in enumerate(data.items)}
    lines = found.files[0].content.decode().splitlines()
    skip = lines[0].startswith("kind")
    rows: list[Row] = []
    for line in lines[1:]:
        count, _, items = line.split(",")[skip:]
        rows.append((tuple(sorted(place[item] for item in items.split())), int(count)))
    released = Weighted.of_rows(rows)
    lengths = np.diff(released.sets.offsets)
    counted = np.bincount(
        released.sets.places, np.repeat(released.weights, lengths), minlength=len(data.items)
    )
    true = np.bincount(data.values, minlength=len(data.items))
    common = np.argsort(-true, kind="stable")[:TOP]
    table = counted
    for file in found.files:
        if file.name == "items.csv":
            ends = [line.rsplit(",", 1)[1] for line in file.content.decode().splitlines()[1:]]
            table = np.array(ends, np.float64)
    figures = {
        "+ records kept": found.result["records"] / data.records,
        "error of items": relative_errors([true], [table], data.records).mean[0],
        "error of items in records": relative_errors([true], [counted], data.records).mean[0],
        "error of common items": relative_errors([true[common]], [counted[common]], 0).mean[0],
    }
    if whole:
        raw = deduplicated(itemsets(data, data.items, SequentialContext()), len(data.items))
        held = [Supports.of(each, len(data.items)) for each in (raw, released)]
        pairs = common_pairs(held[0])
        answers = [np.array([each.support(pair) for pair in pairs]) for each in held]
        figures["error of common pairs"] = relative_errors(answers[:1], answers[1:], 0).mean[0]
        tops = [most_frequent(each, TOP) for each in held]
        figures["+ utility of the first 100"] = mining_utility(*tops) or 0.0
        figures["+ first 100 found"] = precision(*tops) or 0.0
    return figures


def common_pairs(supports: Supports) -> list[tuple[int, int]]:
    """The most frequent pairs of the 60 most frequent items."""
    items = np.sort(np.argsort(-supports.single, kind="stable")[:60]).tolist()
    pairs = list(combinations(items, 2))
    return sorted(pairs, key=lambda pair: -supports.support(pair))[:PAIRS]


def _items_alone(truth: Truth, epsilon: float, seed: int) -> Figures:
    """Noisy counts of items; pairs as if items were independent."""
    items = truth.supports.single.size
    counts = item_counts(truth.sets, items, epsilon, seed)
    records = max(truth.sets.count, 1)
    figures = truth.figures(counts, lambda pair: counts[pair[0]] * counts[pair[1]] / records)
    singles: dict[tuple[int, ...], float] = {
        (item,): float(count) for item, count in enumerate(counts.tolist())
    }
    return {**figures, "+ first 100 found": truth.found(singles)}


def _privbasis(truth: Truth, epsilon: float, seed: int) -> Figures:
    """Sets of the 12 commonest items; other pairs as if items were independent."""
    counts, known = privbasis(truth.sets, truth.supports.single.size, epsilon, seed)
    records = max(truth.sets.count, 1)

    def of_pair(pair: tuple[int, int]) -> float:
        return known.get(pair, float(counts[pair[0]] * counts[pair[1]] / records))

    return {**truth.figures(counts, of_pair), "+ first 100 found": truth.found(known)}
