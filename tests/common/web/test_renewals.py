"""Tokens that were ended with all others are renewed by their party's identity; no others are."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from common.principals import Scope
from common.runtime.clock import ManualClock
from common.store.tokens import (
    Holder,
    RenewalRefused,
    end_renewable,
    end_tokens,
    find_token,
    hash_token,
    new_token,
    renew,
    renew_by_identity,
    revoke_subject,
)
from common.store.transactions import Database
from tacit.crypto.signing import Identity
from tacit.protocol.enrolment import RENEWAL_LABEL, TokenRenewal
from tests.common.web.test_auth import issue, metadata, table  # noqa: F401 - `store` has them

PARTY = Identity.from_bytes(bytes(range(32)))


METER = Holder(Scope.CURATOR, "meter")


async def renewed(
    store: Database, clock: ManualClock, token: str, new: str | None = None, **changes: Any
) -> str:
    """The new token, once it is in the place of `token`."""
    new = new or new_token(Scope.CURATOR)
    values = {"service": "north", "party": "meter", "token_hash": hash_token(token)}
    made = {**values, "new_hash": hash_token(new), "made": clock.now(), **changes}
    signed = PARTY.sign(RENEWAL_LABEL, TokenRenewal.model_validate(made))
    key = PARTY.public_key
    await renew_by_identity(
        store, table, signed, METER, service="north", identity_key=key, clock=clock
    )
    return new


async def good(store: Database, clock: ManualClock, token: str) -> bool:
    async with store.reading() as transaction:
        found = await find_token(transaction, table, hash_token(token))
    assert found is not None
    return found.revoked is None and (found.expires is None or found.expires > clock.now())


async def test_all_tokens_end_but_the_callers(store: Database, clock: ManualClock) -> None:
    own, other = [await issue(store, clock, Scope.OPERATOR) for _ in range(2)]
    party = await issue(store, clock, Scope.CURATOR, subject="meter")
    device = await issue(store, clock, Scope.DEVICE, subject="meter")
    async with store.begin() as transaction:
        kept = await find_token(transaction, table, hash_token(own))
        assert kept is not None
        for expected in ({"operator": 1, "curator": 1, "device": 1}, {}):
            assert await end_tokens(transaction, table, kept.id, clock.now()) == expected
    found = [await good(store, clock, each) for each in (own, other, party, device)]
    assert found == [True, False, False, False]
    with pytest.raises(RenewalRefused):  # a party's identity renews no device
        await renewed(store, clock, device)
    first = await renewed(store, clock, party)
    second = await renewed(store, clock, party)  # the answer was lost, and the token with it
    assert [await good(store, clock, each) for each in (party, first, second)] == [
        False,
        False,
        True,
    ]


async def test_a_revoked_token_and_a_stale_or_foreign_request_renew_nothing(
    store: Database, clock: ManualClock
) -> None:
    token = await issue(store, clock, Scope.CURATOR, subject="meter")
    for_a_day = await issue(
        store, clock, Scope.CURATOR, subject="meter", lifetime=timedelta(days=1)
    )
    for each in (token, for_a_day):
        with pytest.raises(RenewalRefused, match="good"):
            await renewed(store, clock, each)
    async with store.begin() as transaction:
        await end_tokens(transaction, table, "", clock.now())
    clock.advance(timedelta(seconds=1000))
    for changes in (
        {"service": "south"},
        {"party": "other"},
        {"made": clock.now() - timedelta(seconds=301)},
        {"made": clock.now() + timedelta(seconds=301)},
    ):
        with pytest.raises(RenewalRefused, match="another"):
            await renewed(store, clock, token, **changes)
    foreign = await issue(store, clock, Scope.CURATOR, subject="other")
    with pytest.raises(RenewalRefused, match="not known"):
        await renewed(store, clock, foreign)
    async with store.begin() as transaction:  # as of a party whose identity forked, or that left
        await revoke_subject(transaction, table, "meter", clock.now())
    with pytest.raises(RenewalRefused, match="revoked"):
        await renewed(store, clock, token)


async def test_who_repeats_a_request_gets_nothing_and_ends_nothing(
    store: Database, clock: ManualClock
) -> None:
    token = await issue(store, clock, Scope.CURATOR, subject="meter")
    operator = await issue(store, clock, Scope.OPERATOR)
    async with store.begin() as transaction:
        await end_tokens(transaction, table, "", clock.now())
    first = await renewed(store, clock, token)
    assert await renewed(store, clock, token, first) == first  # nothing has changed
    assert await good(store, clock, first)
    second = await renewed(store, clock, token)
    with pytest.raises(RenewalRefused, match="new token was ended"):
        await renewed(store, clock, token, first)
    assert await good(store, clock, second)
    with pytest.raises(RenewalRefused, match="another's"):  # no other token becomes a party's
        await renewed(store, clock, first, operator)
    third = await renewed(store, clock, first)  # ended since: it is known by that
    assert [await good(store, clock, each) for each in (second, third)] == [False, True]


async def test_a_coordinators_token_ends_and_is_renewed_and_an_operators_is_not(
    store: Database, clock: ManualClock
) -> None:
    coordinator = await issue(store, clock, Scope.COORDINATOR)
    operator = await issue(store, clock, Scope.OPERATOR)
    async with store.begin() as transaction:
        await end_renewable(transaction, table, clock.now())
    found = [await good(store, clock, each) for each in (coordinator, operator)]
    assert found == [False, True]
    new = new_token(Scope.COORDINATOR)
    for ended, fine in ((operator, False), (coordinator, True)):
        asked = TokenRenewal(
            service="north",
            party="demo",
            token_hash=hash_token(ended),
            new_hash=hash_token(new),
            made=clock.now(),
        )
        async with store.begin() as transaction:
            if fine:
                await renew(transaction, table, asked, Holder(Scope.COORDINATOR), clock)
                continue
            with pytest.raises(RenewalRefused, match="not known"):
                await renew(transaction, table, asked, Holder(Scope.COORDINATOR), clock)
    assert await good(store, clock, new)
