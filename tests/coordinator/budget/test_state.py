"""The fold: after any events the incremental figures are those of a computation from scratch."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from coordinator.budget.roster import Maxima, Status
from coordinator.budget.round_charges import Price
from coordinator.budget.state import CURATOR_KINDS, LedgerState
from coordinator.models.budget_ledger import (
    Declaration,
    Disclosure,
    Draft,
    Kind,
    MemberSet,
    Scaled,
    ScaledDisclosure,
    chain,
    exact_figures,
    first_break,
)
from tacit.accounting.amounts import Amount
from tacit.accounting.bounds import CuratorFigures, aggregate
from tacit.accounting.scenarios import Scenario
from tacit.query.terms import PrivacyUnit

NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)


class Book:
    """A ledger state with the events that led to it, and a plain picture of who is where."""

    def __init__(self) -> None:
        self.told: dict[str, Disclosure] = {}
        self.state = LedgerState(self.told.__getitem__)
        self.events: list[Any] = []
        self.status: dict[int, Status] = {}
        self.declared: dict[int, Declaration] = {}
        self.disclosed: dict[int, Disclosure] = {}
        self.charged: dict[str, set[int]] = {}

    def add(self, kind: Kind, first: int | None, count: int | None, **payload: Any) -> None:
        draft = Draft(kind, "test", payload, first, count)
        for event in chain([draft], self.state.seq, self.state.head, NOON):
            self.events.append(event)
            self.state.fold(event)

    def scratch(self) -> Iterable[CuratorFigures]:
        for number, status in self.status.items():
            if status not in (Status.LEFT,) and number in self.declared:
                told = self.disclosed.get(number)
                yield exact_figures(
                    Scaled.of(self.declared[number]),
                    None if told is None else ScaledDisclosure.of(told),
                    compliant=status is not Status.NON_COMPLIANT,
                )


LEADS = {
    Kind.LEFT: Status.LEFT,
    Kind.FLAGGED: Status.FLAGGED,
    Kind.CLEANSED: Status.ACTIVE,
    Kind.NON_COMPLIANT: Status.NON_COMPLIANT,
    Kind.REINSTATED: Status.ACTIVE,
}
PRICE = Price.of(
    {
        (unit, scenario): None
        if scenario is Scenario.EVERYONE
        else Amount(1000 + place, place, 500 + place, place)
        for unit in PrivacyUnit
        for place, scenario in enumerate(Scenario)
    }
)


def figures(chance: random.Random) -> tuple[Declaration, Disclosure]:
    readings = [chance.randrange(0, 40) for _ in range(chance.randrange(0, 5))]
    largest, total = max(readings, default=0), sum(readings)
    declaration = Declaration(
        epsilon=Fraction(chance.randrange(1, 5_000_000), 10**6),
        sensitivity=Fraction(chance.randrange(1, 100), 8),
        max_readings=chance.randrange(1, 9),
    )
    return declaration, Disclosure(
        largest_reading=Fraction(largest),
        total=Fraction(total),
        readings=len(readings),
        negative_readings=chance.random() < 0.02,
    )


def step(book: Book, chance: random.Random, turn: int) -> None:
    if chance.random() < 0.2 or not book.status:
        first, count = book.state.roster.size + chance.randrange(0, 3), chance.randrange(1, 4)
        book.add(Kind.JOINED, first, count, party="host")
        book.status.update(dict.fromkeys(range(first, first + count), Status.ACTIVE))
        return
    if chance.random() < 0.2:
        round_step(book, chance, turn)
        return
    kind, number = chance.choice(CURATOR_KINDS), chance.choice(list(book.status))
    refused = book.state.allows(kind, number, 1)
    status = book.status[number]
    assert refused in (None, status)
    if refused is not None or (kind is Kind.JOINED and status is not Status.LEFT):
        return
    payload: dict[str, Any] = {}
    if kind in (Kind.REFRESHED, Kind.CLEANSED):
        declaration, disclosure = figures(chance)
        if chance.random() < 0.9:
            payload["declared"] = declaration.model_dump(mode="json", exclude_none=True)
            book.declared[number] = declaration
        if chance.random() < 0.7:
            payload["disclosed"] = key = f"{turn}"
            book.told[key] = book.disclosed[number] = disclosure
    book.status[number] = Status.ACTIVE if kind is Kind.JOINED else LEADS.get(kind, status)
    book.add(kind, number, 1, **payload)


def round_step(book: Book, chance: random.Random, turn: int) -> None:
    active = book.state.roster.members()
    name = f"round-{turn}"
    start = chance.randrange(0, 50)
    book.add(
        Kind.ROUND_DEBITED,
        None,
        None,
        round=name,
        query="q",
        made=turn,
        window=[start, start + chance.randrange(1, 20)],
        price=PRICE.to_payload(),
        members=MemberSet.of(active).text,
        size=int(active.size),
        operators=["a", "b"],
    )
    book.charged[name] = set(np.flatnonzero(active))
    if chance.random() < 0.5:
        came = active & (np.array([chance.random() for _ in range(active.size)]) < 0.5)
        book.add(
            Kind.ROUND_RELEASED,
            None,
            None,
            round=name,
            members=MemberSet.of(came).text,
            size=int(came.size),
        )
        book.charged[name] = set(np.flatnonzero(came))


@pytest.mark.parametrize("seed", range(5))
def test_incremental_figures_are_those_from_scratch(seed: int) -> None:
    chance, book = random.Random(seed), Book()
    for turn in range(1000):
        step(book, chance, turn)
        if turn % 10 == 0:
            found = book.state.roster.aggregates()
            wanted = aggregate(book.scratch())
            silent = sum(item is Status.NON_COMPLIANT for item in book.status.values())
            for name in wanted.__dataclass_fields__:
                if name != "non_compliant":  # those without figures count there too
                    assert getattr(found, name) == getattr(wanted, name), (turn, name)
            assert found.non_compliant == silent
    counts = book.state.roster.counts()
    for status in counts:
        assert counts[status] == sum(item is status for item in book.status.values())
    undeclared = [
        number
        for number, status in book.status.items()
        if status is not Status.LEFT and number not in book.declared
    ]
    assert book.state.roster.undeclared == len(undeclared)
    assert first_break(book.events) is None
    paid = [sum(number in who for who in book.charged.values()) for number in book.status]
    for place, scenario in enumerate(Scenario):
        spent = book.state.spending.totals(scenario)
        for number, times in zip(book.status, paid, strict=True):
            one = spent.of(number)
            if scenario is Scenario.EVERYONE:
                assert (one.unverified, one.epsilon) == (times, 0)
            else:
                assert (one.epsilon, one.delta) == (times * (1000 + place), times * place)


def test_a_rebuild_is_equal_and_any_difference_shows() -> None:
    chance, book = random.Random(7), Book()
    for turn in range(300):
        step(book, chance, turn)
    again = LedgerState(book.told.__getitem__)
    for event in book.events:
        again.fold(event)
    assert again.figures() == book.state.figures()
    member = next(number for number, status in book.status.items() if status is Status.ACTIVE)
    book.add(Kind.FLAGGED, member, 1)
    assert again.figures().digest != book.state.figures().digest


def test_a_maximum_survives_the_removal_of_its_holder() -> None:
    chance, kept, maxima = random.Random(3), [], Maxima()
    for _ in range(5000):
        if kept and chance.random() < 0.5:
            value = max(kept) if chance.random() < 0.5 else chance.choice(kept)
            kept.remove(value)
            maxima.remove(value)
        else:
            value = chance.randrange(40)
            kept.append(value)
            maxima.add(value)
        assert maxima.largest(-1) == max(kept, default=-1)
    with pytest.raises(KeyError):
        maxima.remove(99)


def test_figures_that_do_not_scale_are_refused() -> None:
    for epsilon in ("0", "1/3", "0.0000001", "10001"):
        with pytest.raises(ValueError, match="epsilon"):
            Declaration.model_validate_json(f'{{"epsilon": "{epsilon}", "sensitivity": "1"}}')
    for sensitivity in ("0", "1/3", "9000000001", "0.0000000001"):
        with pytest.raises(ValueError, match="sensitivity"):
            Declaration.model_validate_json(f'{{"epsilon": "1", "sensitivity": "{sensitivity}"}}')


@pytest.mark.parametrize(
    ("largest", "total", "readings"), [("5", "4", 2), ("1", "9", 3), ("1", "1", 0)]
)
def test_a_disclosure_that_no_readings_have_is_refused(
    largest: str, total: str, readings: int
) -> None:
    text = f'{{"largest_reading": "{largest}", "total": "{total}", "readings": {readings}}}'
    with pytest.raises(ValueError, match="no such readings"):
        Disclosure.model_validate_json(text)


EVERYWHERE = {Kind.LEFT, Kind.REFRESHED}
MAY_FOLLOW = {
    Status.UNKNOWN: {Kind.JOINED},
    Status.LEFT: {Kind.JOINED},
    Status.ACTIVE: EVERYWHERE | {Kind.FLAGGED, Kind.NON_COMPLIANT},
    Status.FLAGGED: EVERYWHERE | {Kind.CLEANSED, Kind.NON_COMPLIANT, Kind.REINSTATED},
    Status.NON_COMPLIANT: EVERYWHERE | {Kind.CLEANSED, Kind.REINSTATED},
}


def test_which_events_may_follow_a_status() -> None:
    book = Book()
    book.add(Kind.JOINED, 0, 4, party="host")
    for number, kind in ((1, Kind.FLAGGED), (2, Kind.NON_COMPLIANT), (3, Kind.LEFT)):
        book.add(kind, number, 1)
    places = (Status.ACTIVE, Status.FLAGGED, Status.NON_COMPLIANT, Status.LEFT, Status.UNKNOWN)
    for number, status in enumerate(places):
        for kind in CURATOR_KINDS:
            refused = book.state.allows(kind, number, 1)
            assert refused == (None if kind in MAY_FOLLOW[status] else status)
    assert book.state.allows(Kind.FLAGGED, 0, 3) is Status.FLAGGED
    assert book.state.allows(Kind.LEFT, 0, 3) is None


def test_refreshed_and_cleansed_data_counts_as_changed() -> None:
    book = Book()
    book.add(Kind.JOINED, 0, 2, party="host")
    for kind in (Kind.REFRESHED, Kind.FLAGGED, Kind.CLEANSED, Kind.REFRESHED, Kind.LEFT):
        book.add(kind, 0, 1)
    assert [book.state.roster.refreshed(number) for number in (0, 1)] == [3, 0]


def test_an_event_of_another_chain_is_refused() -> None:
    """With the next number, but after another event; and so is one that was there before."""
    book = Book()
    book.add(Kind.JOINED, 0, 1, party="a")
    (event,) = chain([Draft(Kind.FLAGGED, "test", {}, 0, 1)], 1, bytes(32), NOON)
    assert event.seq == 2
    for wrong in (event, book.events[0]):
        with pytest.raises(ValueError, match="not the next event"):
            book.state.fold(wrong)
    (event,) = chain([Draft(Kind.FLAGGED, "test", {}, 0, 1)], 1, book.state.head, NOON)
    with pytest.raises(ValueError, match="not the next event"):
        book.state.fold(replace(event, seq=3))
    book.state.fold(event)


def charged(book: Book, name: str) -> None:
    """Debit a round of the first curator."""
    members = MemberSet.of(np.ones(1, np.bool_)).text
    round_of = {"round": name, "query": "q", "made": 1, "window": [0, 5], "operators": []}
    price = PRICE.to_payload()
    book.add(Kind.ROUND_DEBITED, None, None, **round_of, price=price, members=members, size=1)


def test_a_round_ends_released_or_aborted() -> None:
    book = Book()
    book.add(Kind.JOINED, 0, 1, party="a")
    for name in ("open", "summed", "ended"):
        charged(book, name)
    members = MemberSet.of(np.ones(1, np.bool_)).text
    book.add(Kind.ROUND_RELEASED, None, None, round="summed", members=members, size=1)
    book.add(Kind.ROUND_ABORTED, None, None, round="ended", credited=True, reason="test")
    found = {name: item.state for name, item in book.state.spending.rounds.items()}
    assert found == {"open": "debited", "summed": "released", "ended": "aborted"}
    assert [item.credited for item in book.state.spending.rounds.values()] == [False, False, True]


def test_the_figures_are_of_the_roster_and_of_what_was_spent() -> None:
    book = Book()
    book.add(Kind.JOINED, 0, 3, party="a")
    fields = {"epsilon": "0.5", "sensitivity": "2"}
    book.add(Kind.REFRESHED, 0, 2, declared=fields)
    snapshot = book.state.snapshot()
    shown = dict(item.split("=") for item in snapshot.roster.decode().split(";") if item)
    assert shown["curators"] == shown["undisclosed"] == "2"
    assert (shown["largest_epsilon"], shown["sum_of_epsilons"]) == ("0.5", "1")
    assert (shown["ACTIVE"], shown["LEFT"], shown["non_compliant"]) == ("3", "0", "0")
    before = snapshot.figures().digest
    charged(book, "r")
    after = book.state.snapshot()
    assert after.roster == snapshot.roster
    assert after.figures().digest != before
    for item, name in ((after, "seq"), (after.figures(), "digest")):
        with pytest.raises(FrozenInstanceError):
            setattr(item, name, None)
