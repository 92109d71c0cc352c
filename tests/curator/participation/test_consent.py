"""Which curators of a span take part in a round, and the grounds on which others do not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import FrozenInstanceError
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sqlalchemy import insert

from common.store.transactions import Transaction
from curator.engine import Terms
from curator.errors import DeadlinePassed, NotInRound, OpenedBeforeRestore
from curator.ledger import INFINITE, Bits, Charge
from curator.owner.policies import holding
from curator.participation import consent as module
from curator.participation.consent import (
    Asked,
    Consent,
    Ground,
    afford,
    check_round,
    consent,
)
from curator.participation.restoring import Restore
from curator.policy import Limit, Limits, Policy
from curator.store import tables
from curator.store.accounts import add_debits
from curator.store.parties import PartyRow
from tacit import sets
from tacit.protocol.enrolment import PartyKind
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.query.fields import Window
from tacit.query.terms import PrivacyUnit
from tests.curator.conftest import NOISY, query
from tests.curator.double import FakeWorld
from tests.curator.store.test_accounts import (
    COVERS,
    HOUR,
    NOON,
    bits,
    contribution,
    party,
    pay,
    row,
)

MICRO = 10**6
ONE = Charge(MICRO, 0, 0, 0, 0, 0, 0, 0)
FREE = Charge(0, 0, 0, 0, 0, 0, 0, 0)
UNVERIFIED = Charge(INFINITE, 0, INFINITE, 0, 0, 0, 0, 0)
MOMENT = timedelta(microseconds=1)
NEVER = Restore(None, timedelta(0))
LENIENT = Policy(min_aggregators=1)


def gateway(**changes: Any) -> PartyRow:
    values: dict[str, Any] = {
        "id": "gateway",
        "kind": PartyKind.HOST,
        "state": "enrolled",
        "deployment": "test",
        "identity": b"",
        "coordinator_url": "",
        "coordinator_key": None,
        "coordinator_token": None,
        "first": 64,
        "first_key": 100,
        "curators": 20,
        "join_token": None,
        "created": NOON,
        "enrolled": NOON,
        "anchors": (),
    }
    return PartyRow(**{**values, **changes})


def opened(asked: dict[str, Any] | None = None, **changes: Any) -> RoundDescriptor:
    values = {"roster_size": 100, **changes}
    return FakeWorld().open_round(
        query({**NOISY, **(asked or {})}), COVERS.start, COVERS.end, NOON, **values
    )


def limited(unit: str, **limits: str) -> Policy:
    """With limits on epsilon in one unit, by their names."""
    wanted = {name: Limit(epsilon=Fraction(value)) for name, value in limits.items()}
    return Policy(min_aggregators=1, **{unit: Limits(**wanted)})


def asking(record: Charge = FREE, curator: Charge = FREE, window: Window = COVERS) -> Asked:
    charges = {PrivacyUnit.RECORD: record, PrivacyUnit.CURATOR: curator}
    return Asked(PrivacyUnit.CURATOR, window, charges)


async def left(
    transaction: Transaction,
    asked: Asked,
    policy: Policy,
    span: tuple[int, int] = (0, 4),
    members: Bits | None = None,
    now: datetime = NOON,
) -> tuple[list[int], list[Ground]]:
    """The places of a span that can afford it, and the grounds of the others."""
    result = Consent(np.ones(span[1], np.bool_))
    wanted = np.ones(span[1], np.bool_) if members is None else members
    await afford(transaction, gateway(), asked, policy, span, wanted, now, result)
    return np.flatnonzero(result.present).tolist(), result.grounds


def test_a_round_is_for_parties_of_its_roster_before_its_deadline() -> None:
    descriptor = opened(roster_size=84)
    last = descriptor.deadline - MOMENT
    check_round(gateway(), descriptor, last, NEVER)
    with pytest.raises(DeadlinePassed):
        check_round(gateway(), descriptor, descriptor.deadline, NEVER)
    for outside in (gateway(curators=21), gateway(first=65), gateway(first=None)):
        with pytest.raises(NotInRound) as refused:
            check_round(outside, descriptor, last, NEVER)
        assert dict(refused.value.extra) == {"roster_version": descriptor.roster_version}
    with pytest.raises(OpenedBeforeRestore):
        check_round(gateway(), descriptor, last, Restore(NOON, timedelta(hours=1)))


def test_each_member_is_left_out_on_one_ground_and_equal_grounds_are_one() -> None:
    result = Consent(np.ones(4, np.bool_))
    result.refuse(bits(0, length=4), "a", "first", {"y": 1, "x": NOON})
    result.refuse(bits(0, 1, length=4), "b", "second")
    result.refuse(bits(0, 1, length=4), "c", "nobody is left for this one")
    result.refuse(bits(2, length=4), "a", "first", {"x": NOON, "y": 1})
    assert result.present.tolist() == [False, False, False, True]
    assert [(item.name, item.detail, item.members.tolist()) for item in result.grounds] == [
        ("a", "first", [True, False, True, False]),
        ("b", "second", [False, True, False, False]),
    ]
    assert result.grounds[0].figures == '{"x": "2026-01-01 12:00:00+00:00", "y": 1}'
    assert result.grounds[1].figures == "{}"


def test_grounds_and_what_is_asked_cannot_be_changed() -> None:
    for item, name in ((Ground(bits(0, length=1), "", "", ""), "name"), (asking(), "window")):
        with pytest.raises(FrozenInstanceError):
            setattr(item, name, None)


async def own(transaction: Transaction, by_place: dict[int, Policy]) -> None:
    """Policies of single curators of the party, by their place."""
    await party(transaction)
    for place, policy in by_place.items():
        await transaction.execute(
            insert(tables.curators).values(
                key=100 + place,
                id=f"curator-{place}",
                party="gateway",
                policy=policy.model_dump_json(exclude_none=True),
            )
        )


def places(found: Sequence[tuple[Policy, Bits]]) -> dict[int, list[int]]:
    """The places of a span by `min_participants` of their policy."""
    return {policy.min_participants: np.flatnonzero(members).tolist() for policy, members in found}


async def test_a_curators_own_policy_replaces_the_default(transaction: Transaction) -> None:
    strict, stricter = Policy(min_participants=5), Policy(min_participants=6)
    await own(transaction, {3: strict, 5: stricter, 6: strict})
    found = await holding(transaction, gateway(), LENIENT, 2, 6)
    assert places(found) == {2: [0, 2, 5], 5: [1, 4], 6: [3]}
    assert places(await holding(transaction, gateway(), LENIENT, 5, 2)) == {6: [0], 5: [1]}
    assert places(await holding(transaction, gateway(), LENIENT, 7, 2)) == {2: [0, 1]}


async def test_each_policy_decides_for_its_own_members(transaction: Transaction) -> None:
    """Also after one that refuses: the order of policies changes nothing."""
    poor = limited("curator", lifetime="0.5").model_copy(update={"period_s": 7200})
    strict = Policy(min_participants=9, min_aggregators=1)
    await own(transaction, {1: poor, 2: strict})
    charges = asking(curator=ONE).charges
    descriptor, span = opened(), (0, 4)
    for default, wanted in ((LENIENT, [0, 3]), (strict, [])):
        found = await consent(
            transaction, gateway(), Terms.of(descriptor), charges, default, span, NOON
        )
        assert np.flatnonzero(found.present).tolist() == wanted
        assert found.periods == {86_400, 7200}
        names = {item.name: np.flatnonzero(item.members).tolist() for item in found.grounds}
        refused = [2] if default is LENIENT else [0, 2, 3]
        assert names == {"policy_refused": refused, "budget_exceeded": [1]}


async def test_a_window_is_repeated_only_where_the_policy_allows_it(
    transaction: Transaction,
) -> None:
    descriptor = opened()
    repeats = limited("curator", lifetime="0.5").model_copy(update={"allow_repeats": True})
    await own(transaction, {2: repeats, 3: LENIENT.model_copy(update={"allow_repeats": True})})
    charges = asking(curator=ONE).charges

    async def grounds() -> dict[str, tuple[list[int], str]]:
        found = await consent(
            transaction, gateway(), Terms.of(descriptor), charges, LENIENT, (0, 4), NOON
        )
        return {g.name: (np.flatnonzero(g.members).tolist(), g.figures) for g in found.grounds}

    assert {name: where for name, (where, _) in (await grounds()).items()} == {
        "budget_exceeded": [2]
    }
    earlier = await contribution(transaction, descriptor.query.digest(), descriptor.window)
    await add_debits(transaction, [row(bits(0, length=1), contribution=earlier)])
    found = await grounds()
    assert {name: where for name, (where, _) in found.items()} == {
        "window_contributed": [0, 1],
        "budget_exceeded": [2],
    }
    assert json.loads(found["window_contributed"][1])["round"].startswith("round-")


async def test_only_the_group_is_concerned(transaction: Transaction) -> None:
    """Roster numbers 70 and 73 are the party's curators 6 and 9."""
    group = sets.compressed(sets.pack(bits(6, 70, 73, length=100)))
    descriptor = opened({"group": "feeder"}, members=group)
    charges = asking().charges
    found = await consent(
        transaction, gateway(), Terms.of(descriptor), charges, LENIENT, (4, 8), NOON
    )
    assert np.flatnonzero(found.present).tolist() == [2, 5]
    (ground,) = found.grounds
    assert (ground.name, ground.figures) == ("not_concerned", '{"group": "feeder"}')
    everyone = await consent(
        transaction, gateway(), Terms.of(opened()), charges, LENIENT, (4, 8), NOON
    )
    assert everyone.present.all()
    assert everyone.grounds == []


async def test_a_limit_in_either_unit_counts(transaction: Transaction) -> None:
    both = asking(record=ONE, curator=ONE)
    for unit in ("record", "curator"):
        for limit, wanted in (("1", [0, 1, 2, 3]), ("0.999999", [])):
            found, grounds = await left(transaction, both, limited(unit, lifetime=limit))
            assert found == wanted
            assert [json.loads(item.figures)["unit"] for item in grounds] == (
                [] if wanted else [unit]
            )
    assert (await left(transaction, both, LENIENT))[0] == [0, 1, 2, 3]


async def test_what_was_spent_counts_for_those_who_spent_it(
    transaction: Transaction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Curators are taken in parts; a ground is about places in the whole span."""
    monkeypatch.setattr(module, "TOGETHER", 16)
    await pay(transaction, 200, row(bits(0, 25, 39, length=40), ONE, offset=10))
    policy, asked = limited("curator", lifetime="1"), asking(curator=ONE)
    found, (ground,) = await left(transaction, asked, policy, span=(8, 100))
    assert found == [place for place in range(100) if place not in (2, 27, 41)]
    assert np.flatnonzero(ground.members).tolist() == [2, 27, 41]
    figures = json.loads(ground.figures)
    assert figures == {"unit": "curator", "limit": "1", "asked": "1", "spent_at_most": "1"}
    members = bits(2, 3, length=100)
    _, (ground,) = await left(transaction, asked, policy, span=(8, 100), members=members)
    assert np.flatnonzero(ground.members).tolist() == [2]


async def test_what_is_not_verified_meets_no_limit(transaction: Transaction) -> None:
    asked = asking(curator=UNVERIFIED)
    policy = limited("curator", period="5")
    found, (ground,) = await left(transaction, asked, policy)
    assert (found, ground.name) == ([], "policy_refused")
    assert ground.detail == "nothing is verified for the unit curator, which has limits"
    assert json.loads(ground.figures) == {"unit": "curator"}
    allowed = policy.model_copy(update={"allow_unverified": True})
    assert (await left(transaction, asked, allowed))[0] == [0, 1, 2, 3]
    verified = asking(curator=ONE)
    for rules in (policy, allowed):
        assert (await left(transaction, verified, rules))[0] == [0, 1, 2, 3]
    assert (await left(transaction, asked, LENIENT))[0] == [0, 1, 2, 3]


async def spend_records(
    transaction: Transaction,
    charge: Charge,
    members: Bits,
    *,
    made: datetime = NOON,
    window: Window = COVERS,
) -> None:
    """A debit in the unit record."""
    new = row(members, FREE, made=made, window=window)
    charges = {PrivacyUnit.CURATOR: FREE, PrivacyUnit.RECORD: charge}
    await add_debits(transaction, [type(new)(**{**vars(new), "charges": charges})])


async def test_a_record_meets_the_rounds_of_its_window_and_period(
    transaction: Transaction,
) -> None:
    """A period of records holds its start; for ever counts what was before it, too."""
    day = NOON.replace(hour=0)
    await spend_records(transaction, ONE, bits(0, length=4), made=day)
    await spend_records(transaction, ONE, bits(1, length=4), made=day - MOMENT)
    later = Window(start=COVERS.end, end=COVERS.end + HOUR)
    await spend_records(transaction, ONE, bits(2, length=4), window=later)
    asked = asking(record=ONE)
    assert (await left(transaction, asked, limited("record", period="1")))[0] == [1, 2, 3]
    assert (await left(transaction, asked, limited("record", lifetime="1")))[0] == [2, 3]
    both = limited("record", period="1", lifetime="2")
    assert (await left(transaction, asked, both))[0] == [1, 2, 3]
    assert (await left(transaction, asked, limited("record", period="2")))[0] == [0, 1, 2, 3]
    members = bits(1, 3, length=4)
    some = await left(transaction, asked, limited("record", lifetime="1"), members=members)
    assert some[0] == [0, 2, 3]


async def test_who_is_not_concerned_changes_nothing_for_the_others(
    transaction: Transaction,
) -> None:
    """Debits are read only as far as a round's members reach; each decision is as over all."""
    chance = np.random.default_rng(3)
    for first in (0, 3, 7):  # of 12 curators, the last five always among them
        new = row(chance.random(12 - first) < 0.5, FREE, offset=first)
        charges = {PrivacyUnit.CURATOR: FREE, PrivacyUnit.RECORD: ONE}
        await add_debits(transaction, [type(new)(**{**vars(new), "charges": charges})])
    asked, policy = asking(record=ONE), limited("record", lifetime="2")
    whole, _ = await left(transaction, asked, policy, span=(0, 12))
    assert 0 < len(whole) < 12
    for number in range(1 << 12):
        if chance.random() > 0.02 and number.bit_count() > 1:
            continue
        members = np.array([number >> place & 1 for place in range(12)], np.bool_)
        found, _ = await left(transaction, asked, policy, span=(0, 12), members=members)
        assert found == [place for place in range(12) if place in whole or not members[place]]


async def test_a_round_without_a_figure_ends_a_records_lifetime_and_no_period(
    transaction: Transaction,
) -> None:
    await spend_records(transaction, UNVERIFIED, bits(0, length=4))
    asked = asking(record=ONE)
    assert (await left(transaction, asked, limited("record", period="1")))[0] == [0, 1, 2, 3]
    assert (await left(transaction, asked, limited("record", lifetime="1000")))[0] == [1, 2, 3]


def test_a_part_of_a_decision_is_that_of_its_curators() -> None:
    found = Consent(np.ones(5, np.bool_), periods={3600})
    found.refuse(np.array([0, 0, 1, 0, 0], np.bool_), "one", "why", {"limit": "1"})
    found.refuse(np.array([0, 0, 0, 0, 1], np.bool_), "other", "why")
    middle = found.within(slice(2, 4))
    assert middle.present.tolist() == [False, True]
    assert middle.periods == {3600}
    (ground,) = middle.grounds
    assert ground.members.tolist() == [True, False]
    assert (ground.name, ground.detail, ground.figures) == ("one", "why", '{"limit": "1"}')
    assert found.within(slice(0, 2)).grounds == []
    assert found.within(slice(0, 2)).present.all()
