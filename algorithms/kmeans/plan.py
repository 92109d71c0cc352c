"""The plan of a sound run: which queries, with which budgets, decided before any data is touched.

Includes the start `two-level`: a coarse histogram, and a finer one of the cells that stand out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, Literal

import numpy as np

from tacit.encoders.kmeans import GRID, LEVELS, PROJECTED, Floats, Ints
from tacit.encoders.kmeans_sums import MOST_COARSE, MOST_PARTS, FineCells
from tacit.noise import SCALE_LIMIT

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
        """The number of coarse cells, m^d."""
        return int(self.per_side**self.dimension)

    @property
    def threshold(self) -> float:
        """What a coarse cell's noisy count has to pass."""
        return self.inflation * math.log(self.coarse_cells) / float(self.epsilon_coarse)

    @property
    def visible(self) -> float:
        """The approximate number of records from which a cluster narrower than a coarse cell is
        found."""
        return self.threshold + THRESHOLD * self.inflation / float(self.epsilon_coarse)

    def serves(self, size: int) -> bool:
        """The rule of `auto`: whether an average cluster is well above the threshold."""
        return size >= CLEAR * self.clusters * self.threshold

    def fine(self, coarse: Ints, steps: int) -> FineCells:
        """The second query, by the noisy counts (m^d,) of the first.

        If all cells together seem to have less than a quarter of the hint, the grid was too
        fine, and light clusters fall below the threshold: then one grid of the whole box, for
        the apparent number of records.
        """
        records = int(coarse.sum())
        if HINTED * records < self.size:
            return self._one_grid(records, steps)
        refined = np.flatnonzero(coarse > self.threshold)
        if not refined.size:
            fewest = max(2 * self.clusters, _FEWEST_CELLS)
            refined = np.sort(np.argsort(-coarse, kind="stable")[:fewest])
        budget = float(self.epsilon_fine) / (THRESHOLD * self.inflation)
        parts_wanted = (np.maximum(coarse[refined], 0) * budget) ** (1 / self.dimension)
        while True:
            sides = np.clip(np.rint(parts_wanted), 1, MOST_PARTS).astype(np.int64)
            total = int((sides**self.dimension).sum())
            if total <= self.max_cells or int(sides.max()) == 1:
                break
            parts_wanted *= min(0.97, (self.max_cells / total) ** (1 / self.dimension))
        return FineCells(
            self.per_side, self.dimension, steps, refined, sides, self.epsilon_fine, self.max_cells
        )

    def _one_grid(self, records: int, steps: int) -> FineCells:
        budget = records * float(self.epsilon_fine) / self.inflation
        per_side = _per_side(budget, 1, self.dimension, self.clusters, self.max_cells)
        every = np.arange(int(per_side**self.dimension))
        ones = np.ones_like(every)
        fine, most = self.epsilon_fine, self.max_cells
        return FineCells(per_side, self.dimension, steps, every, ones, fine, most)


def _per_side(budget: float, part: int, dimension: int, clusters: int, max_cells: int) -> int:
    """Cells a side: 1 / part of those that hold three records each; budget: records times epsilon,
    over nu."""
    parts = round(math.pow(max(budget, 0.0) / _RECORDS_PER_CELL, 2 / (2 + dimension)) / part)
    least = max(2, math.ceil(round((2 * clusters) ** (1 / dimension), 9)))
    most = max(2, math.floor(round(min(MOST_COARSE, max_cells) ** (1 / dimension), 9)))
    result: int = min(max(parts, least), most)
    return result


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts that count as occupied: middles (c, d), half sides (c,), weights (c,)."""

    middles: Floats
    halves: Floats
    weights: Floats


def occupied_parts(choices: TwoLevel, coarse: Ints, query: FineCells, fine: Ints) -> Parts:
    """The parts with counts above three scales of noise, at least max(2 k, 8) of them.

    If the two counts of a coarse cell are of the same cells, they are first combined by inverse
    variance.
    """
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


# Spec: kmeans, section 5.3 (and 6.1 for noise shares above 1). Every input is public. Budgets are
# exact rationals that add up to epsilon; grid sizes come from rules in floating point, which cost
# no privacy.

StartMethod = Literal["grid", "two-level"]
Mode = Literal["synopsis", "synopsis+zone", "packing+zone", "projection+zone"]

LOW_DIMENSION: Final = 6
"""The largest dimension in which a histogram of the whole box is the automatic choice."""
MODE_SPLIT: Final[Mapping[Mode, tuple[Fraction, Fraction, Fraction, Fraction]]] = {
    "synopsis": (Fraction(0), Fraction(1), Fraction(0), Fraction(0)),
    "synopsis+zone": (Fraction(0), Fraction(1, 2), Fraction(0), Fraction(1, 2)),
    "packing+zone": (Fraction(0), Fraction(0), Fraction(0), Fraction(1)),
    "projection+zone": (Fraction(3, 50), Fraction(17, 50), Fraction(3, 10), Fraction(3, 10)),
}
"""Shares of epsilon: marginals, histogram, lift, all zone rounds together."""
ZONE_SPLIT: Final = (Fraction(3, 4), Fraction(3, 20), Fraction(1, 10))
"""Shares of a zone round: sums of offsets, counts, distances."""
LIFT_SPLIT: Final = (Fraction(17, 20), Fraction(3, 20))
"""Shares of the lift: sums of offsets, counts."""
LIFT_RADIUS: Final = Fraction(3, 5)
"""Of the lift, over d: L1, in units of half a side."""
PUBLIC_START_RADIUS: Final = Fraction(2, 5)
"""Of the first zones after a packing or a projection, over d."""
PROJECTED_CLUSTERS: Final = 3
"""Clusters of the projected synopsis for each one requested."""
_ROUNDS: Final[Mapping[Mode, int]] = {"synopsis+zone": 1, "packing+zone": 3, "projection+zone": 2}
"""Zone rounds, unless given."""
_MANY_ROUNDS: Final = 5
"""Of a packing with enough signal: records times epsilon, for each cluster and dimension."""
_ENOUGH: Final = 500
_TOO_NOISY: Final = 0.25


class PlanImpossible(ValueError):
    """The parameters allow no plan; `field` names the one to change."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field, self.reason = field, reason


@dataclass(frozen=True)
class Plan:
    """The queries of a run in order: marginals, histogram, lift (where they are), then zone rounds.

    Epsilons are of one query each (None: not asked). `per_side`: cells a side of the histogram.
    `steps`, `levels`: G and V. `noise_share`: total noise in units of one full discrete Laplace
    (central: 1); `records`: how many records the privacy unit holds, a factor on every scale;
    `two_level`: the histogram in two parts, coarse and fine, in place of one, and
    `two_level_forecast` what it would be where it is not chosen.
    """

    mode: Mode
    dimension: int
    clusters: int
    epsilon: Fraction
    rounds: int
    epsilon_round: Fraction
    per_side: int | None = None
    epsilon_marginals: Fraction | None = None
    epsilon_histogram: Fraction | None = None
    epsilon_lift: Fraction | None = None
    steps: int = GRID
    levels: int = LEVELS
    noise_share: Fraction = Fraction(1)
    records: int = 1
    two_level: TwoLevel | None = None
    two_level_forecast: TwoLevel | None = None

    @property
    def inflation(self) -> float:
        """nu B: the standard deviation of the noise over that of one record's full noise."""
        return math.sqrt(self.noise_share) * self.records

    @property
    def queries(self) -> int:
        """The number of queries, when no early stop cuts it short."""
        firsts = (self.epsilon_marginals, self.epsilon_histogram, self.epsilon_lift)
        radius_queries = sum(first is not None for first in firsts)
        return self.rounds + radius_queries + (self.two_level is not None)

    @property
    def may_stop_early(self) -> bool:
        """Whether a round without any signal ends the run (modes that start without a synopsis)."""
        return self.mode in ("packing+zone", "projection+zone")


def make_plan(
    *,
    size: int,
    dimension: int,
    clusters: int,
    epsilon: Fraction,
    mode: Mode | Literal["auto"] = "auto",
    rounds: int | None = None,
    max_cells: int = 65_536,
    noise_share: Fraction = Fraction(1),
    records: int = 1,
    start: StartMethod | Literal["auto"] = "grid",
) -> Plan:
    """The plan for about `size` records (a public hint) in `dimension` dimensions.

    Decided in this order: the mode; how many zone rounds; the budget of each query; cells of the
    histogram; the finest grid of offsets and of distances whose noise can still be drawn. `rounds`
    None and mode `auto` leave those two to the rules; start `auto` is two-level where the mode is
    synopsis+zone and its own rule allows it. Raises PlanImpossible where a grid, a mode or
    a noise scale does not fit.
    """
    inflation = math.sqrt(noise_share) * records
    if mode == "auto":
        effective = float(epsilon) / inflation
        mode = _automatic(size, dimension, clusters, effective, rounds, max_cells)
    projected = mode == "projection+zone"
    if projected and dimension < PROJECTED:
        raise PlanImpossible("mode", "a projection needs two dimensions")
    signal = size * float(epsilon) / inflation / (clusters * dimension)
    count = _zone_rounds(mode, rounds, signal)
    marginals, histogram, lift, zones = _budgets(mode, epsilon, count)
    per_side = None
    if histogram is not None:
        per_side = cells_per_side(
            size,
            float(histogram) / inflation,
            PROJECTED if projected else dimension,
            PROJECTED_CLUSTERS * clusters if projected else clusters,
            max_cells,
        )
    two_level = None
    if mode == "synopsis+zone":
        assert histogram is not None
        two_level = TwoLevel.of(size, dimension, clusters, histogram, inflation, max_cells)
    elif start == "two-level":
        raise PlanImpossible("start", "two-level goes with the mode synopsis+zone")
    chosen = None
    if two_level is not None and (
        start == "two-level" or (start == "auto" and two_level.serves(size))
    ):
        chosen, per_side = two_level, two_level.per_side
    plan = Plan(
        mode,
        dimension,
        clusters,
        epsilon,
        rounds=count,
        epsilon_round=Fraction(0) if zones is None else zones / count,
        per_side=per_side,
        epsilon_marginals=marginals,
        epsilon_histogram=histogram,
        epsilon_lift=lift,
        noise_share=noise_share,
        records=records,
        two_level=chosen,
        two_level_forecast=two_level,
    )
    offsets, distances, counts = _scales(plan)
    _fitting(1, counts)
    return replace(plan, steps=_fitting(GRID, offsets), levels=_fitting(LEVELS, distances))


def cells_per_side(size: int, epsilon: float, dimension: int, clusters: int, max_cells: int) -> int:
    """m(e) = clip(round((n e / 3)^(2/(2+d))), max(2, ceil((2k)^(1/d))), floor(max_cells^(1/d))).

    Where the two limits cross, the upper one wins. Raises PlanImpossible below two cells a side.
    """
    most = _root(max_cells, dimension)
    if most < 2:
        raise PlanImpossible("max_cells", f"{dimension} dimensions need at least 2^{dimension}")
    least = _root(2 * clusters - 1, dimension) + 1  # the smallest m with m^d >= 2k
    cells_wanted = round(math.pow(size * epsilon / _RECORDS_PER_CELL, 2 / (2 + dimension)))
    return min(max(cells_wanted, 2, least), most)


def _root(value: int, degree: int) -> int:
    """The largest integer r with r^degree <= value."""
    root = max(1, round(value ** (1 / degree)))
    while int(root**degree) > value:
        root -= 1
    while int((root + 1) ** degree) <= value:
        root += 1
    return int(root)


def _automatic(
    size: int, dimension: int, clusters: int, effective: float, rounds: int | None, max_cells: int
) -> Mode:
    if dimension > LOW_DIMENSION:
        return "projection+zone"
    if rounds is not None:
        return "synopsis+zone" if rounds else "synopsis"
    per_side = cells_per_side(size, effective / 2, dimension, clusters, max_cells)
    spread = 0.35 * dimension * clusters ** (-1 / dimension)
    radius = 1.8 * math.hypot(spread, 0.5 * dimension / per_side)
    deviation = math.sqrt(2 * dimension) * radius * clusters / (0.375 * effective * max(size, 1))
    return "synopsis" if deviation > _TOO_NOISY * 2 / per_side else "synopsis+zone"


def _zone_rounds(mode: Mode, rounds_asked: int | None, signal: float) -> int:
    """The number of zone rounds: as requested, if the mode allows it. signal: records times
    effective epsilon, for each cluster and dimension."""
    if mode == "synopsis":
        if rounds_asked:
            raise PlanImpossible("rounds", "the mode synopsis has no zone rounds")
        return 0
    if rounds_asked == 0 and mode != "projection+zone":
        raise PlanImpossible("rounds", f"the mode {mode} has at least one zone round")
    if rounds_asked is not None:
        return rounds_asked
    return _MANY_ROUNDS if mode == "packing+zone" and signal >= _ENOUGH else _ROUNDS[mode]


def _budgets(mode: Mode, epsilon: Fraction, rounds: int) -> tuple[Fraction | None, ...]:
    """The mode's shares of epsilon, all of it even if no zone round takes its share; None: no
    such query."""
    shares = MODE_SPLIT[mode] if rounds else (*MODE_SPLIT[mode][:3], Fraction(0))
    return tuple(epsilon * share / sum(shares) if share else None for share in shares)


# ------------------------------------------------------------------------------- what noise allows


def _scales(plan: Plan) -> tuple[list[Fraction], list[Fraction], list[Fraction]]:
    """The largest noise scales of offsets, for one step of their grid; of distances, for one of
    their levels; and of counts."""
    offsets, distances, counts = [], [], []
    if plan.epsilon_marginals is not None:
        counts.append(PROJECTED / plan.epsilon_marginals)
    if plan.epsilon_histogram is not None:
        least = plan.epsilon_histogram
        if plan.two_level is not None:
            least = plan.two_level.epsilon_coarse
        counts.append(1 / least)
    if plan.epsilon_lift is not None:
        offsets.append(LIFT_RADIUS * plan.dimension / (plan.epsilon_lift * LIFT_SPLIT[0]))
        counts.append(1 / (plan.epsilon_lift * LIFT_SPLIT[1]))
    if plan.rounds:
        widest = PUBLIC_START_RADIUS if plan.may_stop_early else Fraction(1)
        sums, number, length = (plan.epsilon_round * share for share in ZONE_SPLIT)
        offsets.append(widest * plan.dimension / sums)
        counts.append(1 / number)
        distances.append(1 / length)
    offsets, distances, counts = (
        [scale * plan.records for scale in scales] for scales in (offsets, distances, counts)
    )
    return offsets, distances, counts


def _fitting(most: int, scales: list[Fraction]) -> int:
    """The largest power of two up to `most` with which every scale can be drawn."""
    steps = most
    while steps > 1 and any(scale * steps > SCALE_LIMIT for scale in scales):
        steps //= 2
    if any(scale * steps > SCALE_LIMIT for scale in scales):
        raise PlanImpossible("epsilon", "too small a budget: its noise cannot be drawn")
    return steps
