"""The contract of adaptive counting: an algorithm asks questions, a source answers with noise.

Spec: federated-counting, section 2. A question is a list of groups of cells, each with a rate: its
part of epsilon. A record adds whole numbers to cells; on every transcript the sum over questions
and groups of rate times L1 norm over reach is at most epsilon. So a cell's noise is discrete
Laplace of scale reach / rate.

Everything here is pure; states hold public and published values only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Stance

Ints = NDArray[np.int64]
Numbers = NDArray[np.int64] | NDArray[np.float64]
"""Whole numbers (sound) or floats (paper)."""


@dataclass(frozen=True)
class NoiseLaw:
    """The noise of a cell: how many whole draws of scale reach / rate a released sum holds."""

    draws: Fraction = Fraction(1)
    stance: Stance = "sound"


CENTRAL: Final = NoiseLaw()
"""One whole draw."""


@dataclass(frozen=True, eq=False)
class Question:
    """Cells to be counted, group by group.

    stage: the name of the keeper's noise stream, once for each question of a run, and block: its
    number; document: what the cells are, for the encoder; reach: A; sizes (G,): cells of each
    group; rates: the distinct ones, in the order in which a keeper draws their noise; rate_of (G,):
    the rate of each group, as its place in `rates`.
    """

    stage: str
    document: Any
    reach: int
    sizes: Ints
    rates: tuple[Fraction, ...]
    rate_of: Ints
    block: int = 0

    @property
    def bounds(self) -> Ints:
        """(G + 1,): the first cell of each group, and the number of cells."""
        return np.concatenate(([0], np.cumsum(self.sizes)))

    def scale(self, rate: int) -> Fraction:
        """Of the noise in cells of a rate, by its place."""
        return self.reach / self.rates[rate]


class CountTest(Protocol):
    """What a noisy count must reach, and how one keeper draws it. `rate`: the epsilon that the test
    costs."""

    @property
    def rate(self) -> Fraction: ...

    @property
    def threshold(self) -> int | float: ...

    @property
    def chance(self) -> Fraction:
        """That an empty one passes."""
        ...

    def noisy(self, counts: Ints, source: Any) -> Numbers:
        """Counts with fresh noise each."""
        ...

    def passing(self, count: int, source: Any) -> Numbers:
        """Noisy counts of empty ones that passed: the law of the noise above the threshold."""
        ...


@dataclass(frozen=True, eq=False)
class Passed:
    """Cells that reached their threshold, by their number in the question (rising), and their noisy
    counts."""

    cells: Ints
    counts: Numbers


class Answer(Protocol):
    """Noisy counts of a question. Each cell may be read once, by one of the two ways."""

    def dense(self) -> Numbers:
        """Of all cells."""
        ...

    def passing(
        self, groups: Ints, tests: Sequence[CountTest], test_of: Ints, limit: Callable[[int], None]
    ) -> Passed:
        """Only of cells that reach the threshold of their group.

        groups: of the question, rising; test_of: the test of each of them, by its place in `tests`;
        limit: called with a number of cells that pass, to stop a run that has become too large.
        """
        ...

    def again(self, cells: Ints, test: CountTest) -> Numbers:
        """Of cells that passed, with noise of another test: the source's printed DiffPart counts
        its itemsets twice. Raises NotImplementedError where there is no keeper."""
        ...


class Source(Protocol):
    """Who holds the records, one keeper or many curators."""

    def answer(self, question: Question) -> Answer:
        """Noisy counts."""
        ...


def within(counts: Numbers, cells: Ints, most: int | None) -> Ints:
    """The places of the largest counts, ties by order, until the cells that each asks for are used
    up; rising. most: cells in total, None for any number."""
    if most is None:
        return np.arange(counts.size)
    order = np.argsort(-counts, kind="stable")
    return np.sort(order[np.cumsum(cells[order]) <= most])


State = TypeVar("State")


@dataclass(frozen=True)
class AdaptiveCounting(Generic[State]):
    """An algorithm as functions of its states: what to ask next (None at the end), and the state
    after an answer."""

    ask: Callable[[State], Question | None]
    absorb: Callable[[State, Question, Answer], State]


def drive(algorithm: AdaptiveCounting[State], state: State, source: Source) -> State:
    """All questions of a run, one after the other: the state after the last one."""
    while (question := algorithm.ask(state)) is not None:
        state = algorithm.absorb(state, question, source.answer(question))
    return state
