"""The start `two-level`: a coarse histogram, and a finer one of the cells that stand out.

One grid for the whole box spends dense clusters on a few cells, and small ones fall below the
threshold in each of theirs. Here two fifths of the histogram's budget count coarse cells; those
above nu ln(cells) / e_1, where half a false one is expected at most, are each cut by how many
records they seem to hold, and counted again with three fifths. A record lies in one cell of either:
both have sensitivity 1, and the second list of cells is a function of what the first released.

Source: adaptive grids (W. Qardaji, W. Yang and N. Li, ICDE 2013). Spec: kmeans, section 5.7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from tacit.encoders.kmeans.encoder import Floats, Ints
from tacit.encoders.kmeans.fine_cells import MOST_COARSE, MOST_PARTS, FineCells

COARSE_SHARE: Final = Fraction(2, 5)
"""Of the histogram's budget."""
THRESHOLD: Final = 3.0
"""Of a fine cell's noisy count, in scales of its noise."""
HINTED: Final = 4
"""How many times the records that there seem to be a hint may be."""
CLEAR: Final = 8
"""How many times the coarse threshold an average cluster has to pass for `auto`."""
_RECORDS_PER_CELL: Final = 3
_FEWEST_CELLS: Final = 8
_LIGHTEST: Final = 1e-3


@dataclass(frozen=True)
class TwoLevel:
    """The public choices. per_side: coarse cells a side; epsilon_coarse and epsilon_fine add up to
    the histogram's budget; inflation: nu; max_cells: of the second histogram; size: the hint."""

    dimension: int
    clusters: int
    per_side: int
    epsilon_coarse: Fraction
    epsilon_fine: Fraction
    inflation: float
    max_cells: int
    size: int = 0

    @classmethod
    def of(
        cls,
        size: int,
        dimension: int,
        clusters: int,
        histogram: Fraction,
        inflation: float,
        max_cells: int,
    ) -> TwoLevel:
        """For about `size` records; `histogram`: its budget."""
        coarse = COARSE_SHARE * histogram
        per_side = _per_side(size * float(coarse) / inflation, 2, dimension, clusters, max_cells)
        rest = histogram - coarse
        return cls(dimension, clusters, per_side, coarse, rest, inflation, max_cells, size)

    @property
    def coarse_cells(self) -> int:
        """m^d."""
        return int(self.per_side**self.dimension)

    @property
    def threshold(self) -> float:
        """What a coarse cell's noisy count has to pass."""
        return self.inflation * math.log(self.coarse_cells) / float(self.epsilon_coarse)

    @property
    def visible(self) -> float:
        """Records from which a cluster narrower than a coarse cell is seen, about."""
        return self.threshold + THRESHOLD * self.inflation / float(self.epsilon_coarse)

    def serves(self, size: int) -> bool:
        """The rule of `auto`: whether an average cluster stands well above the threshold."""
        return size >= CLEAR * self.clusters * self.threshold

    def fine(self, coarse: Ints, steps: int) -> FineCells:
        """The second query, by the noisy counts (m^d,) of the first.

        Where all cells together seem to hold less than a quarter of the hint, the grid was too
        fine, and light clusters fall below the threshold: then one grid of the whole box, for as
        many records as there seem to be.
        """
        records = int(coarse.sum())
        if HINTED * records < self.size:
            return self._one_grid(records, steps)
        kept = np.flatnonzero(coarse > self.threshold)
        if not kept.size:
            fewest = max(2 * self.clusters, _FEWEST_CELLS)
            kept = np.sort(np.argsort(-coarse, kind="stable")[:fewest])
        budget = float(self.epsilon_fine) / (THRESHOLD * self.inflation)
        wanted = (np.maximum(coarse[kept], 0) * budget) ** (1 / self.dimension)
        while True:
            sides = np.clip(np.rint(wanted), 1, MOST_PARTS).astype(np.int64)
            total = int((sides**self.dimension).sum())
            if total <= self.max_cells or int(sides.max()) == 1:
                break
            wanted *= min(0.97, (self.max_cells / total) ** (1 / self.dimension))
        return FineCells(
            self.per_side, self.dimension, steps, kept, sides, self.epsilon_fine, self.max_cells
        )

    def _one_grid(self, records: int, steps: int) -> FineCells:
        budget = records * float(self.epsilon_fine) / self.inflation
        per_side = _per_side(budget, 1, self.dimension, self.clusters, self.max_cells)
        every = np.arange(int(per_side**self.dimension))
        whole = np.ones_like(every)
        fine, most = self.epsilon_fine, self.max_cells
        return FineCells(per_side, self.dimension, steps, every, whole, fine, most)


def _per_side(budget: float, part: int, dimension: int, clusters: int, max_cells: int) -> int:
    """Cells a side: 1 / part of those that hold three records each; budget: records times epsilon,
    over nu."""
    wanted = round(math.pow(max(budget, 0.0) / _RECORDS_PER_CELL, 2 / (2 + dimension)) / part)
    least = max(2, math.ceil(round((2 * clusters) ** (1 / dimension), 9)))
    most = max(2, math.floor(round(min(MOST_COARSE, max_cells) ** (1 / dimension), 9)))
    found: int = min(max(wanted, least), most)
    return found


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts that are taken for occupied: middles (c, d), half sides (c,), weights (c,)."""

    middles: Floats
    halves: Floats
    weights: Floats


def occupied_parts(choices: TwoLevel, coarse: Ints, query: FineCells, fine: Ints) -> Parts:
    """Parts above three scales of noise, at least max(2 k, 8) of them, after both counts of each
    coarse cell were made one by inverse variance, where both are of the same cells."""
    number = np.diff(query.starts)
    owner = np.repeat(np.arange(query.kept.size), number)
    counts = fine.astype(np.float64)
    if query.per_side == choices.per_side:
        lack = coarse[query.kept] - np.bincount(owner, counts, query.kept.size)
        one = 1 / float(choices.epsilon_coarse) ** 2
        other = number / float(choices.epsilon_fine) ** 2
        counts += (lack * other / (one + other) / number)[owner]
    limit = THRESHOLD * choices.inflation / float(choices.epsilon_fine)
    chosen = np.flatnonzero(counts > limit)
    if chosen.size < 2 * choices.clusters:
        fewest = max(2 * choices.clusters, _FEWEST_CELLS)
        chosen = np.sort(np.argsort(-counts, kind="stable")[:fewest])
    middles, halves = query.middles()
    return Parts(middles[chosen], halves[chosen], np.maximum(counts[chosen], _LIGHTEST))
