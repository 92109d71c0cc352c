"""Numpy and compiled give the same bytes."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.randomness import SeededRandom
from tacit.validity.arithmetic import NUMPY, Arithmetic
from tacit.validity.compiled import COMPILED
from tacit.validity.functions import ProvedSum, ProvedVariance, ProvedVector, ReadingBounds
from tacit.validity.prio3 import Prio3
from tacit.validity.vectors import Block
from tests.tacit.validity.rounds import CONTEXT, KEY


def check(schemes: tuple[Prio3, Prio3], measurement: np.ndarray) -> None:
    nonces, randomness = schemes[0].draw_randomness(SeededRandom(12), measurement.shape[2])
    split = [each.shard(CONTEXT, measurement, nonces, randomness) for each in schemes]
    assert (split[0].public_shares == split[1].public_shares).all()
    for index, shares in enumerate(zip(*(each.input_shares for each in split), strict=True)):
        assert (shares[0] == shares[1]).all()
        first, second = (
            each.verify(KEY, CONTEXT, index, nonces, split[0].public_shares, shares[0])
            for each in schemes
        )
        assert (first.verifier_shares == second.verifier_shares).all()
        assert (first.output_shares == second.output_shares).all()
        assert (first.seeds == second.seeds).all()


def test_two_thousand_random_sums():
    values = SeededRandom(1).generator.integers(0, 8192, (2000, 1))
    schemes = [
        ProvedSum(ReadingBounds(0, 8191, 1), (500,), arithmetic).prio3(2)
        for arithmetic in (NUMPY, COMPILED)
    ]
    noise = SeededRandom(2).generator.integers(-500, 501, (2000, 1))
    function = ProvedSum(ReadingBounds(0, 8191, 1), (500,))
    check((schemes[0], schemes[1]), function.encode(values, noise))


@pytest.mark.parametrize("limbs", [1, 2])
def test_random_elements_that_prove_nothing(limbs):
    """Elements over the whole field, so that every carry occurs."""

    def variance(arithmetic: Arithmetic) -> ProvedVariance:
        largest = (1 << 31) if limbs == 2 else 6
        return ProvedVariance(ReadingBounds(-3, 3, 2), largest, arithmetic=arithmetic)

    field, length = variance(NUMPY).circuit.field, variance(NUMPY).circuit.measurement_length
    assert field.limbs == limbs
    words = SeededRandom(3).words(limbs * length * 300).reshape(limbs, length, 300)
    words[:, ~field.below_prime(words)] = 0
    check((variance(NUMPY).prio3(3), variance(COMPILED).prio3(3)), words)


@pytest.mark.parametrize("l2", [False, True])
def test_random_vectors(l2):
    blocks = (Block(5, 7, 20, signed=True, l2=l2), Block(3, 100, 150, l2=l2))

    def vector(arithmetic: Arithmetic) -> ProvedVector:
        return ProvedVector(blocks, (9,) * 8, arithmetic)

    generator = SeededRandom(4).generator
    signed, unsigned = generator.integers(-4, 5, (100, 5)), generator.integers(0, 51, (100, 3))
    noise = generator.integers(-9, 10, (100, 8))
    measurement = vector(NUMPY).encode(np.concatenate((signed, unsigned), axis=1), noise)
    check((vector(NUMPY).prio3(3), vector(COMPILED).prio3(3)), measurement)


@pytest.mark.parametrize("top", [7, 2**40])
def test_random_elements_of_squared_vectors_that_prove_nothing(top):
    """Elements over the whole field, signed: the offset among the shares, squares that wrap."""

    def vector(arithmetic: Arithmetic) -> ProvedVector:
        blocks = (Block(4, top, 2 * top, signed=True, l2=True), Block(1, 3, 3))
        return ProvedVector(blocks, (), arithmetic)

    circuit = vector(NUMPY).circuit
    field, length = circuit.field, circuit.measurement_length
    assert field.limbs == (1 if top == 7 else 2)
    words = SeededRandom(5).words(field.limbs * length * 100).reshape(field.limbs, length, 100)
    words[:, ~field.below_prime(words)] = 0
    check((vector(NUMPY).prio3(3), vector(COMPILED).prio3(3)), words)
