"""The circuit of a norm in L2 over fields so small that everything can be tried."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from tacit.validity.field import Elements
from tacit.validity.functions import ProvedVector
from tacit.validity.proof import decide, prove, query
from tacit.validity.vectors import Block, BoundedVector
from tests.tacit.validity.arithmetic import GF17, GF97, SmallField
from tests.tacit.validity.rounds import all_bits, fulfilled


def test_the_worked_example_of_a_norm():
    """Spec: validity, section 16, example 5."""
    function = ProvedVector((Block(1, 5, 5, signed=True, l2=True),))
    (block,) = function.blocks
    assert (block.entry.weights, block.weight.weights) == ((1, 2, 4, 3), (1, 2, 4, 8, 10))
    measurement = function.encode(np.array([[-3]]))
    assert measurement[0, :, 0].tolist() == [0, 1, 0, 0, 1, 0, 0, 1, 0]
    assert function.circuit.outputs(measurement)[0, :, 0].tolist() == [2]
    assert function.offset == (-5,)
    with pytest.raises(ValueError, match="outside of the range"):
        ProvedVector((Block(2, 5, 5, signed=True, l2=True),)).encode(np.array([[5, 1]]))


TINY = [
    Block(1, 1, 1, signed=True, l2=True),
    Block(2, 1, 1, l2=True),
]
"""Three elements each; both have values that no bound allows."""


def everything(field: SmallField, count: int) -> Elements:
    """Every vector of elements, (1, count, p^count)."""
    numbers = np.arange(field.prime**count)
    return field.small([numbers // field.prime**place % field.prime for place in range(count)])


def tiny(block: Block, field: SmallField) -> BoundedVector:
    return BoundedVector(field, (block,), chunk=1)


@pytest.mark.parametrize("block", [TINY[0], pytest.param(TINY[1], marks=pytest.mark.slow)])
def test_of_all_measurements_of_elements_only_the_allowed_vanish_for_all_joint_randomness(block):
    """GF(17): 17^3 measurements under 17^3 seeds of joint randomness each. What is no bit vanishes
    for at most chunk / p of them, what is a bit and passes the bound for none."""
    circuit = tiny(block, GF17)
    measurement = everything(GF17, circuit.measurement_length)
    bits = np.asarray((measurement <= 1).all(axis=(0, 1)))
    allowed = bits & fulfilled(circuit, np.minimum(measurement, 1))
    vanished = np.zeros(measurement.shape[2], np.int64)
    tries = 0
    for drawn in itertools.product(range(17), repeat=circuit.joint_randomness_length):
        joint = np.broadcast_to(
            np.array(drawn, np.uint64)[np.newaxis, :, np.newaxis],
            (1, len(drawn), measurement.shape[2]),
        )
        inputs = circuit.inputs(measurement, joint, 1)
        checks = circuit.check_values(measurement, circuit.gadget.evaluate(GF17, inputs), 1)
        vanished += GF17.is_zero(checks).all(axis=0)
        tries += 1
    # One entry: -1, 1, and 0 in two ways. Two: 00, 01, 10; 11 is too much.
    assert allowed.sum() == (4 if block.signed else 3)
    assert (vanished[allowed] == tries).all()
    assert not vanished[bits & ~allowed].any()
    assert (17 * vanished[~bits] <= tries).all()


@pytest.mark.parametrize("block", [*TINY, Block(2, 2, 2, signed=True, l2=True)])
def test_no_lie_about_a_sum_of_squares_passes_at_more_points_than_the_bound(block):
    """GF(97): every vector of bits with a wrong claim, and the gadget's value at one of the calls
    that square changed so that the check vanishes: accepted at 2 (P - 1) points at most."""
    circuit = tiny(block, GF97)
    measurement = GF97.small(all_bits(circuit.measurement_length))
    lies = measurement[:, :, ~fulfilled(circuit, measurement)]
    count = lies.shape[2]
    assert count
    joint = GF97.small(np.full((circuit.joint_randomness_length, count), 5))
    generator = np.random.default_rng(3)
    seeds = GF97.small(generator.integers(0, 97, (circuit.prove_randomness_length, count)))
    honest = prove(circuit, lies, seeds, joint)
    inputs = circuit.inputs(lies, joint, 1)
    checks = circuit.check_values(lies, circuit.gadget.evaluate(GF97, inputs), 1)
    assert GF97.is_zero(checks[:, 0]).all()  # all are bits
    for call in range(circuit.bit_calls, circuit.calls):
        proof = honest.copy()
        place = circuit.gadget.arity + 2 * (call + 1)
        proof[:, place] = GF97.subtract(proof[:, place], checks[:, 1])
        passed = np.zeros(count, np.int64)
        permitted_points = 0
        for point in range(97):
            drawn = GF97.small(np.repeat([[3], [7], [point]], count, axis=1))
            verifier, permitted = query(circuit, lies, proof, drawn, joint, 1)
            assert permitted.all() or not permitted.any()
            permitted_points += int(permitted.all())
            if permitted.all():
                assert GF97.is_zero(verifier[:, 0]).all()
                passed += decide(circuit, verifier)
                plain, _ = query(circuit, lies, honest, drawn, joint, 1)
                assert not decide(circuit, plain).any()
        assert permitted_points == 97 - circuit.points
        assert passed.max() <= 2 * (circuit.points - 1)


@pytest.mark.parametrize("block", TINY)
def test_one_point_shows_nothing_of_the_entries(block):
    """GF(17), all seeds: what the verifier shares show together has the same law for every allowed
    measurement, at every permitted point."""
    circuit = tiny(block, GF17)
    assert (circuit.gadget.arity, circuit.points) == (2, 8)
    measurement = GF17.small(all_bits(circuit.measurement_length))
    allowed = measurement[:, :, fulfilled(circuit, measurement)]
    seeds = everything(GF17, 2)
    count = seeds.shape[2]
    joint = GF17.small(np.repeat([[2], [11], [5]], count, axis=1))
    points = [point for point in range(17) if pow(point, circuit.points, 17) != 1]
    for point in points:
        laws = []
        for place in range(allowed.shape[2]):
            one = np.repeat(allowed[:, :, place : place + 1], count, axis=2)
            proof = prove(circuit, one, seeds, joint)
            drawn = GF17.small(np.repeat([[3], [7], [point]], count, axis=1))
            verifier, permitted = query(circuit, one, proof, drawn, joint, 1)
            assert permitted.all()
            assert decide(circuit, verifier).all()
            laws.append(Counter(map(tuple, GF17.integers(verifier).T.tolist())))
        assert all(law == laws[0] for law in laws)


def test_the_offset_is_divided_among_the_shares():
    """Additive shares of a measurement, each evaluated alone, give the entries of the whole."""
    block = Block(3, 5, 6, signed=True, l2=True)
    function = ProvedVector((block,))
    circuit, field = function.circuit, function.circuit.field
    measurement = function.encode(np.array([[5, -3, 0], [-5, 1, 2]]))
    joint = field.small(np.full((circuit.joint_randomness_length, 2), 9))
    whole = circuit.inputs(measurement, joint, 1)
    generator = np.random.default_rng(1)
    shares = [field.small(generator.integers(0, 2**60, measurement.shape[1:])) for _ in range(4)]
    last = measurement
    for share in shares:
        last = field.subtract(last, share)
    total = np.zeros_like(whole)
    for share in (*shares, last):
        total = field.add(total, circuit.inputs(share, joint, 5))
    assert (total == whole).all()
    squared = whole[:, circuit.bit_calls :, 0::2].reshape(-1, 2)[:3]
    centred = np.where(squared > 2**63, squared.astype(object) - field.prime, squared)
    assert centred.T.tolist() == [[5, -3, 0], [-5, 1, 2]]


def test_the_influence_of_a_norm():
    """Spec: validity, section 4: 2 n'W in L2, without negative entries sqrt(2) n'W; never more than
    the entries allow."""
    signed = ProvedVector((Block(96, 40, 100, signed=True, l2=True), Block(1, 3, 3)))
    assert signed.norm_influence == (200, 6)
    assert signed.influence == (*(80,) * 96, 3)
    assert signed.influence_from_zero == (*(40,) * 96, 3)
    assert signed.offset == (*(-40,) * 96, 0)
    unsigned = ProvedVector((Block(96, 40, 100, l2=True),))
    assert unsigned.norm_influence == (142,)  # 141.42
    assert unsigned.influence == unsigned.influence_from_zero == (40,) * 96
    assert unsigned.offset == (0,) * 96
    assert ProvedVector((Block(1, 100, 100, l2=True),)).norm_influence == (100,)
    assert ProvedVector((Block(4, 40, 100, signed=True, l2=True),)).norm_influence == (160,)
    noisy = ProvedVector((Block(2, 3, 5, l2=True),), (3, 4))
    assert noisy.norm_influence == (5 + 5,)  # min(7.07, 4.24) and the noise's own norm


@pytest.mark.parametrize("block", [Block(3, 2, 3, l2=True), Block(2, 2, 3, signed=True, l2=True)])
def test_no_two_accepted_vectors_are_further_apart_than_the_influence(block):
    function = ProvedVector((block,))
    circuit = function.circuit
    measurement = circuit.field.small(all_bits(circuit.measurement_length))
    valid = measurement[:, :, fulfilled(circuit, measurement)]
    values = circuit.field.integers(circuit.outputs(valid)).T.astype(np.int64)
    values = np.unique(values + np.array(function.offset), axis=0)
    apart = ((values[:, np.newaxis] - values[np.newaxis]) ** 2).sum(axis=2).max()
    assert (function.norm_influence[0] - 1) ** 2 < apart <= function.norm_influence[0] ** 2
