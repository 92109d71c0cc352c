"""`l_max` from a noisy histogram of lengths, paid from the job's budget.

Spec: sequential-ngram, section 4.7. A sequence is in one bin: the sensitivity is 1.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context, Stance
from algorithms.datasets.sequences import Sequences
from tacit.noise import DiscreteLaplace, floating_laplace
from tacit.randomness import SeededRandom

COVERED: Final = 0.95
"""The share of sequences that shall not be cut."""


def length_histogram(dataset: Sequences, cap: int) -> NDArray[np.int64]:
    """Sequences of each length 1..cap (cap,); the last bin has the longer ones too. Private."""
    lengths = np.minimum(np.diff(dataset.starts), cap)
    return np.bincount(lengths, minlength=cap + 1)[1:]


def noisy_l_max(
    dataset: Sequences, cap: int, epsilon: Fraction, stance: Stance, context: Context
) -> int:
    """The smallest length that covers a noisy 95 % of the sequences with items."""
    source = context.noise("lengths")
    counts: NDArray[Any] = length_histogram(dataset, cap)
    if stance == "sound":
        counts = counts + DiscreteLaplace(1 / epsilon).draw(source, cap)
    else:
        seeded = SeededRandom(int.from_bytes(source.bytes(16)))
        counts = counts + floating_laplace(seeded, float(1 / epsilon), cap)
    return covering(counts)


def covering(noisy: NDArray[Any]) -> int:
    """The smallest length whose cumulative share is at least `COVERED`; negative counts are 0."""
    rising = np.cumsum(np.maximum(noisy, 0))
    return 1 + int(np.argmax(rising >= COVERED * rising[-1]))
