"""Liars in a declared and in a proved round: by hand, where no noise hides it, and with noise."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from simulation import liars
from simulation.liars import KINDS, Lie, LiedRound, compare
from simulation.populations import Population
from tacit.query.query import Query
from tacit.validity.prio3 import Decision, Prio3, Verification
from tests.tacit.examples import METERED
from tests.tacit.examples import query as example

DISTRIBUTED = {"mechanism": "distributed", "epsilon": "10"}
NOISY: dict[str, dict[str, Any]] = {
    "aggregator": {**DISTRIBUTED, "layer": "aggregator"},
    "both": {**DISTRIBUTED, "layer": "both"},
    "two-layer": {
        "mechanism": "two-layer",
        "epsilon_u": "7.5",
        "epsilon_s": "2.5",
        "pr_u": "1",
        "pr_s": "1",
    },
}
READING = Fraction(3, 2)


def query(**changes: Any) -> Query:
    exact = {"mechanism": "exact", "epsilon": None, "max_readings": 3, "validity": "proved"}
    return example(**{**METERED, **exact, "min_participants": 2, **changes})


def people(curators: int) -> Population:
    """Everyone has one reading of 1.5 kWh, so that it is all the same who lies."""
    counts = np.ones(curators, np.int64)
    values = np.full(curators, float(READING))
    bounds = (Fraction(0), Fraction(2))
    return Population("alike", counts, values, "kWh", bounds, 3, Fraction(1, 1000), "made up")


def run(
    asked: Query, curators: int, share: Fraction, rounds: int = 1, seed: int = 7
) -> list[LiedRound]:
    return list(compare(asked, people(curators), share, rounds, seed))


def honest_total(row: LiedRound, curators: int) -> Fraction:
    return READING * (curators - row.told)


@pytest.mark.parametrize("block", [7, liars.BLOCK_CURATORS])
def test_both_sums_by_hand(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liars, "BLOCK_CURATORS", block)
    asked = query()
    amounts = {
        Lie.ENORMOUS: Fraction(10**12),
        Lie.WRAPPING: Fraction(-6 * 1000),
        Lie.OUTSIDE: Fraction("6.001"),
        Lie.WITHIN: Fraction(6),
    }
    for row in run(asked, 30, Fraction(1, 3), rounds=2):
        assert row.told == 10
        assert Fraction(row.true) == READING * 30
        told = sum(each.told * amounts[each.lie] for each in row.lies)
        assert Fraction(row.declared) == honest_total(row, 30) + told
        within = next(each.told for each in row.lies if each.lie is Lie.WITHIN)
        assert Fraction(row.proved) == honest_total(row, 30) + 6 * within


@pytest.mark.parametrize("noise", NOISY.values(), ids=NOISY)
def test_what_lies_outside_is_named_and_nobody_else(noise: dict[str, Any]) -> None:
    for row in run(query(**noise), 60, Fraction(1, 5), rounds=3):
        assert [each.lie for each in row.lies] == list(KINDS)
        for each in row.lies:
            assert each.told == 3
            assert each.named == (0 if each.lie is Lie.WITHIN else 3)
        assert row.honest_named == 0


def test_without_the_check_a_proved_sum_is_the_declared_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A lie in the proved round is the lie of the declared one: only its proof is in the way."""

    def accepted(_: Prio3, own: Verification, __: Decision) -> NDArray[np.uint8]:
        return np.zeros(len(own.permitted), np.uint8)

    monkeypatch.setattr(Prio3, "outcomes", accepted)
    for noise in ({}, NOISY["aggregator"]):
        (row,) = run(query(**noise), 20, Fraction(1, 2))
        assert row.named == 0
        assert row.proved == row.declared
