"""The discrete Gaussian law, drawn in whole units without a float.

    P(Z = z) = e^(-z^2 / (2 s^2)) / sum over y of e^(-y^2 / (2 s^2)),   0 < s <= 2^30.

Added to integers of L2 sensitivity D it is D^2 / (2 s^2)-zCDP (Canonne, Kamath, Steinke 2020).

Method, s up to 1024. A table of the cumulated law in integers of 512 bits, over the values within
26 s (and 3 more): a uniform word is looked up among the leading 64 bits of the table, from where
a guide of 4,096 places says to begin. Only a word that equals an entry (once in 2^64 / entries)
is continued with 448 bits more.

Method beyond. Magnitudes are cut into cells of a power of two, 128 to 256 of them to an s. Sign and
cell come from such a table, by the cell's largest mass; the place L in the cell is uniform, and is
kept with probability e^(-L (2 b + L) / (2 s^2)), b the cell's smallest magnitude: above 0.99. The
exponent is a whole number of 1 / (2 s^2); each of its base-256 digits is an independent coin.
How many were not kept can be told from the time; it says little of the values that were.

Distance of a draw from the exact law in total variation: below 2^-470. What lies beyond 26 s has
mass 2 e^(-26^2 / 2) < 2^-486; decimals of 180 digits and weights of 512 bits add less than 2^-480.
That is finer than other laws here need, since e^epsilon times it goes into delta, and epsilon
passes 100 where a source asks for little Gaussian noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from numbers import Rational
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.noise.alias import PRECISE
from tacit.noise.distance import DRAW_DISTANCE, sampler_delta
from tacit.randomness import NoiseSource

DEVIATION_LIMIT: Final = 1 << 30
"""The largest deviation, in whole units."""
DISTANCE: Final = Fraction(1, 1 << 470)
"""Total variation between one draw and the law."""
TABLE_LIMIT: Final = 1024
"""Up to this deviation one table holds all values."""

_REACH: Final = 26
_BITS: Final = 512
_REST_BITS: Final = _BITS - 64
_GUIDE_BITS: Final = 12
_CELLS: Final = 128
_CHUNK: Final = 1 << 14
"""Words looked up at a time: they and what they give stay in the cache."""
_WORD: Final = (1 << 64) - 1
_STEPS: Final = 2

_EXACT: Final = Context(
    prec=180, rounding=PRECISE.rounding, Emin=PRECISE.Emin, Emax=PRECISE.Emax, traps=PRECISE.traps
)
"""180-digit decimals; as with `PRECISE`, every step is a method of this one."""

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class CumulativeTable:
    """A finite law by its cumulated weights, which end with 2^512.

    bounds (entries,): their leading words, the last one 2^64 - 1; rests: what follows, in 448 bits;
    guide (4096,): the first entry whose bound a word with these leading 12 bits may stay below.
    """

    bounds: Words
    rests: tuple[int, ...]
    guide: NDArray[np.int32]

    @classmethod
    def from_law(cls, law: Sequence[Decimal]) -> "CumulativeTable":
        """The table of a law given in decimals (not necessarily normalised)."""
        total = Decimal(0)
        for mass in law:
            total = _EXACT.add(total, mass)
        unit = _EXACT.divide(Decimal(1 << _BITS), total)
        bounds, rests, running = [], [], Decimal(0)
        for mass in law:
            running = _EXACT.add(running, mass)
            bound, rest = _split(_EXACT.multiply(running, unit))
            bounds.append(bound)
            rests.append(rest)
        bounds[-1], rests[-1] = _WORD, 1 << _REST_BITS
        upper = np.array(bounds, np.uint64)
        starts = np.arange(1 << _GUIDE_BITS, dtype=np.uint64) << np.uint64(64 - _GUIDE_BITS)
        guide = np.searchsorted(upper, starts).astype(np.int32)
        upper.flags.writeable = guide.flags.writeable = False
        return cls(upper, tuple(rests), guide)

    def weights(self) -> tuple[int, ...]:
        """The integer weights, recomputed from what the table holds."""
        totals = [
            (bound << _REST_BITS) + rest
            for bound, rest in zip(self.bounds.tolist(), self.rests, strict=True)
        ]
        return tuple(now - before for before, now in zip([0, *totals], totals, strict=False))

    def select(self, words: Words, source: NoiseSource) -> Ints:
        """The entries that these uniform words decide; `source` serves the ties."""
        places: Ints = self.guide[words >> np.uint64(64 - _GUIDE_BITS)].astype(np.int64)
        for _ in range(_STEPS):
            places += self.bounds[places] < words
        far = np.flatnonzero(self.bounds[places] < words)
        places[far] = np.searchsorted(self.bounds, words[far])
        for tie in np.flatnonzero(self.bounds[places] == words).tolist():
            places[tie] = self.settled(int(places[tie]), source)
        return places

    def settled(self, place: int, source: NoiseSource) -> int:
        """The entry of a word that equals the bound of `place`: the first entry with that bound."""
        more = 0
        for word in source.words(_REST_BITS // 64).tolist():
            more = more << 64 | word
        bound = self.bounds[place]
        while self.bounds[place] == bound and more >= self.rests[place]:
            place += 1
        return place


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """Gaussian noise on whole numbers; `variance`: the law's s^2, in units squared."""

    variance: Fraction

    def __post_init__(self) -> None:
        if not isinstance(self.variance, Rational):
            raise TypeError("a variance is an exact rational")
        if not 0 < self.variance <= DEVIATION_LIMIT**2:
            raise ValueError(f"a deviation lies above 0 and is at most {DEVIATION_LIMIT} units")

    def draw(self, source: NoiseSource, count: int, *, compiled: bool = False) -> Ints:
        """`count` independent draws."""
        drawn = np.zeros(count, np.int64)
        self.add_to(drawn, source, compiled=compiled)
        return drawn

    def add_to(
        self, values: NDArray[np.signedinteger], source: NoiseSource, *, compiled: bool = False
    ) -> None:
        """Add a draw to each of the values (n,), in place.

        compiled: look up by numba, which has to be installed; the draws are the same.
        """
        if self.variance > TABLE_LIMIT**2:
            for start in range(0, len(values), _CHUNK):
                part = values[start : start + _CHUNK]
                part += _layered(self.variance, source, len(part)).astype(values.dtype)
            return
        table = gaussian_table(self.variance)
        reach = len(table.bounds) // 2
        for start in range(0, len(values), _CHUNK):
            part = values[start : start + _CHUNK]
            words = source.words(len(part))
            if compiled:
                _add_compiled(part, words, table, reach, source)
            else:
                part += (table.select(words, source) - reach).astype(values.dtype)

    def pmf(self, z: ArrayLike) -> NDArray[np.float64]:
        """P(Z = z) in floating point: for reports and tests, never for a draw."""
        variance = float(self.variance)
        reach = int(9.6 * variance**0.5) + 3
        total = np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * variance)).sum()
        mass: NDArray[np.float64] = (
            np.exp(-(np.asarray(z, np.float64) ** 2) / (2 * variance)) / total
        )
        return mass


@lru_cache(maxsize=64)
def gaussian_table(variance: Fraction) -> CumulativeTable:
    """The table of all values from -reach to reach."""
    half = _masses(variance, reach_of(variance))
    return CumulativeTable.from_law([*half[:0:-1], *half])


def gaussian_sampler_delta(draws: int, epsilon: Fraction) -> Fraction:
    """What imperfect draws add to delta, at most 1."""
    return min(Fraction(1), sampler_delta(draws, epsilon) * DISTANCE / DRAW_DISTANCE)


def reach_of(variance: Fraction) -> int:
    """The largest magnitude that a table holds: 26 deviations and 3."""
    return isqrt(int(_REACH**2 * variance)) + 3


def _decimal(value: Fraction) -> Decimal:
    return _EXACT.divide(Decimal(value.numerator), Decimal(value.denominator))


def _split(value: Decimal) -> tuple[int, int]:
    """The leading word of a number of at most 2^512, rounded, and the rest."""
    whole = int(_EXACT.to_integral_value(value))
    bound = min(whole >> _REST_BITS, _WORD)
    return bound, whole - (bound << _REST_BITS)


def _masses(variance: Fraction, reach: int) -> list[Decimal]:
    """e^(-z^2 / (2 variance)) for z = 0, ..., reach, by (z + 1)^2 - z^2 = 2 z + 1."""
    step = _EXACT.exp(_decimal(Fraction(-1, 2) / variance))
    twice = _EXACT.multiply(step, step)
    masses = [Decimal(1)]
    for _ in range(reach):
        masses.append(_EXACT.multiply(masses[-1], step))
        step = _EXACT.multiply(step, twice)
    return masses


def _add_compiled(
    values: NDArray[np.signedinteger],
    words: Words,
    table: CumulativeTable,
    reach: int,
    source: NoiseSource,
) -> None:
    from tacit.noise.discrete_gaussian_compiled import add_looked_up

    for tie in add_looked_up(values, words, table.bounds, table.guide, reach).tolist():
        place = int(np.searchsorted(table.bounds, words[tie]))
        values[tie] += table.settled(place, source) - place


# ----------------------------------------------------------------------------- large deviations


@dataclass(frozen=True, slots=True, eq=False)
class _Layers:
    """cells: the table of (cell, sign), sign 1 for magnitudes that count from 1 below zero;
    coins[j]: thresholds (256,) of the digit j, their leading words and the 448 bits that follow."""

    shift: int
    cells: CumulativeTable
    coins: tuple[tuple[Words, tuple[int, ...]], ...]


def _powers(variance: Fraction, rate: int, count: int) -> list[Decimal]:
    """e^(-rate k / (2 variance)) for k = 0, ..., count - 1."""
    step = _EXACT.exp(_decimal(Fraction(-rate, 2) / variance))
    powers = [Decimal(1)]
    for _ in range(count - 1):
        powers.append(_EXACT.multiply(powers[-1], step))
    return powers


@lru_cache(maxsize=16)
def _layers(variance: Fraction) -> _Layers:
    shift = max(0, isqrt(int(variance) // _CELLS**2).bit_length() - 1)
    reach = reach_of(variance)
    # Magnitudes begin with c w, and with c w + 1 below zero, squared (c w)^2 + 2 c w + 1.
    above = _masses(variance / (1 << 2 * shift), reach >> shift)
    factors = _powers(variance, 2 << shift, len(above))
    unit = _powers(variance, 1, 2)[1]
    law = []
    for mass, factor in zip(above, factors, strict=True):
        law += [mass, _EXACT.multiply(_EXACT.multiply(mass, factor), unit)]
    largest = (1 << shift) * (2 * (reach + 1) + (1 << shift))
    coins = []
    for digit in range((largest.bit_length() + 7) // 8):
        powers = _powers(variance, 256**digit, 256)
        both = [_split(_EXACT.multiply(power, Decimal(1 << _BITS))) for power in powers]
        bounds = np.array([bound for bound, _ in both], np.uint64)
        coins.append((bounds, tuple(rest for _, rest in both)))
    return _Layers(shift, CumulativeTable.from_law(law), tuple(coins))


def _layered(variance: Fraction, source: NoiseSource, count: int) -> Ints:
    layers = _layers(variance)
    drawn = np.empty(count, np.int64)
    done = 0
    while done < count:
        values = _proposed(layers, source, count - done)
        drawn[done : done + len(values)] = values
        done += len(values)
    return drawn


def _proposed(layers: _Layers, source: NoiseSource, count: int) -> Ints:
    """What is kept of this many proposals."""
    cells = layers.cells.select(source.words(count), source)
    sign = cells & 1
    smallest: Ints = ((cells >> 1) << layers.shift) + sign
    inside: Ints = (source.words(count) & np.uint64((1 << layers.shift) - 1)).astype(np.int64)
    exponent = inside * (2 * smallest + inside)
    accepted = np.ones(count, np.bool_)
    for place, (bounds, rests) in enumerate(layers.coins):
        digits = exponent >> (8 * place) & 255
        accepted &= _coins(digits, bounds, rests, source)
    magnitude = (smallest + inside)[accepted]
    signed: Ints = np.where(sign[accepted] == 1, -magnitude, magnitude)
    return signed


def _coins(
    digits: Ints, bounds: Words, rests: tuple[int, ...], source: NoiseSource
) -> NDArray[np.bool_]:
    """Coins that show true with the 512-bit probability listed for each digit."""
    words, bound_of_digit = source.words(len(digits)), bounds[digits]
    shown = words < bound_of_digit
    for tie in np.flatnonzero(words == bound_of_digit).tolist():
        more = 0
        for word in source.words(_REST_BITS // 64).tolist():
            more = more << 64 | word
        shown[tie] = more < rests[int(digits[tie])]
    return shown
