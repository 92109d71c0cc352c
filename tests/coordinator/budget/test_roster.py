"""Where curators stand and what they declare, at the edges of the roster."""

from __future__ import annotations

from fractions import Fraction

from coordinator.budget.roster import Roster, Status
from coordinator.models.budget_ledger import Scaled, ScaledDisclosure
from tacit.accounting.amounts import MICRO

DECLARED = Scaled(5, 7, 11)
DISCLOSED = ScaledDisclosure(3, 9, 4, False)


def stands(roster: Roster) -> dict[Status, int]:
    """How many curators are where, without those of which there are none."""
    return {status: count for status, count in roster.counts().items() if count}


def test_numbers_outside_the_roster_are_unknown() -> None:
    roster = Roster()
    assert (roster.size, roster.members().size, stands(roster)) == (0, 0, {})
    for size in range(1, 70):
        roster.enter(size - 1, 1)
        assert roster.size == size
        assert [roster.status(number) for number in (-1, 0, size - 1, size)] == [
            Status.UNKNOWN,
            Status.ACTIVE,
            Status.ACTIVE,
            Status.UNKNOWN,
        ]
        assert roster.statuses(0, size) == {Status.ACTIVE}
        for first, count in ((-1, 1), (-1, 2), (0, size + 1), (size, 1), (-1, size + 2)):
            assert roster.statuses(first, count) == {Status.UNKNOWN}


def test_all_but_those_who_left_and_gaps_are_members() -> None:
    roster = Roster()
    roster.enter(2, 4)
    for number, status in ((3, Status.FLAGGED), (4, Status.NON_COMPLIANT), (5, Status.LEFT)):
        roster.move(number, 1, status)
    assert roster.members().tolist() == [False, False, True, True, True, False]
    assert roster.statuses(0, 6) == set(Status)
    assert [roster.status(number) for number in range(2)] == [Status.UNKNOWN] * 2


def test_a_run_moves_as_one_whether_its_curators_declare_or_not() -> None:
    roster = Roster()
    roster.enter(0, 5)
    roster.declare([1, 3], DECLARED, None)
    assert roster.undeclared == 3
    roster.move(1, 3, Status.FLAGGED)
    assert stands(roster) == {Status.ACTIVE: 2, Status.FLAGGED: 3}
    assert roster.undeclared == 3
    roster.move(0, 4, Status.LEFT)
    assert stands(roster) == {Status.ACTIVE: 1, Status.LEFT: 4}
    assert (roster.undeclared, roster.aggregates().curators) == (1, 0)
    roster.move(0, 2, Status.ACTIVE)
    assert stands(roster) == {Status.ACTIVE: 3, Status.LEFT: 2}
    assert (roster.undeclared, roster.aggregates().curators) == (2, 1)


def test_what_a_curator_declares_and_discloses_is_its_own() -> None:
    roster = Roster()
    roster.enter(0, 4)
    negative = ScaledDisclosure(3, 9, 4, True)
    roster.declare([0, 2], DECLARED, None)
    roster.declare([2], None, DISCLOSED)
    roster.declare([3], None, negative)
    assert [roster.declared(number) for number in range(4)] == [DECLARED, None, DECLARED, None]
    assert [roster.disclosed(number) for number in range(4)] == [None, None, DISCLOSED, negative]
    numbers, figures = roster.declarations()
    assert (numbers.tolist(), figures.tolist()) == ([0, 2], [[5, 7, 11], [5, 7, 11]])
    roster.move(0, 1, Status.LEFT)
    roster.declare([3], DECLARED, None)
    assert roster.declarations()[0].tolist() == [2, 3]


def test_every_refresh_is_counted() -> None:
    roster = Roster()
    roster.enter(0, 4)
    roster.refresh(1, 2)
    roster.refresh(2, 1)
    assert [roster.refreshed(number) for number in range(4)] == [0, 1, 2, 0]


def test_ratios_of_the_largest_figures_are_exact() -> None:
    """Of denominators just below 2^63, next to each other."""
    roster, most = Roster(), 2**63 - 1
    roster.enter(0, 2)
    assert roster.aggregates().largest_curator_epsilon == 0
    roster.declare([0], Scaled(3, most - 24, 1), None)
    assert roster.aggregates().largest_curator_epsilon == Fraction(3, most - 24) / MICRO
    roster.declare([1], Scaled(3, most - 26, 1), ScaledDisclosure(5, most, 2, False))
    found = roster.aggregates()
    assert found.largest_curator_epsilon == Fraction(3, most - 26) / MICRO
    assert found.largest_ratio == Fraction(15, most) / MICRO
