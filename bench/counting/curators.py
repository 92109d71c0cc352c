"""A source of sums: curators that each count in their own records, in one process.

Spec: federated-counting, sections 2, 3 and 6. Records are split at random. Each curator answers a
question by its own vector, which has passed its spend filter; the sum gets R whole draws of noise
from a fixed seed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.counts.contract import Answer, Question
from algorithms.counts.rounds import Opened, sum_of
from tacit.accounting.charges import Spent
from tacit.encoders.counts import Counter, Lists, PathSpends
from tacit.noise import PolyaShare
from tacit.protocol.round.pieces import SHORT
from tacit.randomness import SeededRandom

AGGREGATORS: Final = 3
ALWAYS_HERE: Final = 0.0


@dataclass
class Curators:
    """parts: records of each curator; draws: R; spent: S of each curator's records; paths: what
    questions spend along each; words of each question, and of each round (parts of a question);
    dropped: records that a filter left out; missing: share of the curators in each round, drawn by
    `away`; rates: the largest of each question, which ordinary debits would charge; totals: what
    each round opened."""

    counter: Counter
    parts: list[Lists]
    draws: Fraction
    epsilon: Fraction
    source: SeededRandom
    missing: float = ALWAYS_HERE
    away: np.random.Generator = field(default_factory=lambda: np.random.default_rng(3))
    spent: list[Spent] = field(default_factory=list)
    paths: PathSpends = field(default_factory=PathSpends)
    words: list[int] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    dropped: int = 0
    rates: Fraction = Fraction(0)
    totals: list[NDArray[np.int64]] = field(default_factory=list)

    def answer(self, question: Question) -> Answer:
        """All parts of a question: counted, filtered, summed, with noise."""
        whole = sum_of(self.counter, question)
        self.rates += max(whole.rates)
        self.paths = whole.after(self.paths)
        self.spent = self.spent or [Spent.nothing(part.count) for part in self.parts]
        self.words.append(0)
        opened, decided = [], dict[int, NDArray[np.bool_]]()
        for asked in whole.parts:
            dimension = sum(block.dimension for block in asked.blocks)
            self.words[-1] += dimension
            self.rounds.append(dimension)
            total = np.zeros(dimension, np.int64)
            here = self.away.random(len(self.parts)) >= self.missing
            for place in np.flatnonzero(here).tolist():
                part = self.parts[place]
                if place not in decided:  # for all parts
                    self.spent[place], decided[place] = self.spent[place].admit(
                        asked.moved(part), asked.costs, self.epsilon
                    )
                    self.dropped += int((~decided[place]).sum())
                counted = decided[place]
                total += asked.total(part if counted.all() else part.only(counted))
            end = 0
            for block in asked.blocks:
                begin, end = end, end + block.dimension
                law = PolyaShare(block.bound / (block.share * asked.epsilon), self.draws)
                total[begin:end] += law.draw(self.source, block.dimension)
            self.totals.append(total)
            opened.append(asked.restored(total))
        return Opened(question, whole.whole(opened))

    @property
    def most(self) -> Fraction:
        """What a record spent at most."""
        return max(each.most for each in self.spent)

    @property
    def sent(self) -> int:
        """Bytes of a curator: a dense piece and seeds; of a short vector all pieces."""
        return sum(
            8 * words + 32 * (AGGREGATORS - 1) if words > SHORT else 8 * AGGREGATORS * words
            for words in self.rounds
        )


def split(lists: Lists, curators: int) -> list[Lists]:
    """At random."""
    owner = np.random.default_rng(1).integers(0, curators, lists.count)
    order = np.argsort(owner, kind="stable")
    bounds = np.searchsorted(owner[order], np.arange(curators + 1))
    return [_taken(lists, order[bounds[place] : bounds[place + 1]]) for place in range(curators)]


def chosen(lists: Lists, curators: int, most: int, seed: int) -> Lists:
    """At most `most` random records of each curator: what unit `curator` counts."""
    generator = np.random.default_rng(seed)
    owner = generator.integers(0, curators, lists.count)
    order = np.argsort(owner, kind="stable")  # owners draw records at random, so the first are
    begins = np.searchsorted(owner[order], np.arange(curators))
    rank = np.arange(lists.count) - begins[owner[order]]
    return _taken(lists, np.sort(order[rank < most]))


def _taken(lists: Lists, records: NDArray[np.int64]) -> Lists:
    lengths = np.diff(lists.starts)[records]
    starts = np.concatenate(([0], np.cumsum(lengths)))
    places = np.repeat(lists.starts[records] - starts[:-1], lengths) + np.arange(starts[-1])
    return Lists(lists.items[places], starts)
