"""The fully linear proof that a shared measurement fulfils a circuit, and the polynomials that it
is made of.

Polynomials by their values at roots of unity: transforms, and values elsewhere.

Arrays are (limbs, n, ...): the polynomial's axis is the second, n a power of two, value i that at
w^i, w of order n.

Source: VDAF draft, "NTT" and "Lagrange basis". Spec: validity, section 6.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tacit.validity.circuit import Circuit
from tacit.validity.field import Elements, Field, Mask


def to_coset(field: Field, values: Elements) -> Elements:
    """Values (limbs, n, ...) at the n-th roots of unity, taken to the odd 2n-th roots.

    Value i of the result is that at w^(2 i + 1), w of order 2n; degree below n.
    """
    size = values.shape[1]
    coefficients = _transform(field, values, field.inverse_of(field.root(size)))
    factors = _shifts(field, size)
    shifted = field.multiply(coefficients, _spread(factors, values.ndim))
    return _transform(field, shifted, field.root(size))


def lagrange_weights(field: Field, size: int, points: Elements) -> Elements:
    """L_i(t) (limbs, n, B) for points t (limbs, B): sum_i L_i(t) f(w^i) = f(t), degree below n.

    L_i(t) = (w^i / n) prod_(j != i) (t - w^j), so points at roots need no special case and
    nothing is inverted. The factors are multiplied along a tree: at the height where 2^h leaves
    are joined, node j is t^(2^h) - w^(j 2^h).
    """
    roots = _roots(field, size)
    nodes = []
    power = points[:, np.newaxis]
    while size > 1:
        nodes.append(field.subtract(power, roots))
        power = field.multiply(power, power)
        size //= 2
        roots = _roots(field, size)
    # One node is left; the product of all leaves outside it is the empty one.
    others_product = field.small(np.ones((1, points.shape[1]), np.uint64))
    for level in reversed(nodes):
        half = level.shape[1] // 2
        siblings = np.concatenate((level[:, half:], level[:, :half]), axis=1)
        others_product = field.multiply(
            np.concatenate((others_product, others_product), axis=1), siblings
        )
    return field.multiply(others_product, _roots_by_size(field, len(others_product[0])))


def is_root(field: Field, size: int, points: Elements) -> Mask:
    """Where t^n = 1, n a power of two; points (limbs, ...)."""
    one = field.constant(1, axes=points.ndim - 1)
    power = field.power_of_two_power(points, size.bit_length() - 1)
    return np.asarray((power == one).all(axis=0))


def last_value(field: Field, values: Elements) -> Elements:
    """The value at w^(2n - 1) of a polynomial of degree at most 2n - 2, w of order 2n.

    values: (limbs, 2n - 1, B), those at w^0, .., w^(2n - 2). The coefficient of x^(2n - 1) is 0,
    so the value is -sum_i w^(i + 1) values_i. Gives (limbs, 1, B).
    """
    roots = _roots(field, values.shape[1] + 1)[:, 1:]
    return field.negate(field.sum(field.multiply(values, roots)))[:, np.newaxis]


def _transform(field: Field, values: Elements, root: int) -> Elements:
    """sum_i root^(i k) values_i for k = 0 .. n - 1.

    Row k, column j of the table (limbs, m, n / m, ...) is the transform of length m of every
    (n / m)-th value from j on. Each step joins two columns into one of twice the length.
    """
    size = values.shape[1]
    rest = values.shape[2:]
    table = values.reshape(field.limbs, 1, size, *rest)
    length = 1
    while length < size:
        half = size // length // 2
        even = table[:, :, :half]
        odd = table[:, :, half:]
        if length > 1:
            factors = _powers(field, pow(root, half, field.prime), length)
            odd = field.multiply(odd, _spread(factors, table.ndim))
        table = np.concatenate((field.add(even, odd), field.subtract(even, odd)), axis=1)
        length *= 2
    return table.reshape(field.limbs, size, *rest)


def _spread(factors: Elements, dimensions: int) -> Elements:
    """Factors (limbs, n), reshaped to `dimensions` axes by axes of length 1 at the end."""
    shape = (*factors.shape[:2], *(1,) * (dimensions - 2))
    return factors.reshape(shape)


@lru_cache(maxsize=256)
def _powers(field: Field, base: int, count: int) -> Elements:
    """base^0, .., base^(count - 1), (limbs, count)."""
    values = [1]
    for _ in range(count - 1):
        values.append(values[-1] * base % field.prime)
    powers = field.elements(values)
    powers.flags.writeable = False
    return powers


def _roots(field: Field, size: int) -> Elements:
    """w^0, .., w^(n - 1), (limbs, n, 1)."""
    return _powers(field, field.root(size), size)[..., np.newaxis]


@lru_cache(maxsize=64)
def _roots_by_size(field: Field, size: int) -> Elements:
    """w^i / n, (limbs, n, 1)."""
    return field.multiply(_roots(field, size), field.constant(field.inverse_of(size)))


@lru_cache(maxsize=64)
def _shifts(field: Field, size: int) -> Elements:
    """w^i / n, w of order 2n, for i = 0 .. n - 1, (limbs, n)."""
    powers = _powers(field, field.root(2 * size), size)
    return field.multiply(powers, field.constant(field.inverse_of(size), axes=1))


# The fully linear proof that a shared measurement fulfils a circuit, for many at once.
#
# The prover gives the gadget polynomial, G of the wire polynomials, by its values; the verifiers
# test at a random point that it is G of the wires, and that a random combination of the circuit's
# outputs vanishes. Every step of a verifier is linear in what is shared.
#
# Arrays are (limbs, elements, B). Source: Boneh et al. 2019 (BBCGGI19); VDAF draft, "Generating the
# Proof", "Querying the Proof" and "Deciding Validity". Spec: validity, section 6.


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
    """A share of the verifier (limbs, 2 + arity, B), and whether the point is permitted, (B,).

    A point that is a P-th root of unity would reveal an input: there the verifier is all zero,
    and the contribution must be refused whatever the other shares say.
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
    """Whether the sum of all verifier shares, (limbs, 2 + arity, B), proves a valid measurement."""
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
