"""A whole round of proved contributions, in one process."""

from __future__ import annotations

import numpy as np

from tacit.randomness import SeededRandom
from tacit.validity.circuit import Circuit
from tacit.validity.field import Elements, Mask
from tacit.validity.functions import ProvedFunction
from tacit.validity.prio3 import Contributions, Outcome, Prio3

CONTEXT = b"tacit proved v1 test"
KEY = bytes(range(32))


def split(prio3: Prio3, measurements: Elements, seed: int) -> tuple[np.ndarray, Contributions]:
    nonces, randomness = prio3.draw_randomness(SeededRandom(seed), measurements.shape[2])
    return nonces, prio3.shard(CONTEXT, measurements, nonces, randomness)


def outcomes(
    prio3: Prio3, nonces: np.ndarray, contributions: Contributions
) -> tuple[np.ndarray, list[int]]:
    """What is decided (aggregators, B), and the total of what all accept."""
    found = [
        prio3.verify(KEY, CONTEXT, index, nonces, contributions.public_shares, share)
        for index, share in enumerate(contributions.input_shares)
    ]
    decision = prio3.decide(CONTEXT, [each.verifier_shares for each in found])
    decided = np.stack([prio3.outcomes(each, decision) for each in found])
    counted = (decided == Outcome.ACCEPTED).all(axis=0)
    return decided, prio3.unshard_centred(
        [prio3.aggregate(each.output_shares, counted) for each in found]
    )


def accepted(prio3: Prio3, measurements: Elements, seed: int = 1) -> np.ndarray:
    """Which measurements all aggregators accept."""
    decided, _ = outcomes(prio3, *split(prio3, measurements, seed))
    return np.asarray((decided == Outcome.ACCEPTED).all(axis=0))


def fulfilled(circuit: Circuit, measurement: Elements) -> Mask:
    """Where every output of the circuit vanishes, without a proof; no joint randomness."""
    field = circuit.field
    joint = field.small(np.zeros((circuit.joint_randomness_length, measurement.shape[2]))) + 1
    inputs = circuit.inputs(measurement, joint, 1)
    checks = circuit.check_values(measurement, circuit.gadget.evaluate(field, inputs), 1)
    return np.asarray(field.is_zero(checks).all(axis=0))


def outputs(function: ProvedFunction, measurement: Elements) -> np.ndarray:
    """The centred outputs (B, d)."""
    values = function.circuit.field.integers(function.circuit.outputs(measurement)).T
    prime = function.circuit.field.prime
    return np.where(2 * values > prime, values - prime, values)


def all_bits(count: int) -> np.ndarray:
    """Every vector of bits, (count, 2^count)."""
    numbers = np.arange(1 << count, dtype=np.uint64)
    return (numbers >> np.arange(count, dtype=np.uint64)[:, np.newaxis]) & np.uint64(1)


def pairs(rows: np.ndarray) -> set[tuple[int, ...]]:
    return {tuple(int(value) for value in row) for row in rows}
