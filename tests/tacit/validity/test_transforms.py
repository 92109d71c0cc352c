"""Transforms against polynomials that are evaluated term by term."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tacit.validity.field import FIELD64, FIELD128
from tacit.validity.proof import is_root, lagrange_weights, last_value, to_coset
from tests.tacit.validity.arithmetic import GF17, GF97

CASES = [(FIELD64, 1), (FIELD64, 64), (FIELD128, 2), (FIELD128, 32), (GF97, 16), (GF17, 8)]


def evaluate(coefficients: list[int], at: int, prime: int) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * at + coefficient) % prime
    return value


@pytest.mark.parametrize(("field", "size"), CASES)
def test_a_polynomial_is_known_everywhere_by_its_values_at_roots(field, size):
    source, p = random.Random(size), field.prime
    polynomials = [[source.randrange(p) for _ in range(size)] for _ in range(3)]
    root, double = field.root(size), field.root(2 * size)
    values = field.elements(
        [[evaluate(f, pow(root, i, p), p) for f in polynomials] for i in range(size)]
    )
    odd = [[evaluate(f, pow(double, 2 * i + 1, p), p) for f in polynomials] for i in range(size)]
    assert field.integers(to_coset(field, values)).tolist() == odd
    wide = np.repeat(values[:, :, np.newaxis], 2, axis=2)
    assert field.integers(to_coset(field, wide))[:, 1].tolist() == odd

    points = [source.randrange(p), pow(root, size // 2, p), 0]
    weights = lagrange_weights(field, size, field.elements(points))
    found = field.sum(field.multiply(values, weights))
    wanted = [evaluate(f, t, p) for f, t in zip(polynomials, points, strict=True)]
    assert field.integers(found).tolist() == wanted
    rooted = is_root(field, size, field.elements(points))
    assert rooted.tolist() == [pow(t, size, p) == 1 for t in points]


@pytest.mark.parametrize(("field", "size"), [(FIELD64, 16), (FIELD128, 4), (GF97, 8)])
def test_the_last_value_follows_from_the_degree(field, size):
    source, p = random.Random(5), field.prime
    coefficients = [source.randrange(p) for _ in range(2 * size - 1)]
    root = field.root(2 * size)
    values = [evaluate(coefficients, pow(root, i, p), p) for i in range(2 * size)]
    found = last_value(field, field.elements(values[:-1])[:, :, np.newaxis])
    assert field.integers(found).tolist() == [[values[-1]]]
