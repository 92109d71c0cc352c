"""The proof over fields so small that everything can be tried."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import numpy as np

from tacit.validity.circuit import BoundedInteger
from tacit.validity.forms import Forms, Relation, sum_circuit
from tacit.validity.proof import decide, prove, query
from tests.tacit.validity.arithmetic import GF17, GF97

NONE = GF17.small(np.zeros((0, 1)))


def elements(*values: int) -> np.ndarray:
    return GF17.elements(values)[:, :, np.newaxis]


def shown(circuit: Forms, measurement: np.ndarray, proof: np.ndarray, random_: np.ndarray):
    return query(circuit, measurement, proof, random_, NONE, 1)


def test_the_worked_example_of_one_bit():
    """Spec: validity, section 16, example 2."""
    circuit = sum_circuit(GF17, 1)
    assert (circuit.points, circuit.checks, GF17.root(4)) == (2, 1, 13)
    proof = prove(circuit, elements(1), elements(5), NONE)
    assert GF17.integers(proof)[:, 0].tolist() == [5, 3, 13, 0]
    verifier, permitted = shown(circuit, elements(1), proof, elements(3))
    assert permitted.all()
    assert GF17.integers(verifier)[:, 0].tolist() == [0, 9, 4]
    assert decide(circuit, verifier).all()


def test_the_worked_example_of_a_lie():
    """Spec: validity, section 16, example 3."""
    circuit = sum_circuit(GF17, 1)
    proof = prove(circuit, elements(2), elements(5), NONE)
    assert GF17.integers(proof)[:, 0].tolist() == [5, 3, 13, 2]
    verifier, _ = shown(circuit, elements(2), proof, elements(3))
    assert GF17.integers(verifier)[0, 0] == 2
    assert not decide(circuit, verifier).any()
    lie = elements(5, 3, 13, 0)
    verifier, _ = shown(circuit, elements(2), lie, elements(3))
    assert GF17.integers(verifier)[:2, 0].tolist() == [0, 8]
    assert not decide(circuit, verifier).any()
    passed, permitted_points = [], []
    for point in range(17):
        verifier, permitted = shown(circuit, elements(2), lie, elements(point))
        if permitted.all():
            permitted_points.append(point)
            if decide(circuit, verifier).all():
                passed.append(point)
        else:
            assert not verifier.any()
    assert set(range(17)) - set(permitted_points) == {1, 16}
    assert passed == [13]


def test_no_lie_about_one_bit_passes_at_more_points_than_the_bound():
    """2 (P - 1) of the 15 permitted points, and some lie reaches it: all 17^3 proofs of 2."""
    circuit = sum_circuit(GF17, 1)
    count = 17**3
    numbers = np.arange(count)
    proofs = np.stack((numbers % 17, numbers // 17 % 17, numbers // 289, np.zeros(count, int)))
    proofs = GF17.small(proofs)
    measurement = GF17.small(np.full((1, count), 2))
    none = GF17.small(np.zeros((0, count)))
    passed = np.zeros(count, int)
    for point in set(range(17)) - {1, 16}:
        at = GF17.small(np.full((1, count), point))
        verifier, permitted = query(circuit, measurement, proofs, at, none, 1)
        assert permitted.all()
        passed += decide(circuit, verifier)
    assert passed.max() == 2


def views(circuit: Forms, bit: int, points: tuple[int, ...]) -> Counter[tuple[int, ...]]:
    """What the verifier shares together show of a bit, over all seeds."""
    found: Counter[tuple[int, ...]] = Counter()
    for seed in range(17):
        proof = prove(circuit, elements(bit), elements(seed), NONE)
        view: list[int] = []
        for point in points:
            verifier, _ = shown(circuit, elements(bit), proof, elements(point))
            view += GF17.integers(verifier)[:, 0].tolist()
        found[tuple(view)] += 1
    return found


def test_one_point_shows_nothing_of_a_bit_and_two_show_it():
    circuit = sum_circuit(GF17, 1)
    permitted = sorted(set(range(17)) - {1, 16})
    for point in permitted:
        assert views(circuit, 0, (point,)) == views(circuit, 1, (point,))
    for pair in itertools.combinations(permitted[:6], 2):
        assert not views(circuit, 0, pair) & views(circuit, 1, pair)


def test_honest_aggregators_led_to_different_keys_show_nothing():
    """GF(97), P = 4, one to three bits, a linear check: 400 random pairs of keys.

    One honest aggregator's share r is uniform, the other's is x - r. What both show of x are the
    linear functionals in the span of each: their law over the seeds is the same for every x that
    is valid.
    """
    source = random.Random(11)
    for bits in (1, 2, 3):
        # Always P = 4: a square of nothing fills up the calls.
        ranges = (BoundedInteger(1),) * bits
        circuit = Forms(
            GF97,
            ranges,
            ((1,) * bits,),
            squares=((1,),) * (3 - bits),
            relations=(Relation((1, *(-1,) * (bits - 1)) if bits > 1 else (0,)),),
        )
        assert circuit.points == 4
        valid = [
            bits_
            for bits_ in itertools.product((0, 1), repeat=bits)
            if bits == 1 or bits_[0] == sum(bits_[1:])
        ]
        assert len(valid) > 1
        inputs = [whole(circuit, bits_) for bits_ in valid]
        for _ in range(134):
            keys = [functionals(circuit, source) for _ in range(2)]
            common = intersection(keys[0], keys[1], 97)
            laws = [
                Counter(tuple(value) for value in (common @ values % 97).T.tolist())
                for values in inputs
            ]
            assert all(law == laws[0] for law in laws)


def whole(circuit: Forms, bits: tuple[int, ...]) -> np.ndarray:
    """Measurement and proof under every seed, (n, 97)."""
    measurement = np.repeat(np.array(bits)[:, np.newaxis], 97, axis=1)
    none = GF97.small(np.zeros((0, 97)))
    proof = prove(circuit, GF97.small(measurement), GF97.small(np.arange(97)[np.newaxis]), none)
    return np.concatenate((measurement, GF97.integers(proof).astype(np.int64)))


def functionals(circuit: Forms, source: random.Random) -> np.ndarray:
    """What a verifier share is of a share, as a matrix: random weights and a permitted point."""
    size = circuit.measurement_length + circuit.proof_length
    unit = GF97.small(np.eye(size, dtype=np.uint64))
    point = source.choice([t for t in range(97) if pow(t, circuit.points, 97) != 1])
    drawn = [source.randrange(97) for _ in range(circuit.query_randomness_length - 1)]
    randomness = GF97.small(np.repeat(np.array([*drawn, point])[:, np.newaxis], size, axis=1))
    cut = circuit.measurement_length
    none = GF97.small(np.zeros((0, size)))
    verifier, permitted = query(circuit, unit[:, :cut], unit[:, cut:], randomness, none, 1)
    assert permitted.all()
    return GF97.integers(verifier).astype(np.int64)


def intersection(first: np.ndarray, second: np.ndarray, prime: int) -> np.ndarray:
    """A basis of the functionals in the row space of both."""
    kernel = left_kernel(np.concatenate((first, -second % prime)), prime)
    return kernel[:, : len(first)] @ first % prime


def left_kernel(matrix: np.ndarray, prime: int) -> np.ndarray:
    """All u with u matrix = 0, as rows."""
    rows = np.concatenate((matrix % prime, np.eye(len(matrix), dtype=np.int64)), axis=1)
    done = 0
    for place in range(matrix.shape[1]):
        pivots = np.flatnonzero(rows[done:, place])
        if not len(pivots):
            continue
        pivot = done + pivots[0]
        rows[[done, pivot]] = rows[[pivot, done]]
        rows[done] = rows[done] * pow(int(rows[done, place]), -1, prime) % prime
        for other in range(len(rows)):
            if other != done:
                rows[other] = (rows[other] - rows[other, place] * rows[done]) % prime
        done += 1
    return rows[done:, matrix.shape[1] :]
