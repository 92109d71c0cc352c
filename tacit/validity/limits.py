"""What a proved query may ask for: no check wraps, no total wraps, and how sure a proof is.

All in exact integers and fractions. A limit that is passed is a `FieldTooSmall`, which the query
answers as it answers sums that wrap. Spec: validity, sections 6 and 12.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from tacit.validity import field
from tacit.validity.functions import ReadingBounds
from tacit.validity.prio3 import Prio3
from tacit.validity.vectors import BitVector, Block

INTEGER_LIMIT: Final = 1 << 62
"""Range-checked integers but one lie below this, so that they are encoded in 64 bits."""
ONE_PROOF_ERROR: Final = Fraction(1, 1 << 50)


class FieldTooSmall(ValueError):
    """A check or a total could wrap."""


def check_sum(largest: ReadingBounds, noise_bound: int = 0) -> None:
    """`largest`: the bounds of the largest part; `noise_bound`: its T."""
    _check_integer(largest.most - largest.least + 2 * noise_bound)


def check_mean(largest: ReadingBounds, noise_bounds: Sequence[int] = ()) -> None:
    """4 M A < p."""
    _check_integer(largest.count * largest.width)
    for bound in noise_bounds:
        _check_integer(2 * bound)
    _check_wrap(4 * largest.count * largest.largest, field.PRIME_64)


def check_variance(largest: ReadingBounds, noise_bounds: Sequence[int] = ()) -> None:
    """2 M^2 A^2 < p of the field that its totals are in."""
    total = largest.count * largest.largest
    prime = field.PRIME_64 if total < 1 << 31 else field.PRIME_128
    if total >= INTEGER_LIMIT:
        raise FieldTooSmall("a sum of readings passes what a proof can check")
    _check_integer(largest.count * max(largest.width, largest.largest**2))
    for bound in noise_bounds:
        _check_integer(2 * bound)
    _check_wrap(max(4 * total, 2 * total**2), prime)


def check_vector(largest: Sequence[Block], noise_bounds: Sequence[int] = ()) -> None:
    """2 d top < p per block, in L2 d top^2 < p of Field128, with the blocks of the largest part."""
    for block in largest:
        _check_integer(max(block.entry.top, block.bound))
        if block.l2:
            _check_wrap(block.length * block.top**2, field.PRIME_128)
        else:
            _check_wrap(2 * block.length * block.top, field.PRIME_64)
    for bound in noise_bounds:
        _check_integer(2 * bound)


def check_headroom(prime: int, participants: int, spread: int, lone_bound: int, tail: int) -> None:
    """n_max (range + 2 T(1)) + tail < min(p / 2, 2^62).

    spread: U - L of a sum, else the largest |output| of a curator. tail: how far the aggregators'
    noise reaches.
    """
    if 2 * (participants * (spread + 2 * lone_bound) + tail) >= min(prime, 2 * INTEGER_LIMIT):
        raise FieldTooSmall("the total of a round passes half of the field")


def false_acceptance(prio3: Prio3) -> Fraction:
    """The probability that an invalid contribution passes, over the verify key.

    (e + 2 (P - 1) / (p - P))^proofs; e is 1/p where several outputs are combined, and chunk/p for
    joint randomness. Spec: validity, section 12.
    """
    circuit = prio3.circuit
    prime, points = circuit.field.prime, circuit.points
    error = Fraction(2 * (points - 1), prime - points)
    if circuit.checks > 1:
        error += Fraction(1, prime)
    if isinstance(circuit, BitVector):
        error += Fraction(circuit.chunk, prime)
    return error**prio3.proofs


def honest_refusal(prio3: Prio3) -> Fraction:
    """The probability that an honest contribution meets a point that is a root: proofs P / p."""
    return Fraction(prio3.proofs * prio3.circuit.points, prio3.circuit.field.prime)


def _check_integer(top: int) -> None:
    if top >= INTEGER_LIMIT:
        raise FieldTooSmall("a range passes what a proof can check")


def _check_wrap(largest: int, prime: int) -> None:
    if largest >= prime:
        raise FieldTooSmall("a check could hold only modulo the prime")
