"""Polynomials by their values at roots of unity: transforms, and values elsewhere.

Arrays are (limbs, n, ...): the polynomial's axis is the second, n a power of two, value i that at
w^i, w of order n.

Source: VDAF draft, "NTT" and "Lagrange basis". Spec: validity, section 6.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

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
    others = field.small(np.ones((1, points.shape[1]), np.uint64))
    for level in reversed(nodes):
        half = level.shape[1] // 2
        siblings = np.concatenate((level[:, half:], level[:, :half]), axis=1)
        others = field.multiply(np.concatenate((others, others), axis=1), siblings)
    return field.multiply(others, _roots_by_size(field, len(others[0])))


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
    """Factors (limbs, n) with axes of length 1 behind them, up to so many dimensions."""
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
