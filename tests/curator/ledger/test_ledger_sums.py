"""The ledger's arithmetic, without services: charges, sums, spans, periods, limits, statements."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, astuple, fields
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator.ledger import (
    BEGINNING,
    FOREVER,
    INFINITE,
    LIFETIME,
    Charge,
    Debit,
    Shortage,
    Totals,
    charges_of,
    for_account,
    format_scaled,
    largest_over_instants,
    period_of,
    presence_bits,
    shortages,
    statement_of,
    sum_debits,
    worst_instant,
)
from curator.policy import Limit, Limits
from tacit.accounting.amounts import FEMTO, MICRO, Cost
from tacit.query.fields import Window
from tacit.query.terms import PrivacyUnit
from tests.curator.conftest import NOISY, query
from tests.property_examples import examples

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
UNVERIFIED = Charge(INFINITE, 0, 40, 4, INFINITE, 0, 50, 5)


def debit(
    charge: Charge,
    members: list[bool],
    *,
    offset: int = 0,
    start: int = 0,
    end: int = 10,
    made: datetime = NOON,
    credited: bool = False,
) -> Debit:
    window = Window(start=NOON + start * MINUTE, end=NOON + end * MINUTE)
    return Debit(charge, offset, np.array(members), window, made, credited)


def listed(totals: Totals) -> list[list[int]]:
    return [column.tolist() for column in totals.columns()]


def test_charges_are_whole_numbers_rounded_up() -> None:
    assumed = Cost(Fraction(1, 3), Fraction(1, 7 * FEMTO))
    assert Charge.of(assumed, Cost(Fraction(2), Fraction(0))) == Charge(
        333_334, 1, 2_000_000, 0, 55_555_556, 1, 1_523_188_312, 0
    )
    assert Charge.of(Cost(None, None), assumed) == Charge(
        INFINITE, 0, 333_334, 1, INFINITE, 0, 55_555_556, 1
    )
    gaussian = Cost(Fraction(3), Fraction(1, 10**6), Fraction(1, 7))
    assert Charge.of(gaussian, gaussian) == Charge(
        3_000_000, 10**9, 3_000_000, 10**9, 142_857_143, 0, 142_857_143, 0
    )
    assert Charge.of(Cost(Fraction(1), None), Cost(None, Fraction(1))) == Charge(
        INFINITE, 0, INFINITE, 0, INFINITE, 0, INFINITE, 0
    )
    huge = Cost(Fraction(10**10), Fraction(2))
    assert Charge.of(huge, huge) == Charge(*[INFINITE] * 8)


def test_the_constants_are_those_of_the_stored_ledgers() -> None:
    assert (MICRO, FEMTO, INFINITE, LIFETIME) == (1_000_000, 1_000_000_000_000_000, 1 << 50, 0)
    assert INFINITE == 1_125_899_906_842_624


CHARGES = (
    Charge(7, 3, 11, 5, 9, 2, 4, 1),
    Charge(INFINITE // 3, 0, INFINITE, 1, INFINITE // 2, 0, INFINITE, 2),
    UNVERIFIED,
    Charge(0, 0, 0, 0, 0, 0, 0, 0),
)


@examples(200)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(CHARGES),
            st.integers(0, 12),
            st.lists(st.booleans(), min_size=1, max_size=12),
            st.booleans(),
        ),
        max_size=8,
    ),
    st.integers(0, 12),
    st.integers(1, 8),
    st.booleans(),
)
def test_what_is_counted_first_adds_up_as_one_by_one(
    made: list[tuple[Charge, int, list[bool], bool]], offset: int, length: int, verified: bool
) -> None:
    debits = [
        debit(charge, members, offset=place, credited=credited)
        for charge, place, members, credited in made
    ]
    one_by_one = [[0] * length for _ in range(8)]
    for item in debits:
        own = for_account(item.counted, 1 if verified else LIFETIME)
        for column, amount in zip(one_by_one, astuple(own), strict=True):
            for place, inside in enumerate(item.over(offset, length).tolist()):
                column[place] = min(column[place] + amount * inside, INFINITE)
    assert listed(sum_debits(debits, offset, length, verified_only=verified)) == one_by_one


def test_very_many_infinite_charges_do_not_wrap() -> None:
    many = [debit(UNVERIFIED, [True, False])] * (1 << 14)
    found = sum_debits(many, 0, 2, verified_only=False)
    everyone = [[40 << 14, 0], [4 << 14, 0], [50 << 14, 0], [5 << 14, 0]]
    unbounded = [[INFINITE, 0], [0, 0]]
    assert listed(found) == [*unbounded, *everyone[:2], *unbounded, *everyone[2:]]


def test_further_rounds_in_many_rows_add_no_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proved round debits a host part by part: what is added is one array for each charge."""
    added = 0
    plus_times = Totals.plus_times

    def counted(self: Totals, charge: Charge, times: np.ndarray) -> Totals:
        nonlocal added
        added += times.size
        return plus_times(self, charge, times)

    monkeypatch.setattr(Totals, "plus_times", counted)
    sizes = []
    for rounds in (1, 10):
        rows = [debit(CHARGES[0], [True] * 8, offset=8 * part) for part in range(16)] * rounds
        added = 0
        largest_over_instants(rows, rows[0].window, 0, 128, verified_only=True)
        sizes.append(added)
    assert sizes[0] == sizes[1] == 1


@pytest.mark.parametrize(
    ("epsilon", "verified"), [(INFINITE - 1, True), (INFINITE, False), (INFINITE + 1, False)]
)
def test_a_charge_is_verified_below_infinity(epsilon: int, verified: bool) -> None:
    assert Charge(epsilon, 0, 0, 0, 0, 0, 0, 0).verified is verified


def test_a_charge_is_added_for_members_and_taken_back() -> None:
    members = np.array([True, False, True])
    charge = Charge(5, 1, 0, 7, 4, 0, 8, 2)
    once = Totals.zero(3).plus(charge, members)
    assert listed(once) == [[each, 0, each] for each in astuple(charge)]
    assert listed(once.plus(charge, members, factor=-1)) == [[0, 0, 0]] * 8
    assert listed(once.plus(Charge(6, 0, 0, 0, 0, 0, 0, 0), members, factor=-1))[0] == [0, 0, 0]


def test_totals_stop_at_infinity_and_stay() -> None:
    one = np.array([True])
    below = Totals.zero(1).plus(Charge(INFINITE - 1, 0, 0, 0, 0, 0, 0, 0), one)
    assert listed(below.plus(Charge(1, 0, 0, 0, 0, 0, 0, 0), one, factor=-1))[0] == [INFINITE - 2]
    full = below.plus(Charge(9, 0, 0, 0, 0, 0, 0, 0), one)
    assert listed(full)[0] == [INFINITE]
    assert listed(full.plus(Charge(9, 0, 0, 0, 0, 0, 0, 0), one, factor=-1))[0] == [INFINITE]


def test_parts_and_the_larger_of_two() -> None:
    left = Totals.zero(3).plus(Charge(5, 1, 2, 3, 5, 1, 2, 3), np.array([True, False, True]))
    right = Totals.zero(3).plus(Charge(4, 2, 2, 9, 4, 2, 2, 9), np.array([True, True, False]))
    larger = left.maximum(right)
    assert listed(larger) == 2 * [[5, 4, 5], [2, 2, 1], [2, 2, 2], [9, 9, 3]]
    assert listed(larger.part(1, 3)) == 2 * [[4, 5], [2, 1], [2, 2], [9, 3]]


@pytest.mark.parametrize(
    ("offset", "length", "seen"),
    [
        (3, 3, [True, False, True]),
        (0, 4, [False, False, False, True]),
        (4, 4, [False, True, False, False]),
        (2, 5, [False, True, False, True, False]),
        (5, 1, [True]),
        (0, 3, [False, False, False]),
        (6, 2, [False, False]),
        (9, 1, [False]),
    ],
)
def test_members_seen_from_another_span(offset: int, length: int, seen: list[bool]) -> None:
    assert (
        debit(Charge(1, 0, 0, 0, 0, 0, 0, 0), [True, False, True], offset=3)
        .over(offset, length)
        .tolist()
        == seen
    )


def test_a_credit_takes_back_the_assumed_column_of_verified_rounds_only() -> None:
    charge = Charge(5, 1, 7, 2, 3, 4, 6, 8)
    assert debit(charge, [True]).counted == charge
    assert debit(charge, [True], credited=True).counted == Charge(0, 0, 7, 2, 0, 0, 6, 8)
    assert debit(UNVERIFIED, [True], credited=True).counted == UNVERIFIED
    assert debit(UNVERIFIED, [True]).counted == UNVERIFIED


def test_periods_are_counted_from_1970() -> None:
    assert period_of(NOON, 7200) == (NOON, NOON + timedelta(hours=2))
    last = NOON + timedelta(hours=2) - timedelta(microseconds=1)
    assert period_of(last, 7200) == (NOON, NOON + timedelta(hours=2))
    assert period_of(NOON - timedelta(microseconds=1), 7200)[1] == NOON
    assert period_of(NOON, 1) == (NOON, NOON + timedelta(seconds=1))
    assert period_of(NOON, LIFETIME) == (BEGINNING, FOREVER)
    assert datetime(1970, 1, 1, tzinfo=UTC) == BEGINNING
    assert FOREVER.year == 9999


def test_a_period_leaves_out_what_is_not_verified_and_a_lifetime_does_not() -> None:
    debits = [
        debit(Charge(5, 1, 6, 2, 8, 0, 9, 0), [True, False]),
        debit(UNVERIFIED, [True], offset=1),
    ]
    assert listed(sum_debits(debits, 0, 2, verified_only=True)) == [
        *([5, 0], [1, 0], [6, 40], [2, 4]),
        *([8, 0], [0, 0], [9, 50], [0, 5]),
    ]
    assert listed(sum_debits(debits, 0, 2, verified_only=False))[0] == [5, INFINITE]
    assert for_account(UNVERIFIED, LIFETIME) == UNVERIFIED
    assert (
        for_account(UNVERIFIED, 1)
        == for_account(UNVERIFIED, 86_400)
        == Charge(0, 0, 40, 4, 0, 0, 50, 5)
    )
    assert for_account(Charge(5, 1, 6, 2, 0, 0, 0, 0), 1) == Charge(5, 1, 6, 2, 0, 0, 0, 0)


def test_the_worst_instant_of_a_window() -> None:
    charges = [
        debit(Charge(1, 0, 0, 0, 0, 0, 0, 0), [True], start=0, end=4),
        debit(Charge(2, 0, 0, 0, 0, 0, 0, 0), [True], start=3, end=6),
        debit(Charge(4, 0, 0, 0, 0, 0, 0, 0), [True], start=6, end=9),
    ]

    def worst(start: int, end: int) -> int:
        window = Window(start=NOON + start * MINUTE, end=NOON + end * MINUTE)
        total = largest_over_instants(charges, window, 0, 1, verified_only=False)
        return int(total.epsilon[0])

    assert [worst(0, 3), worst(0, 4), worst(4, 6), worst(4, 7), worst(9, 12)] == [1, 3, 2, 4, 0]
    unverified = [debit(UNVERIFIED, [True])]
    window = Window(start=NOON, end=NOON + MINUTE)
    for only, spent in ((True, 0), (False, INFINITE)):
        total = largest_over_instants(unverified, window, 0, 1, verified_only=only)
        assert total.epsilon.tolist() == [spent]


def limits(**given: str) -> Limits:
    (name, text), *_ = given.items()
    scope, figure = name.rsplit("_", 1)
    return Limits.model_validate({scope: {figure: text}})


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("period_epsilon", "the period limit on epsilon would be exceeded"),
        ("period_delta", "the period limit on delta would be exceeded"),
        ("lifetime_epsilon", "the lifetime limit on epsilon would be exceeded"),
        ("lifetime_delta", "the lifetime limit on delta would be exceeded"),
        ("all_aggregators_epsilon", "the all aggregators limit on epsilon would be exceeded"),
        ("all_aggregators_delta", "the all aggregators limit on delta would be exceeded"),
    ],
)
def test_a_limit_may_be_reached_and_not_exceeded(name: str, detail: str) -> None:
    delta = name.endswith("delta")
    scale = FEMTO if delta else MICRO
    text = "0.000000000000005" if delta else "0.000005"
    amounts = {field.name: 0 for field in fields(Charge)}
    amounts[name.split("_")[-1] + ("_all" if name.startswith("all") else "")] = 2
    charge = Charge(**amounts)
    everyone = np.array([True, True, True, False])
    spent = Totals.zero(4)
    for amount, members in ((3, [1, 1, 1, 1]), (1, [0, 1, 1, 1]), (2, [0, 0, 1, 1])):
        scaled = Charge(**{key: amount if value else 0 for key, value in amounts.items()})
        spent = spent.plus(scaled, np.array(members, np.bool_))
    none = Totals.zero(4)
    lifetime = name.startswith("lifetime")
    period, total = (none, spent) if lifetime else (spent, none)
    (found,) = shortages(limits(**{name: text}), charge, period, total, everyone)
    assert found.members.tolist() == [False, True, True, False]
    assert found.detail == detail
    assert found.figures == {
        "limit": text,
        "asked": format_scaled(2, scale),
        "spent_at_most": format_scaled(6, scale),
    }
    assert shortages(limits(**{name: text}), charge, total, period, everyone) == []
    assert everyone.tolist() == [True, True, True, False]


def test_each_curator_is_refused_once_by_the_first_limit() -> None:
    both = Limits(period=Limit(epsilon=Fraction(0)), lifetime=Limit(epsilon=Fraction(1, MICRO)))
    charge, everyone = Charge(1, 0, 1, 0, 0, 0, 0, 0), np.array([True, True])
    zero = Totals.zero(2)
    (only,) = shortages(both, charge, zero, zero.plus(charge, everyone), everyone)
    assert only.detail == "the period limit on epsilon would be exceeded"
    spent = zero.plus(Charge(1, 0, 0, 0, 0, 0, 0, 0), np.array([True, False]))
    one = Limits(period=Limit(epsilon=Fraction(1, MICRO)), lifetime=Limit(epsilon=Fraction(0)))
    first, second = shortages(one, charge, spent, zero, everyone)
    assert first.members.tolist() == [True, False]
    assert second.members.tolist() == [False, True]
    assert second.detail == "the lifetime limit on epsilon would be exceeded"


def test_a_round_without_a_figure_meets_no_finite_lifetime() -> None:
    one, zero = np.array([True]), Totals.zero(1)
    large = Limit(epsilon=Fraction(10**8))
    assert shortages(Limits(period=large), UNVERIFIED, zero, zero, one) == []
    (found,) = shortages(Limits(lifetime=large), UNVERIFIED, zero, zero, one)
    assert found.figures["asked"] == "inf"


def test_amounts_as_text() -> None:
    assert format_scaled(INFINITE, MICRO) == "inf"
    assert format_scaled(INFINITE - 1, 1) == str(INFINITE - 1)
    assert format_scaled(1_500_000, MICRO) == "1.5"
    assert presence_bits(b"\x05", 3).tolist() == [True, False, True]


def test_a_statement_counts_the_period_the_lifetime_and_the_rounds_of_one_curator() -> None:
    hour = timedelta(hours=1)
    debits = [
        debit(
            Charge(1_000_000, 1, 5_000_000, 2, 125 * 10**7, 0, 75 * 10**7, 1),
            [True, True],
            made=NOON,
        ),
        debit(
            Charge(2_000_000, 1, 0, 0, 0, 0, 0, 0),
            [False, True],
            made=NOON + hour - timedelta.resolution,
        ),
        debit(Charge(4_000_000, 1, 0, 0, 0, 0, 0, 0), [False, True], made=NOON + hour),
        debit(
            Charge(8_000_000, 1, 0, 0, 0, 0, 0, 0), [False, True], made=NOON - timedelta.resolution
        ),
        debit(Charge(16_000_000, 1, 0, 0, 0, 0, 0, 0), [True, False], made=NOON),
        debit(Charge(INFINITE, 0, 0, 0, 0, 0, 0, 0), [True, False], made=NOON),
    ]
    found = statement_of(debits, 1, NOON, 3600, Limits(period=Limit(epsilon=Fraction(9))), [])
    assert found.model_dump(exclude_unset=True) == {
        "limits": {"period": {"epsilon": "9"}, "lifetime": {}, "all_aggregators": {}},
        "period": {
            "start": "2026-01-05T12:00:00Z",
            "seconds": 3600,
            "epsilon": "3",
            "delta": "0.000000000000002",
            "epsilon_all_aggregators": "5",
            "delta_all_aggregators": "0.000000000000002",
            "rho": "1.25",
            "rho_delta": "0",
            "rho_all_aggregators": "0.75",
            "rho_delta_all_aggregators": "0.000000000000001",
            "zcdp_epsilon": "8.84589",
        },
        "lifetime": {
            "epsilon": "15",
            "delta": "0.000000000000004",
            "epsilon_all_aggregators": "5",
            "delta_all_aggregators": "0.000000000000002",
            "rho": "1.25",
            "rho_delta": "0",
            "rho_all_aggregators": "0.75",
            "rho_delta_all_aggregators": "0.000000000000001",
            "zcdp_epsilon": "8.84589",
        },
        "rounds": 4,
        "unverified_rounds": 0,
        "debits": [],
    }
    other = statement_of(debits, 0, NOON, 3600, Limits(), [])
    assert (other.rounds, other.unverified_rounds) == (3, 1)
    assert (other.period.epsilon, other.lifetime.epsilon) == ("17", "inf")


def test_the_worst_instant_of_all_rounds_of_a_curator() -> None:
    assert worst_instant([], 0).epsilon == "0"
    debits = [
        debit(Charge(1_000_000, 0, 0, 0, 0, 0, 0, 0), [True, False], start=0, end=4),
        debit(Charge(2_000_000, 0, 0, 0, 0, 0, 0, 0), [True, False], start=3, end=5),
        debit(Charge(9_000_000, 0, 0, 0, 0, 0, 0, 0), [False, True], start=3, end=5),
        debit(Charge(7_000_000, 0, 0, 0, 0, 0, 0, 0), [True, False], start=8, end=9),
        debit(Charge(INFINITE, 0, 0, 0, 0, 0, 0, 0), [False, True], start=-1, end=0),
    ]
    assert worst_instant(debits, 0).epsilon == "7"
    assert worst_instant(debits[:3], 0).epsilon == "3"
    assert worst_instant(debits, 1).epsilon == "inf"
    assert worst_instant(debits, 2).epsilon == "0"


def test_a_round_over_the_last_microsecond_counts() -> None:
    start = NOON + 10 * MINUTE
    window = Window(start=start, end=start + timedelta.resolution)
    last = Debit(Charge(3_000_000, 0, 0, 0, 0, 0, 0, 0), 0, np.array([True]), window, NOON, False)
    assert worst_instant([last], 0).epsilon == "3"
    first = debit(Charge(1_000_000, 0, 0, 0, 0, 0, 0, 0), [True])
    assert worst_instant([first, last], 0).epsilon == "3"


def test_a_round_is_charged_in_both_units_by_who_runs_its_aggregators() -> None:
    """A curator has four readings; two of three aggregators may be corrupt."""
    asked = query(NOISY, name="q", epsilon="1.1")
    assert charges_of(asked) == {
        PrivacyUnit.RECORD: Charge(275_000, 0, INFINITE, 0, 37_575_991, 0, INFINITE, 0),
        PrivacyUnit.CURATOR: Charge(1_100_000, 0, INFINITE, 0, 550_572_233, 0, INFINITE, 0),
    }
    assert charges_of(asked, ["a", "b", "c"]) == charges_of(asked)
    assert not any(charge.verified for charge in charges_of(asked, ["a", "a", "b"]).values())


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (UNVERIFIED, "epsilon"),
        (Totals.zero(1), "epsilon"),
        (debit(UNVERIFIED, [True]), "credited"),
        (Shortage(np.array([True]), "", {}), "detail"),
    ],
)
def test_what_was_charged_is_not_changed_in_place(value: object, field: str) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(value, field, 0)
