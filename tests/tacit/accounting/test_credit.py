"""The one credit: how many aggregators must sign that a round ended without a frozen set."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tacit.accounting.charges import abort_credit, statements_needed
from tacit.crypto.signing import Identity, Signed
from tacit.protocol.round.descriptor import (
    ABORT_LABEL,
    AbortStatement,
    AggregatorEntry,
    Frozen,
    RoundDescriptor,
)
from tacit.query.fields import Window
from tacit.query.query import Query
from tests.seal_keys import seal_key
from tests.tacit.examples import query

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
ROUND = "00000000-0000-0000-0000-000000000001"
IDENTITIES = [Identity.from_bytes(bytes([number]) * 32) for number in range(1, 6)]


def asked(**changes: Any) -> Query:
    given = {"mechanism": "distributed", "epsilon": "1", "aggregators": 5}
    return query(**{**given, **changes})


def test_additive_sharing_needs_one_honest_aggregator() -> None:
    assert statements_needed(asked()) == 1
    assert statements_needed(asked(collusion={"aggregators": 3})) == 4


def test_shamir_needs_too_few_left_for_a_quorum() -> None:
    """Of 5 with threshold 3, 3 honest statements leave 2 aggregators, who open nothing."""
    shamir = {"sharing": "shamir", "threshold": 3, "c_noise": 3}
    assert statements_needed(asked(**shamir)) == 3
    assert statements_needed(asked(**shamir, collusion={"aggregators": 2})) == 5


def test_without_sharing_nothing_is_credited() -> None:
    unshared = query(mechanism="local", epsilon_i="1", sharing="none", aggregators=1)
    assert statements_needed(unshared) is None
    described = descriptor(unshared)
    assert not abort_credit(described, [statement(described, 0)])


def descriptor(of: Query) -> RoundDescriptor:
    return RoundDescriptor(
        deployment="grid",
        round=ROUND,
        query_id="q1",
        query=of,
        window=Window(start=NOON, end=NOON + timedelta(hours=1)),
        opened=NOON,
        deadline=NOON + timedelta(hours=2),
        aggregators=tuple(entry(number) for number in range(of.aggregators)),
        roster_version=1,
        roster_size=8,
        segment_size=64,
    )


def entry(number: int) -> AggregatorEntry:
    identity = IDENTITIES[number]
    return AggregatorEntry(
        id=f"aggregator-{number}",
        operator=f"operator-{number}",
        url="http://127.0.0.1",
        identity_key=identity.public_key,
        seal_key=seal_key(identity, f"aggregator-{number}", number + 1),
    )


def statement(
    of: RoundDescriptor, number: int, signer: int | None = None, **changes: Any
) -> Signed[AbortStatement]:
    values: dict[str, Any] = {
        "round": of.round,
        "descriptor_hash": of.digest(),
        "aggregator": f"aggregator-{number}",
        "frozen": Frozen.NEVER,
        "reason": "operator",
        **changes,
    }
    identity = IDENTITIES[number if signer is None else signer]
    return identity.sign(ABORT_LABEL, AbortStatement(**values))


def test_just_enough_statements_earn_the_credit() -> None:
    of = descriptor(asked(collusion={"aggregators": 2}))
    three = [statement(of, number) for number in range(3)]
    assert abort_credit(of, three)
    assert not abort_credit(of, three[:2])
    assert not abort_credit(of, [])


def test_two_aggregators_of_one_operator_count_once() -> None:
    of = descriptor(asked(collusion={"aggregators": 1}))
    first, second, *others = of.aggregators
    joined = (first, second.model_copy(update={"operator": first.operator}), *others)
    of = of.model_copy(update={"aggregators": joined})
    assert not abort_credit(of, [statement(of, 0), statement(of, 1)])
    assert abort_credit(of, [statement(of, 0), statement(of, 2)])


def test_two_statements_of_one_aggregator_count_once() -> None:
    of = descriptor(asked(collusion={"aggregators": 1}))
    assert not abort_credit(of, [statement(of, 0), statement(of, 0, reason="other")])


@pytest.mark.parametrize(
    "changes",
    [
        {"frozen": Frozen.YES},
        {"frozen": Frozen.MAYBE},
        {"round": ROUND[:-1] + "2"},
        {"descriptor_hash": bytes(32)},
        {"aggregator": "stranger"},
        {"signer": 4},
    ],
    ids=str,
)
def test_a_statement_that_does_not_count_is_passed_over(changes: dict[str, Any]) -> None:
    """Alone it earns nothing; before the statements that count it takes nothing away."""
    of = descriptor(asked())
    other = statement(of, 0, **changes)
    assert not abort_credit(of, [other])
    assert abort_credit(of, [other, statement(of, 1)])
