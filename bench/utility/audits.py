"""Audits of the better methods: what 100,000 runs on two neighbours prove, beside what is said.

Each run is the code of a release up to its last noisy value. An outcome is summed up by the log
ratio of its chances under both inputs, and `bench.audit.proven` turns how often levels of it are
reached into a bound on epsilon that holds but for chance 10^-6. A control is the same with a
planted fault: its bound has to lie above epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np

from algorithms.contract import SequentialContext
from algorithms.datasets.edge_list import EdgeList
from algorithms.graph_der.parameters import BLOCK_SHARES
from algorithms.graph_der.regions import BlockPlan, measure
from algorithms.graph_random_matrix.flipping import Flip, flipped, packed, pairs_of
from algorithms.kmeans.plan import TwoLevel
from algorithms.kmeans.sound_run import noise
from algorithms.sequential_prefix_tree import Parameters as PrefixParameters
from algorithms.sequential_prefix_tree.counts import Tree, grow
from algorithms.sequential_prefix_tree.parameters import Settings as PrefixSettings
from algorithms.sequential_prefix_tree.parameters import resolved
from algorithms.set_valued.margins import (
    FOR_ITEMS,
    WITH_BASIS,
    WITH_DIFFPART,
    Shares,
    measured_lengths,
    measured_margins,
)
from algorithms.set_valued.records import Itemsets
from bench.audit import Counted
from bench.utility.compare import Comparison
from tacit.encoders.crowd_tasking_bounded import Subset, best_window
from tacit.encoders.kmeans import Floats, Histogram
from tacit.encoders.set_valued_counts import pair_count
from tacit.randomness import SeededRandom
from tacit.records.items import Sequences

RUNS: Final = 100_000
LEVELS: Final = 31

Ratios = Callable[[bool, int], Floats]
"""With the record or without it, and how often: (runs,) log ratios of what came out."""


@dataclass(frozen=True)
class Case:
    """A method and two neighbours. epsilon: what they lose at most; faulty: a fault is planted."""

    name: str
    epsilon: Fraction
    ratios: Ratios
    faulty: bool = False


def audits(runs: int) -> Iterator[Comparison]:
    """What is proved of each; `runs`: of tens of thousands."""
    lines = [f"{'':<44}{'epsilon':>8}{'proved':>8}"]
    for case in cases():
        found = audited(case, runs * RUNS // 10).proves(None)
        lines.append(f"{case.name:<44}{float(case.epsilon):8.3f}{found.epsilon:8.3f}")
    yield Comparison(tuple(lines))


def audited(case: Case, runs: int) -> Counted:
    """How often each level was reached with the record and without it."""
    reach = 1.3 * float(case.epsilon)
    levels = np.linspace(-reach, reach, LEVELS) - 1e-9
    names = tuple(f"log ratio >= {level:.3g}" for level in levels)
    hits = []
    for there in (True, False):
        seen = np.sort(case.ratios(there, runs))
        reached = runs - np.searchsorted(seen, levels, side="left")
        hits.append(np.concatenate((reached, runs - reached)))
    return Counted((*names, *(f"not: {name}" for name in names)), hits[0], hits[1], runs)


def cases() -> Iterator[Case]:
    """Every method, and faults that an audit of so many runs finds."""
    one = Fraction(1)
    for faulty in (False, True):
        said = " (control: degrees at half their scale)" if faulty else ""
        plan = (HalvedDegrees if faulty else BlockPlan)(12, one, BLOCK_SHARES["balanced"], 1, 4_000)
        yield Case(f"blocks{said}", one, BlockRatios(plan), faulty)
    plan = BlockPlan(12, one, BLOCK_SHARES["degrees"], 1, 4_000)
    yield Case("blocks, degrees alone", one, BlockRatios(plan))
    yield Case("blocks, sorted degrees", one, _sorted_degrees)
    yield Case("flip", one, _flip)
    said = " (control: both ends flip)"
    yield Case(f"flip{said}", one, _flip_twice, True)
    yield Case("two-level", one, _two_level)
    spent = Fraction(3)
    margins = spent * (1 - WITH_DIFFPART.diffpart)
    yield Case("diffpart+rest, lengths and items", margins, partial(_margins, WITH_DIFFPART))
    said = "rest, aim items"
    yield Case(said, spent, partial(_margins, FOR_ITEMS))
    halved = replace(FOR_ITEMS, items=2 * FOR_ITEMS.items)
    yield Case(f"{said} (control: half their scale)", spent, partial(_margins, halved), True)
    shares = replace(WITH_BASIS, k=2)
    yield Case("rest, lengths, items and cells", spent, partial(_margins, shares))
    said = "rest (control: cells at half their scale)"
    halved = replace(shares, basis=2 * shares.basis)
    yield Case(said, spent, partial(_margins, halved), True)
    shares = replace(WITH_BASIS, k=0, pairs=4)
    yield Case("rest, lengths, items and pairs", spent, partial(_margins, shares))
    halved = replace(shares, basis=2 * shares.basis)
    yield Case("rest (control: pairs at half their scale)", spent, partial(_margins, halved), True)
    yield Case("timestamps", one, _timestamps)
    said = "timestamps (control: a reading counts in the next interval too)"
    yield Case(said, one, partial(_timestamps, twice=True), True)
    yield Case("window", one, _window)
    yield Case("subset", one, _subset)


class HalvedDegrees(BlockPlan):
    """A planted fault."""

    def scale(self, query: int) -> Fraction:
        """Half of it for the degrees."""
        return super().scale(query) / (2 if query == 1 else 1)


def _ratio(seen: float, without: int, scale: Fraction) -> float:
    """Of Laplace noise on a count that the record raises by one."""
    return (abs(seen - without) - abs(seen - without - 1)) / float(scale)


@dataclass(frozen=True)
class BlockRatios:
    """An edge between two hubs, alone in its cell."""

    plan: BlockPlan

    def __call__(self, there: bool, runs: int) -> Floats:
        edges = [*((0, other) for other in range(2, 7)), *((1, other) for other in range(7, 12))]
        low, high = np.array([*edges, *[(0, 1)] * there], np.int32).T
        first, second = np.array(edges, np.int32).T
        zero, one = np.zeros(1, np.int32), np.ones(1, np.int32)
        found = np.zeros(runs)
        for run in range(runs):
            seen = measure(low, high, self.plan, SequentialContext(test_seed=2 * run + there))
            assert seen.degrees is not None
            scale = self.plan.scale(1)
            found[run] = sum(_ratio(int(seen.degrees[hub]), 5, scale) for hub in (0, 1))
            if not self.plan.grid:
                continue
            cell = int(seen.fine.grid.place(zero, one)[0])
            part = int(seen.fine.place(zero, one)[0])
            counts = (
                int((seen.fine.grid.place(first, second) == cell).sum()),
                int((seen.fine.place(first, second) == part).sum()),
            )
            found[run] += (
                _ratio(max(seen.size, 1), len(edges), self.plan.scale(0))
                + _ratio(int(seen.coarse[cell]), counts[0], self.plan.scale(2))
                + _ratio(int(seen.parts[part]), counts[1], self.plan.scale(3))
            )
        return found


def _sorted_degrees(there: bool, runs: int) -> Floats:
    """An edge or none among twelve vertices: sorted, the last two places are 1 or 0."""
    shares = BLOCK_SHARES["degree_sequence"]
    plan = BlockPlan(12, Fraction(1), shares, 1, 4_000, sorted_degrees=True)
    low, high = np.array([(0, 1)] * there, np.int32).reshape(-1, 2).T
    found = np.zeros(runs)
    for run in range(runs):
        seen = measure(low, high, plan, SequentialContext(test_seed=2 * run + there)).degrees
        assert seen is not None
        found[run] = sum(_ratio(int(place), 0, plan.scale(1)) for place in seen[-2:])
    return found


def _flip(there: bool, runs: int) -> Floats:
    """All pairs of an empty or a full graph: each is a run of its own."""
    bits = _flipped_bits(there, runs, 1)
    return np.where(bits, 1.0, -1.0)


def _flip_twice(there: bool, runs: int) -> Floats:
    """A pair whose both ends flip it and send it."""
    one, other = (_flipped_bits(there, runs, seed) for seed in (1, 2))
    return np.where(one, 1.0, -1.0) + np.where(other, 1.0, -1.0)


def _flipped_bits(
    there: bool, runs: int, seed: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    vertices = 2
    while pairs_of(vertices) < runs:
        vertices += 1
    low, high = np.triu_indices(vertices, 1)
    kept = slice(None) if there else slice(0)
    graph = EdgeList.from_pairs(
        np.arange(vertices), low[kept].astype(np.int32), high[kept].astype(np.int32)
    )
    context = SequentialContext(test_seed=2 * seed + there)
    released = packed(flipped(graph, Flip.of(Fraction(1)), context))
    return np.unpackbits(released, bitorder="little")[:runs].astype(np.bool_)


def _two_level(there: bool, runs: int) -> Floats:
    """One record more or less in a coarse cell that stands at the threshold."""
    asked = TwoLevel(2, 2, 4, Fraction(2, 5), Fraction(3, 5), 1.0, 256)
    histogram, around = Histogram(4, 2, 8, asked.epsilon_coarse), 6
    rows = np.repeat([[-7, -7]], around + there, axis=0)
    cell = int(histogram.sums(rows).argmax())
    source = SeededRandom(5 + there)
    found = np.zeros(runs)
    for run in range(runs):
        coarse = histogram.sums(rows) + noise(histogram, 1, source)
        fine = asked.fine(coarse, 8)
        exact = fine.sums(rows)
        parts = exact + noise(fine, 1, source)
        found[run] = _ratio(int(coarse[cell]), around, 1 / asked.epsilon_coarse)
        if exact.any():
            part = int(exact.argmax())
            found[run] += _ratio(int(parts[part]), around, 1 / asked.epsilon_fine)
    return found


def _margins(shares: Shares, there: bool, runs: int) -> Floats:
    """A record of exactly l items beside 400 of two others, epsilon 3, of which DiffPart's share is
    not spent; a basis of two items that the others lack, in a cell by itself, or all pairs of
    four."""
    others, epsilon = 400, Fraction(3)
    records = others + there
    places = np.array([2, 3] * others + [0, 1] * there, np.int32)
    sets = Itemsets(places, np.arange(records + 1) * 2)
    found = np.zeros(runs)
    for run in range(runs):
        context = SequentialContext(test_seed=2 * run + there)
        lengths = measured_lengths(sets, 4, epsilon, context, shares.lengths)
        seen = measured_margins(sets, 4, epsilon, context, lengths, shares)
        found[run] = _ratio(int(lengths.noisy[1]), others, 1 / (epsilon * shares.lengths))
        if seen.kept == 2:
            scale = seen.kept / (epsilon * shares.items)
            found[run] += sum(_ratio(int(seen.items[item]), 0, scale) for item in (0, 1))
        if seen.pairs is not None:  # of the pair (0, 1), which the others lack
            scale = pair_count(seen.pairs.kept) / (epsilon * shares.basis)
            found[run] += _ratio(int(seen.pairs.counts[0]), 0, scale)
        if seen.basis is not None:  # of items 2 and 3: the record is in the cell of neither
            found[run] += _ratio(int(seen.basis.cells[0]), 0, 1 / (epsilon * shares.basis))
    return found


def _timestamps(there: bool, runs: int, twice: bool = False) -> Floats:
    """A sequence of two readings beside twelve of the same intervals and twelve later ones."""
    asked = PrefixParameters.model_validate(
        {"universe": ("A", "B"), "epsilon": 1, "height": 2, "theta_item": 4}
        | {"timestamps": {"grain_s": 3_600, "universe": 2}}
    )
    names, chosen = resolved(asked, "sound")
    lists = [["A@5", "A@3700"]] * (12 + there) + [["A@3605", "A@3700"]] * (12 + (twice and there))
    readings = Sequences.of(("A@5", "A@3700", "A@3605"), lists).over(names)
    paths = ((0,), (0, 2), (2,), (2, 2)) if twice else ((0,), (0, 2))
    found = np.zeros(runs)
    for run in range(runs):
        tree = grow(readings, chosen, SequentialContext(test_seed=2 * run + there)).tree
        found[run] = sum(_node_ratio(tree, path, 12, chosen) for path in paths)
    return found


def _node_ratio(tree: Tree, path: tuple[int, ...], without: int, chosen: PrefixSettings) -> float:
    """Of one node: of its count, or of its absence where it was asked for."""
    place = 0
    for depth, item in enumerate(path, start=1):
        level = tree.levels[depth - 1] if depth <= len(tree.levels) else None
        there = (
            np.zeros(0, np.int64)
            if level is None
            else np.flatnonzero((level.items == item) & (level.parents == place))
        )
        if not there.size:
            if depth < len(path):
                return 0.0
            most = round(chosen.item_test.threshold) - 1 - without
            rate = float(chosen.item_test.rate)
            return math.log(_at_most(most - 1, rate) / _at_most(most, rate))
        place = int(there[0])
    assert level is not None
    return _ratio(int(level.counts[place]), without, 1 / chosen.item_test.rate)


def _at_most(value: int, rate: float) -> float:
    """The chance that discrete Laplace noise is no larger."""
    decay = math.exp(-rate)
    if value < 0:
        return decay**-value / (1 + decay)
    return 1 - decay ** (value + 1) / (1 + decay)


def _window(there: bool, runs: int) -> Floats:
    """The two ends of the range."""
    law = best_window(Fraction(1))
    end = law.largest if there else -law.largest
    reports, windowed = law.reports(np.full(runs, end), SeededRandom(3 + there))
    near = [np.abs(reports - sign * law.largest) <= law.reach for sign in (1, -1)]
    inside = near[0].astype(np.float64) - near[1]
    return np.where(windowed, inside, reports)


def _subset(there: bool, runs: int) -> Floats:
    """Two buckets of twenty."""
    law = Subset.of(Fraction(1), 20)
    reports = law.reports(np.full(runs, int(not there)), SeededRandom(7 + there))
    return reports[:, 0].astype(np.float64) - reports[:, 1]
