"""Count queries with and without time: the prefix tree over places, and over places at times.

Generated fare-card trips over 68 stations in 4 lines, with times: a start in one of two peaks of a
day, then the same hour, the next or the one after for each reading. Without time a query is a set
of stations, and the tree over places at times answers by dropping its times. With time it is a set
of stations in hours of the day; to the plain tree all hours are alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np

from algorithms.contract import SequentialContext
from algorithms.sequential_prefix_tree import Parameters
from algorithms.sequential_prefix_tree.counts import publish
from algorithms.sequential_prefix_tree.evaluation import Answers, relative_error, workload
from algorithms.sequential_prefix_tree.parameters import Timestamps, resolved
from bench.utility.compare import Comparison, Figures, compare
from simulation.stand_in_data import StandIn, metro
from tacit.records.items import Sequences

HOURS: Final = 24
HEIGHT: Final = 6
QUERIES: Final = 2_000
_MOST: Final = 3
"""Stations of a query: workload's largest group has the whole of this."""


def timestamps(runs: int) -> Iterator[Comparison]:
    """By number of trips and epsilon."""
    for trips in (100_000, 800_000):
        stand_in = metro(trips)
        data = timed(stand_in, HOURS)
        for epsilon in ("1", "4"):
            yield compare(
                f"{trips:,} trips, {HOURS} hours, epsilon {epsilon}",
                {
                    "places": partial(_plain, stand_in, data, epsilon),
                    "places at times": partial(_timed, stand_in, data, epsilon),
                },
                runs,
            )


def timed(stand_in: StandIn, hours: int) -> Sequences:
    """The trips as places in hours, hour after hour; what lies beyond the day is in its last."""
    generator = np.random.default_rng(1)
    data = stand_in.dataset
    lengths = np.diff(data.starts)
    peak = np.where(generator.random(lengths.size) < 0.5, 8.0, 17.0)
    first = np.clip(generator.normal(peak, 2), 0, hours - 1).astype(np.int64)
    steps = np.cumsum(generator.choice(3, data.items.size, p=(0.5, 0.35, 0.15)))
    since = steps - np.repeat(steps[data.starts[:-1].clip(max=steps.size - 1)], lengths)
    hour = np.minimum(np.repeat(first, lengths) + since, hours - 1)
    names = Timestamps(grain_s=3_600, universe=hours).items(data.universe)
    items = (hour * len(data.universe) + data.items).astype(np.int32)
    return Sequences(names, items, data.starts)


def _released(data: Sequences, asked: Parameters, seed: int) -> tuple[Sequences, np.ndarray]:
    context = SequentialContext(test_seed=seed)
    return publish(data, resolved(asked, "sound")[1], context).synthetic(data.universe)


def _plain(stand_in: StandIn, data: Sequences, epsilon: str, seed: int) -> Figures:
    places = stand_in.dataset
    asked = Parameters(
        universe=places.universe,
        taxonomy=stand_in.taxonomy,
        epsilon=Fraction(epsilon),
        height=HEIGHT,
    )
    synthetic, copies = _released(places, asked, seed)
    size = len(places.universe)
    answers = Answers(synthetic, copies, SequentialContext())
    figures = {"error without time": _error(places, answers, size)}
    queries = workload(len(data.universe), _MOST, QUERIES, 1)[-1]
    truth = Answers(data, None, SequentialContext()).of(queries)
    without = answers.of([tuple({item % size for item in query}) for query in queries])
    evenly = without / np.power(float(HOURS), [len(query) for query in queries])
    figures["error with time"] = relative_error(truth, evenly.astype(np.int64), data.count)
    return figures


def _timed(stand_in: StandIn, data: Sequences, epsilon: str, seed: int) -> Figures:
    asked = Parameters(
        universe=stand_in.dataset.universe,
        taxonomy=stand_in.taxonomy,
        timestamps=Timestamps(grain_s=3_600, universe=HOURS),
        epsilon=Fraction(epsilon),
        height=HEIGHT,
    )
    synthetic, copies = _released(data, asked, seed)
    places = stand_in.dataset
    size = len(places.universe)
    dropped = Sequences(places.universe, synthetic.items % size, synthetic.starts)
    context = SequentialContext()
    return {
        "error without time": _error(places, Answers(dropped, copies, context), size),
        "error with time": _error(data, Answers(synthetic, copies, context), len(data.universe)),
    }


def _error(truth: Sequences, answers: Answers, items: int) -> float:
    queries = workload(items, _MOST, QUERIES, 1)[-1]
    true = Answers(truth, None, SequentialContext()).of(queries)
    return relative_error(true, answers.of(queries), truth.count)
