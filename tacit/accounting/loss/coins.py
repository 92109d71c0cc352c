"""Noise that is drawn with a coin: the mixture convolved, or who drew revealed."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from tacit.accounting.loss.rounding import (
    ONE,
    PRECISE,
    UNIT,
    UP,
    ZERO,
    Draws,
    both_deltas,
    capped,
    precise,
)
from tacit.accounting.loss.whole import (
    LARGEST_EXPONENT,
    MAX_WHOLE_DRAWS,
    Law,
    whole_delta,
    whole_law,
)

Piece = tuple[Fraction, int, tuple[Draws, ...], int]
"""One part of a query: its epsilon, sensitivity, layers (whole draws) and dimension."""

_MOST_PRODUCTS: Final = 60_000_000
_MOST_REVEALED: Final = 8


def binomial_masses(parties: int, probability: Fraction, most: int) -> tuple[Decimal, ...]:
    """P(K = 0..most-1) and P(K >= most) for a Binomial, or P(K = 0..parties); rounded up."""
    if probability == 1:
        count = min(parties, most)
        return (ZERO,) * count + (ONE,)
    if parties == 0 or probability == 0:
        return (ONE,)
    p, q = precise(probability), precise(1 - probability)
    mass = PRECISE.power(q, parties)
    masses = []
    remaining_mass = ONE
    for k in range(min(parties, most) + 1):
        if k == most and parties > most:
            masses.append(UP.add(max(remaining_mass, ZERO), Decimal("1e-40")))
            break
        masses.append(UP.plus(mass))
        remaining_mass = PRECISE.subtract(remaining_mass, mass)
        mass = PRECISE.divide(
            PRECISE.multiply(PRECISE.multiply(mass, parties - k), p),
            PRECISE.multiply(q, k + 1),
        )
    return tuple(masses)


@lru_cache(maxsize=4096)
def mixture_delta(pieces: tuple[Piece, ...]) -> Decimal:
    """delta of parts that share their coins: one coin per party covers all parts.

    Exact for one part in one dimension if the window is short: the mixture itself is convolved, and
    fact 2 needs no log-concavity. Otherwise by revealing who drew: delta <= sum_pattern Pr(pattern)
    delta_pattern. Each pattern is log-concave, the pattern without any draw has delta 1, and the
    parts of a pattern compose to 1 - (1-delta_1)(1-delta_2)...

    Raises ValueError for more than two layers, and for shares: a coin decides on whole draws
    only.
    """
    if any(layer.weight != 1 for _, _, draws, _ in pieces for layer in draws):
        raise ValueError("a coin decides on whole draws only")
    if all(
        any(
            layer.parties and layer.probability == 1 and epsilon >= sensitivity / layer.scale
            for layer in draws
        )
        for epsilon, sensitivity, draws, _ in pieces
    ):
        return ZERO
    if len(pieces) == 1 and pieces[0][3] == 1:
        epsilon, sensitivity, draws, _ = pieces[0]
        exact = exact_mixture_delta(epsilon, sensitivity, draws)
        if exact is not None:
            return exact
    return revealed_delta(pieces)


def revealed_delta(pieces: tuple[Piece, ...]) -> Decimal:
    """sum over who drew: the certified bound that holds in any dimension and for any parts."""
    layers = pieces[0][2]
    if len(layers) > 2:
        raise ValueError("at most two layers")
    spread = [
        binomial_masses(
            layer.parties,
            layer.probability,
            MAX_WHOLE_DRAWS if layer.probability == 1 else _MOST_REVEALED,
        )
        for layer in layers
    ]
    total = ZERO
    first, second = (*spread, (ONE,), (ONE,))[:2]
    for i, one in enumerate(first):
        for j, other in enumerate(second):
            chance = UP.multiply(one, other)
            if chance == 0:
                continue
            if chance < Decimal("1e-20"):
                total = UP.add(total, chance)
                continue
            pattern = ZERO
            for epsilon, sensitivity, draws, _ in pieces:
                laws = tuple((n, layer.scale) for n, layer in zip((i, j), draws, strict=False) if n)
                pattern = both_deltas(pattern, whole_delta(epsilon, sensitivity, laws))
            total = UP.add(total, UP.multiply(chance, pattern))
    return capped(total)


def exact_mixture_delta(
    epsilon: Fraction, sensitivity: int, draws: tuple[Draws, ...]
) -> Decimal | None:
    """One dimension, full resolution: the mixture convolved. None if it is too long, or without
    layers."""
    law = _mixture(draws) if draws and epsilon <= LARGEST_EXPONENT else None
    if law is None:
        return None
    growth = math.exp(epsilon)
    error = law.error + (4 + float(epsilon)) * UNIT
    mass = law.mass
    shifted = np.zeros(mass.size)
    if sensitivity < mass.size:
        shifted[sensitivity:] = mass[: mass.size - sensitivity]
    terms = mass * (1 + error) - growth * (1 - 2 * error) * shifted
    delta = float(terms[terms > 0].sum()) * (1 + mass.size * UNIT)
    return capped(delta + law.tail)


@lru_cache(maxsize=64)
def _mixture(draws: tuple[Draws, ...]) -> Law | None:
    """The law of two independent mixtures, or None if it is too long."""
    spread = [binomial_masses(layer.parties, layer.probability, MAX_WHOLE_DRAWS) for layer in draws]
    cut = 0.0
    products = 1.0
    for place, (layer, masses) in enumerate(zip(draws, tuple(spread), strict=True)):
        if layer.parties > MAX_WHOLE_DRAWS and layer.probability != 1:
            if masses[-1] > Decimal("1e-15"):
                return None
            cut += float(masses[-1])
            spread[place] = masses[:-1]
        if len(masses) > 1:
            products *= 120 * float(layer.scale) + 40
    if products > _MOST_PRODUCTS:
        return None
    joined: Law | None = None
    for layer, masses in zip(draws, spread, strict=True):
        law = _one_mixture(layer.scale, masses)
        if joined is None:
            joined = law
            continue
        mass = np.convolve(joined.mass, law.mass)
        error = joined.error + law.error + min(joined.mass.size, law.mass.size) * UNIT
        joined = Law(mass, mass, joined.reach + law.reach, joined.tail + law.tail, error)
    assert joined is not None
    return Law(joined.mass, joined.below, joined.reach, joined.tail + cut, joined.error)


def _one_mixture(scale: Fraction, masses: tuple[Decimal, ...]) -> Law:
    laws = [
        (float(chance), whole_law(k, scale))
        for k, chance in enumerate(masses)
        if k and chance > Decimal("1e-18")
    ]
    reach = max((law.reach for _, law in laws), default=0)
    mass = np.zeros(2 * reach + 1)
    mass[reach] = float(masses[0])
    tail = sum(float(chance) for k, chance in enumerate(masses) if k and chance <= Decimal("1e-18"))
    error = 0.0
    for chance, law in laws:
        mass[reach - law.reach : reach + law.reach + 1] += chance * law.mass
        tail += chance * law.tail
        error = max(error, law.error)
    return Law(mass, mass, reach, tail * (1 + 1e-9), error + (len(laws) + 4) * UNIT)
