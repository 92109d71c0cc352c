"""The plan of a sound run: which queries, with which budgets, decided before any data is touched.

Spec: kmeans, section 5.3 (and 6.1 for noise shares above 1). Every input is public. Budgets are
exact rationals that add up to epsilon; grid sizes come from rules in floating point, which cost
no privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, Literal

from common.encoders.kmeans import GRID, LEVELS, PROJECTED
from common.noise import SCALE_LIMIT

Mode = Literal["synopsis", "synopsis+zone", "packing+zone", "projection+zone"]

LOW_DIMENSION: Final = 6
"""The largest dimension in which a histogram of the whole box is the automatic choice."""
ZONE_SPLIT: Final = (Fraction(3, 4), Fraction(3, 20), Fraction(1, 10))
"""Shares of a zone round: sums of offsets, counts, distances."""
LIFT_SPLIT: Final = (Fraction(17, 20), Fraction(3, 20))
LIFT_RADIUS: Final = Fraction(3, 5)
"""Of the lift, over d: L1, in units of half a side."""
PUBLIC_START_RADIUS: Final = Fraction(2, 5)
"""Of the first zones after a packing or a projection, over d."""
PROJECTION_SPLIT: Final = (Fraction(3, 50), Fraction(17, 50), Fraction(3, 10), Fraction(3, 10))
"""Marginals, histogram, lift, zone rounds."""
PROJECTED_CLUSTERS: Final = 3
"""Clusters of the projected synopsis for each one asked for."""
_FEW, _MANY, _ENOUGH = 3, 5, 500
_PROJECTED_ROUNDS = 2
_RECORDS_PER_CELL: Final = 3
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
    (central: 1); `records`: how many records the privacy unit holds, a factor on every scale.
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

    @property
    def inflation(self) -> float:
        """nu B: the standard deviation of the noise over that of one record's full noise."""
        return math.sqrt(self.noise_share) * self.records

    @property
    def queries(self) -> int:
        """The number of queries, when no early stop cuts it short."""
        firsts = (self.epsilon_marginals, self.epsilon_histogram, self.epsilon_lift)
        return self.rounds + sum(each is not None for each in firsts)

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
) -> Plan:
    """The plan for about `size` records (a public hint) in `dimension` dimensions.

    Raises PlanImpossible where a grid, a mode or a noise scale does not fit.
    """
    inflation = math.sqrt(noise_share) * records
    effective = float(epsilon) / inflation
    if mode == "auto":
        mode = _automatic(size, dimension, clusters, effective, rounds, max_cells)
    make = {
        "synopsis": _synopsis,
        "synopsis+zone": _synopsis_zone,
        "packing+zone": _packing,
        "projection+zone": _projection,
    }[mode]
    found = make(size, dimension, clusters, epsilon, rounds, max_cells, inflation)
    steps = _fitting(GRID, [scale * records for scale in _radius_scales(found)], "epsilon")
    levels = _fitting(LEVELS, _level_scales(found, records), "epsilon")
    counts = [1 / share for share in _count_shares(found)]
    _fitting(1, [scale * records for scale in counts], "epsilon")
    return replace(found, steps=steps, levels=levels, noise_share=noise_share, records=records)


def cells_per_side(size: int, epsilon: float, dimension: int, clusters: int, max_cells: int) -> int:
    """m(e) = clip(round((n e / 3)^(2/(2+d))), max(2, ceil((2k)^(1/d))), floor(max_cells^(1/d))).

    Where the two limits cross, the upper one wins. Raises PlanImpossible below two cells a side.
    """
    most = _root(max_cells, dimension)
    if most < 2:
        raise PlanImpossible("max_cells", f"{dimension} dimensions need at least 2^{dimension}")
    least = _root(2 * clusters - 1, dimension) + 1  # the smallest m with m^d >= 2k
    wanted = round(math.pow(size * epsilon / _RECORDS_PER_CELL, 2 / (2 + dimension)))
    return min(max(wanted, 2, least), most)


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


def _synopsis(
    size: int,
    dimension: int,
    clusters: int,
    epsilon: Fraction,
    rounds: int | None,
    max_cells: int,
    inflation: float,
) -> Plan:
    if rounds:
        raise PlanImpossible("rounds", "the mode synopsis has no zone rounds")
    per_side = cells_per_side(size, float(epsilon) / inflation, dimension, clusters, max_cells)
    return Plan(
        "synopsis",
        dimension,
        clusters,
        epsilon,
        rounds=0,
        epsilon_round=Fraction(0),
        per_side=per_side,
        epsilon_histogram=epsilon,
    )


def _synopsis_zone(
    size: int,
    dimension: int,
    clusters: int,
    epsilon: Fraction,
    rounds: int | None,
    max_cells: int,
    inflation: float,
) -> Plan:
    if rounds == 0:
        raise PlanImpossible("rounds", "the mode synopsis+zone has at least one zone round")
    half = epsilon / 2
    per_side = cells_per_side(size, float(half) / inflation, dimension, clusters, max_cells)
    count = rounds or 1
    return Plan(
        "synopsis+zone",
        dimension,
        clusters,
        epsilon,
        rounds=count,
        epsilon_round=half / count,
        per_side=per_side,
        epsilon_histogram=half,
    )


def _packing(
    size: int,
    dimension: int,
    clusters: int,
    epsilon: Fraction,
    rounds: int | None,
    max_cells: int,  # noqa: ARG001
    inflation: float,
) -> Plan:
    if rounds == 0:
        raise PlanImpossible("rounds", "the mode packing+zone has at least one zone round")
    enough = size * float(epsilon) / inflation / (clusters * dimension) >= _ENOUGH
    count = rounds or (_MANY if enough else _FEW)
    return Plan(
        "packing+zone",
        dimension,
        clusters,
        epsilon,
        rounds=count,
        epsilon_round=epsilon / count,
    )


def _projection(
    size: int,
    dimension: int,
    clusters: int,
    epsilon: Fraction,
    rounds: int | None,
    max_cells: int,
    inflation: float,
) -> Plan:
    if dimension < PROJECTED:
        raise PlanImpossible("mode", "a projection needs two dimensions")
    count = _PROJECTED_ROUNDS if rounds is None else rounds
    shares = PROJECTION_SPLIT if count else PROJECTION_SPLIT[:3]
    marginals, histogram, lift, *zones = (epsilon * share / sum(shares) for share in shares)
    return Plan(
        "projection+zone",
        dimension,
        clusters,
        epsilon,
        rounds=count,
        epsilon_round=zones[0] / count if zones else Fraction(0),
        per_side=cells_per_side(
            size,
            float(histogram) / inflation,
            PROJECTED,
            PROJECTED_CLUSTERS * clusters,
            max_cells,
        ),
        epsilon_marginals=marginals,
        epsilon_histogram=histogram,
        epsilon_lift=lift,
    )


# ------------------------------------------------------------------------------- what noise allows


def _radius_scales(plan: Plan) -> list[Fraction]:
    """The largest scales that grow with the grid, for one record and one step of the grid."""
    scales = []
    if plan.rounds:
        widest = PUBLIC_START_RADIUS if plan.may_stop_early else Fraction(1)
        scales.append(widest * plan.dimension / (plan.epsilon_round * ZONE_SPLIT[0]))
    if plan.epsilon_lift is not None:
        scales.append(LIFT_RADIUS * plan.dimension / (plan.epsilon_lift * LIFT_SPLIT[0]))
    return scales


def _level_scales(plan: Plan, records: int) -> list[Fraction]:
    return [records / (plan.epsilon_round * ZONE_SPLIT[2])] if plan.rounds else []


def _count_shares(plan: Plan) -> list[Fraction]:
    shares = []
    if plan.epsilon_marginals is not None:
        shares.append(plan.epsilon_marginals / PROJECTED)
    if plan.epsilon_histogram is not None:
        shares.append(plan.epsilon_histogram)
    if plan.epsilon_lift is not None:
        shares.append(plan.epsilon_lift * LIFT_SPLIT[1])
    if plan.rounds:
        shares.append(plan.epsilon_round * ZONE_SPLIT[1])
    return shares


def _fitting(most: int, scales: list[Fraction], field: str) -> int:
    """The largest power of two up to `most` with which every scale can be drawn."""
    steps = most
    while steps > 1 and any(scale * steps > SCALE_LIMIT for scale in scales):
        steps //= 2
    if any(scale * steps > SCALE_LIMIT for scale in scales):
        raise PlanImpossible(field, "too small a budget: its noise cannot be drawn")
    return steps
