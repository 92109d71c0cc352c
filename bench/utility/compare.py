"""Contenders side by side: their figures, ratios of means with a standard error, CPU seconds."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from tacit.encoders.kmeans import Floats

Figures = dict[str, float]
"""By measure; a name that begins with + is better when larger."""


Contender = Callable[[int], Figures]
"""A method: its figures for a seed; fewer of them where it does not give all."""


@dataclass(frozen=True)
class Ratio:
    """Of the product's mean to that of the best simple method, by one measure; above 1 is worse.
    Of a measure that is better when larger it is the inverse."""

    algorithm: str
    case: str
    measure: str
    product: str
    simple: str
    ratio: float

    def __str__(self) -> str:
        return (
            f"{self.algorithm:<22}{self.ratio:7.3f}  {self.case}, {self.measure}: "
            f"{self.product} / {self.simple}"
        )


@dataclass(frozen=True)
class Comparison:
    """A case: the lines that show all contenders, and the product's ratios to simple methods."""

    lines: tuple[str, ...]
    ratios: tuple[Ratio, ...] = ()


def compare(
    case: str,
    contenders: Mapping[str, Contender],
    runs: int,
    *,
    algorithm: str = "",
    product: Mapping[str, str] | None = None,
    simple: Iterable[str] = (),
) -> Comparison:
    """All contenders on one data set and epsilon, measure by measure. product: by measure, the
    contender that a user with this aim would choose; simple: what it is measured against."""
    print(case, file=sys.stderr, flush=True)
    figures: dict[str, list[Figures]] = {}
    taken: dict[str, float] = {}
    for name, contender in contenders.items():
        start = time.process_time()
        figures[name] = [contender(seed) for seed in range(runs)]
        taken[name] = (time.process_time() - start) / runs
    leading = next(iter(figures.values()))
    lines = []
    means: dict[str, dict[str, float]] = {}
    for measure in leading[0]:
        lines.append(f"\n{case}, {measure}")
        first = np.array([row[measure] for row in leading])
        for name, rows in figures.items():
            values = np.array([row[measure] for row in rows if measure in row])
            if not values.size:
                continue
            means.setdefault(measure, {})[name] = float(values.mean())
            ratio, error = ratio_of_means(values, first)
            lines.append(
                f"  {name:<24}{values.mean():10.4f}  median {np.median(values):10.4f}  sd "
                f"{values.std():9.4f}  x {ratio:7.3f} +- {error:6.3f}  {taken[name]:7.2f} s CPU"
            )
    ratios = tuple(
        _ratio(algorithm, case, measure, chosen, means[measure], simple)
        for measure, chosen in (product or {}).items()
    )
    return Comparison(tuple(lines), ratios)


def _ratio(
    algorithm: str,
    case: str,
    measure: str,
    product: str,
    means: Mapping[str, float],
    simple: Iterable[str],
) -> Ratio:
    larger = measure.startswith("+")
    peers = {name: means[name] for name in simple if name in means}
    best = (max if larger else min)(peers, key=peers.__getitem__)
    above, under = means[product], peers[best]
    if larger:
        above, under = under, above
    ratio = above / under if under else math.inf if above else 1.0
    return Ratio(algorithm, case, measure, product, best, ratio)


def worst_first(ratios: Iterable[Ratio], most: float) -> list[str]:
    """Of each algorithm its worst ratio, falling; then all that are above `most`."""
    ordered = sorted(ratios, key=lambda each: -each.ratio)
    worst = {each.algorithm: each for each in reversed(ordered)}
    return [
        "worst ratio of each algorithm to the best simple method:",
        *map(str, sorted(worst.values(), key=lambda each: -each.ratio)),
        f"\nall ratios above {most} ({sum(each.ratio > most for each in ordered)} of "
        f"{len(ordered)}):",
        *(str(each) for each in ordered if each.ratio > most),
    ]


def ratio_of_means(values: Floats, first: Floats) -> tuple[float, float]:
    """The ratio of two means and its standard error, 0 where both are the same runs."""
    if not first.mean():
        return float("nan"), float("nan")
    ratio = float(values.mean() / first.mean())
    if values is first or np.array_equal(values, first):
        return ratio, 0.0
    parts = [
        each.std(ddof=1) / math.sqrt(each.size) / each.mean()
        for each in (values, first)
        if each.size > 1 and each.mean()
    ]
    return ratio, abs(ratio) * math.hypot(*parts)
