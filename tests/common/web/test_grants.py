"""Grants and the checks of an enrolment that coordinator and aggregators have in common."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Boolean, Column, Integer, MetaData, String, Table, select

from common.runtime.clock import ManualClock
from common.store.columns import Instant
from common.store.transactions import Database
from common.web.grants import (
    BYTES_PER_CURATOR,
    EnrolmentRefused,
    GrantRow,
    JoinTokenExpired,
    JoinTokenUnknown,
    JoinTokenUsed,
    check_allowed,
    check_proof,
    find_grant,
    forget_grants,
    issue_grant,
    largest_body,
    use_grant,
)
from tacit.crypto.signing import Identity, Signed
from tacit.protocol.enrolment import (
    ENROLMENT_LABEL,
    RENEWAL_LABEL,
    Enrolment,
    GrantRequest,
    PartyKind,
    grant_hash,
)

metadata = MetaData()
table = Table(
    "join_grant",
    metadata,
    Column("secret_hash", String(64), primary_key=True),
    Column("party", String(128), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("max_curators", Integer, nullable=False),
    Column("expires", Instant, nullable=False),
    Column("used", Instant, nullable=True),
    Column("replaces", Boolean, nullable=False),
)
LATER = timedelta(seconds=60)
HOUSE, OTHER = Identity.generate(), Identity.generate()


async def issued(store: Database, clock: ManualClock, **fields: Any) -> str:
    """The hash of a fresh grant's secret."""
    request = GrantRequest(**{"party": "house", "kind": PartyKind.HOST, "valid_s": 60, **fields})
    async with store.begin() as transaction:
        answer = await issue_grant(
            transaction,
            table,
            request,
            clock.now(),
            service="sums",
            url="https://sums",
            fingerprint=bytes(32),
        )
    assert answer.expires == clock.now() + LATER
    assert answer.grant.model_dump(exclude={"secret"}) == {
        "party": "sums",
        "url": "https://sums",
        "fingerprint": bytes(32),
    }
    return grant_hash(answer.grant.secret)


async def found(store: Database, name: str, clock: ManualClock) -> GrantRow:
    async with store.reading() as transaction:
        return await find_grant(transaction, table, name, clock.now())


async def test_a_grant_is_found_by_its_hash_until_it_expires(
    store: Database, clock: ManualClock
) -> None:
    first = await issued(store, clock, max_curators=3)
    second = await issued(store, clock)
    start = clock.now()
    row = GrantRow("house", PartyKind.HOST, 3, start + LATER, None, replaces=False)
    assert await found(store, first, clock) == row
    with pytest.raises(JoinTokenUnknown):
        await found(store, grant_hash("another secret"), clock)
    clock.advance(LATER / 2)
    for _ in range(2):  # the second use leaves the time of the first
        async with store.begin() as transaction:
            await use_grant(transaction, table, first, clock.now())
        clock.advance(LATER / 8)
    assert (await found(store, first, clock)).used == start + LATER / 2
    assert (await found(store, second, clock)).used is None
    clock.advance(LATER / 4 - timedelta.resolution)
    await found(store, first, clock)
    clock.advance(timedelta.resolution)
    with pytest.raises(JoinTokenUsed):
        await found(store, first, clock)
    with pytest.raises(JoinTokenExpired):
        await found(store, second, clock)


async def test_grants_are_forgotten_after_they_expire(store: Database, clock: ManualClock) -> None:
    await issued(store, clock)
    for before, left in ((LATER, 1), (LATER + timedelta.resolution, 0)):
        async with store.begin() as transaction:
            await forget_grants(transaction, table, clock.now() + before)
            assert len((await transaction.execute(select(table))).all()) == left


async def test_a_lone_curator_is_granted_one_curator(store: Database, clock: ManualClock) -> None:
    with pytest.raises(EnrolmentRefused) as refused:
        await issued(store, clock, kind=PartyKind.CURATOR, max_curators=2)
    assert refused.value.pointer == "/max_curators"
    assert (
        await found(store, await issued(store, clock, kind=PartyKind.CURATOR), clock)
    ).max_curators == 1


async def test_as_many_bytes_are_read_as_the_named_grant_allows(
    store: Database, clock: ManualClock
) -> None:
    async def limit(named: str | None, most: int = 10**9) -> int:
        return await largest_body(store, table, named, clock.now(), open_to_all=7, most=most)

    name = await issued(store, clock, max_curators=1000)
    assert [await limit(None), await limit(name)] == [7, 7 + 1000 * BYTES_PER_CURATOR]
    assert await limit(name, most=500) == 500
    with pytest.raises(JoinTokenUnknown):
        await limit("0" * 64)
    clock.advance(LATER)
    with pytest.raises(JoinTokenExpired):
        await limit(name)


def enrolment(identity: Identity = HOUSE, **fields: Any) -> Enrolment:
    """An enrolment of `house`."""
    return Enrolment(
        **{
            "service": "sums",
            "secret": "secret",
            "party": "house",
            "kind": PartyKind.HOST,
            "identity_key": identity.public_key,
            "curators": ("a", "b"),
            **fields,
        }
    )


def test_an_enrolment_is_signed_with_its_key_by_the_identity_that_it_names() -> None:
    check_proof(HOUSE.sign(ENROLMENT_LABEL, enrolment()))
    good = HOUSE.sign(ENROLMENT_LABEL, enrolment())
    changed = Signed(statement=enrolment(curators=("a", "c")), signature=good.signature)
    for signed, pointer in (
        (OTHER.sign(ENROLMENT_LABEL, enrolment()), "/signature"),
        (HOUSE.sign(RENEWAL_LABEL, enrolment()), "/signature"),
        (changed, "/signature"),
    ):
        with pytest.raises(EnrolmentRefused) as refused:
            check_proof(signed)
        assert refused.value.pointer == pointer


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"party": "another"}, "/party"),
        ({"kind": PartyKind.CURATOR}, "/party"),
        ({"curators": ()}, "/curators"),
        ({"curators": ("a", "b", "c")}, "/curators"),
    ],
)
def test_a_grant_allows_one_party_and_so_many_curators(
    clock: ManualClock, fields: dict[str, Any], pointer: str
) -> None:
    granted = GrantRow("house", PartyKind.HOST, 2, clock.now(), None, replaces=False)
    check_allowed(granted, enrolment())
    with pytest.raises(EnrolmentRefused) as refused:
        check_allowed(granted, enrolment(**fields))
    assert refused.value.pointer == pointer


def test_a_lone_curator_speaks_for_itself(clock: ManualClock) -> None:
    granted = GrantRow("house", PartyKind.CURATOR, 1, clock.now(), None, replaces=False)
    check_allowed(granted, enrolment(kind=PartyKind.CURATOR, curators=("house",)))
    with pytest.raises(EnrolmentRefused, match="speaks for itself"):
        check_allowed(granted, enrolment(kind=PartyKind.CURATOR, curators=("a",)))
