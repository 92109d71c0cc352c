"""Examples that several tests share: Table 4.1 of the source, and noise that is off."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import SequentialContext
from algorithms.counts.contract import CountTest
from algorithms.set_valued.counts import Run, publish
from algorithms.set_valued.records import Itemsets, record_masks
from algorithms.set_valued.settings import Settings
from tacit.encoders.set_valued_counts import Taxonomy
from tacit.randomness import NoiseSource
from tacit.records.items import Transactions

ITEMS = ("I1", "I2", "I3", "I4")
TABLE_4_1 = Transactions.of(
    [
        ["I1", "I2", "I3", "I4"],
        ["I2", "I4"],
        ["I2"],
        ["I1", "I2"],
        ["I2"],
        ["I1"],
        ["I1", "I2", "I3", "I4"],
        ["I2", "I3", "I4"],
    ],
    ITEMS,
)
EVERY = [record for size in range(1, 5) for record in itertools.combinations(range(4), size)]
"""All records over four items."""


def sets_of(*records: tuple[int, ...]) -> Itemsets:
    places = np.array([item for record in records for item in record], np.int32)
    sizes = np.array([len(each) for each in records], np.int64)
    return Itemsets(places, np.concatenate(([0], np.cumsum(sizes))))


@dataclass(frozen=True)
class Silent:
    """A test without noise: what has records passes; an empty one with a stated chance."""

    rate: Fraction
    chance: Fraction = Fraction(0)
    threshold: int = 1

    def noisy(self, counts: NDArray[np.int64], source: NoiseSource) -> NDArray[np.int64]:
        return counts

    def passing(self, count: int, source: NoiseSource) -> NDArray[np.int64]:
        return np.ones(count, np.int64)


@dataclass(frozen=True)
class SilentLaw:
    """Everything passes that has records."""

    chance: Fraction = Fraction(0)

    def partition(self, cells: int, alpha: Fraction, height: int) -> CountTest:
        return Silent(alpha, self.chance)

    def leaf(self, cells: int, rate: Fraction) -> CountTest:
        return Silent(rate, self.chance)

    def source(self, secret: NoiseSource) -> NoiseSource:
        return secret


def rightmost(nodes: int, source: NoiseSource) -> int:
    return nodes - 1


def released(
    dataset: Transactions, taxonomy: Taxonomy, settings: Settings, context: SequentialContext
) -> Run:
    """A run on records over the taxonomy's items."""
    masks = record_masks(dataset, dataset.items, taxonomy, context)
    return publish(masks, taxonomy, settings, context)
