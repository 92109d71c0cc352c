"""Devices: clamp, grid, noise, retries and lost state; and what an audit of their reports proves.

Audits: Clopper-Pearson bounds of `bench.audit`, all of one audit together wrong with probability
10^-6; seeds are fixed.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from bench.audit import proven
from tacit.encoders.crowd_tasking import (
    Component,
    Left,
    Perturbation,
    RoundPassed,
    admits,
    join,
    perturb,
    report,
    respond,
    resume,
    truth_probability,
)
from tacit.randomness import SecureRandom, SeededRandom

ALL: tuple[Component, ...] = ("Y", "G", "L")
RUNS = 100_000


def plan(
    components: tuple[Component, ...] = ALL,
    *,
    dimension: int = 1,
    steps: int = 1 << 16,
    scale: Fraction = Fraction(1 << 16),
    p: Fraction = Fraction(1, 2),
) -> Perturbation:
    return Perturbation((50.0,) * dimension, (150.0,) * dimension, steps, scale, components, p)


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": 0},
        {"scale": Fraction(20_000_001)},
        {"components": ("Y", "Y")},
        {"p": Fraction(3, 2)},
    ],
)
def test_mechanisms_that_cannot_be(wrong: dict) -> None:
    with pytest.raises(ValueError):
        plan(**{"components": ALL, **wrong})


def test_readings_are_clamped_and_put_on_the_grid() -> None:
    mechanism = plan(steps=100, dimension=2)
    readings = np.array([[50.0, 150.0], [-1e300, 1e300], [100.4, 100.6]])
    placed = mechanism.quantise(readings)
    assert placed.tolist() == [[0, 100], [0, 100], [50, 51]]
    assert mechanism.decode(placed).tolist() == [[50, 150], [50, 150], [100, 101]]


def test_a_retry_sends_the_same_numbers() -> None:
    source = SecureRandom()
    mechanism = plan(dimension=3)
    device, first = report(mechanism, join(mechanism, "t", source), 1, [60, 70, 80], source)
    again = resume(device.to_bytes(), "t")
    assert again == device
    same, numbers = report(mechanism, again, 1, [99, 99, 99], source)
    assert (same, numbers) == (device, first)
    later, second = report(mechanism, again, 5, [60, 70, 80], source)
    assert second != first
    assert report(mechanism, later, 5, [60, 70, 80], source)[1] == second
    with pytest.raises(RoundPassed):
        report(mechanism, later, 3, [60, 70, 80], source)


def test_a_device_without_its_state_leaves() -> None:
    mechanism = plan()
    with pytest.raises(Left):
        resume(None, "t")
    with pytest.raises(Left):
        resume(join(mechanism, "other", SeededRandom(1)).to_bytes(), "t")
    with pytest.raises(Left):
        resume(b"{}", "t")


@pytest.mark.parametrize("reading", [[], [1.0, 2.0], [math.nan]])
def test_readings_of_another_shape(reading: list[float]) -> None:
    mechanism = plan()
    with pytest.raises(ValueError):
        report(mechanism, join(mechanism, "t", SeededRandom(1)), 1, reading, SeededRandom(2))


@pytest.mark.parametrize(
    ("components", "p", "between", "same"),
    [
        (("G",), "0", 1, 1.0),
        (("L",), "1", 7, 1.0),
        (("L",), "1/2", 3, 0.125),
        (("L",), "0", 1, 0.0),
    ],
)
def test_which_parts_last(
    components: tuple[Component, ...], p: str, between: int, same: float
) -> None:
    """Series and devices alike. Shares of equal noise in two rounds; 4 sd: 0.02 and 0.12."""
    mechanism = plan(components, scale=Fraction(10_000_000), p=Fraction(p))
    users, rounds = np.repeat(np.arange(10_000), 2), np.tile([2, 2 + between], 10_000)
    reports = perturb(
        mechanism, users, rounds, np.zeros((20_000, 1), np.int64), SeededRandom(3)
    ).reshape(-1, 2)
    assert (reports[:, 0] == reports[:, 1]).mean() == pytest.approx(same, abs=0.02)
    source, equal = SeededRandom(4), 0
    for _ in range(300):
        device = join(mechanism, "t", source)
        device, one = report(mechanism, device, 2, [50.0], source)
        _, other = report(mechanism, device, 2 + between, [50.0], source)
        equal += one == other
    assert equal / 300 == pytest.approx(same, abs=0.12)


def test_devices_and_series_have_one_law() -> None:
    """Two-sample test of the sum of two rounds, at 10^-3 (Kolmogorov and Smirnov)."""
    from scipy.stats import ks_2samp

    mechanism, source = plan(scale=Fraction(5000)), SeededRandom(5)
    sums = []
    for _ in range(1500):
        device, total = join(mechanism, "t", source), 0
        for number in (1, 2):
            device, (value,) = report(mechanism, device, number, [100.0], source)
            total += value
        sums.append(total)
    users, rounds = np.repeat(np.arange(30_000), 2), np.tile([1, 2], 30_000)
    middle = np.full((60_000, 1), 1 << 15)
    series = perturb(mechanism, users, rounds, middle, source).reshape(-1, 2).sum(axis=1)
    assert ks_2samp(sums, series).pvalue > 1e-3


def test_rows_out_of_order_are_refused() -> None:
    quantised = np.zeros((2, 1), np.int64)
    for users, rounds in (([1, 0], [1, 1]), ([0, 0], [2, 1]), ([0, 0], [1, 1])):
        with pytest.raises(ValueError, match="sorted"):
            perturb(plan(), np.array(users), np.array(rounds), quantised, SeededRandom(1))


def test_joining() -> None:
    assert admits(Fraction(5), Fraction(5))
    assert not admits(Fraction(5), Fraction(501, 100))
    assert admits(Fraction(30), Fraction(5), Fraction(5))
    left = Fraction(25) - 5  # two tasks on the same readings add up
    assert admits(Fraction(30), Fraction(20), left)
    assert not admits(Fraction(30), Fraction(5), left - 20)


def counted(seen: np.ndarray) -> np.ndarray:
    """Hits of a family of half-spaces and boxes of the first two columns, and complements."""
    events = [
        test
        for level in range(-4, 6)
        for test in (
            seen[:, 0] <= level,
            (seen <= level).all(axis=1),
            (seen >= level).all(axis=1),
            seen[:, 0] - seen[:, -1] >= level,
            (seen[:, 0] <= level) & (seen[:, -1] >= 1 - level),
        )
    ]
    hits = np.array([event.sum() for event in events])
    return np.concatenate([hits, len(seen) - hits])


def lower_bound(one: np.ndarray, other: np.ndarray) -> float:
    """The epsilon that the reports of two inputs prove."""
    hits, others = counted(one), counted(other)
    return proven([str(each) for each in range(hits.size)], hits, others, len(one), 0.0).epsilon


@pytest.mark.parametrize(("factor", "epsilon"), [(2, 1.0), (1, 2.0)])
def test_the_audit_of_a_reading_of_two_coordinates(factor: int, epsilon: float) -> None:
    """Scale k steps / eps (l1) proves no more than eps = 1; steps / eps (per coordinate) proves
    that a reading costs 2."""
    mechanism = plan(("Y",), dimension=2, steps=1, scale=Fraction(factor))
    users, rounds = np.arange(RUNS), np.ones(RUNS, np.int64)
    found = [
        perturb(mechanism, users, rounds, np.full((RUNS, 2), value), SeededRandom(value + 6))
        for value in (0, 1)
    ]
    proof = lower_bound(*found)
    assert 0.9 * epsilon < proof <= epsilon


@pytest.mark.parametrize(
    ("one", "other", "least", "most"),
    [((0, 0), (1, 1), 0.6, 1.0), ((0, 1), (1, 0), 1.2, 2.0), ((0, 0), (1, 0), 0.6, 1.0)],
)
def test_the_audit_of_two_rounds_with_a_permanent_part(
    one: tuple[int, int], other: tuple[int, int], least: float, most: float
) -> None:
    """A constant shift of the series costs epsilon = 1; an alternating one passes it."""
    mechanism = plan(("Y", "G"), steps=1, scale=Fraction(1))
    users, rounds = np.repeat(np.arange(RUNS), 2), np.tile([1, 2], RUNS)
    found = [
        perturb(
            mechanism, users, rounds, np.tile(values, RUNS).reshape(-1, 1), SeededRandom(seed)
        ).reshape(-1, 2)
        for seed, values in ((8, one), (9, other))
    ]
    assert least < lower_bound(*found) <= most


@pytest.mark.parametrize("classes", [2, 5])
def test_told_labels(classes: int) -> None:
    """Shares of 10^5 answers; 4 sd: 0.0064."""
    labels = np.full(100_000, 1)
    told = respond(labels, classes, Fraction(1), SeededRandom(10))
    found = np.bincount(told, minlength=classes) / labels.size
    truth = float(truth_probability(Fraction(1), classes))
    expected = np.full(classes, (1 - truth) / (classes - 1))
    expected[1] = truth
    assert found == pytest.approx(expected, abs=0.0064)
    with pytest.raises(ValueError):
        truth_probability(Fraction(1), 1)
