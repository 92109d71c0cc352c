"""The spend filter: whatever is asked, no record spends more than epsilon.

Spec: federated-counting, sections 6.2 and 13, checks 6 and 7.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tacit.accounting.charges import MOST_BITS, Spent

ONE = Fraction(1)


def plainly(
    course: list[tuple[np.ndarray, list[Fraction]]], epsilon: Fraction, record: int
) -> list[Fraction]:  # type: ignore[type-arg]
    """The plain twin: S of one record after each round."""
    total, found = Fraction(0), []
    for counts, costs in course:
        spends = sum((int(n) * c for n, c in zip(counts[record], costs, strict=True)), Fraction(0))
        if total + spends <= epsilon:
            total += spends
        found.append(total)
    return found


def test_random_courses_never_pass_epsilon_and_are_the_plain_twins() -> None:
    """100,000 records in 1,000 courses: rates up to 50, repeats, many blocks."""
    generator = np.random.default_rng(1)
    without, compared = Fraction(0), 0
    for _ in range(1000):
        records, blocks = 100, int(generator.integers(1, 4))
        epsilon = Fraction(int(generator.integers(1, 40)), 10)
        spent, course = Spent.nothing(records), []
        for _ in range(6):
            costs = [
                Fraction(int(generator.integers(1, 500)), 10 * int(generator.integers(1, 200)))
                for _ in range(blocks)
            ]
            counts = generator.integers(0, 5, (records, blocks)) * generator.integers(
                0, 2, (records, 1)
            )
            before = spent
            spent, counted = spent.admit(counts, costs, epsilon)
            course.append((counts, costs))
            assert spent.most <= epsilon
            own = [Fraction(int(each), spent.denominator) for each in spent.numerators[:3]]
            old = [Fraction(int(each), before.denominator) for each in before.numerators[:3]]
            assert all(a == b for a, b, c in zip(own, old, counted[:3], strict=True) if not c)
        for record in range(3):
            assert plainly(course, epsilon, record)[-1] == Fraction(
                int(spent.numerators[record]), spent.denominator
            )
            compared += 1
        unfiltered = sum(
            (int(n) * c for counts, costs in course for n, c in zip(counts[0], costs, strict=True)),
            Fraction(0),
        )
        without = max(without, unfiltered / epsilon)
    assert compared == 3000
    assert without > 10, "without the filter records spend many times epsilon"


@pytest.mark.parametrize("rounds", [1, 7, 20])
def test_exactly_epsilon_may_be_spent(rounds: int) -> None:
    spent = Spent.nothing(1)
    for _ in range(rounds):
        spent, counted = spent.admit(np.ones((1, 1), np.int64), [Fraction(1, rounds)], ONE)
        assert counted.all()
    assert spent.most == 1
    _, counted = spent.admit(np.ones((1, 1), np.int64), [Fraction(1, 10**12)], ONE)
    assert not counted.any()
    _, counted = spent.admit(np.zeros((1, 1), np.int64), [Fraction(50)], ONE)
    assert counted.all(), "who adds nothing spends nothing"


def test_large_denominators_stay_exact_and_endless_ones_count_nobody() -> None:
    spent = Spent.nothing(2)
    primes = [n for n in range(2, 400) if all(n % k for k in range(2, math.isqrt(n) + 1))]
    counts = np.array([[1], [0]])
    exact = Fraction(0)
    for prime in primes:
        cost = Fraction(1, 100 * prime)
        spent, counted = spent.admit(counts, [cost], ONE)
        assert counted.all()
        exact += cost
    assert spent.numerators.dtype == object
    assert spent.most == exact
    again = Spent.unpacked(spent.packed(), 2, spent.denominator)
    assert [int(each) for each in again.numerators] == [int(each) for each in spent.numerators]
    after, counted = spent.admit(counts, [Fraction(1, 2**MOST_BITS)], ONE)
    assert not counted.any()
    assert after is spent


@pytest.mark.parametrize("values", [[], [0], [0, 255, 7], [1 << 40, 3], [(1 << 61) - 1]])
def test_stored_sums_come_back(values: list[int]) -> None:
    spent = Spent(np.array(values, np.int64), 77)
    again = Spent.unpacked(spent.packed(), len(values), 77)
    assert again.numerators.tolist() == values


def test_sums_of_another_number_of_records_are_refused() -> None:
    with pytest.raises(ValueError, match="another number"):
        Spent.unpacked(b"abc", 2, 1)


def laplace(value: int, scale: Fraction) -> float:
    a = math.exp(-1 / scale)
    return float(math.log((1 - a) / (1 + a)) - abs(value) / float(scale))


@pytest.mark.parametrize("filtered", [True, False])
def test_exact_audit_of_a_hostile_asker(filtered: bool) -> None:
    """Universe of two items; one record more or less; the asker chooses each round's cell and rate
    by the sums that it opened before. The log-ratio of the exact laws of the whole view, at every
    point of a box and its corners, stays within epsilon and reaches it; without the filter not."""
    worst = 0.0
    for view in product((-300, -3, 0, 1, 2, 3, 300), repeat=4):
        spent, ratio = Spent.nothing(1), 0.0
        rate = Fraction(2, 5)
        for opened in view:
            counts, costs = np.array([[1]]), [rate]
            counted = True
            if filtered:
                spent, admitted = spent.admit(counts, costs, ONE)
                counted = bool(admitted[0])
            mean = 1 if counted else 0
            ratio += laplace(opened - mean, 1 / rate) - laplace(opened, 1 / rate)
            rate = Fraction(3, 5) if opened > 1 else Fraction(1, 5)
        worst = max(worst, abs(ratio))
    if filtered:
        assert worst == pytest.approx(1, abs=1e-9)
    else:
        assert worst > 1.5
