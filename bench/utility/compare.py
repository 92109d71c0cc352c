"""Contenders side by side: their figures, ratios of means with a standard error, CPU seconds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

import numpy as np

from tacit.encoders.kmeans import Floats

Figures = dict[str, float]
"""By measure; a name that begins with + is better when larger."""


Contender = Callable[[int], Figures]
"""A method: its figures for a seed; fewer of them where it does not give all."""


def compare(case: str, contenders: Mapping[str, Contender], runs: int) -> None:
    """All contenders on one data set and epsilon, measure by measure."""
    found: dict[str, list[Figures]] = {}
    taken: dict[str, float] = {}
    for name, contender in contenders.items():
        start = time.process_time()
        found[name] = [contender(seed) for seed in range(runs)]
        taken[name] = (time.process_time() - start) / runs
    leading = next(iter(found.values()))
    for measure in leading[0]:
        print(f"\n{case}, {measure}", flush=True)
        first = np.array([figures[measure] for figures in leading])
        for name, figures in found.items():
            values = np.array([each[measure] for each in figures if measure in each])
            if not values.size:
                continue
            ratio, error = ratio_of_means(values, first)
            print(
                f"  {name:<24}{values.mean():10.4f}  median {np.median(values):10.4f}  sd "
                f"{values.std():9.4f}  x {ratio:7.3f} +- {error:6.3f}  {taken[name]:7.2f} s CPU",
                flush=True,
            )


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
