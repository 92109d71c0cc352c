"""The bound of clamped noise against the exact law."""

from __future__ import annotations

import hashlib
import math
import random
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import gammaln

from tacit.validity.noise_bound import Tail, clamp_delta, noise_bound


@pytest.mark.parametrize(
    ("participants", "weight", "curators", "units"),
    [
        (10**4, Fraction(1), 1, 58.6),
        (10**6, Fraction(1), 1, 63.3),
        (10**4, Fraction(1, 10**4), 1, 46.8),
        (10**6, Fraction(1, 10**6), 1, 46.8),
        (10**6, Fraction(1, 10**4), 1, 51.4),
        (10**6, Fraction(1, 10**6), 4096, 46.8),
        (10**6, Fraction(1), 4096, 913),
    ],
)
def test_the_bounds_that_the_specification_states(participants, weight, curators, units):
    """Spec: validity, section 5, in units of the scale."""
    bound = noise_bound(Tail(participants, 1), Fraction(10**6), weight, curators)
    assert round(bound / 10**6, 1 if units < 900 else 0) == units


def test_the_bounds_of_a_larger_tail():
    tail = Tail(10**6, 1, Fraction(1, 10**10))
    assert noise_bound(tail, Fraction(1000), Fraction(1, 10**6)) // 100 == 253
    assert noise_bound(tail, Fraction(1000), Fraction(1)) // 10 == 4155


def test_every_machine_finds_the_same_bounds():
    """A digest, made once, of the bounds of 40 random queries."""
    source, bounds = random.Random(1), []
    for _ in range(40):
        participants = source.randrange(2, 10**6)
        curators = source.randrange(1, min(participants, 4096) + 1)
        tail = Tail(
            participants, source.randrange(1, 5000), Fraction(1, source.randrange(2, 2**64))
        )
        scale = Fraction(source.randrange(1, 10**9), source.randrange(1, 1000))
        weight = Fraction(1, source.randrange(1, participants + 1))
        bounds.append(noise_bound(tail, scale, weight, curators))
    digest = hashlib.sha256(repr(bounds).encode()).hexdigest()
    assert digest == "3c02d8699962fe5539a77438a5d2fd58e0f1ff011ff3fd9aed9a58d6d07467b9"


def two_sided_tail(scale: float, weight: float, bounds: np.ndarray) -> np.ndarray:
    """P(|X - Y| > T), X and Y negative binomial: sums of positive terms, so nothing cancels."""
    reach = int(weight * scale + scale * 120 + 40 * scale * math.sqrt(weight)) + int(bounds.max())
    k = np.arange(2 * reach + 2)
    log_mass = gammaln(k + weight) - gammaln(k + 1) - gammaln(weight) - k / scale
    mass = np.exp(log_mass + weight * math.log(-math.expm1(-1 / scale)))
    beyond = np.append(np.cumsum(mass[::-1])[::-1], 0.0)
    return np.array([2 * (mass[:reach] * beyond[t + 1 : t + 1 + reach]).sum() for t in bounds])


@pytest.mark.parametrize("weight", ["0.001", "0.1", "1", "4", "4096"])
@pytest.mark.parametrize("scale", ["0.5", "3", "40"])
@pytest.mark.parametrize("total", [Fraction(1, 1 << 64), Fraction(1, 10**6), Fraction(1, 100)])
def test_the_bound_is_never_below_the_exact_tail_s(weight, scale, total):
    tail = Tail(10_000, 1, total)
    curators = 4096 if weight == "4096" else 1
    bound = noise_bound(tail, Fraction(scale), Fraction(weight) / curators, curators)
    allowed = float(total) * curators / 10_000
    (beyond,) = two_sided_tail(float(scale), float(weight), np.array([bound]))
    assert beyond <= allowed
    if scale != "0.5":  # and not wasteful: half of it would not do
        (beyond,) = two_sided_tail(float(scale), float(weight), np.array([bound // 2]))
        assert beyond > allowed


def test_a_part_s_bound_is_never_more_than_its_curators_bounds_together():
    tail = Tail(10**5, 3)
    for weight in (Fraction(1), Fraction(1, 10**5), Fraction(1, 70)):
        lone = noise_bound(tail, Fraction(100), weight)
        for curators in (1, 2, 7, 100, 4096):
            part = noise_bound(tail, Fraction(100), weight, curators)
            assert part <= curators * (lone + 1)


def test_clamping_costs_no_more_than_is_added_to_delta():
    """One discrete Laplace with b = Delta = 3, T = 6: exactly 0.154, added is 0.420."""
    a, values = math.exp(-1 / 3), np.arange(-2000, 2001)
    law = (1 - a) / (1 + a) * a ** np.abs(values)
    clamped = np.bincount(np.clip(values, -6, 6) + 6 + 3, law, 20)
    delta = np.maximum(clamped - math.e * np.roll(clamped, 3), 0).sum()
    tail = law[np.abs(values) > 6].sum()
    assert round(delta, 3) == 0.154
    assert round((1 + math.e) * tail, 3) == 0.42
    stated = clamp_delta(Tail(1, 1, Fraction(tail)), Fraction(1))
    assert abs(float(stated) - (1 + math.e) * tail) < 1e-12
    assert delta <= stated


def test_the_default_tail_adds_next_to_nothing():
    assert clamp_delta(Tail(10**6, 1), Fraction(1)) <= Fraction(37183, 10**4) / 2**64
    assert clamp_delta(Tail(1, 1), Fraction(1000)) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: Tail(0, 1),
        lambda: Tail(1, 0),
        lambda: Tail(1, 1, Fraction(0)),
        lambda: Tail(1, 1, Fraction(1)),
        lambda: noise_bound(Tail(5, 1), Fraction(0), Fraction(1)),
        lambda: noise_bound(Tail(5, 1), Fraction(1), Fraction(0)),
        lambda: noise_bound(Tail(5, 1), Fraction(1), Fraction(1), 6),
        lambda: noise_bound(Tail(5, 1), Fraction(1), Fraction(1), 0),
    ],
)
def test_what_makes_no_sense_is_refused(make):
    with pytest.raises(ValueError, match="noise"):
        make()
