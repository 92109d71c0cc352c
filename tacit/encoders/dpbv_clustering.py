"""What a curator computes on its own rows: DPBV's bits and their privacy loss, noisy grids, noisy
points, and the grid as a sum over records.

Spec: dpbv-clustering, sections 2, 3.1 and 3.2. Source: L. Sun, J. Zhao and X. Ye, "Distributed
Clustering in the Anonymized Space with Local Differential Privacy", equations 1 and 7.

A value x of [L, U] becomes s bits. Bit i says whether x is within t of the public point r_i; the
points lie in [L - t, U + t], so that every value has as many ones in expectation. Then each bit is
turned over with probability q. A record is the bits of its attributes, packed in 64-bit words: d
blocks of ceil(s/64) little-endian words, bit i of a value at position i % 64 of word i // 64.

Points, t and q are public; only the coins protect. Encoded records are sent again as they
were stored: fresh coins for the same record would add up against it.

Where DPBV is not used (spec: dpbv-clustering, section 3.9), every record depends on itself and on
public values alone.

- `Cells`: the cell of a public grid that a record lies in; counts of them are summed in rounds.
- `unary_reports`: optimised unary encoding of that cell (T. Wang, J. Blocki, N. Li and S. Jha,
  "Locally Differentially Private Protocols for Frequency Estimation", 2017): the own bit is 1 with
  probability 1/2, every other with q = 1 / (1 + e^epsilon). Two records differ in two bits, so
  that no report is more than (1 - q) / q times as likely under one than under the other.
- `noisy_points`: every coordinate, on a grid of 2^-16 of its range, plus discrete Laplace noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import MIN_EMIN, ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tacit.encoders.kmeans_sums import KmeansSum
from tacit.encoders.kmeans_sums import read as read_kmeans
from tacit.encoders.sums import SumBlock
from tacit.noise import SCALE_LIMIT, DiscreteLaplace
from tacit.randomness import NoiseSource, PublicRandom
from tacit.wire import format_exact, parse_exact

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bits: TypeAlias = NDArray[np.bool_]
Words: TypeAlias = NDArray[np.uint64]
Design = Literal["uniform", "grid"]

WORD_BITS: Final = 64
COIN_BITS: Final = 32
BLOCK_COINS: Final = 1 << 21
"""Coins drawn at a time: 8 MiB of words."""

_COINS: Final = 1 << COIN_BITS
_PRECISE: Final = Context(prec=60, rounding=ROUND_CEILING)


class MalformedBits(ValueError):
    """An encoded record of the wrong length, or with pad bits that are not zero."""


@dataclass(frozen=True)
class Box:
    """The declared range of d attributes, and the map to the units in which they are encoded.

    lower, upper: raw units. `target`: the interval that each attribute is stretched to; None keeps
    raw units. `one_factor`: all attributes are stretched alike, the widest fills the interval.
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    target: tuple[float, float] | None = None
    one_factor: bool = False

    def __post_init__(self) -> None:
        if len(self.lower) != len(self.upper) or not self.lower:
            raise ValueError("a box has two bounds for every attribute")
        for low, high in (*zip(self.lower, self.upper, strict=True), self.target or (0.0, 1.0)):
            if not (low < high and math.isfinite(low) and math.isfinite(high - low)):
                raise ValueError("a range has a positive, finite length")

    @property
    def dimension(self) -> int:
        """d."""
        return len(self.lower)

    @property
    def ranges(self) -> tuple[tuple[float, float], ...]:
        """(L_j, U_j) of every attribute after the map."""
        if self.target is None:
            return tuple(zip(self.lower, self.upper, strict=True))
        low, high = self.target
        if not self.one_factor:
            return ((low, high),) * self.dimension
        return tuple((low, min(low + width, high)) for width in self._widths() * self._factors())

    def apply(self, values: Floats) -> Floats:
        """Values (n, d) in raw units, clipped to the box, after the map. Each row depends on
        itself only."""
        low, high = np.array(self.lower), np.array(self.upper)
        clipped: Floats = np.clip(values, low, high)
        if self.target is None:
            return clipped
        mapped = (clipped - low) * self._factors() + self.target[0]
        ends = np.array(self.ranges)
        stretched: Floats = np.clip(mapped, ends[:, 0], ends[:, 1])  # rounding may overshoot
        return stretched

    def raw(self, mapped: Floats) -> Floats:
        """The inverse map, (n, d)."""
        if self.target is None:
            return mapped
        points: Floats = (mapped - self.target[0]) / self._factors() + np.array(self.lower)
        return points

    def stretch(self, lengths: Floats) -> Floats:
        """Lengths (d,) in raw units, after the map."""
        if self.target is None:
            return lengths
        stretched: Floats = lengths * self._factors()
        return stretched

    def _widths(self) -> Floats:
        widths: Floats = np.array(self.upper) - np.array(self.lower)
        return widths

    def _factors(self) -> Floats:
        assert self.target is not None
        widths = self._widths()
        length = self.target[1] - self.target[0]
        return length / (np.full_like(widths, widths.max()) if self.one_factor else widths)


@dataclass(frozen=True, eq=False)
class Code:
    """How one attribute becomes bits: sorted public points (s,), its range and t, in one unit."""

    points: Floats
    lower: float
    upper: float
    half_window: float

    @property
    def bits(self) -> int:
        """s."""
        return len(self.points)

    @property
    def span(self) -> float:
        """mu = U - L + 2t."""
        return self.upper - self.lower + 2 * self.half_window

    def window(self, values: Floats) -> tuple[Ints, Ints]:
        """Where the ones of values (n,) begin and end: bits lo..hi-1, |x - r_i| <= t."""
        low = np.searchsorted(self.points, values - self.half_window, side="left")
        high = np.searchsorted(self.points, values + self.half_window, side="right")
        return low, high

    def clean(self, values: Floats) -> Bits:
        """The bits (n, s) of values (n,) before any coin; equation 1."""
        low, high = self.window(values)
        places = np.arange(self.bits)
        ones: Bits = (places >= low[:, None]) & (places < high[:, None])
        return ones


def make_codes(
    ranges: tuple[tuple[float, float], ...],
    half_windows: tuple[float, ...],
    bits: int,
    design: Design,
    seed: int,
) -> tuple[Code, ...]:
    """The codes of all attributes from a public seed; the `grid` design draws nothing.

    uniform: s independent points of [L - t, U + t], sorted. grid: r_i = L - t + (i - 1/2) mu / s.
    """
    generator = PublicRandom(seed).generator
    codes = []
    for (low, high), half in zip(ranges, half_windows, strict=True):
        span = high - low + 2 * half
        if design == "grid":
            places = (np.arange(bits) + 0.5) / bits
        else:
            places = np.sort(generator.random(bits))
        codes.append(Code(low - half + places * span, low, high, half))
    return tuple(codes)


@dataclass(frozen=True)
class Flip:
    """A coin that turns a bit over with probability q = threshold / 2^32, exactly.

    A 32-bit word below the threshold flips. q is rounded up, which only adds privacy.
    """

    threshold: int

    def __post_init__(self) -> None:
        if not 0 <= self.threshold < _COINS // 2:
            raise ValueError("a bit is turned over with a probability below 1/2")

    @classmethod
    def of_epsilon(cls, epsilon_bit: Fraction | None) -> Flip:
        """q = 1 / (1 + e^epsilon), rounded up to 2^-32; None: no flips, plain bit vectors.

        Raises ValueError for an epsilon of 0 or less, or so small that q rounds to 1/2.
        """
        if epsilon_bit is None:
            return cls(0)
        if epsilon_bit <= 0:
            raise ValueError("the budget of a bit is positive")
        exponent = _PRECISE.divide(
            _PRECISE.create_decimal(epsilon_bit.numerator), epsilon_bit.denominator
        )
        share = _PRECISE.divide(_COINS, _PRECISE.add(1, _PRECISE.exp(exponent)))
        return cls(math.ceil(share))

    @property
    def probability(self) -> Fraction:
        """q."""
        return Fraction(self.threshold, _COINS)

    @property
    def epsilon(self) -> float:
        """ln((1 - q) / q) of the coin that is really thrown, rounded up; infinite without flips."""
        if not self.threshold:
            return math.inf
        return math.log1p((_COINS - 2 * self.threshold) / self.threshold) * (1 + 2.0**-50)

    def draw(self, source: NoiseSource, count: int) -> Bits:
        """`count` independent coins."""
        if not self.threshold:
            return np.zeros(count, np.bool_)
        return random_words(source, count) < np.uint32(self.threshold)


def random_words(source: NoiseSource, count: int) -> NDArray[np.uint32]:
    """`count` independent uniform 32-bit words."""
    return source.words(-(-count // 2)).view(np.uint32)[:count]


def encode(values: Floats, codes: tuple[Code, ...], flip: Flip, source: NoiseSource) -> Words:
    """Records (n, d), in the codes' units, as flipped and packed bits (n, d, ceil(s/64))."""
    count = len(values)
    packed = np.empty((count, len(codes), words_per_value(codes[0].bits)), np.uint64)
    for place, code in enumerate(codes):
        rows = max(1, BLOCK_COINS // code.bits)
        for start in range(0, count, rows):
            column = values[start : start + rows, place]
            bits = code.clean(column)
            bits ^= flip.draw(source, bits.size).reshape(bits.shape)
            packed[start : start + rows, place] = pack(bits)
    return packed


def words_per_value(bits: int) -> int:
    """ceil(s / 64)."""
    return -(-bits // WORD_BITS)


def pack(bits: Bits) -> Words:
    """Bits (n, s) as words (n, ceil(s/64)), pad bits zero."""
    octets = np.zeros((len(bits), 8 * words_per_value(bits.shape[1])), np.uint8)
    octets[:, : -(-bits.shape[1] // 8)] = np.packbits(bits, axis=1, bitorder="little")
    return octets.view("<u8").astype(np.uint64, copy=False)


def unpack(words: Words, bits: int) -> NDArray[np.uint8]:
    """Words (n, ceil(s/64)) as zeros and ones (n, s)."""
    octets = np.ascontiguousarray(words, "<u8").view(np.uint8)
    return np.unpackbits(octets, axis=1, count=bits, bitorder="little")


def to_wire(record: Words) -> bytes:
    """One encoded record (d, ceil(s/64)) as bytes."""
    return np.ascontiguousarray(record, "<u8").tobytes()


def from_wire(octets: bytes, dimension: int, bits: int) -> Words:
    """One record from its bytes, (d, ceil(s/64)). Raises MalformedBits."""
    width = words_per_value(bits)
    if len(octets) != 8 * dimension * width:
        raise MalformedBits(f"a record has {8 * dimension * width} bytes")
    record = np.frombuffer(octets, "<u8").reshape(dimension, width).astype(np.uint64)
    used = bits - WORD_BITS * (width - 1)
    if used < WORD_BITS and (record[:, -1] >> np.uint64(used)).any():
        raise MalformedBits("pad bits are zero")
    return record


# Privacy loss of flipped bits: how many can differ, and figures besides the accountant's.
#
# Spec: dpbv-clustering, sections 4.1 to 4.3. Two inputs whose clean bits differ in k places give
# product laws, and equal bits cancel: the release is k randomised responses, accounted exactly by
# `tacit.accounting.randomised_response`. Its delta never falls as k grows. Here are k for given
# public points, the delta that the source claims (falsely), how close the true one is to 1, and the
# error of the best test.

_UP: Final = Context(prec=40, rounding=ROUND_CEILING, Emin=MIN_EMIN)


def log10_complement(differing: int, epsilon_bit: float, epsilon: float) -> float:
    """log10(1 - delta): how close delta is to 1, where that is beyond a float.

    1 - delta = sum_j C(k, j) p^j q^(k-j) min(1, e^(E - eps (2j - k))).
    """
    if differing < 0 or not epsilon_bit > 0 or not epsilon >= 0:
        raise ValueError("bits are counted, and budgets are positive")
    if not differing or epsilon >= differing * epsilon_bit:
        return 0.0
    if math.isinf(epsilon_bit):
        return -math.inf
    first = _first_gain(differing, epsilon_bit, epsilon)
    mean = differing / (1 + math.exp(-epsilon_bit))
    peak = min(max(first, differing - mean), mean)
    reach = _reach(differing, epsilon_bit)
    j = np.arange(max(0, math.floor(peak - reach)), min(differing, math.ceil(peak + reach)) + 1)
    logs = _log_masses(differing, epsilon_bit, j)
    logs += np.minimum(0.0, epsilon - epsilon_bit * (2 * j - differing))
    highest = float(logs.max())
    return (highest + math.log(float(np.exp(logs - highest).sum()))) / math.log(10)


def claimed_delta(bits: int, epsilon_bit: Fraction) -> Decimal:
    """What Theorem 4 of the source says: p^s - e^eps q^s. It is not a delta of any guarantee."""
    exponent = _UP.divide(Decimal(epsilon_bit.numerator), Decimal(epsilon_bit.denominator))
    growth = _UP.exp(exponent)
    keep = _UP.power(_UP.divide(growth, _UP.add(1, growth)), bits)
    turned = _UP.power(_UP.divide(Decimal(1), _UP.add(1, growth)), bits)
    return max(_UP.subtract(keep, _UP.multiply(growth, turned)), Decimal(0))


def ratio_test_error(differing: int, flip: float) -> float:
    """The error of the likelihood-ratio test between two inputs with equal priors: it errs if
    more than half of the differing bits were flipped, and half of the time at a tie."""
    if not differing:
        return 0.5
    if not flip:
        return 0.0
    epsilon_bit = math.log1p((1 - 2 * flip) / flip)
    turned = np.arange(-(-differing // 2), differing + 1)
    mass = _masses(differing, epsilon_bit, differing - turned)
    return float(np.where(2 * turned == differing, 0.5, 1.0) @ mass)


def _first_gain(differing: int, epsilon_bit: float, epsilon: float) -> int:
    """j0 = floor((k + E / eps) / 2) + 1, the first j whose loss exceeds E."""
    return math.floor((differing + epsilon / epsilon_bit) / 2) + 1


def _reach(differing: int, epsilon_bit: float) -> float:
    turned = 1 / (1 + math.exp(epsilon_bit))
    return 60 * math.sqrt(differing * turned * (1 - turned)) + 200


def _log_masses(differing: int, epsilon_bit: float, j: Ints) -> Floats:
    """ln of C(k, j) p^j q^(k-j)."""
    from scipy.special import gammaln

    ways = gammaln(differing + 1) - gammaln(j + 1) - gammaln(differing - j + 1)
    turned = math.log1p(math.exp(-epsilon_bit))  # -ln p; -ln q = that + eps
    logs: Floats = ways - differing * turned - (differing - j) * epsilon_bit
    return logs


def _masses(differing: int, epsilon_bit: float, j: Ints) -> Floats:
    masses: Floats = np.exp(_log_masses(differing, epsilon_bit, j))
    return masses


@dataclass(frozen=True)
class _Steps:
    """The distinct codes of [L, U] in order: a value of each (c,), its first one and its end."""

    values: Floats
    low: Ints
    high: Ints


def most_differing(code: Code, radius: float = math.inf) -> int:
    """The largest number of clean bits in which two values of [L, U] differ, for these points.

    Only pairs with |x - y| <= radius count. Codes are runs lo..hi-1 of ones, and neither end
    falls as x rises. So a pair whose runs overlap differs in (lo' - lo) + (hi' - hi) bits, most
    for the farthest partner, and a pair whose runs do not overlap differs in all of its ones.
    """
    steps = _steps(code)
    ends = steps.low + steps.high
    ones = steps.high - steps.low
    count = len(ends)
    last = np.searchsorted(
        steps.values, np.nextafter(steps.values + radius, math.inf), side="right"
    )
    apart = np.searchsorted(steps.low, steps.high, side="left")  # the first partner that is apart
    near = np.minimum(last, np.maximum(apart, np.arange(count) + 1)) - 1
    overlapping = int((ends[near] - ends).max())
    differing = np.flatnonzero(apart < last)
    if not differing.size:
        return overlapping
    separate = ones[differing] + _range_maximum(ones, apart[differing], last[differing])
    return max(overlapping, int(separate.max()))


def _steps(code: Code) -> _Steps:
    """Every code that a float of [L, U] can have: a value at each end of each run of equal codes.

    A code changes where x passes r_i - t or r_i + t; rounding moves that by a few units in the last
    place, so the neighbours of each such place are tried too.
    """
    edges = np.concatenate((code.points - code.half_window, code.points + code.half_window))
    unit = np.spacing(np.abs(code.points).max() + code.half_window)
    tried = (edges[:, None] + unit * np.arange(-4, 5)).ravel()
    inside = tried[(tried >= code.lower) & (tried <= code.upper)]
    values = np.unique(np.concatenate((inside, [code.lower, code.upper])))
    return _Steps(values, *code.window(values))


def _range_maximum(values: Ints, first: Ints, end: Ints) -> Ints:
    """max(values[first:end]) for many non-empty ranges, by doubling."""
    levels = [values]
    while 2 ** len(levels) <= len(values):
        half = 2 ** (len(levels) - 1)
        levels.append(np.maximum(levels[-1][:-half], levels[-1][half:]))
    power = np.frexp((end - first).astype(np.float64))[1] - 1
    maxima = np.empty(len(first), np.int64)
    for level in np.unique(power).tolist():
        chosen = np.flatnonzero(power == level)
        table = levels[level]
        maxima[chosen] = np.maximum(table[first[chosen]], table[end[chosen] - 2**level])
    return maxima


MOST_CELLS: Final = 4096
POINT_STEPS: Final = 1 << 16
_FAIR: Final = np.uint32(1 << 31)


@dataclass(frozen=True)
class Cells:
    """A grid of `per_axis` cells along each of the box's d axes."""

    box: Box
    per_axis: int

    def __post_init__(self) -> None:
        if self.per_axis < 1:
            raise ValueError("an axis has at least one cell")

    @property
    def count(self) -> int:
        """Cells: per_axis^d."""
        return int(self.per_axis**self.box.dimension)

    def places(self, values: Floats) -> Ints:
        """The cell (n,) of records (n, d) in raw units, the last axis changing fastest. A record
        outside the box is in the nearest cell."""
        low, high = np.array(self.box.lower), np.array(self.box.upper)
        steps = (np.clip(values, low, high) - low) * self.per_axis / (high - low)
        places = np.zeros(len(values), np.int64)
        for column in np.minimum(steps.astype(np.int64), self.per_axis - 1).T:
            places *= self.per_axis
            places += column
        return places

    def sums(self, values: Floats) -> Ints:
        """Records in each cell, (count,)."""
        return np.bincount(self.places(values), minlength=self.count)

    def centres(self) -> Floats:
        """The middles of all cells, (count, d), in raw units."""
        low, high = np.array(self.box.lower), np.array(self.box.upper)
        shape = (self.per_axis,) * self.box.dimension
        indices = np.stack(np.unravel_index(np.arange(self.count), shape), axis=1)
        middles: Floats = low + (indices + 0.5) * (high - low) / self.per_axis
        return middles


def unary_reports(places: Ints, cells: int, flip: Flip, source: NoiseSource) -> Bits:
    """Reports (n, cells) of records in these cells; `flip` has q, rounded up."""
    words = random_words(source, len(places) * cells).reshape(len(places), cells)
    reports = words < np.uint32(flip.threshold)
    rows = np.arange(len(places))
    reports[rows, places] = words[rows, places] < _FAIR
    return reports


def point_scale(dimension: int, epsilon: Fraction) -> Fraction:
    """The scale of each coordinate's noise in steps: d 2^16 / epsilon.

    Raises ValueError where no sampler draws it.
    """
    scale = dimension * POINT_STEPS / epsilon
    if scale > SCALE_LIMIT:
        raise ValueError("too small a budget: its noise cannot be drawn")
    return scale


def noisy_points(values: Floats, box: Box, epsilon: Fraction, source: NoiseSource) -> Ints:
    """Records (n, d) in raw units as noisy steps (n, d); step y means L + y (U - L) / 2^16."""
    low, high = np.array(box.lower), np.array(box.upper)
    scaled = np.rint((np.clip(values, low, high) - low) * POINT_STEPS / (high - low))
    steps = np.clip(scaled, 0, POINT_STEPS).astype(np.int64)
    noise = DiscreteLaplace(point_scale(box.dimension, epsilon)).draw(source, steps.size)
    noisy: Ints = steps + noise.reshape(steps.shape)
    return noisy


# The noisy grid as a sum over records: one cell for each record (spec: dpbv-clustering, sections
# 3.9 (a) and 3.10). The counts of all cells are one block; a record adds 1 in one cell, one that is
# replaced moves two of them. The adaptive form asks the sums of k-means.


@dataclass(frozen=True, eq=False)
class CellSum:
    """Records in each cell of a public grid."""

    cells: Cells
    epsilon: Fraction

    @property
    def columns(self) -> int:
        """d."""
        return self.cells.box.dimension

    @property
    def blocks(self) -> tuple[SumBlock, ...]:
        """All cells."""
        return (SumBlock("cells", self.cells.count, 1, Fraction(1)),)

    def vectors(self, rows: Floats) -> Ints:
        """(n, cells): a one in the cell of each record."""
        indicators = np.zeros((len(rows), self.cells.count), np.int64)
        indicators[np.arange(len(rows)), self.cells.places(rows)] = 1
        return indicators

    def restored(self, opened: Ints) -> Ints:
        """As it is."""
        return opened

    def document(self) -> dict[str, Any]:
        """The box and the cells of an axis; what is not whole is a text."""
        return {
            "lower": [repr(value) for value in self.cells.box.lower],
            "upper": [repr(value) for value in self.cells.box.upper],
            "per_axis": self.cells.per_axis,
            "epsilon": format_exact(self.epsilon),
        }


def read(document: Mapping[str, Any]) -> CellSum | KmeansSum:
    """The sum of a document. Raises ValueError, TypeError or KeyError for anything else."""
    if "kind" in document:
        return read_kmeans(document)
    fields = dict(document)
    lower, upper = (
        tuple(float(bound) for bound in fields.pop(name)) for name in ("lower", "upper")
    )
    ordered = all(
        low < high and np.isfinite(high - low) for low, high in zip(lower, upper, strict=True)
    )
    per_axis, epsilon = fields.pop("per_axis"), parse_exact(fields.pop("epsilon"))
    if fields or not ordered or not lower or not isinstance(per_axis, int) or epsilon <= 0:
        raise ValueError("a grid has a box, cells and an epsilon")
    if not 1 <= per_axis ** len(lower) <= MOST_CELLS:
        raise ValueError(f"a grid has at most {MOST_CELLS} cells")
    # Cells are counted in raw units: how lengths are scaled afterwards changes no count.
    return CellSum(Cells(Box(lower, upper, None, False), per_axis), epsilon)
