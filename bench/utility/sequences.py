"""Items, pairs and the number of released sequences, beside item counts alone and Markov models."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Outcome, SequentialContext
from algorithms.sequential_ngram import Parameters as SequenceParameters
from algorithms.sequential_ngram import run as run_sequences
from algorithms.sequential_prefix_tree import Parameters as PrefixParameters
from algorithms.sequential_prefix_tree import run as run_prefixes
from bench.utility.compare import Comparison, Contender, Figures, compare
from bench.utility.simple_peers import gram_item_counts, markov
from reproduction.stand_in_data import msnbc
from simulation.populations import shared_data
from tacit.encoders.kmeans import Floats
from tacit.records.items import Ints, Sequences

MEASURES: Final = ("error of items", "error of common items", "error of common pairs")
PRODUCT: Final = dict(zip(MEASURES, ("items", "items", "by default"), strict=True))
"""By measure, the default with the aim that a user would choose."""
_LONGEST: Final = 100
_MARKOV_ITEMS: Final = 60
"""Above, a model of second order has too many cells."""


def long_tail(items: int, count: int) -> Sequences:
    """Sequences of four items, some far more common than others."""
    generator = np.random.default_rng(1)
    weights = 1 / np.arange(1, items + 1) ** 0.8
    drawn = generator.choice(items, 4 * count, p=weights / weights.sum()).astype(np.int32)
    names = tuple(str(item) for item in range(1, items + 1))
    return Sequences(names, drawn, np.arange(0, 4 * count + 1, 4))


def sequences(runs: int) -> Iterator[Comparison]:
    """Counts of items and pairs, and how many sequences: by default, with the aim items, with a
    given l_max of 20 without and with the root's threshold, the prefix tree, and what anybody
    tries first."""
    cases = {"long tail": long_tail(500, 20_000), "few and long": chains(730, 267, 52)}
    visits = msnbc(shared_data())
    if visits is not None:
        starts = visits.dataset.offsets[:60_001]
        universe = tuple(str(item) for item in range(1, 18))
        cases["MSNBC"] = Sequences(universe, visits.dataset.values[: starts[-1]], starts)
    for name, data in cases.items():
        for epsilon in ("0.5", "1", "2"):
            contenders: dict[str, Contender] = {
                "by default": partial(released_sequences, data, None, epsilon=epsilon, l_max=None),
                "items": partial(
                    released_sequences, data, None, epsilon=epsilon, l_max=None, aim="items"
                ),
            }
            for kind in ("threshold", "all"):
                contenders[kind] = partial(released_sequences, data, kind, epsilon=epsilon)
            contenders["prefix tree"] = partial(_prefixes, data, epsilon)
            contenders["items alone"] = partial(_items_alone, data, float(epsilon))
            orders = (1, 2) if len(data.universe) <= _MARKOV_ITEMS else (1,)
            for order in orders:
                contenders[f"Markov, order {order}"] = partial(_markov, data, float(epsilon), order)
            yield compare(
                f"{name}, {data.count:,} sequences, epsilon {epsilon}",
                contenders,
                runs,
                algorithm="sequential-ngram",
                product=PRODUCT,
                simple=("items alone", *(f"Markov, order {order}" for order in orders)),
            )


def chains(count: int, items: int, mean: float) -> Sequences:
    """Walks that often take one of six steps; lengths are lognormal."""
    generator = np.random.default_rng(1)
    lengths = np.clip(np.rint(generator.lognormal(np.log(mean), 0.4, count)), 1, 200).astype(int)
    bounds = np.cumsum(1 / np.arange(1, items + 1))
    steps = np.searchsorted(bounds, generator.random((items, 6)) * bounds[-1])
    walk = np.zeros((count, int(lengths.max())), np.int64)
    for place in range(walk.shape[1]):
        anywhere = np.searchsorted(bounds, generator.random(count) * bounds[-1])
        near = steps[walk[:, place - 1], generator.integers(0, 6, count)]
        fresh = generator.random(count) < (0.4 if place else 1.0)
        walk[:, place] = np.where(fresh, anywhere, near)
    drawn = walk[np.arange(walk.shape[1]) < lengths[:, None]].astype(np.int32)
    names = tuple(str(item) for item in range(1, items + 1))
    return Sequences(names, drawn, np.concatenate(([0], np.cumsum(lengths))))


def released_sequences(
    data: Sequences,
    kind: Any,
    seed: int,
    epsilon: str = "1",
    l_max: int | None = 20,
    aim: Any = "balanced",
) -> Figures:
    items = len(data.universe)
    asked = SequenceParameters(
        epsilon=Fraction(epsilon),
        universe=items,
        root=kind,
        max_nodes=50_000_000,
        l_max=l_max,
        aim=aim,
    )
    found = run_sequences(data, asked, "sound", SequentialContext(test_seed=seed))
    return _counted(data, found)


def _prefixes(data: Sequences, epsilon: str, seed: int) -> Figures:
    asked = PrefixParameters(epsilon=Fraction(epsilon), universe=len(data.universe))
    return _counted(data, run_prefixes(data, asked, "sound", SequentialContext(test_seed=seed)))


def _items_alone(data: Sequences, epsilon: float, seed: int) -> Figures:
    return item_figures(data, gram_item_counts(data, _LONGEST, epsilon, seed))


def _markov(data: Sequences, epsilon: float, order: int, seed: int) -> Figures:
    drawn = markov(data, _LONGEST, epsilon, seed, order)
    sequences = drawn.starts.size - 1
    weights = np.ones(sequences)
    return figures_of(data, drawn.items, drawn.starts, weights)


def item_figures(data: Sequences, counted: Floats) -> Figures:
    """Errors of counts of items (universe,), of all and of the 100 commonest."""
    true = np.bincount(data.items, minlength=len(data.universe))
    error = np.abs(counted - true) / np.maximum(true, 1)
    return {
        "error of items": float(error.mean()),
        "error of common items": float(error[np.argsort(-true, kind="stable")[:100]].mean()),
    }


def figures_of(data: Sequences, items: Ints, starts: Ints, weights: Floats) -> Figures:
    """Of synthetic sequences, each as often as its weight (n,)."""
    size = len(data.universe)
    lengths = np.diff(starts)
    counted = np.bincount(items, np.repeat(weights, lengths), minlength=size).astype(np.float64)
    true = _pairs(data.items, data.starts, np.ones(data.count), size)
    found = _pairs(items, starts, weights, size)
    common = np.argsort(-true, kind="stable")[:100]
    return {
        **item_figures(data, counted),
        "error of common pairs": float(np.mean(np.abs(found - true)[common] / true[common])),
        "sequences over the true": float(weights.sum()) / data.count,
    }


def _pairs(items: NDArray[np.integer], starts: Ints, weights: Floats, size: int) -> Floats:
    """How often each item follows each other one (size^2,)."""
    inside = np.ones(max(items.size - 1, 0), np.bool_)
    inside[starts[1:-1] - 1] = False
    keys = items[:-1].astype(np.int64) * size + items[1:]
    owner = np.repeat(weights, np.diff(starts))[:-1]
    return np.bincount(keys[inside], owner[inside], minlength=size * size).astype(np.float64)


def _counted(data: Sequences, found: Outcome) -> Figures:
    items, lengths, weights = [np.zeros(0, np.int64)], [], []
    for line in found.files[0].content.decode().splitlines()[1:]:
        count, length, names = line.split(",")
        items.append(np.array(names.split(), np.int64) - 1)
        lengths.append(int(length))
        weights.append(float(count))
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    return figures_of(data, np.concatenate(items), starts, np.array(weights))
