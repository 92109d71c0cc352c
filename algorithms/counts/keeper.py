"""Answers from rows that one keeper holds: exact counts of blocks, noise of the job's streams.

Empty cells that pass by their noise alone are drawn without examining each of very many cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context, Stance, floating_source
from algorithms.counts.contract import Answer, CountTest, Ints, Numbers, Passed, Question
from tacit.encoders.counts import Counter, Counts, ranges, together
from tacit.noise import SCALE_LIMIT, Bernoulli, DiscreteLaplace, floating_laplace
from tacit.noise.alias import PRECISE, decimal
from tacit.randomness import NoiseSource

Empties = Callable[
    [int, Ints, Fraction, NoiseSource, Callable[[], None], Callable[[int], None]], Ints
]
"""Places of the empty cells that pass (rising), of this many cells: those that are occupied
(rising), the chance of each, a stream, what is called a few times a second, a limit of their
number."""

COIN_BLOCK: Final = 1 << 20
_BATCH: Final = 1 << 16
_COIN_BITS: Final = 128


def skipped(
    cells: int,
    occupied: Ints,
    chance: Fraction,
    source: NoiseSource,
    beat: Callable[[], None],
    _limit: Callable[[int], None],
) -> Ints:
    """By the runs between heads; the caller checks the expected number."""
    return without(heads(cells, chance, source, beat), occupied)


def tossed(
    cells: int,
    occupied: Ints,
    chance: Fraction,
    source: NoiseSource,
    beat: Callable[[], None],
    limit: Callable[[int], None],
) -> Ints:
    """By a coin for each. The limit is checked after each block: if empty cells alone exceed it,
    so does the sum, whatever is occupied."""
    coin, places_shown, total = Bernoulli(chance), [np.zeros(0, np.int64)], 0
    coins = cells - occupied.size
    for start in range(0, coins, COIN_BLOCK):
        beat()
        shown = coin.draw(source, min(COIN_BLOCK, coins - start))
        places_shown.append(start + np.flatnonzero(shown))
        total += places_shown[-1].size
        limit(total)
    return free_places(occupied, np.concatenate(places_shown))


def free_places(occupied: Ints, ranks: Ints) -> Ints:
    """The free indices with these ranks among all free ones; all ascend and count from 0."""
    return ranks + np.searchsorted(occupied - np.arange(occupied.size), ranks, side="right")


def heads(
    coins: int, chance: Fraction, source: NoiseSource, beat: Callable[[], None] = lambda: None
) -> Ints:
    """Indices of the heads among this many independent coins, ascending. 0 <= chance <= 1/2.

    A run of tails has P(G = g) = (1 - a) a^g, drawn with a = e^(-1/b) for a whole b <= (1 -
    chance) / chance: since -ln(1 - p) <= p / (1 - p), such a coin shows heads at least as often
    as it should, and a second coin removes the surplus.
    """
    if not coins or not chance:
        return np.zeros(0, np.int64)
    scale = min(max(1, (1 - chance) // chance), SCALE_LIMIT)
    law, rest = DiscreteLaplace(Fraction(scale)), Bernoulli(_kept(chance, scale))
    often = float(chance / rest.probability)
    places_of_heads: list[Ints] = []
    place = -1
    while place < coins - 1:
        beat()
        expected = (coins - 1 - place) * often
        drawn = law.draw(source, min(int(expected + 4 * expected**0.5) + 16, _BATCH))
        # Z is G or -1 - G with a coin that does not depend on G.
        places = place + np.cumsum((drawn ^ (drawn >> 63)) + 1)
        places_of_heads.append(places[rest.draw(source, places.size)])
        place = int(places[-1])
    all_places = np.concatenate(places_of_heads)
    inside: Ints = all_places[: np.searchsorted(all_places, coins)]
    return inside


def _kept(chance: Fraction, scale: int) -> Fraction:
    """chance / (1 - e^(-1 / scale))."""
    tails = PRECISE.exp(decimal(Fraction(-1, scale)))
    exact = Fraction(PRECISE.divide(decimal(chance), PRECISE.subtract(1, tails)))
    return min(Fraction(round(exact * 2**_COIN_BITS), 2**_COIN_BITS), Fraction(1))


def without(places: Ints, occupied: Ints) -> Ints:
    """The places that are not occupied; both arguments rise."""
    if not occupied.size:
        return places
    at = np.minimum(np.searchsorted(occupied, places), occupied.size - 1)
    result: Ints = places[occupied[at] != places]
    return result


# Where a question needs only the cells that pass, empty ones are not materialised: which of them
# pass by noise alone is drawn by their law. Spec: federated-counting, section 2;
# sequential-prefix-tree, section 3, step 4; set-valued, section 3.3, step 8.

DRAWS: Final = 1 << 19
"""Number of draws made together."""

Add = Callable[[Ints, Question, NoiseSource, Callable[[], None]], NDArray[Any]]
"""All counts of a question with noise; the last argument is called a few times a second."""
Streams = Callable[[Question], tuple[NoiseSource, NoiseSource]]
"""Where the noise of a question's occupied cells is taken from, and that of its empty ones."""
Block = TypeVar("Block")


def adder(stance: Stance) -> Add:
    """The noise of a stance: exact integers (sound), or floats as in the source (paper).

    The draws of one rate are made together.
    """

    def add(
        counts: Ints, question: Question, source: NoiseSource, beat: Callable[[], None]
    ) -> NDArray[Any]:
        drawn = _integers if stance == "sound" else _floats(source)
        noisy: NDArray[Any] = counts.astype(np.float64 if stance == "paper" else np.int64)
        firsts = question.bounds[:-1]
        for rate in np.unique(question.rate_of).tolist():
            groups = np.flatnonzero(question.rate_of == rate)
            step = max(DRAWS // int(question.sizes[groups].max()), 1)
            for start in range(0, groups.size, step):
                beat()
                part = groups[start : start + step]
                cells = ranges(firsts[part], question.sizes[part])
                noisy[cells] += drawn(question.scale(rate), cells.size, source)
        return noisy

    return add


def no_noise(
    counts: Ints, _question: Question, _source: NoiseSource, _beat: Callable[[], None]
) -> NDArray[Any]:
    """The counts themselves: a baseline of experiments, never a release."""
    return counts


def _integers(scale: Fraction, count: int, source: NoiseSource) -> NDArray[Any]:
    return DiscreteLaplace(scale).draw(source, count)


def _floats(source: NoiseSource) -> Callable[[Fraction, int, NoiseSource], NDArray[Any]]:
    seeded = floating_source(source)
    return lambda scale, count, _source: floating_laplace(seeded, float(scale), count)


@dataclass(frozen=True, eq=False)
class Seen:
    """A question, its true counts and the cells that passed; visible only to the operator."""

    question: Question
    counts: Counts
    passed: list[Passed] = field(default_factory=list)


@dataclass(eq=False)
class KeeperSource:
    """Answers about the lists of one keeper, in blocks that may be counted on several workers.

    counter: the algorithm's; walks: where each block's records are so far; add: the noise of
    answers with all counts; streams and empties: of answers with passing ones only; steps: how many
    questions there will be, about; beat: reports progress, by the number of the question. `seen`
    grows by one entry for each question of which only what passes was read.
    """

    context: Context
    counter: Counter
    walks: Sequence[Any]
    streams: Streams | None = None
    add: Add = field(default_factory=partial(adder, "sound"))
    empties: Empties = skipped
    steps: int = 1
    beat: Callable[[int], None] | None = None
    seen: list[Seen] = field(default_factory=list)
    asked: int = 0

    def answer(self, question: Question) -> Answer:
        """Counts all blocks; noise is drawn when the answer is read."""
        self.asked += 1
        size = int(question.sizes.sum())
        count = partial(self.counter.counted, document=question.document, size=size)
        parts = self.context.map_blocks(count, self._told(self.walks))
        self.walks = [walk for walk, _ in parts]
        return _Kept(self, question, together([counts for _, counts in parts], size))

    def opened(self, question: Question) -> tuple[NoiseSource, NoiseSource]:
        """The streams of a question; one for both, unless they are given."""
        if self.streams is not None:
            return self.streams(question)
        stream = self.context.noise(question.stage, question.block)
        return stream, stream

    def report(self, stage: str = "drawing noise", part: float = 1) -> None:
        """Report progress; part: of the current question."""
        number = self.asked - 1
        if self.beat is not None:
            self.beat(number)
        else:
            share = min((number + part) / self.steps, 1)
            self.context.progress(0.6 * share, stage)

    def _told(self, walks: Sequence[Block]) -> Iterator[Block]:
        for place, walk in enumerate(walks):
            self.report("counting", place / len(walks))
            yield walk


class _Kept:
    """An answer of one keeper."""

    def __init__(self, keeper: KeeperSource, question: Question, counts: Counts) -> None:
        self._keeper, self._question, self._counts = keeper, question, counts

    @cached_property
    def streams(self) -> tuple[NoiseSource, NoiseSource]:
        """The streams of noise, opened once."""
        return self._keeper.opened(self._question)

    @cached_property
    def _seen(self) -> Seen:
        """Kept from the first time on that passing ones are read."""
        counts_seen = Seen(self._question, self._counts)
        self._keeper.seen.append(counts_seen)
        return counts_seen

    def dense(self) -> Numbers:
        """All counts, each with noise."""
        counts = np.zeros(int(self._question.sizes.sum()), np.int64)
        counts[self._counts.cells] = self._counts.counts
        source, _ = self.streams
        return self._keeper.add(counts, self._question, source, self._keeper.report)

    def passing(
        self, groups: Ints, tests: Sequence[CountTest], test_of: Ints, limit: Callable[[int], None]
    ) -> Passed:
        """Occupied cells by their counts, empty ones by the law of what passes."""
        firsts, sizes = self._question.bounds[groups], self._question.sizes[groups]
        group = np.searchsorted(firsts, self._counts.cells, side="right") - 1
        last = np.append(firsts + sizes, 0)  # no group (-1) ends before every cell
        inside = np.flatnonzero(self._counts.cells < last[group])
        group = group[inside]
        counted, empty = self.streams
        found = []
        for place, test in enumerate(tests):
            mine = inside[test_of[group] == place]
            cells, true = self._counts.cells[mine], self._counts.counts[mine]
            noisy = test.noisy(true, counted)
            lived = noisy >= test.threshold
            found.append(Passed(cells[lived], noisy[lived]))
            cells_of_test = np.flatnonzero(test_of == place)
            ends = np.cumsum(sizes[cells_of_test])
            shift = firsts[cells_of_test] - (ends - sizes[cells_of_test])
            of_cell = np.searchsorted(cells_of_test, group[test_of[group] == place])
            shifted_cells = cells - shift[of_cell]
            beat = self._keeper.report
            many = int(ends[-1])
            places = self._keeper.empties(many, shifted_cells, test.chance, empty, beat, limit)
            shown = places + shift[np.searchsorted(ends, places, side="right")]
            found.append(Passed(shown, test.passing(shown.size, empty)))
        nothing = np.zeros(0, np.int64)
        cells = np.concatenate([part.cells for part in found] or [nothing])
        order = np.argsort(cells)
        counts = np.concatenate([part.counts for part in found] or [nothing])
        passed = Passed(cells[order], counts[order])
        self._seen.passed.append(passed)
        return passed

    def again(self, cells: Ints, test: CountTest) -> Numbers:
        """As the contract says; from the stream of occupied cells."""
        return test.noisy(self._counts.of(cells), self.streams[0])
