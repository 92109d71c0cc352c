"""No check wraps within the limits, and one unit beyond them one does."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from tacit.validity import field as field64
from tacit.validity import field as field128
from tacit.validity import limits
from tacit.validity.arithmetic import NUMPY, Arithmetic
from tacit.validity.functions import (
    ProvedMean,
    ProvedSum,
    ProvedVariance,
    ProvedVector,
    ReadingBounds,
    proved_histogram,
)
from tacit.validity.limits import FieldTooSmall, false_acceptance, honest_refusal
from tacit.validity.vectors import Block, least_proof_chunk
from tests.tacit.validity.arithmetic import GF17, GF97, SmallField
from tests.tacit.validity.rounds import all_bits, fulfilled


def small(field: SmallField) -> Arithmetic:
    return Arithmetic(field, field, NUMPY.hash_rows)


def mean_wraps(largest: int) -> bool:
    """Whether some bits of a mean over GF(97) hold only modulo the prime."""
    function = ProvedMean(ReadingBounds(-largest, largest, 1), (), small(GF97))
    bits = all_bits(function.circuit.bits)
    over = fulfilled(function.circuit, GF97.small(bits))
    k, a, b = decoded(function.circuit.ranges, bits)
    return bool((over != (a + b == 2 * largest * k)).any())


def decoded(ranges, bits: np.ndarray) -> list[np.ndarray]:
    found, start = [], 0
    for item in ranges:
        found.append(np.array(item.weights) @ bits[start : start + item.bits].astype(np.int64))
        start += item.bits
    return found


def test_a_mean_wraps_exactly_beyond_its_limit():
    """4 M A < p: 96 below 97, 100 beyond. All bits of one reading."""
    assert not any(mean_wraps(largest) for largest in (1, 7, 16, 24))
    assert all(mean_wraps(largest) for largest in (25, 26))


def test_a_variance_does_not_wrap_within_its_limit():
    """2 M^2 A^2 = 32 < 41: all values of two readings with A = 2 that the ranges hold."""
    field = SmallField(41, 6)
    function = ProvedVariance(ReadingBounds(-2, 2, 2), 2, (), small(field))
    circuit = function.circuit
    grid = np.array(list(itertools.product(*(range(item.top + 1) for item in circuit.ranges))))
    measurement = circuit.encode(tuple(grid.T))
    k, a, b, y, z, t = grid.T
    s = a - 2 * k
    holds = (a + b == 4 * k) & (y + z == 4 * k) & (k * y - s * s == t)
    assert (fulfilled(circuit, measurement) == holds).all()
    assert holds.any()


def test_a_vector_does_not_wrap_within_its_limit_and_does_beyond():
    """2 d top < p: 12 below 17, 24 beyond."""

    def wraps(block: Block) -> bool:
        function = ProvedVector((block,), (), small(GF17))
        bits = all_bits(function.circuit.measurement_length)
        checks = function.circuit.sum_checks(GF17.small(bits), 1)[:, 0]
        weights = np.array(block.entry.weights * block.parts)
        total = weights @ bits[: block.bits].astype(np.int64)
        claimed = np.array(block.weight.weights) @ bits[block.bits :].astype(np.int64)
        return bool((GF17.is_zero(checks) != (total == claimed)).any())

    assert not wraps(Block(2, 3, 4, signed=True))
    assert wraps(Block(4, 3, 4, signed=True))
    assert not wraps(Block(2, 3, 5))


def squares_wrap(block: Block, prime: SmallField) -> bool:
    """Whether some bits of a vector in L2 fulfil the check only modulo the prime."""
    circuit = ProvedVector((block,), (), small(prime)).circuit
    bits = all_bits(circuit.measurement_length)
    integers = bits[: block.bits].reshape(block.length, block.entry.bits, -1).astype(np.int64)
    entries = np.array(block.entry.weights) @ integers - block.offset
    claimed = np.array(block.weight.weights) @ bits[block.bits :].astype(np.int64)
    holds = (entries**2).sum(axis=0) == claimed
    assert holds.any()
    return bool((fulfilled(circuit, prime.small(bits)) != holds).any())


def test_squares_do_not_wrap_within_their_limit_and_do_beyond():
    """d top^2 < p: 16 below 17, and 97 - 1; beyond, -17 = 0 modulo 17, for all bits."""
    assert not squares_wrap(Block(1, 4, 4, signed=True, l2=True), GF17)
    assert not squares_wrap(Block(4, 2, 2, l2=True), GF17)
    assert not squares_wrap(Block(2, 2, 3, signed=True, l2=True), GF17)
    assert squares_wrap(Block(2, 3, 4, l2=True), GF17)  # 9 + 9 = 1
    assert squares_wrap(Block(3, 3, 3, signed=True, l2=True), GF17)
    assert squares_wrap(Block(1, 1, 5, l2=True), GF17)  # 1 = 18: the claim wraps
    assert not squares_wrap(Block(2, 6, 7, signed=True, l2=True), GF97)
    assert squares_wrap(Block(2, 7, 7, signed=True, l2=True), GF97)  # 49 + 49 = 1


@pytest.mark.parametrize(
    ("block", "wide"),
    [
        (Block(2, 2**31 - 1, 2**31 - 1, l2=True), False),
        (Block(1, 2**31 - 1, 2**31, l2=True), True),  # the sum reaches 2^62
        (Block(8, 2**30 - 1, 2**31 - 1, l2=True), False),
        (Block(8, 2**30, 2**31 - 1, l2=True), True),  # 8 squares reach 2^63
        (Block(8, 2**30, 2**31, True), False),  # in L1
    ],
)
def test_squares_go_to_the_larger_field_where_the_smaller_could_wrap(block, wide):
    limits.check_vector([block])
    small_part = Block(block.length, 1, 1, block.signed, block.l2)
    for blocks, largest in (((block,), ()), ((small_part,), (block,))):
        function = ProvedVector(blocks, largest=largest)
        assert function.circuit.field.prime == (P128 if wide else P64)
        assert function.prio3(2).proofs == (1 if wide else 3)
        assert false_acceptance(function.prio3(2)) < Fraction(1, 1 << 110)


P64, P128 = field64.PRIME_64, field128.PRIME_128


@pytest.mark.parametrize(
    ("check", "within", "beyond"),
    [
        (limits.check_sum, ReadingBounds(0, 2**62 - 1, 1), ReadingBounds(0, 2**62, 1)),
        (
            limits.check_mean,
            ReadingBounds(-(2**61 - 1), 2**61 - 1, 1),
            ReadingBounds(-(2**61), 2**61, 1),
        ),
        (limits.check_variance, ReadingBounds(-(2**31 - 1), 2**31 - 1, 1), None),
        (limits.check_variance, ReadingBounds(-5, 5, 2**57), ReadingBounds(-6, 6, 2**57)),
        (limits.check_vector, [Block(2, 2**61 - 1, 2**62 - 1)], [Block(2, 2**61, 2**62)]),
        (limits.check_vector, [Block(4, 2**60, 2**61)], [Block(8, 2**60, 2**61)]),
        (
            limits.check_vector,
            [Block(2, 2**61, 2**62 - 1, l2=True)],
            [Block(2, 2**61, 2**62, l2=True)],
        ),
        (
            limits.check_vector,
            [Block(2, 2**61 - 1, 2**61, True, True)],
            [Block(2, 2**61, 2**61, True, True)],
        ),
        (
            limits.check_vector,
            [Block(63, 2**61, 2**61, l2=True)],
            [Block(64, 2**61, 2**61, l2=True)],
        ),
    ],
)
def test_queries_at_a_limit_pass_and_one_unit_beyond_is_refused(check, within, beyond):
    check(within)
    if beyond is not None:
        with pytest.raises(FieldTooSmall):
            check(beyond)


def test_noise_counts_in_the_limits():
    limits.check_sum(ReadingBounds(0, 1, 1), 2**61 - 1)
    with pytest.raises(FieldTooSmall):
        limits.check_sum(ReadingBounds(0, 1, 1), 2**61)
    for check, argument in (
        (limits.check_mean, ReadingBounds(-1, 1, 1)),
        (limits.check_variance, ReadingBounds(-1, 1, 1)),
        (limits.check_vector, [Block(1, 1, 1)]),
    ):
        check(argument, [2**61 - 1])
        with pytest.raises(FieldTooSmall):
            check(argument, [1, 2**61])


def test_headroom_is_half_of_the_field_or_of_63_bits():
    limits.check_headroom(P128, 2**20, 2**41, 2**40 - 1, 2**21 - 1)
    with pytest.raises(FieldTooSmall):
        limits.check_headroom(P128, 2**20, 2**41, 2**40 - 1, 2**21)
    limits.check_headroom(97, 4, 8, 1, 8)
    with pytest.raises(FieldTooSmall):
        limits.check_headroom(97, 4, 8, 1, 9)


def exponent(value: Fraction) -> float:
    return round(math.log2(value.numerator) - math.log2(value.denominator), 1)


@pytest.mark.parametrize(
    ("function", "points", "bits"),
    [
        (ProvedSum(ReadingBounds(0, 8191, 1)), 16, -59.0),
        (ProvedSum(ReadingBounds(0, 2**32 - 1, 1)), 64, -57.0),
        (ProvedMean(ReadingBounds(-4095, 4095, 1)), 32, -58.0),
        (proved_histogram(100, 1), 16, -176.3),
        (ProvedVector((Block(1000, 65535, 10**6 - 1),)), 128, -166.3),
        (ProvedVector((Block(65536, 65535, 10**6),)), 1024, -157.2),
        (ProvedVector((Block(65536, 2**32 - 1, 10**10, True),)), 2048, -154.2),
    ],
)
def test_the_soundness_that_the_specification_states(function, points, bits):
    """Spec: validity, section 12."""
    prio3 = function.prio3(5)
    assert prio3.circuit.points == points
    assert exponent(false_acceptance(prio3)) == bits
    assert honest_refusal(prio3) < Fraction(1, 1 << 51)


def test_no_circuit_without_joint_randomness_falls_below_one_proof_s_soundness():
    """The largest: a variance of a part, all its ranges at their limits, with noise."""
    bounds = ReadingBounds(-(2**20), 2**20, 2**20)
    function = ProvedVariance(bounds, 2**20, (2**60, 2**60, 2**60))
    assert function.circuit.points <= 1024
    assert false_acceptance(function.prio3(2)) < limits.ONE_PROOF_ERROR
    worst = Fraction(2 * 1023, P64 - 1024) + Fraction(1, P64)
    assert worst < limits.ONE_PROOF_ERROR


def test_the_bytes_that_the_specification_states():
    """Spec: validity, section 8, c = 2 and 5: nonce, public share and input share."""
    for function, two, five in (
        (ProvedSum(ReadingBounds(0, 8191, 1)), (376, 48), 568),
        (ProvedSum(ReadingBounds(0, 2**32 - 1, 1)), (1296, 48), 1488),
        (proved_histogram(100, 1), (2000, 144), 3056),
        (ProvedVector((Block(1000, 65535, 10**6 - 1),)), (140_488, 144), 141_544),
    ):
        sizes = {}
        for shares in (2, 5):
            prio3 = function.prio3(shares)
            head = 16 + prio3.public_share_bytes
            sizes[shares] = [head + prio3.input_share_bytes(index) for index in range(shares)]
        assert tuple(sizes[2]) == two
        assert sum(sizes[5]) == five


def test_the_chunk_has_the_shortest_proof():
    def length(bits: int, chunk: int) -> int:
        calls = -(-bits // chunk)
        return 2 * chunk + 2 * ((1 << calls.bit_length()) - 1) + 1

    for bits in [*range(1, 300), 1000, 1021]:
        best = min((length(bits, chunk), chunk) for chunk in range(1, bits + 1))
        assert least_proof_chunk(bits) == best[1], bits
    for squares in ((1,), (5,), (40,), (3, 17), (1, 1, 1), (100, 2)):
        for bits in [*range(1, 150), 1021]:
            shortest = min(
                (2 * chunk + 2 * ((1 << calls.bit_length()) - 1) + 1, chunk)
                for chunk in range(1, max(bits, *squares, 1) + 1)
                if (calls := sum(-(-count // chunk) for count in (bits, *squares)))
            )
            assert least_proof_chunk(bits, squares) == shortest[1], (bits, squares)
    stated = {100: 7, 101: 7, 16_000: 126, 16_020: 127, 32_020: 253}
    assert {bits: least_proof_chunk(bits) for bits in stated} == stated
    with pytest.raises(ValueError, match="at least one bit"):
        least_proof_chunk(0)
