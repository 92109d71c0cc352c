"""How far rounding moves a total, from public values only (spec: aggregation, section 7).

A reading becomes a whole number of steps of the resolution, so it moves by at most half a step. The
total of N readings moves by at most N times that; if their errors are uniform and independent, its
standard deviation is sqrt(N/12) steps. Readings can agree in their rounding (all of 0.5 kWh at a
resolution of 1 kWh), so only the first figure holds for any data.

A reading y = x - centre of a variance also enters by its square: with |y| <= h and an error e,

    |(y + e)^2 - y^2| <= |e| (2 h + |e|),    deviation below h step / sqrt(3), mean step^2 / 12.

A vector within its L1 bound of B steps can pass it once its d entries are rounded, by at most
s = min(d, 2 B) / 2. It is then multiplied by B / (B + s) and truncated, which takes up to one more.

Integer bounds are the declared ones rounded outward, so that clamping moves no reading within the
declared bounds. What it does to other readings depends on data, and no figure here counts it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tacit.protocol.federation import step_of
from tacit.query.functions import (
    VectorBlock,
    parts,
    reading_rule,
    reads_vectors,
    vector_blocks,
)
from tacit.query.query import Query
from tacit.query.sensitivity import Linear
from tacit.query.words import Function
from tacit.units import NANO, UNITS

COARSE: Final = Fraction(1, 10)
"""The share of the noise from which on a report warns of rounding."""


@dataclass(frozen=True, slots=True)
class Rounding:
    """By how much rounding can move one coordinate of a part, in the part's unit: at most `worst`;
    `typical` is the deviation of independent uniform errors.

    `bounds`: what a reading is clamped to, in the query's unit; None where a part counts.
    """

    worst: Fraction
    typical: float
    bounds: tuple[Fraction, Fraction] | None = None

    def exceeds(self, mean_absolute: float) -> bool:
        """Whether it can move a figure by more than `COARSE` times its noise, E|Z|."""
        return self.worst > Fraction(mean_absolute) * COARSE


def roundings(query: Query, participants: int) -> tuple[Rounding, ...]:
    """The rounding of each part of a total over this many curators with `max_readings` readings
    each, in the order of `parts`."""
    count = participants * query.max_readings
    blocks = iter(vector_blocks(query) if query.function is Function.VECTOR_SUM else ())
    found = []
    for part in parts(query):
        match part.linear:
            case Linear.SUM | Linear.SQUARES:
                found.append(_of_numbers(query, count, squares=part.linear is Linear.SQUARES))
            case Linear.VECTOR:
                found.append(_of_block(query, next(blocks), count))
            case _:
                found.append(Rounding(Fraction(0), 0.0))
    return tuple(found)


def _of_numbers(query: Query, count: int, *, squares: bool) -> Rounding:
    rule, step = reading_rule(query), query.resolution
    centre = rule.centre / _nano(query)
    bounds = centre + rule.bounds.low * step, centre + rule.bounds.high * step
    error = _largest_error(query, step)
    if not squares:
        return Rounding(count * error, _deviation(error, step, count), bounds)
    width = 2 * rule.bounds.largest * step
    mean = float(count * step**2 / 12) if error else 0.0
    typical = math.hypot(mean, float(width) * _deviation(error, step, count))
    return Rounding(count * error * (width + error), typical, bounds)


def _of_block(query: Query, block: VectorBlock, count: int) -> Rounding:
    step, most = block.resolution, block.l1_bound
    bounds = max(block.bounds.low, -most) * step, min(block.bounds.high, most) * step
    if step_of(query) is not None:  # whose vectors are whole numbers of steps already
        return Rounding(Fraction(0), 0.0, bounds)
    error = _largest_error(query, step)
    worst, largest = error, Fraction(block.bounds.largest)
    several = reads_vectors(query) and block.dimension > 1
    if error and several and most < block.dimension * largest:
        over = Fraction(min(block.dimension, 2 * most), 2)
        worst += (min(largest, most + over) * over / (most + over) + 1) * step
    return Rounding(count * worst, _deviation(error, step, count), bounds)


def _nano(query: Query) -> Fraction:
    """Nano-units of the base unit, in which readings are stored, in one unit of the query."""
    return UNITS[query.unit].factor * NANO


def _largest_error(query: Query, step: Fraction) -> Fraction:
    """By how much one reading moves at most; a step of one nano-unit, in which readings are stored,
    moves none."""
    return Fraction(0) if step * _nano(query) == 1 else step / 2


def _deviation(error: Fraction, step: Fraction, count: int) -> float:
    return float(step) * math.sqrt(count / 12) if error else 0.0
