"""The fully linear proof that a shared measurement fulfils a circuit, for many at once.

The prover gives the gadget polynomial, G of the wire polynomials, by its values; the verifiers
test at a random point that it is G of the wires, and that a random combination of the circuit's
outputs vanishes. Every step of a verifier is linear in what is shared.

Arrays are (limbs, elements, B). Source: Boneh et al. 2019 (BBCGGI19); VDAF draft, "Generating the
Proof", "Querying the Proof" and "Deciding Validity". Spec: validity, section 6.
"""

from __future__ import annotations

import numpy as np

from tacit.validity.circuit import Circuit
from tacit.validity.field import Elements, Mask
from tacit.validity.transforms import is_root, lagrange_weights, last_value, to_coset


def prove(
    circuit: Circuit, measurement: Elements, prove_randomness: Elements, joint_randomness: Elements
) -> Elements:
    """A proof: the wires' seeds, then the gadget polynomial at w^0, .., w^(2P - 2), w^(2P) = 1."""
    field, points = circuit.field, circuit.points
    inputs = circuit.inputs(measurement, joint_randomness, 1)
    table = _wires(inputs, prove_randomness, points)
    values = np.empty((field.limbs, 2 * points, table.shape[3]), np.uint64)
    values[:, 0::2] = circuit.gadget.evaluate(field, table)
    values[:, 1::2] = circuit.gadget.evaluate(field, to_coset(field, table))
    return np.concatenate((prove_randomness, values[:, :-1]), axis=1)


def query(
    circuit: Circuit,
    measurement: Elements,
    proof: Elements,
    query_randomness: Elements,
    joint_randomness: Elements,
    shares: int,
) -> tuple[Elements, Mask]:
    """A share of the verifier (limbs, 2 + arity, B), and where the point is permitted, (B,).

    A point that is a P-th root of unity would show an input: there the verifier is all zero, and
    the contribution has to be refused whatever the other shares say.
    """
    field, points, arity = circuit.field, circuit.points, circuit.gadget.arity
    seeds, values = proof[:, :arity], proof[:, arity:]
    values = np.concatenate((values, last_value(field, values)), axis=1)

    gadget_outputs = values[:, 2 : 2 * circuit.calls + 1 : 2]
    checks = circuit.check_values(measurement, gadget_outputs, shares)
    if circuit.checks > 1:
        weights = query_randomness[:, : circuit.checks]
        checks = field.sum(field.multiply(checks, weights))[:, np.newaxis]

    point = query_randomness[:, -1]
    weights = lagrange_weights(field, points, point)[:, :, np.newaxis]
    inputs = circuit.inputs(measurement, joint_randomness, shares)
    called = field.multiply(inputs, weights[:, 1 : circuit.calls + 1])
    wires = field.add(field.sum(called), field.multiply(seeds, weights[:, 0]))
    weights = lagrange_weights(field, 2 * points, point)
    gadget = field.sum(field.multiply(values, weights))[:, np.newaxis]

    verifier = np.concatenate((checks, wires, gadget), axis=1)
    permitted = ~is_root(field, points, point)
    return np.where(permitted, verifier, np.uint64(0)), permitted


def decide(circuit: Circuit, verifier: Elements) -> Mask:
    """Where the sum of all verifier shares, (limbs, 2 + arity, B), shows a valid measurement."""
    field = circuit.field
    gadget = circuit.gadget.evaluate(field, verifier[:, np.newaxis, 1:-1])[:, 0]
    correct = (gadget == verifier[:, -1]).all(axis=0)
    return np.asarray(field.is_zero(verifier[:, 0]) & correct)


def _wires(inputs: Elements, seeds: Elements, points: int) -> Elements:
    """The wires (limbs, P, arity, B): seeds, then inputs (limbs, calls, arity, B), then zeros."""
    limbs, calls, arity, count = inputs.shape
    table = np.zeros((limbs, points, arity, count), np.uint64)
    table[:, 0] = seeds
    table[:, 1 : calls + 1] = inputs
    return table
