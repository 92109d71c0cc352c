"""A run's public choices: lengths, budget of each expansion, threshold, rules of post-processing.

Also what is refused, and where.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from algorithms.counts.contract import threshold as threshold_of
from tacit.errors import Invalid, TooLarge

MOST_SEQUENCES: Final = 20_000_000
"""Of known lengths: a file of as many is made in memory. A curator that lies counts any number."""


class BadLength(Invalid):
    """`l_max` or `n_max` outside its range."""

    name = "bad_length"
    title = "A length is not valid"


class TreeTooLarge(TooLarge):
    """More counts or more grams than the job allows. Decided from noisy counts alone."""

    name = "tree_too_large"
    title = "The tree would be too large"

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"more than {limit} counts of grams would be asked, or more grams listed: raise "
            "max_nodes, or request less with a smaller epsilon, n_max or universe",
            pointer="/params/max_nodes",
        )


class TooManySequences(TooLarge):
    """More than are ever made. Decided from noisy counts alone."""

    name = "too_many_sequences"
    title = "More sequences were counted than can be made"

    def __init__(self) -> None:
        super().__init__(
            f"more than {MOST_SEQUENCES} sequences, or ten times as many fragments of them, were "
            "counted: epsilon is too small, or a curator's counts are false"
        )


class TooManyPairs(TooLarge):
    """Noise alone is expected to join more items than may be listed. From public parameters."""

    name = "too_many_pairs"
    title = "Noise would join too many items"

    def __init__(self, limit: int, expected: float) -> None:
        super().__init__(
            f"about {expected:.2g} pairs of items are expected from noise alone, where max_nodes "
            f"allows {limit}: take a larger epsilon, fewer items, a smaller l_max or n_max, or "
            "raise max_nodes",
            pointer="/params/max_nodes",
        )


# Spec: sequential-ngram, section 3.

Aim = Literal["balanced", "items"]
Budget = Literal["adaptive", "uniform"]
Fill = Literal["ratio", "leftover", "none"]
Generation = Literal["proportional", "cap", "skip", "literal"]
Root = Literal["threshold", "all"]
Height = Callable[[float, float, float, int], Fraction | int]
"""Levels that the budget left on a path is spread over; see `whole_height`."""

ONE_DRAW: Final = Fraction(1)
_COVERED: Final = 0.95
"""The share of sequences that shall not be cut."""
_TYPICAL: Final = 5
"""Times the root of the number of items: about this many items make up most of all sequences."""
_SKEW: Final = 0.3
"""Of what is cut off, the part that is assumed to be guessed wrongly."""
_ROOT_SHARES: Final = ((0.3, Fraction(4, 5)), (4, Fraction(1, 2)))
MOST_ROOT_SHARE: Final = Fraction(4, 5)

_ROUNDING: Final = 1e-9
"""A logarithm this close above a whole number is that number."""


def printed_height(passed: float, count: float, share: float, levels: int) -> float:
    """How many levels a gram's counts are expected to stay above the threshold, not rounded.

    passed: the threshold of the gram's own group; count >= passed: its noisy count; share: the
    largest share of a successor, by the Markov parent; levels: those left. As the source prints it.
    """
    if not 0 < share < 1:
        return float(levels)
    return min(math.log(passed / count) / math.log(share), float(levels))


def whole_height(passed: float, count: float, share: float, levels: int) -> int:
    """The same as a whole number from 1 to `levels`.

    Rounding up is what keeps a path within its budget: the printed figure tends to 0, and the
    budget of an expansion to infinity, as the count comes near the threshold (spec:
    sequential-ngram, section 4.2).
    """
    printed = printed_height(passed, count, share, levels)
    return min(levels, max(1, math.ceil(printed - _ROUNDING)))


def empty_threshold(
    budget: Fraction, *, l_max: int, items: int, paper: bool, draws: Fraction = ONE_DRAW
) -> float:
    """The threshold of a group of counts measured with budget e.

    At most one truly empty child of an expansion passes in expectation. `paper`: as printed, of L
    items, by the tail e^(-t) / 2 of Laplace noise. Else a whole number, of the L + 1 children that
    there are and never of fewer than 4, by the tail a^t / (1 + a) of discrete noise, a = e^(-e /
    l_max), which is a little heavier; or of `draws` such noises together, from 1 on (spec:
    federated-counting, section 3).
    """
    cells = items if paper else max(items + 1, 4)
    rate = float(budget) / l_max
    if paper:
        return math.log(cells / 2) / rate
    if draws != ONE_DRAW:
        return threshold_of(draws, l_max / budget, 1 / cells)
    return max(1, math.ceil(math.log(cells / (1 + math.exp(-rate))) / rate))


def least_budget(
    epsilon: Fraction, n_max: int, budget: Budget, root_share: Fraction | None = None
) -> Fraction:
    """The least budget with which any group of counts is measured. root_share: of single items, by
    default an equal part of the levels.

    What is left of a path is spread over at most the m levels that are left, and a step that
    does not take all leaves at least half: the least part is 2^(1 - m), since 2^(m - 1) >= m.
    """
    root = epsilon * (root_share or Fraction(1, n_max))
    if budget == "uniform" or n_max == 1:
        return root
    return min(root, (epsilon - root) / (1 << n_max - 2))


@dataclass(frozen=True, eq=False)
class LengthRanges:
    """sequences (ranges,): noisy numbers of sequences of 1, 2, 3 to 4, 5 to 8, ... items, 0 where
    they may be noise; cap: the end of the last range."""

    sequences: NDArray[np.int64]
    cap: int

    @classmethod
    def of(
        cls,
        noisy: NDArray[np.integer],
        cap: int,
        scale: Fraction,
        draws: Fraction,
        *,
        apart: bool = True,
    ) -> LengthRanges:
        """From noisy counts, those below two standard deviations 0. apart: whether one may stand by
        itself; if not, those below three are 0, and one below four stays only in a row of counts
        that stay of which one reaches four, or is the largest of all. Raises TooManySequences."""
        deviation = float(scale) * math.sqrt(2 * draws)
        there = noisy >= (2 if apart else 3) * deviation
        if not apart:
            run = np.cumsum(~there)  # of those that stay, each with the gap before it
            highest = np.zeros(there.size + 1)
            np.maximum.at(highest, run, np.where(there, noisy, 0))
            there &= highest[run] >= min(4 * deviation, float(noisy.max()))
        sequences = np.where(there, noisy, 0).astype(np.int64)
        if float(sequences.max(initial=0)) > MOST_SEQUENCES or sequences.sum() > MOST_SEQUENCES:
            raise TooManySequences
        return cls(sequences, cap)

    def listed(self) -> NDArray[np.int64]:
        """The length of each sequence (n,), even inside a range, rising."""
        ends = np.minimum(2 ** np.arange(self.sequences.size), self.cap)
        firsts = np.concatenate(([1], ends[:-1] + 1))
        parts = [
            first + (end - first + 1) * np.arange(number) // max(number, 1)
            for first, end, number in zip(firsts, ends, self.sequences.tolist(), strict=True)
        ]
        return np.concatenate(parts).astype(np.int64)

    def l_max(self, items: int, epsilon: Fraction, share: Fraction = MOST_ROOT_SHARE) -> int:
        """How many items of a sequence count: at most the length that 95 % do not exceed, and
        fewer if their noise would be worse than the loss by cutting. 1 without any sequences.
        share: of epsilon, for single items."""
        lengths = self.listed()
        if not lengths.size:
            return 1
        most = int(lengths[math.ceil(_COVERED * lengths.size) - 1])
        cut = np.arange(1, most + 1)
        total = float(lengths.sum())
        kept = np.array([np.minimum(lengths, end).sum() for end in cut.tolist()]) / total
        typical = total / min(_TYPICAL * math.sqrt(items), items)
        noise = math.sqrt(2) * cut / float(epsilon * share) / (kept * typical)
        return 1 + int(np.argmin(np.square(noise) + np.square(_SKEW * (1 - kept))))

    def kept(self, l_max: int) -> float:
        """Items of all sequences among their first l_max."""
        return float(np.minimum(self.listed(), l_max).sum())

    def stretch(self, l_max: int) -> float:
        """Items of all sequences over those among the first l_max."""
        kept = self.kept(l_max)
        return float(self.listed().sum()) / kept if kept else 1.0

    def plan(self, items: int, l_max: int, n_max: int, epsilon: Fraction) -> tuple[int, Fraction]:
        """The longest gram that is counted, and the share of single items: by the forecast of a
        pair's mean count over the threshold that it must reach if each level has an equal part.
        Where pairs are near their noise, they are all that is counted, and longer grams are made by
        a Markov assumption of first order."""
        clear = self.kept(l_max) / items / (n_max * l_max * math.log(items + 1) / float(epsilon))
        levels = min(n_max, 2)
        for least, share in _ROOT_SHARES:
            if clear < least:
                return levels, max(share, Fraction(1, levels))
        return n_max, Fraction(1, n_max)


@dataclass(frozen=True)
class Settings:
    """Public choices of a run over `items` items.

    epsilon: budget of the tree; l_max: items of a sequence that count; n_max <= l_max: longest gram
    that is measured; threshold: by the budget of a group; height: levels that a path's budget is
    spread over (adaptive budget only); root: whether single items have a threshold, too; max_rows:
    grams that joins may make it, those that occur most first (None: more than max_nodes are
    refused); max_cells: counts of one level that are asked at most, after the first (None: all);
    draws: whole noises that a count holds; root_share: of epsilon, for single items (None: an equal
    part of the levels; 1: nothing else is counted, and small counts are estimated by the law of all
    counts); lengths: what is known of them (None: nothing, and no number of sequences).
    """

    items: int
    epsilon: Fraction
    l_max: int
    n_max: int
    threshold: Callable[[Fraction], float]
    budget: Budget = "adaptive"
    fill: Fill = "leftover"
    generation: Generation = "proportional"
    max_nodes: int = 5_000_000
    root: Root = "all"
    max_rows: int | None = None
    max_cells: int | None = None
    height: Height = whole_height
    draws: Fraction = ONE_DRAW
    root_share: Fraction | None = None
    lengths: LengthRanges | None = None

    @property
    def symbols(self) -> int:
        """The items and the end of a sequence, which is the last symbol."""
        return self.items + 1

    @property
    def items_alone(self) -> bool:
        """Whether all of epsilon is for single items by choice, not by an n_max of 1."""
        return self.root_share == 1

    @property
    def root_budget(self) -> Fraction:
        """The budget of the counts of single items."""
        return self.epsilon * (self.root_share or Fraction(1, self.n_max))
