"""Secret sharing of integer vectors: additive and Shamir (spec: aggregation, section 5).

`additive`: the ring Z_(2^64). Pieces 1..c-1 are uniform words, piece c is the value minus their
sum. Any c-1 pieces are independent of the value; all c are needed.

`shamir`, threshold k of c: the field of p = 2^57 - 13, evaluation points 1..c <= 64. A value is the
constant term of a polynomial of degree k-1 with uniform coefficients. Any k pieces give it back,
any k-1 are independent of it.

Both are linear: sums of pieces are pieces of sums, which is all that an aggregator computes.

*Seeds* (spec: federated-counting, section 9). As many pieces as may be seen together without
learning anything, c-1 or k-1, are uniform and independent of the value. Each may be a seed of 32
bytes that expands to it; the value and they determine the others. So the hiding is computational:
the pieces are as hard to distinguish from uniform ones as AES-256 from a random permutation.

The plain functions on single integers are the specification of the vectorised ones. Signed values
are represented modulo the modulus and read back centred. Sources: Shamir 1979; Lu's thesis,
section 4.2 (whose real-valued weights hide nothing, hence the ring).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.randomness import NoiseSource, SecureRandom

Words = NDArray[np.uint64]
Ints = NDArray[np.int64]

RING: Final = 1 << 64
PRIME: Final = (1 << 57) - 13
_P: Final = np.uint64(PRIME)
_BITS: Final = np.uint64(57)
_SPARE: Final = np.uint64(64 - 57)
_FOLD: Final = np.uint64(13)
_LOW: Final = np.uint64((1 << 57) - 1)
_HALF: Final = (1 << 29) - 1
_BLOCK: Final = 1 << 15
_ADDENDS: Final = 64
"""Field elements that add up inside 64 bits before a reduction: 128 would overflow."""


class Scheme(Protocol):
    """What a party needs of a sharing, whichever it is."""

    modulus: int

    @property
    def uniform(self) -> int:
        """How many pieces, counted from the first, are uniform and independent of the value."""
        ...

    def split(self, values: Ints, source: NoiseSource) -> list[Words]:
        """One array of pieces, of the shape of `values`, per aggregator."""
        ...

    def expand(self, seed: bytes, count: int) -> Words:
        """`count` words of a uniform piece, from a seed that serves once."""
        ...

    def rest(self, values: Ints, uniform: Iterable[Words]) -> list[Words]:
        """The other pieces, from the values and all uniform pieces."""
        ...

    def add(self, accumulator: Words, pieces: Words) -> Words:
        """The accumulator (d,) plus the column sums of pieces (rows, d)."""
        ...

    def combine(self, partials: dict[int, Words]) -> Ints:
        """Signed totals from the partial sums of a quorum, keyed by aggregator index 0..c-1."""
        ...


class Additive:
    """Additive sharing among `count` aggregators, all of which are needed."""

    modulus: int = RING

    def __init__(self, count: int) -> None:
        if count < 1:
            raise ValueError("at least one aggregator")
        self.count = count

    @property
    def uniform(self) -> int:
        """All but the last."""
        return self.count - 1

    def split(self, values: Ints, source: NoiseSource) -> list[Words]:
        """Uniform words, and what is left of the value."""
        drawn = [source.words(values.size).reshape(values.shape) for _ in range(self.uniform)]
        return [*drawn, *self.rest(values, drawn)]

    def expand(self, seed: bytes, count: int) -> Words:
        """The keystream of the seed."""
        return SecureRandom.from_fresh_seed(seed).words(count)

    def rest(self, values: Ints, uniform: Iterable[Words]) -> list[Words]:
        """What is left of the value."""
        remainder: Words = values.astype(np.uint64)
        for piece in uniform:
            remainder -= piece
        return [remainder]

    def add(self, accumulator: Words, pieces: Words) -> Words:
        """Wrapping 64-bit addition."""
        return np.asarray(accumulator + pieces.sum(axis=0, dtype=np.uint64), np.uint64)

    def combine(self, partials: dict[int, Words]) -> Ints:
        """The sum of all partial sums, centred. Raises ValueError if one is missing."""
        if sorted(partials) != list(range(self.count)):
            raise ValueError("additive sharing needs every aggregator's partial sum")
        _need_one_shape(partials)
        total = np.zeros_like(partials[0])
        for partial in partials.values():
            total += partial
        return total.view(np.int64)


class Shamir:
    """Shamir sharing with `threshold` of `count` aggregators."""

    modulus: int = PRIME

    def __init__(self, threshold: int, count: int) -> None:
        if not 1 <= threshold <= count <= 64:
            raise ValueError("1 <= threshold <= count <= 64 must hold")
        self.threshold, self.count = threshold, count

    @property
    def uniform(self) -> int:
        """The number of pieces that together reveal nothing."""
        return self.threshold - 1

    def split(self, values: Ints, source: NoiseSource) -> list[Words]:
        """The polynomial's values at 1..c, by Horner steps that stay inside 64 bits.

        Raises ValueError for a value that the field cannot hold.
        """
        constant = to_field(values).reshape(-1)
        pieces = np.empty((self.count, constant.size), np.uint64)
        for start in range(0, constant.size, _BLOCK):  # blocks that stay in the cache
            block = slice(start, start + _BLOCK)
            secret = constant[block]
            drawn = uniform_field((self.threshold - 1) * secret.size, source)
            coefficients = drawn.reshape(self.threshold - 1, secret.size)
            for x in range(1, self.count + 1):
                _evaluate([*coefficients, secret], x, pieces[x - 1, block])
        return [piece.reshape(values.shape) for piece in pieces]

    def expand(self, seed: bytes, count: int) -> Words:
        """Field elements from the keystream of the seed."""
        return uniform_field(count, SecureRandom.from_fresh_seed(seed))

    def rest(self, values: Ints, uniform: Iterable[Words]) -> list[Words]:
        """The values at k..c of the polynomial through the value at 0 and pieces at 1..k-1.

        Raises ValueError for a value that the field cannot hold.
        """
        shares = [to_field(values), *uniform]
        at, further = range(self.threshold), range(self.threshold, self.count + 1)
        flat = [words.reshape(-1) for words in shares]
        return [_interpolate(flat, at, x).reshape(values.shape) for x in further]

    def add(self, accumulator: Words, pieces: Words) -> Words:
        """Field addition, reduced every 64 addends. Both must be field elements."""
        while (groups := pieces.shape[0] // _ADDENDS) > 0:
            full_groups, rest = np.split(pieces, [groups * _ADDENDS])
            sums = full_groups.reshape(groups, _ADDENDS, *pieces.shape[1:]).sum(
                axis=1, dtype=np.uint64
            )
            accumulator = reduce_field(accumulator + rest.sum(axis=0, dtype=np.uint64))
            pieces = reduce_field(sums)
        return reduce_field(accumulator + pieces.sum(axis=0, dtype=np.uint64))

    def combine(self, partials: dict[int, Words]) -> Ints:
        """The totals, centred. Raises ValueError below the threshold, for words outside the
        field, and if the partial sums beyond the threshold lie on no common polynomial."""
        if len(partials) < self.threshold:
            raise ValueError("fewer partial sums than the threshold")
        if not all(0 <= index < self.count for index in partials):
            raise ValueError("a partial sum of no aggregator")
        _need_one_shape(partials)
        if any((words >= PRIME).any() for words in partials.values()):
            raise ValueError("a partial sum has words outside the field")
        quorum = sorted(partials)
        base, more = quorum[: self.threshold], quorum[self.threshold :]
        points, values = [index + 1 for index in base], [partials[index] for index in base]
        for index in more:
            if not np.array_equal(_interpolate(values, points, index + 1), partials[index]):
                raise ValueError("the partial sums do not lie on one polynomial")
        return from_field(_interpolate(values, points, 0))


def _need_one_shape(partials: dict[int, Words]) -> None:
    if len({partial.shape for partial in partials.values()}) != 1:
        raise ValueError("partial sums of different lengths")


def reduce_field(words: Words) -> Words:
    """Any 64-bit words modulo p: 2^57 = 13, then one conditional subtraction."""
    reduced: Words = words.copy()
    _reduce_in_place(reduced)
    return reduced


def _reduce_in_place(words: Words) -> None:
    high = words >> _BITS
    high *= _FOLD
    words &= _LOW
    words += high  # at most 2^57 - 1 + 127 * 13, below 2p
    np.subtract(words, _P, out=high)  # wraps to a large word unless words >= p
    np.minimum(words, high, out=words)


def to_field(values: Ints) -> Words:
    """Signed values as field elements. Raises ValueError unless all are within (-p/2, p/2)."""
    if values.size and not -(PRIME // 2) <= values.min() <= values.max() <= PRIME // 2:
        raise ValueError("a value is outside the field's signed range")
    words: Words = values.astype(np.uint64)
    return np.asarray(np.minimum(words, words + _P), np.uint64)  # v < 0: wraps to p + v


def from_field(words: Words) -> Ints:
    """Field elements as signed values in (-p/2, p/2)."""
    signed = words.astype(np.int64)
    return np.where(words > PRIME // 2, signed - PRIME, signed)


def uniform_field(count: int, source: NoiseSource) -> Words:
    """Uniform field elements by rejection from 57-bit words."""
    elements = source.words(count)
    elements >>= _SPARE
    while True:
        bad = np.flatnonzero(elements >= _P)
        if bad.size == 0:
            return elements
        elements[bad] = source.words(bad.size) >> _SPARE


def multiply_field(words: Words, factor: int) -> Words:
    """words * factor mod p, for words and factor below p, from 29-bit halves.

    With w = w1 2^29 + w0 and f alike, and w1 f0 + w0 f1 = m1 2^28 + m0:

        w f = 2^58 w1 f1 + 2^57 m1 + 2^29 m0 + w0 f0 = 26 w1 f1 + 13 m1 + 2^29 m0 + w0 f0  (mod p)

    whose terms are below 2^61, 2^35, 2^57 and 2^58: the sum stays inside 64 bits.
    """
    f1, f0 = np.uint64(factor >> 29), np.uint64(factor & _HALF)
    w1, w0 = words >> np.uint64(29), words & np.uint64(_HALF)
    middle = w1 * f0
    middle += w0 * f1
    product = w1
    product *= f1
    product *= np.uint64(26)
    w0 *= f0
    product += w0
    product += (middle >> np.uint64(28)) * _FOLD
    middle &= np.uint64((1 << 28) - 1)
    middle <<= np.uint64(29)
    product += middle
    _reduce_in_place(product)
    return product


def _evaluate(coefficients: Sequence[Words], x: int, out: Words) -> None:
    """The polynomial's value at x, highest coefficient first, written to `out`."""
    out[:], bound = coefficients[0], PRIME
    for term in coefficients[1:]:
        if bound * x + PRIME > RING:
            _reduce_in_place(out)
            bound = PRIME
        out *= np.uint64(x)
        out += term
        bound = bound * x + PRIME
    _reduce_in_place(out)


def _interpolate(values: Sequence[Words], points: Sequence[int], at: int) -> Words:
    weights = lagrange_weights(points, at)
    total = np.zeros_like(values[0])
    for start in range(0, total.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        for value, weight in zip(values, weights, strict=True):
            total[block] += multiply_field(value[block], weight)
            _reduce_in_place(total[block])
    return total


def lagrange_weights(points: Sequence[int], at: int) -> list[int]:
    """The weights that combine values at `points` into the polynomial's value at `at`, mod p."""
    return list(_lagrange_weights(tuple(points), at))


@lru_cache(maxsize=1 << 10)
def _lagrange_weights(points: tuple[int, ...], at: int) -> tuple[int, ...]:
    weights = []
    for x in points:
        top = bottom = 1
        for other in points:
            if other != x:
                top = top * (at - other) % PRIME
                bottom = bottom * (x - other) % PRIME
        weights.append(top * pow(bottom, -1, PRIME) % PRIME)
    return tuple(weights)


def split_additive(value: int, randoms: Iterable[int]) -> list[int]:
    """Pieces of one value: the given words, and the value minus their sum."""
    pieces = list(randoms)
    return [*pieces, (value - sum(pieces)) % RING]


def combine_additive(pieces: Iterable[int]) -> int:
    """The signed value of a full set of pieces."""
    return centred(sum(pieces), RING)


def split_shamir(value: int, coefficients: Sequence[int], count: int) -> list[int]:
    """Values at 1..count of value + sum_j coefficients[-j] x^j (highest degree first)."""
    pieces = []
    for x in range(1, count + 1):
        accumulator = 0
        for term in [*coefficients, value % PRIME]:
            accumulator = (accumulator * x + term) % PRIME
        pieces.append(accumulator)
    return pieces


def combine_shamir(pieces: dict[int, int]) -> int:
    """The signed value from pieces keyed by evaluation point."""
    points = sorted(pieces)
    weights = lagrange_weights(points, 0)
    return centred(sum(pieces[x] * w for x, w in zip(points, weights, strict=True)), PRIME)


def centred(value: int, modulus: int) -> int:
    """The representative of value mod modulus in [-modulus/2, modulus/2)."""
    value %= modulus
    return value - modulus if 2 * value >= modulus else value
