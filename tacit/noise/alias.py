"""Walker's alias table with exact integer weights.

A finite law on {0, ..., n-1} is rounded to integer weights w_0, ..., w_(n-1) with sum 2^B,
B = 128, from probabilities held in 80-digit decimals; the rounding residue goes to the largest
weight. Each weight is off by at most 1/2 (the largest by at most n/2), so the total variation
between the table and the law is at most n 2^-129: 2^-121 for 256 cells. Nothing else is
approximate: the table draws i with probability w_i / 2^B exactly.

Walker: 2^c >= n cells of capacity 2^(B-c) each. Cell i belongs to i below the threshold t_i
and to its alias above. A draw takes one word: the low c bits choose the cell, the high m bits
(m = 64 - c) are compared with the high part of t_i, and only if they tie does a second word
meet the low 64 bits of t_i. B = c + m + 64.

The high part of the threshold and the alias share one word, P_i = (high t_i) 2^(64-m) + alias.
Apart from ties, min(w, P_i) then *is* the chosen side: its low c bits are the cell if
w lies below the threshold, else the alias. One gather and one minimum make a draw, in time that
does not depend on what is drawn.

Sources: A. J. Walker, "An efficient method for generating discrete random variables with
general distributions", ACM TOMS 3 (1977); M. D. Vose, IEEE Trans. Software Eng. 17 (1991).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import (
    MAX_EMAX,
    MIN_EMIN,
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    DivisionByZero,
    InvalidOperation,
    Overflow,
)
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.randomness import NoiseSource

WEIGHT_BITS: Final = 128
"""The weights of a table at its full comparison sum to two to this power."""

PRECISE: Final = Context(
    prec=80,
    rounding=ROUND_HALF_EVEN,
    Emin=MIN_EMIN,
    Emax=MAX_EMAX,
    traps=[InvalidOperation, DivisionByZero, Overflow],
)
"""80-digit decimals. Operators (`-x`, `x * y`) would round to the calling thread's own context
instead: every step of a law is a method of this one."""

BLOCK: Final = 1 << 13
"""Draws made at a time, so that every intermediate array stays in the cache."""

_WORD: Final = 1 << 64


def decimal(value: Fraction) -> Decimal:
    """A rational to 80 digits."""
    return PRECISE.divide(Decimal(value.numerator), Decimal(value.denominator))


def decay(rate: Fraction, length: int) -> tuple[Decimal, ...]:
    """e^(-rate k) for k = 0, ..., length - 1, to at least 75 digits relative to each value."""
    step = PRECISE.exp(decimal(-rate))
    powers = [Decimal(1)]
    for _ in range(length - 1):
        powers.append(PRECISE.multiply(powers[-1], step))
    return tuple(powers)


def integer_weights(law: Sequence[Decimal], bits: int = WEIGHT_BITS) -> tuple[int, ...]:
    """Integers in proportion to the law with sum 2^bits; the largest takes the remainder."""
    total = Decimal(0)
    for probability in law:
        total = PRECISE.add(total, probability)
    unit = PRECISE.divide(Decimal(1 << bits), total)
    weights = [
        int(PRECISE.to_integral_value(PRECISE.multiply(probability, unit))) for probability in law
    ]
    weights[weights.index(max(weights))] += (1 << bits) - sum(weights)
    return tuple(weights)


@dataclass(frozen=True, slots=True, eq=False)
class AliasTable:
    """A finite law that is drawn exactly as its integer weights say.

    packed: shape (2^c,), high threshold and alias of each cell; low: shape (2^c,), the low
    64 bits of each threshold.
    """

    packed: NDArray[np.uint64]
    low: NDArray[np.uint64]
    size: int
    cell_bits: int
    comparison_bits: int

    @classmethod
    def from_law(cls, law: Sequence[Decimal], comparison_bits: int | None = None) -> "AliasTable":
        """The table of a law given in decimals (not necessarily normalised).

        Fewer comparison bits than 64 - c make ties frequent (to exercise their branch) and
        the weights sum to 2^(c + comparison_bits + 64) instead of 2^128.
        """
        cell_bits, comparison_bits = _layout(len(law), comparison_bits)
        weights = integer_weights(law, cell_bits + comparison_bits + 64)
        return cls.from_weights(weights, comparison_bits)

    @classmethod
    def from_weights(
        cls, weights: Sequence[int], comparison_bits: int | None = None
    ) -> "AliasTable":
        """The table of integer weights that sum to 2^(c + comparison_bits + 64)."""
        cell_bits, comparison_bits = _layout(len(weights), comparison_bits)
        capacity = 1 << (comparison_bits + 64)
        if min(weights) < 0 or sum(weights) != capacity << cell_bits:
            raise ValueError("weights must be non-negative and fill the cells of the table")
        thresholds, aliases = _fill_cells(weights, 1 << cell_bits, capacity)
        shift = 64 - comparison_bits
        packed = np.array(
            [(t >> 64) << shift | a for t, a in zip(thresholds, aliases, strict=True)],
            dtype=np.uint64,
        )
        low = np.array([t % _WORD for t in thresholds], dtype=np.uint64)
        packed.flags.writeable = False
        low.flags.writeable = False
        return cls(packed, low, len(weights), cell_bits, comparison_bits)

    def weights(self) -> tuple[int, ...]:
        """The integer weights that the arrays of the table imply, recomputed from them."""
        capacity = 1 << (self.comparison_bits + 64)
        shift, mask = 64 - self.comparison_bits, (1 << self.cell_bits) - 1
        weights = [0] * (1 << self.cell_bits)
        for cell, (packed, low) in enumerate(
            zip(self.packed.tolist(), self.low.tolist(), strict=True)
        ):
            threshold = (packed >> shift) << 64 | low
            weights[cell] += threshold
            weights[packed & mask] += capacity - threshold
        if any(weights[self.size :]):
            raise AssertionError("a padding cell is drawn")
        return tuple(weights[: self.size])

    def draw(self, source: NoiseSource, count: int) -> NDArray[np.int64]:
        """`count` independent draws."""
        drawn = np.empty(count, dtype=np.int64)
        for start in range(0, count, BLOCK):
            part = drawn[start : start + BLOCK]
            part[:] = self.select(source.words(len(part)), source)
        return drawn

    def select(self, words: NDArray[np.uint64], source: NoiseSource) -> NDArray[np.uint64]:
        """The draws that these uniform words decide; `source` serves the ties."""
        mask = np.uint64((1 << self.cell_bits) - 1)
        drawn = words & mask
        packed = self.packed.take(drawn.view(np.int64), mode="clip")
        np.minimum(words, packed, out=drawn)
        drawn &= mask
        packed ^= words
        tie_width = np.uint64(1 << (64 - self.comparison_bits))
        if len(words) and packed.min() < tie_width:
            self._settle(drawn, words, np.flatnonzero(packed < tie_width), source)
        return drawn

    def _settle(
        self,
        drawn: NDArray[np.uint64],
        words: NDArray[np.uint64],
        ties: NDArray[np.intp],
        source: NoiseSource,
    ) -> None:
        mask = np.uint64((1 << self.cell_bits) - 1)
        cells = words[ties] & mask
        below = source.words(len(ties)) < self.low[cells]
        drawn[ties] = np.where(below, cells, self.packed[cells] & mask)


def _layout(size: int, comparison_bits: int | None) -> tuple[int, int]:
    """Cell bits and comparison bits of a table of `size` entries."""
    if size < 1:
        raise ValueError("a table needs an entry")
    cell_bits = max(1, (size - 1).bit_length())
    if comparison_bits is None:
        comparison_bits = 64 - cell_bits
    if not 1 <= comparison_bits <= 64 - cell_bits:
        raise ValueError("cell and comparison share one word")
    return cell_bits, comparison_bits


def _fill_cells(weights: Sequence[int], cells: int, capacity: int) -> tuple[list[int], list[int]]:
    """Vose's construction in exact integers: a threshold below `capacity` and an alias for each
    cell.

    A cell that has no entry but its own has threshold 0 and itself as alias.
    """
    remaining = [*weights, *[0] * (cells - len(weights))]
    thresholds, aliases = [0] * cells, list(range(cells))
    small = [cell for cell in range(cells) if remaining[cell] < capacity]
    large = [cell for cell in range(cells) if remaining[cell] > capacity]
    while small:
        cell, donor = small.pop(), large[-1]
        thresholds[cell], aliases[cell] = remaining[cell], donor
        remaining[donor] -= capacity - remaining[cell]
        if remaining[donor] <= capacity:
            large.pop()
            if remaining[donor] < capacity:
                small.append(donor)
    return thresholds, aliases
