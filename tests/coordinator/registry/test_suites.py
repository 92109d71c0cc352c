"""Suites of parties at the coordinator, and what format they make of the next round."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from common.runtime.clock import ManualClock
from common.store.transactions import Database
from common.web.parts import part_of
from coordinator.registry import suites
from coordinator.registry.suites import Formats
from coordinator.store import suites as store
from tacit import sets
from tacit.crypto.signing import Identity, Signed
from tacit.protocol.suites import SUITES_LABEL, Suites
from tests.aggregator.double import Sender
from tests.coordinator.conftest import Houses
from tests.coordinator.double import House, problem, query


def said(sender: Sender, *numbers: int, **changes: Any) -> Signed[Suites]:
    """What a party signs of its suites."""
    identity = changes.pop("identity", sender.identity)
    values = {"party": sender.id, "suites": numbers, "software": "tacit-curator 9.9", **changes}
    signed: Signed[Suites] = identity.sign(SUITES_LABEL, Suites(**values))
    return signed


async def tell(it: House, sender: Sender, signed: Signed[Suites], token: str) -> Any:
    path = f"/v1/parties/{sender.id}/suites"
    return await it.ask("PUT", path, signed.model_dump_json().encode(), token)


async def token_of(it: House, sender: Sender) -> str:
    await it.ask("DELETE", f"/v1/parties/{sender.id}")
    answer = await it.ask("POST", f"/v1/parties/{sender.id}/return")
    token: str = answer.json()["token"]
    return token


async def following(it: House, setting: Any = "auto") -> int:
    now = it.clock.now() if it.clock else datetime.now(UTC)
    async with part_of(it.app, Database).reading() as transaction:
        return await Formats(setting, key_per_round=False).next(transaction, now)


async def test_a_party_tells_what_it_can_do(house: Houses) -> None:
    async with house(1) as it:
        host, other = await it.host("gateway", 3), await it.host("other", 2)
        token, foreign = await token_of(it, host), await token_of(it, other)
        assert (await tell(it, host, said(host, 1, 2), token)).status_code == 204
        found = (await it.ask("GET", "/v1/suites")).json()
        assert [(each["suite"], each["curators"]) for each in found["suites"]] == [(1, 2), (2, 3)]
        assert [each["id"] for each in found["needs_upgrade"]] == ["other"]
        # Nobody else tells it: no other party, no other signature, no statement of another party.
        assert problem(await tell(it, host, said(host, 1), foreign)) == (404, "unknown_party")
        for lie in (said(host, 1, identity=Identity.generate()), said(host, 1, party="other")):
            assert problem(await tell(it, host, lie, token)) == (422, "suites_refused")
        assert (await it.ask("GET", "/v1/suites")).json() == found


@pytest.mark.parametrize(
    "nonsense", [{"suites": []}, {"suites": [0]}, {"suites": [1] * 17}, {"software": "\n"}], ids=str
)
async def test_nonsense_is_refused(house: Houses, nonsense: dict[str, Any]) -> None:
    async with house(1) as it:
        host = await it.host("gateway", 3)
        body = said(host, 1, 2).model_dump(mode="json")
        body["statement"] |= nonsense
        token = await token_of(it, host)
        answer = await it.ask("PUT", f"/v1/parties/{host.id}/suites", body, token)
        assert problem(answer) == (422, "bad_parameter")


async def test_auto_waits_for_parties_in_use_and_never_goes_back(house: Houses) -> None:
    clock = ManualClock(datetime.now(UTC))
    async with house(1, clock=clock) as it:
        assert await following(it) == 2, "nobody needs 1"
        host = await it.host("old", 2)
        assert await following(it) == 1, "it enrolled just now"
        clock.advance(timedelta(days=31))
        assert await following(it) == 2, "it has delivered nothing for a month"
        database = part_of(it.app, Database)
        async with database.begin() as transaction:
            await store.mark_delivered(transaction, [host.id], clock.now())
        assert await following(it) == 1
        assert [await following(it, setting) for setting in ("1", "2")] == [1, 2]
        async with database.begin() as transaction:
            await store.raise_format(transaction, 2)
            await store.raise_format(transaction, 1)  # lowers nothing
        assert await following(it) == 2, "whoever took part in one refuses the other"


async def test_who_is_in_a_sum_is_noted_once_a_day(house: Houses) -> None:
    clock = ManualClock(datetime.now(UTC))
    async with house(1, clock=clock) as it:
        for name, count in (("first", 70), ("second", 3), ("third", 5)):
            await it.host(name, count)
        members = np.zeros(200, np.bool_)
        members[[5, 195]] = True  # of the first, and of the third host
        database = part_of(it.app, Database)

        async def stale(days: float) -> list[str]:
            async with database.reading() as transaction:
                before = clock.now() - timedelta(days=days)
                found = await store.seen_before(transaction, before, 200)
            return [party for party, _, _ in found]

        async with database.begin() as transaction:
            await suites.note_delivered(transaction, sets.pack(members), 200, clock.now())
        assert await stale(1) == ["second"]
        clock.advance(timedelta(hours=12))
        assert await stale(1) == ["second"], "nothing is written twice a day"


async def test_a_round_with_keys_of_its_own(house: Houses) -> None:
    """By setting, and where the round is too long for the key of an hour."""
    async with house() as it:
        short = await it.open(query(name="short"))
        assert {entry.seal.round for entry in short.descriptor.aggregators} == {None}
        long = await it.open(query(name="long", deadline_s=5 * 3600))
        assert {entry.seal.round for entry in long.descriptor.aggregators} == {long.id}
        await it.restart(seal_key_per_round=True)
        own = await it.open(query(name="own"))
        assert {entry.seal.round for entry in own.descriptor.aggregators} == {own.id}
