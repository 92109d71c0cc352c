"""The sources' three bounds: the worked example of their Table 5.1, and what they are not."""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting.bounds import (
    Aggregates,
    Bound,
    CuratorFigures,
    Disclosed,
    aggregate,
    local_figures,
    source_bounds,
)


def curator(
    *readings: int, epsilon: Fraction = Fraction(1), compliant: bool = True
) -> CuratorFigures:
    """A curator with D_i and F_i declared as they are."""
    largest, total = Fraction(max(readings, default=0)), Fraction(sum(readings))
    negative = any(reading < 0 for reading in readings)
    return CuratorFigures(
        epsilon,
        max(largest, Fraction(1)),
        max(total, Fraction(1)),
        Disclosed(largest, total, len(readings), negative),
        compliant,
    )


X_1, X_2, X_3 = curator(1, 2, 3, 4), curator(5, 6, 7, 8), curator(1, 1, 1, 27)


def shown(sums: Aggregates) -> list[tuple[Fraction | None, bool | None]]:
    found = source_bounds(sums).bounds
    assert [bound.name for bound in found] == ["max_epsilon", "sum_epsilon", "unconditional"]
    return [(bound.value, bound.applies) for bound in found]


def test_the_worked_example_with_all_three() -> None:
    sums = aggregate([X_1, X_2, X_3])
    assert (sums.largest_total, sums.sum_of_largest) == (30, 39)
    assert shown(sums) == [(1, False), (3, True), (Fraction(27, 10), True)]
    theorem = source_bounds(sums).theorem_5_2
    assert (theorem.largest_total, theorem.limit, theorem.holds) == (30, 4 * 39, True)
    holds = local_figures(sums)
    assert holds.record == 1
    assert (
        holds.curator == Fraction(13, 4) == max(Fraction(10, 4), Fraction(26, 8), Fraction(30, 27))
    )


def test_one_that_adds_no_noise_makes_all_infinite() -> None:
    silent = curator(5, 6, 7, 8, compliant=False)
    assert all(bound.infinite and bound.value is None for bound in bounds(X_1, silent))


def bounds(*figures: CuratorFigures) -> tuple[Bound, ...]:
    return source_bounds(aggregate(figures)).bounds


def test_readings_below_zero_leave_no_number() -> None:
    for bound in bounds(X_1, curator(3, -1)):
        assert (bound.value, bound.infinite, bound.applies) == (None, False, False)
        assert "below 0" in bound.reason


def test_undisclosed_curators_count_with_the_supremum() -> None:
    sums = aggregate([X_1, X_2]).with_uniform(3, Fraction(1, 2))
    assert shown(sums) == [(1, None), (Fraction(7, 2), True), (Fraction(5, 2), True)]
    assert source_bounds(sums).theorem_5_2 is None
    public = aggregate([X_1, X_2, X_3]).without_disclosures()
    assert shown(public) == [(1, None), (3, True), (3, True)]


def test_nobody_has_amounts_of_0() -> None:
    """Nothing is added to what a coordinator starts from."""
    assert Aggregates() == aggregate([])
    assert [getattr(Aggregates(), each.name) for each in fields(Aggregates)] == [0] * 12


def test_every_amount_of_curators_that_disclose() -> None:
    silent = curator(5, 6, 7, 8, epsilon=Fraction(3), compliant=False)
    negative = curator(3, -1, epsilon=Fraction(1, 2))
    hidden = CuratorFigures(Fraction(2), Fraction(4), Fraction(6))
    assert aggregate([X_1, silent, negative, hidden]) == Aggregates(
        curators=4,
        undisclosed=1,
        negative=1,
        non_compliant=1,
        largest_epsilon=Fraction(3),
        sum_of_epsilons=Fraction(13, 2),
        largest_open_epsilon=Fraction(2),
        largest_ratio=Fraction(3 * 8, 26),
        largest_total=Fraction(26),
        sum_of_largest=Fraction(12),
        most_readings=4,
        largest_curator_epsilon=Fraction(3 * 26, 8),
    )
    assert hidden.compliant
    assert not Disclosed(Fraction(1), Fraction(1), 1).negative


def test_uniform_curators_are_added_to_every_amount() -> None:
    before = aggregate([X_1, curator(3, -1), CuratorFigures(Fraction(2), Fraction(4), Fraction(6))])
    after = before.with_uniform(3, Fraction(5))
    assert after == Aggregates(
        curators=6,
        undisclosed=4,
        negative=1,
        largest_epsilon=Fraction(5),
        sum_of_epsilons=Fraction(19),
        largest_open_epsilon=Fraction(5),
        largest_ratio=before.largest_ratio,
        largest_total=Fraction(10),
        sum_of_largest=Fraction(4),
        most_readings=4,
        largest_curator_epsilon=before.largest_curator_epsilon,
    )
    assert before.with_uniform(3, Fraction(5), negative=True).negative == 4
    assert before.with_uniform(0, Fraction(5)) == before
    assert before.with_uniform(1, Fraction(1, 9)).largest_epsilon == 2
    assert before.with_uniform(1, Fraction(1, 9)).largest_open_epsilon == 2


def test_a_largest_total_that_equals_the_sum_reaches_it() -> None:
    """D_X = 10 and D_1 + D_2 = 4 + 6."""
    first = bounds(curator(1, 2, 3, 4), curator(6))[0]
    assert (first.value, first.infinite, first.applies) == (1, False, True)
    assert first.reason == "D_X reaches the sum of all D_i"


def test_the_reason_of_each_bound() -> None:
    first, second, third = bounds(X_1, X_2, X_3)
    assert first.reason == "D_X is below the sum of all D_i"
    assert not first.infinite
    assert not second.infinite
    assert not third.infinite
    assert third.reason == "Lu & Shen, Theorem 1; thesis, Theorem 5.1"
    hidden = source_bounds(aggregate([X_1]).with_uniform(1, Fraction(1))).bounds
    assert "not disclosed" in hidden[0].reason
    assert hidden[2].reason.endswith("supremum over readings that are not below 0")
    assert all(bound.applies for bound in bounds(curator(1, compliant=False)))
    assert all("no active curator" in bound.reason for bound in bounds())


def test_a_bound_is_found_by_its_name() -> None:
    found = source_bounds(aggregate([X_1, X_2, X_3]))
    for bound in found.bounds:
        assert found.named(bound.name) is bound


figures = st.lists(
    st.builds(
        lambda readings, micro: curator(*readings, epsilon=Fraction(micro, 10**6)),
        st.lists(st.integers(0, 50), max_size=6),
        st.integers(1, 10**7),
    ),
    min_size=1,
    max_size=8,
)


@given(figures)
def test_theorem_5_2_is_true_of_readings_that_are_not_negative(some: list[CuratorFigures]) -> None:
    theorem = source_bounds(aggregate(some)).theorem_5_2
    assert theorem.holds
