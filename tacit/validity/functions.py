"""The functions of a query as circuits: what one contribution is proved to be.

A contribution is a lone curator's, or the total of a host's part of n' curators: then `count` in
its bounds is m n' and all bounds are those of the part. `encode` takes the query's own coordinates
and the clamped noise to be added to each; the outputs of the circuit are these coordinates with
their noise, but for a constant, `offset`, that the opened total is moved by.

Noise is added to the query's coordinates and to nothing else: it is calibrated for these.

Spec: validity, sections 3 to 6.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.validity.arithmetic import NUMPY, Arithmetic
from tacit.validity.circuit import BoundedInteger, Circuit
from tacit.validity.field import Elements
from tacit.validity.forms import Count, Forms, LinearForm, Relation
from tacit.validity.prio3 import Prio3
from tacit.validity.vectors import Block, BoundedVector, least_proof_chunk

PRIO3_COUNT: Final = 1
PRIO3_SUM: Final = 2
MEAN: Final = 0xFFFF5401
VARIANCE: Final = 0xFFFF5402
VECTOR: Final = 0xFFFF5403
PRESENCE: Final = 0xFFFF5404
L2_VECTOR: Final = 0xFFFF5405
VECTOR_PROOFS: Final = 3
"""Over Field64 joint randomness needs three proofs, over Field128 one."""

Integers = NDArray[np.int64] | NDArray[np.object_]


@dataclass(frozen=True, slots=True)
class ReadingBounds:
    """Up to `count` readings, each in [lowest, highest] ring units; fewer count as 0.

    ValueError: the bounds are reversed or hold nothing but 0, or count is below 1.
    """

    lowest: int
    highest: int
    count: int

    def __post_init__(self) -> None:
        if self.lowest > self.highest or self.lowest == self.highest == 0:
            raise ValueError("bounds of a reading hold at least one ring unit")
        if self.count < 1:
            raise ValueError("a contribution has at least one reading")

    @property
    def least(self) -> int:
        """L: the smallest total."""
        return min(0, self.count * self.lowest)

    @property
    def most(self) -> int:
        """U: the largest total."""
        return max(0, self.count * self.highest)

    @property
    def farthest(self) -> int:
        """The largest absolute value of a total."""
        return max(-self.least, self.most)

    @property
    def width(self) -> int:
        """w = highest - lowest."""
        return self.highest - self.lowest

    @property
    def largest(self) -> int:
        """A: the largest absolute value of a reading."""
        return max(abs(self.lowest), abs(self.highest))


class ProvedFunction(ABC):
    """What is proved of one contribution. `noise_bounds`: T of each coordinate, or () if
    curators draw no noise."""

    arithmetic: Arithmetic
    noise_bounds: tuple[int, ...]
    algorithm: int
    proofs: int = 1

    @cached_property
    @abstractmethod
    def circuit(self) -> Circuit:
        """The circuit."""

    @property
    @abstractmethod
    def influence(self) -> tuple[int, ...]:
        """By how much one accepted contribution can move each coordinate's total, each way, against
        the true value of its sender."""

    @property
    @abstractmethod
    def influence_from_zero(self) -> tuple[int, ...]:
        """As `influence`, compared with a sender that contributes zeros: the largest |output|."""

    @abstractmethod
    def encode(self, coordinates: Integers, noise: Integers | None = None) -> Elements:
        """The measurement of coordinates (B, d) with clamped noise (B, d).

        ValueError: a coordinate or a noise lies outside of its bounds. No value is named.
        """

    @property
    def offset(self) -> tuple[int, ...]:
        """What one contribution adds to the correction of the opened total, per coordinate."""
        if self.noise_bounds:
            return tuple(-bound for bound in self.noise_bounds)
        return (0,) * self.circuit.output_length

    def prio3(self, shares: int) -> Prio3:
        """The scheme for this number of aggregators."""
        return Prio3(self.algorithm, self.circuit, shares, self.proofs, self.arithmetic.hash_rows)

    def _check_noise_bounds(self, dimension: int) -> None:
        if self.noise_bounds and len(self.noise_bounds) != dimension:
            raise ValueError("there is one noise bound per coordinate")
        if any(bound < 1 for bound in self.noise_bounds):
            raise ValueError("a noise bound is at least one ring unit")

    def _moved(self, noise: Integers | None) -> Integers | None:
        """Noise (B, d) from 0 on: Z + T."""
        if (noise is None) != (not self.noise_bounds):
            raise ValueError("noise is added exactly where it has a bound")
        return None if noise is None else noise + np.array(self.noise_bounds)

    def _bound(self, coordinate: int) -> int:
        return self.noise_bounds[coordinate] if self.noise_bounds else 0


@dataclass(frozen=True)
class ProvedSum(ProvedFunction):
    """f in [L, U]; a count has bounds 0 and 1. Coordinates: (f,)."""

    bounds: ReadingBounds
    noise_bounds: tuple[int, ...] = ()
    arithmetic: Arithmetic = NUMPY

    def __post_init__(self) -> None:
        self._check_noise_bounds(1)

    @property
    def top(self) -> int:
        """U - L + 2 T."""
        return self.bounds.most - self.bounds.least + 2 * self._bound(0)

    @property
    def algorithm(self) -> int:  # type: ignore[override]
        return PRIO3_COUNT if self.top == 1 else PRIO3_SUM

    @cached_property
    def circuit(self) -> Circuit:
        if self.top == 1:
            return Count(self.arithmetic.field64)
        return Forms(self.arithmetic.field64, (BoundedInteger(self.top),), ((1,),))

    @property
    def influence(self) -> tuple[int, ...]:
        return (self.bounds.most - self.bounds.least + self._bound(0),)

    @property
    def influence_from_zero(self) -> tuple[int, ...]:
        return (self.bounds.farthest + self._bound(0),)

    @property
    def offset(self) -> tuple[int, ...]:
        return (self.bounds.least - self._bound(0),)

    def encode(self, coordinates: Integers, noise: Integers | None = None) -> Elements:
        values = coordinates[:, 0] - self.bounds.least
        _check_range(values, self.bounds.most - self.bounds.least)
        moved = self._moved(noise)
        if moved is not None:
            _check_range(moved[:, 0], 2 * self._bound(0))
            values = values + moved[:, 0]
        circuit = self.circuit
        if isinstance(circuit, Count):
            return circuit.encode(values.astype(np.int64))
        assert isinstance(circuit, Forms)
        return circuit.encode((values,))


@dataclass(frozen=True)
class ProvedMean(ProvedFunction):
    """Q_lo k <= s <= Q_hi k: a = s - Q_lo k, b = Q_hi k - s, a + b = w k. Coordinates: (s, k)."""

    bounds: ReadingBounds
    noise_bounds: tuple[int, ...] = ()
    arithmetic: Arithmetic = NUMPY
    algorithm = MEAN

    def __post_init__(self) -> None:
        self._check_noise_bounds(2)
        _check_width(self.bounds)

    @cached_property
    def circuit(self) -> Forms:
        ranges = _ranges(*_pair_tops(self.bounds), *(2 * bound for bound in self.noise_bounds))
        total, count = _pair_forms(self.bounds)
        return Forms(
            self.arithmetic.field64,
            ranges,
            _with_noise((total, count), 3, self.noise_bounds),
            relations=(Relation((-self.bounds.width, 1, 1)),),
        )

    @property
    def influence(self) -> tuple[int, ...]:
        spread = self.bounds.most - self.bounds.least
        return (spread + self._bound(0), self.bounds.count + self._bound(1))

    @property
    def influence_from_zero(self) -> tuple[int, ...]:
        return (self.bounds.farthest + self._bound(0), self.bounds.count + self._bound(1))

    def encode(self, coordinates: Integers, noise: Integers | None = None) -> Elements:
        total, count = coordinates.T
        return self.circuit.encode(
            (*_pair(self.bounds, total, count), *_columns(self._moved(noise)))
        )


@dataclass(frozen=True)
class ProvedVariance(ProvedFunction):
    """Sum, squares and count of centred readings. Coordinates: (s, y, k).

    One reading: y = s^2 besides the mean's check. More: y + z = A^2 k and k y - s^2 = t, which
    every set of readings fulfils but not only these: by at most A^2 upward and k/4 downward in
    the squares. ValueError: the bounds are not centred.
    """

    bounds: ReadingBounds
    largest_count: int
    """M of the largest part that may come in a round: all shares of a query are in one field."""
    noise_bounds: tuple[int, ...] = ()
    arithmetic: Arithmetic = NUMPY
    algorithm = VARIANCE

    def __post_init__(self) -> None:
        self._check_noise_bounds(3)
        if self.bounds.lowest != -self.bounds.highest:
            raise ValueError("readings of a variance have centred bounds")
        if self.largest_count < self.bounds.count:
            raise ValueError("the largest count of a round is no less than that of a contribution")

    @cached_property
    def circuit(self) -> Forms:
        bounds, count = self.bounds, self.bounds.count
        small = self.largest_count * bounds.largest < 1 << 31
        field = self.arithmetic.field64 if small else self.arithmetic.field128
        noise = [2 * bound for bound in self.noise_bounds]
        total, readings = _pair_forms(bounds)
        pair = Relation((-bounds.width, 1, 1))
        square = bounds.largest**2
        if count == 1:
            # Values: k, a, b, the noise, and y, which is free.
            squares = (*(0,) * (3 + len(noise)), 1)
            return Forms(
                field,
                _ranges(*_pair_tops(bounds), *noise),
                _with_noise((total, squares, readings), 3, self.noise_bounds),
                free=1,
                squares=(total,),
                relations=(pair, Relation(squares, (-1,))),
            )
        # Values: k, a, b, y, z, t, and the noise. 4 k y = (k + y)^2 - (k - y)^2.
        return Forms(
            field,
            _ranges(*_pair_tops(bounds), count * square, count * square, count**2 * square, *noise),
            _with_noise((total, (0, 0, 0, 1), readings), 6, self.noise_bounds),
            squares=(total, (1, 0, 0, 1), (1, 0, 0, -1)),
            relations=(
                pair,
                Relation((-square, 0, 0, 1, 1)),
                Relation((0, 0, 0, 0, 0, -4), (-4, 1, -1)),
            ),
        )

    @property
    def influence(self) -> tuple[int, ...]:
        bounds = self.bounds
        return (
            bounds.most - bounds.least + self._bound(0),
            bounds.count * bounds.largest**2 + self._bound(1),
            bounds.count + self._bound(2),
        )

    @property
    def influence_from_zero(self) -> tuple[int, ...]:
        return (self.bounds.farthest + self._bound(0), *self.influence[1:])

    def encode(self, coordinates: Integers, noise: Integers | None = None) -> Elements:
        total, squares, count = coordinates.T
        pair, drawn = _pair(self.bounds, total, count), _columns(self._moved(noise))
        if self.bounds.count == 1:
            if (squares.astype(object) != total.astype(object) ** 2).any():
                raise ValueError("the squares are not those of one reading")
            return self.circuit.encode((*pair, *drawn, squares))
        rest = self.bounds.largest**2 * count.astype(object) - squares
        gap = count.astype(object) * squares - total.astype(object) ** 2
        return self.circuit.encode((*pair, squares, rest, gap, *drawn))


@dataclass(frozen=True)
class ProvedVector(ProvedFunction):
    """Entries in blocks, each with a bound on its L1 or L2 norm. Coordinates: the entries.

    A histogram of M readings is one unsigned block with top and bound M. `bound` of a block is
    M B_1, B_1 the L1 bound of one reading, or n' W, W the bound of a curator's window, if that is
    less; `top` is min(bound, M A). ValueError: there is no block, or `largest` are no such blocks.
    """

    blocks: tuple[Block, ...]
    noise_bounds: tuple[int, ...] = ()
    arithmetic: Arithmetic = NUMPY
    largest: tuple[Block, ...] = ()
    """The blocks of the largest part that may come in a round, if these are others: all shares of a
    query are in one field."""

    def __post_init__(self) -> None:
        if not self.blocks:
            raise ValueError("a vector has at least one block")
        self._check_noise_bounds(sum(block.length for block in self.blocks))
        if self.largest and (
            len(self.largest) != len(self.blocks)
            or any(
                replace(block, top=widest.top, bound=widest.bound) != widest
                or block.top > widest.top
                or block.bound > widest.bound
                for block, widest in zip(self.blocks, self.largest, strict=True)
            )
        ):
            raise ValueError("the blocks of the largest part are no smaller than its own")

    @property
    def algorithm(self) -> int:  # type: ignore[override]
        return L2_VECTOR if any(block.l2 for block in self.blocks) else VECTOR

    @property
    def proofs(self) -> int:  # type: ignore[override]
        return 1 if self._wide else VECTOR_PROOFS

    @property
    def _wide(self) -> bool:
        return any(block.wide for block in self.largest or self.blocks)

    @cached_property
    def circuit(self) -> BoundedVector:
        noise = tuple(BoundedInteger(2 * bound) for bound in self.noise_bounds)
        bits = sum(block.bits + block.weight.bits for block in self.blocks)
        squares = [block.length for block in self.blocks if block.l2]
        chunk = least_proof_chunk(bits + sum(item.bits for item in noise), squares)
        field = self.arithmetic.field128 if self._wide else self.arithmetic.field64
        return BoundedVector(field, self.blocks, chunk, noise)

    @property
    def influence(self) -> tuple[int, ...]:
        entries = self._per_entry([block.top * (2 if block.signed else 1) for block in self.blocks])
        return tuple(value + self._bound(place) for place, value in enumerate(entries))

    @property
    def influence_from_zero(self) -> tuple[int, ...]:
        entries = self._per_entry([block.top for block in self.blocks])
        return tuple(value + self._bound(place) for place, value in enumerate(entries))

    @property
    def norm_influence(self) -> tuple[int, ...]:
        """By how much one contribution can move each block's total, in the norm of the block's
        bound, rounded up.

        In L2 two vectors without negative entries are at most sqrt(2) times their bound apart.
        """
        influences, start = [], 0
        for block in self.blocks:
            noise = self.noise_bounds[start : start + block.length]
            if block.l2:
                # Squared, so that only whole numbers are compared.
                apart = min(
                    (4 if block.signed else 2) * block.bound**2,
                    block.length * ((2 if block.signed else 1) * block.top) ** 2,
                )
                influences.append(_root_up(apart) + _root_up(sum(bound**2 for bound in noise)))
            else:
                influences.append(2 * block.bound + sum(noise))
            start += block.length
        return tuple(influences)

    @property
    def offset(self) -> tuple[int, ...]:
        entries = self._per_entry([block.offset for block in self.blocks])
        return tuple(-value - self._bound(place) for place, value in enumerate(entries))

    def _per_entry(self, values: Sequence[int]) -> list[int]:
        """What each block has, for each of its entries."""
        return [
            value
            for value, block in zip(values, self.blocks, strict=True)
            for _ in range(block.length)
        ]

    def encode(self, coordinates: Integers, noise: Integers | None = None) -> Elements:
        moved = self._moved(noise)
        return self.circuit.encode(
            coordinates.astype(np.int64), None if moved is None else moved.astype(np.int64)
        )


@dataclass(frozen=True)
class ProvedPresence(ProvedFunction):
    """A function, then how many of the contribution's curators had a reading, in [0, curators].

    Coordinates: those of `function`, then this number. A vector has it as one more block.
    `noise_bound`: its T, 0 where curators draw no noise.
    """

    function: ProvedSum | ProvedMean | ProvedVariance
    curators: int
    noise_bound: int = 0
    algorithm = PRESENCE

    def __post_init__(self) -> None:
        if self.curators < 1:
            raise ValueError("a contribution is of at least one curator")
        if (self.noise_bound > 0) != bool(self.function.noise_bounds):
            raise ValueError("noise is added to all coordinates or to none")

    @property
    def arithmetic(self) -> Arithmetic:  # type: ignore[override]
        return self.function.arithmetic

    @property
    def noise_bounds(self) -> tuple[int, ...]:  # type: ignore[override]
        return (*self.function.noise_bounds, self.noise_bound) if self.noise_bound else ()

    @property
    def present(self) -> BoundedInteger:
        """The range of the number with its noise."""
        return BoundedInteger(self.curators + 2 * self.noise_bound)

    @cached_property
    def circuit(self) -> Forms:
        inner = self._forms
        place = len(inner.ranges)

        def widened(form: LinearForm) -> LinearForm:
            return (*form[:place], 0, *form[place:]) if len(form) > place else form

        return Forms(
            inner.field,
            (*inner.ranges, self.present),
            (*(widened(form) for form in inner.output_forms), (*(0,) * place, 1)),
            inner.free,
            tuple(widened(form) for form in inner.squares),
            tuple(Relation(widened(each.form), each.squares) for each in inner.relations),
        )

    @property
    def influence(self) -> tuple[int, ...]:
        return (*self.function.influence, self.curators + self.noise_bound)

    @property
    def influence_from_zero(self) -> tuple[int, ...]:
        return (*self.function.influence_from_zero, self.curators + self.noise_bound)

    @property
    def offset(self) -> tuple[int, ...]:
        return (*self.function.offset, -self.noise_bound)

    def encode(self, coordinates: Integers, noise: Integers | None = None) -> Elements:
        moved = self._moved(noise)
        values = coordinates[:, -1]
        _check_range(values, self.curators)
        if moved is not None:
            _check_range(moved[:, -1], 2 * self.noise_bound)
            values = values + moved[:, -1]
        bits = self.circuit.field.small(self.present.encode(values))
        other_digits = self.function.encode(
            coordinates[:, :-1], None if noise is None else noise[:, :-1]
        )
        place = self._forms.bits
        return np.concatenate((other_digits[:, :place], bits, other_digits[:, place:]), axis=1)

    @cached_property
    def _forms(self) -> Forms:
        inner = self.function.circuit
        if isinstance(inner, Forms):
            return inner
        return Forms(inner.field, (BoundedInteger(1),), ((1,),))


def proved_count(
    count: int, noise_bounds: tuple[int, ...] = (), arithmetic: Arithmetic = NUMPY
) -> ProvedSum:
    """The number of readings, 0 to `count`."""
    return ProvedSum(ReadingBounds(0, 1, count), noise_bounds, arithmetic)


def proved_histogram(
    bins: int,
    count: int,
    noise_bounds: tuple[int, ...] = (),
    arithmetic: Arithmetic = NUMPY,
) -> ProvedVector:
    """At most `count` readings, in `bins` bins."""
    return ProvedVector((Block(bins, count, count),), noise_bounds, arithmetic)


def _check_width(bounds: ReadingBounds) -> None:
    if bounds.width < 1:
        raise ValueError("bounds of a reading hold at least one ring unit")


def _check_range(values: Integers, top: int) -> None:
    if ((values < 0) | (values > top)).any():
        raise ValueError("a value lies outside of the range that its circuit proves")


def _root_up(value: int) -> int:
    """The square root of a whole number, rounded up."""
    root = math.isqrt(value)
    return root + (root * root < value)


def _ranges(*tops: int) -> tuple[BoundedInteger, ...]:
    return tuple(BoundedInteger(top) for top in tops)


def _pair_tops(bounds: ReadingBounds) -> tuple[int, int, int]:
    """The largest k, a and b."""
    return bounds.count, bounds.count * bounds.width, bounds.count * bounds.width


def _pair_forms(bounds: ReadingBounds) -> tuple[LinearForm, LinearForm]:
    """s and k as forms of k, a, b."""
    return (bounds.lowest, 1), (1,)


def _pair(bounds: ReadingBounds, total: Integers, count: Integers) -> tuple[Integers, ...]:
    """k, a, b of s and k."""
    return count, total - bounds.lowest * count, bounds.highest * count - total


def _with_noise(
    forms: Sequence[LinearForm], first: int, noise_bounds: tuple[int, ...]
) -> tuple[LinearForm, ...]:
    """Each form with its noise integer, which stand from place `first` on."""
    if not noise_bounds:
        return tuple(forms)
    parts = []
    for number, form in enumerate(forms):
        coefficients = [*form, *(0,) * (first + len(forms) - len(form))]
        coefficients[first + number] += 1
        parts.append(tuple(coefficients))
    return tuple(parts)


def _columns(noise: Integers | None) -> tuple[Integers, ...]:
    return () if noise is None else tuple(noise.T)
