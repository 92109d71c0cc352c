"""Noise on the counts of an expansion: exact integers (sound), or floats as in the source (paper).

Spec: sequential-ngram, sections 3 and 4.8. The scale of a count is l_max over the budget of its
group. A run has few budgets, so the draws of one budget are made together.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Stance
from algorithms.sequential_ngram.tree import Expansion
from tacit.noise import DiscreteLaplace, floating_laplace
from tacit.randomness import NoiseSource, SeededRandom

DRAWS: Final = 1 << 19
"""Number of draws made together."""

Add = Callable[[NDArray[np.int64], Expansion, NoiseSource, Callable[[], None]], NDArray[Any]]
"""Counts (E, columns) with noise; the last argument is called a few times a second."""


def adder(l_max: int, stance: Stance) -> Add:
    """The noise of a stance."""

    def add(
        counts: NDArray[np.int64],
        expansion: Expansion,
        source: NoiseSource,
        beat: Callable[[], None],
    ) -> NDArray[Any]:
        drawn = _integers if stance == "sound" else _floats(source)
        noisy: NDArray[Any] = counts.astype(np.float64 if stance == "paper" else np.int64)
        budgets = [spend.budget for spend in expansion.spends]
        of_row = np.array([budgets.index(budget) for budget in budgets])[expansion.groups]
        for place in np.unique(of_row).tolist():
            rows = np.flatnonzero(of_row == place)
            scale = l_max / budgets[place]
            step = max(DRAWS // counts.shape[1], 1)
            for start in range(0, rows.size, step):
                beat()
                part = rows[start : start + step]
                shape = (part.size, counts.shape[1])
                noisy[part] += drawn(scale, shape[0] * shape[1], source).reshape(shape)
        return noisy

    return add


def no_noise(
    counts: NDArray[np.int64],
    _expansion: Expansion,
    _source: NoiseSource,
    _beat: Callable[[], None],
) -> NDArray[Any]:
    """The counts themselves: a baseline of experiments, never a release."""
    return counts


def _integers(scale: Fraction, count: int, source: NoiseSource) -> NDArray[Any]:
    return DiscreteLaplace(scale).draw(source, count)


def _floats(source: NoiseSource) -> Callable[[Fraction, int, NoiseSource], NDArray[Any]]:
    seeded = SeededRandom(int.from_bytes(source.bytes(16)))
    return lambda scale, count, _source: floating_laplace(seeded, float(scale), count)
