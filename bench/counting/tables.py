"""The tables of the plan, with its own figures.

Spec: federated-counting, section 8. R: whole draws of noise in a sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import numpy as np

from bench.counting.curators import ALWAYS_HERE, Curators, chosen, split
from bench.counting.quality import UNLIMITED, Baskets, Clicks, Quality
from bench.counting.shown import Row, Table
from reproduction.stand_in_data import stm_like_concentrated
from tacit.encoders import sequential_ngram_counts, sequential_prefix_tree_counts, set_valued_counts
from tacit.encoders.counts import Counter, Lists
from tacit.randomness import SeededRandom
from tacit.records.items import Sequences, Transactions

CURATORS: Final = 10
FEDERATED_CELLS: Final = 4_096
STATIONS_RECORDS: Final = 200_000
SOME: Final = 100
MANY: Final = 10_000

Plan = Mapping[str, Sequence[float]]


def _plan(words: Sequence[float], patterns: Sequence[float], loss: float, error: float) -> Plan:
    return {"words": words, "TP": patterns, "loss": (loss,), "error": (error,)}


NGRAMS: Final[Mapping[tuple[str, str, str], Plan]] = {
    ("1", "uniform", "1"): _plan((17, 306, 4314, 18114, 34614), (100, 100, 100), 0.005, 8.9),
    ("1", "uniform", "3/2"): {},
    ("1", "uniform", "3"): _plan((17, 306, 4104, 14160, 25362), (100, 100, 99.3), 0.009, 10.0),
    ("1", "adaptive", "1"): _plan((17, 306, 4320, 18108, 23880), (100, 100, 100), 0.005, 8.6),
    ("1", "adaptive", "3"): _plan((17, 306, 4080, 14010, 15582), (100, 100, 100), 0.009, 10.1),
    ("0.1", "uniform", "1"): _plan((17, 306, 2520, 5154, 7296), (100, 97.8, 95.3), 0.052, 16.1),
    ("0.1", "uniform", "3/2"): {},
    ("0.1", "uniform", "3"): _plan((17, 306, 1854, 3600, 4548), (96.7, 96.1, 92.0), 0.082, 20.5),
    ("0.1", "adaptive", "1"): _plan((17, 306, 2748, 4308, 2976), (100, 98.9, 96.0), 0.052, 15.8),
    ("0.1", "adaptive", "3"): _plan((17, 306, 2178, 3084, 1584), (100, 97.2, 92.7), 0.087, 17.6),
}
LIMITS: Final = {
    UNLIMITED: (44_369, 99, 10.1),
    8_192: (20_834, 99, 9.8),
    4_096: (12_581, 99, 10.1),
    1_024: (3_347, 99.5, 11.5),
}
UNIT_CURATOR: Final = {(100, 100): (0, 0), (MANY, 1): (100, 58), (MANY, 5): (90, 56),
                       (MANY, 20): (90, 56)}  # fmt: skip
DROPOUTS: Final = {0.0: (95.5, 0.050), 0.02: (94.5, 0.063), 0.05: (93.5, 0.086),
                   0.2: (94.5, 0.236)}  # fmt: skip
TREES: Final[Mapping[tuple[str, int, str, int], tuple[float, float | None, float, float]]] = {
    ("1", 0, "1", UNLIMITED): (175_805, 30_107, 18.4, 92),
    ("1", 0, "3", UNLIMITED): (118_303, 21_080, 19.2, 92),
    ("1", 0, "3", 16_384): (104_278, None, 19.3, 92),
    ("1", 0, "3", 4_096): (38_012, None, 22.4, 92),
    ("1", 5, "1", UNLIMITED): (15_137, 1_996, 25.4, 92),
    ("1", 5, "3", UNLIMITED): (10_738, None, 26.4, 91.5),
    ("0.1", 0, "1", UNLIMITED): (29_053, 6_494, 23.6, 90.5),
    ("0.1", 0, "3", UNLIMITED): (18_581, None, 24.9, 89),
    ("0.1", 5, "1", UNLIMITED): (2_985, None, 30.5, 86.5),
    ("0.1", 5, "3", UNLIMITED): (2_095, None, 31.8, 84.5),
}
"""epsilon, size of groups, R, cells: words in total, of the longest round, error, TP at 100."""
KEPT_TREES: Final = {"1": (18.4, 92.0), "0.1": (23.6, 90.0)}
HEIGHTS: Final = {"1": 12, "0.1": 8}
CLICK_SETS: Final = {
    ("1", "1"): (36_212, 34_036, 1.67, (0.210, 0.091, 0.053), 0.80),
    ("1", "3"): (29_862, None, 1.67, (0.246, 0.112, 0.068), 0.77),
    ("0.1", "1"): (9_161, None, 0.167, (0.433, 0.217, 0.130), 0.54),
    ("0.1", "3"): (8_272, None, 0.167, (0.454, 0.225, 0.133), 0.50),
}
KEPT_SETS: Final = {
    "1": ((0.211, 0.091, 0.053), 0.80),
    "0.1": ((0.433, 0.218, 0.130), 0.53),
}
STATIONS: Final = {
    ("1", "1"): (572_886, 127_875, 7.58, (0.057, 0.012, 0.010), 0.44),
    ("1", "3"): (309_972, None, 6.04, (0.061, 0.012, 0.010), 0.38),
}
KEPT_STATIONS: Final = {"1": ((0.058, 0.012, 0.010), 0.44)}


@dataclass(frozen=True, eq=False)
class Tables:
    """Of a data set of sequences; quick: a tenth of the generated one, too."""

    clicks: Clicks
    quick: bool

    def named(self) -> tuple[Table, ...]:
        """All, in the plan's order."""
        return (
            self._equal(),
            self._ngrams(),
            self._limits(),
            self._unit_curator(),
            self._dropouts(),
            self._trees(),
            self._click_sets(),
            self._stations(),
        )

    @property
    def _lists(self) -> Lists:
        return self.clicks.data.lists

    @cached_property
    def _parts(self) -> list[Lists]:
        return split(self._lists, CURATORS)

    def _grams_of(
        self,
        seed: int,
        parts: list[Lists],
        epsilon: str,
        budget: str = "uniform",
        draws: str = "1",
        max_cells: int = UNLIMITED,
        missing: float = ALWAYS_HERE,
    ) -> Quality:
        source = _source(sequential_ngram_counts.COUNTER, parts, draws, epsilon, seed, missing)
        return self.clicks.ngrams(source, seed, epsilon, budget, max_cells)

    def _equal(self) -> Table:
        """1, 100 and 10,000 curators with the same noise, and how many of the opened counts are not
        those of one."""

        def run(seed: int) -> Quality:
            found = {}
            for curators in (1, SOME, MANY):
                source = _source(
                    sequential_ngram_counts.COUNTER, split(self._lists, curators), "1", "1", seed
                )
                self.clicks.ngrams(source, seed, "1", "adaptive", FEDERATED_CELLS)
                found[curators] = source
            first = np.concatenate(found[1].totals)
            others = [np.concatenate(each.totals) for each in found.values()]
            unequal = [
                float(np.count_nonzero(first != each)) if first.size == each.size else first.size
                for each in others[1:]
            ]
            return {
                "unequal": tuple(unequal),
                "words": tuple(map(float, found[1].words)),
                "dropped": tuple(float(each.dropped) for each in found.values()),
            }

        title = "The same noise, n-grams, adaptive, epsilon 1: 1, 100 and 10,000 curators"
        row = Row(
            "opened counts of 100 and 10,000 that are not those of 1", run, {"unequal": (0, 0)}
        )
        return Table("equal", title, ("unequal", "words", "dropped"), (row,), once=True)

    def _ngrams(self) -> Table:
        rows = tuple(
            Row(
                f"epsilon {epsilon}, {budget}, R = {draws}",
                lambda seed, e=epsilon, b=budget, d=draws: self._grams_of(
                    seed, self._parts, e, b, d
                ),
                plan,
                f"epsilon {epsilon}",
            )
            for (epsilon, budget, draws), plan in NGRAMS.items()
        )
        title = "N-grams, l_max 20, n_max 5, no limit of cells; TP at K = 20, 60, 100"
        columns = ("words", "TP", "loss", "error", "rates", "spent", "dropped")
        return Table("n-grams", title, columns, rows)

    def _limits(self) -> Table:
        rows = tuple(
            Row(
                f"max_cells {'none' if cells == UNLIMITED else f'{cells:,}'}",
                lambda seed, c=cells: self._grams_of(seed, self._parts, "1", "uniform", "3", c),
                {"total": (words,), "TP100": (top,), "error": (error,)},
            )
            for cells, (words, top, error) in LIMITS.items()
        )
        title = "N-grams, epsilon 1, R = 3, uniform, by max_cells"
        columns = ("total", "TP", "TP100", "loss", "error", "kB", "spent", "dropped")
        return Table("max-cells", title, columns, rows)

    def _unit_curator(self) -> Table:
        """m records of each curator, noise m times: the same as epsilon / m for each of them."""

        def run(seed: int, curators: int, most: int) -> Quality:
            parts = [chosen(self._lists, curators, most, seed)]
            return self._grams_of(seed, parts, str(Fraction(1, most)))

        rows = tuple(
            Row(
                f"{curators:,} curators, m = {most}",
                lambda seed, c=curators, m=most: run(seed, c, m),
                {"TP20": (first,), "TP100": (last,)},
            )
            for (curators, most), (first, last) in UNIT_CURATOR.items()
        )
        title = "N-grams, unit curator, epsilon 1, R = 1, uniform"
        return Table("unit-curator", title, ("TP20", "TP100", "words"), rows)

    def _dropouts(self) -> Table:
        parts = split(self._lists, SOME)
        rows = tuple(
            Row(
                f"each round misses {100 * missing:.0f} %",
                lambda seed, m=missing: self._grams_of(seed, parts, "0.1", missing=m),
                {"TP100": (top,), "loss": (loss,)},
            )
            for missing, (top, loss) in DROPOUTS.items()
        )
        title = "N-grams, uniform, epsilon 0.1, R = 1, 100 curators of which rounds miss some"
        return Table("dropouts", title, ("TP", "TP100", "loss", "error"), rows)

    def _trees(self) -> Table:
        def run(seed: int, epsilon: str, group: int, draws: str, cells: int) -> Quality:
            more: dict[str, Any] = {"max_cells": cells, **({"fan_out": group} if group else {})}
            source = _source(
                sequential_prefix_tree_counts.COUNTER, self._parts, draws, epsilon, seed
            )
            return self.clicks.tree(source, seed, epsilon, HEIGHTS[epsilon], **more)

        rows = [
            Row(
                f"one keeper, simple, epsilon {epsilon}",
                lambda seed, e=epsilon: self.clicks.kept_tree(e, HEIGHTS[e], seed),
                {"error": (error,), "TP100": (top,)},
                f"epsilon {epsilon}",
            )
            for epsilon, (error, top) in KEPT_TREES.items()
        ]
        for (epsilon, group, draws, cells), (words, longest, error, top) in TREES.items():
            plan: dict[str, Sequence[float]] = {
                "total": (words,),
                "error": (error,),
                "TP100": (top,),
                "rounds": (HEIGHTS[epsilon] * (2 if group else 1),),
            }
            if longest is not None:
                plan["longest"] = (longest,)
            form = f"hybrid, groups of {group}" if group else "simple"
            limit = "" if cells == UNLIMITED else f", max_cells {cells:,}"
            rows.append(
                Row(
                    f"{form}, epsilon {epsilon}, R = {draws}{limit}",
                    lambda seed, e=epsilon, g=group, d=draws, c=cells: run(seed, e, g, d, c),
                    plan,
                    f"epsilon {epsilon}",
                )
            )
        title = "Prefix tree, height 12 at epsilon 1, 8 at 0.1"
        columns = (
            *("rounds", "total", "longest", "error", "TP", "TP100", "nodes"),
            *("rates", "kB", "spent", "dropped"),
        )
        return Table("prefix-tree", title, columns, tuple(rows))

    def _click_sets(self) -> Table:
        data: Sequences = self.clicks.data
        baskets = Baskets(Transactions(data.universe, data.items, data.starts))
        return _sets("diffpart", "DiffPart, MSNBC as sets", baskets, CLICK_SETS, KEPT_SETS)

    def _stations(self) -> Table:
        data = stm_like_concentrated(STATIONS_RECORDS // (10 if self.quick else 1))
        baskets = Baskets(data.dataset)
        title = f"DiffPart, {data.name}, {data.dataset.records:,} records, 1,012 items"
        return _sets("stations", title, baskets, STATIONS, KEPT_STATIONS)


def _source(
    counter: Counter,
    parts: list[Lists],
    draws: str,
    epsilon: str,
    seed: int,
    missing: float = ALWAYS_HERE,
) -> Curators:
    away = np.random.default_rng(seed)
    noise = SeededRandom(7 + seed)
    return Curators(counter, parts, Fraction(draws), Fraction(epsilon), noise, missing, away)


def _sets(
    key: str,
    title: str,
    baskets: Baskets,
    planned: Mapping[tuple[str, str], Any],
    kept: Mapping[str, Any],
) -> Table:
    data = baskets.data
    parts = split(Lists(data.values, data.offsets), CURATORS)

    def run(seed: int, epsilon: str, draws: str) -> Quality:
        source = _source(set_valued_counts.COUNTER, parts, draws, epsilon, seed)
        return baskets.diffpart(source, seed, epsilon)

    rows = [
        Row(
            f"one keeper, epsilon {epsilon}",
            lambda seed, e=epsilon: baskets.kept(e, seed),
            {"errors": errors, "itemsets": (utility,)},
            f"epsilon {epsilon}",
        )
        for epsilon, (errors, utility) in kept.items()
    ]
    for (epsilon, draws), (words, longest, rates, errors, utility) in planned.items():
        plan: dict[str, Sequence[float]] = {
            "total": (words,),
            "rates": (rates,),
            "errors": errors,
            "itemsets": (utility,),
        }
        if longest is not None:
            plan["longest"] = (longest,)
        rows.append(
            Row(
                f"epsilon {epsilon}, R = {draws}",
                lambda seed, e=epsilon, d=draws: run(seed, e, d),
                plan,
                f"epsilon {epsilon}",
            )
        )
    columns = (
        *("rounds", "total", "longest", "rates", "errors", "itemsets"),
        *("rows", "kB", "spent", "dropped"),
    )
    return Table(key, f"{title}, fan-out 10", columns, tuple(rows))
