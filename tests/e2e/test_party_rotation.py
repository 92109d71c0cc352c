"""Identities of lone curators are replaced while rounds run, and stolen ones get their holder
nowhere. Spec: keys, section 5.2. Real coordinator, aggregators and curators.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from aggregator.context import Aggregator
from aggregator.store import roster
from common.store.tokens import hash_token
from common.store.transactions import Database
from common.web.dependencies import part_of
from coordinator.store import registry
from curator.participation.loop import Participation
from curator.parties.keys import Successions
from curator.store import parties as store
from curator.store.parties import PartyRow
from tacit.crypto.signing import Identity
from tacit.protocol.enrolment import RENEWAL_LABEL, TokenRenewal
from tacit.protocol.party_identities import PartyChain, PartySuccession, succeed_party
from tests.coordinator.double import problem
from tests.e2e.federation import Site, site
from tests.e2e.rotation import opened, peers, released, settled

PARTIES = ("north", "south")


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[Site]:
    """A seal key for each round: sessions begin in every one."""
    async with site(tmp_path) as found:
        changes = {"seal_key_per_round": True}
        found.house.settings = found.house.settings.model_copy(update=changes)
        await settled(found)
        yield found


async def held(it: Site, party: str) -> PartyRow:
    async with part_of(it.app, Database).reading() as transaction:
        found = await store.party(transaction, party)
    assert found is not None
    return found


async def key_of(it: Site, party: str) -> bytes:
    return Identity.from_bytes((await held(it, party)).identity).public_key


async def known(it: Site, party: str) -> set[bytes]:
    """Its keys on the rosters."""
    async with part_of(it.house.app, Database).reading() as transaction:
        row = await registry.party(transaction, party)
    assert row is not None
    keys = {row.identity_key}
    for peer in peers(it):
        async with peer.part(Aggregator).database.reading() as transaction:
            on_roster = await roster.active_party(transaction, party)
        assert on_roster is not None
        keys.add(on_roster.identity_key)
    return keys


async def begin(it: Site, *parties: str) -> int:
    body = {"parties": parties} if parties else {}
    answer = await it.own("POST", "/v1/parties/identities", body)
    assert answer.status_code == 202, answer.text
    return int(answer.json()["begun"])


async def waiting(it: Site) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await it.own("GET", "/v1/parties/identities")).json()["waiting"]
    return found


def shown(it: Site, method: str, path: str) -> bool:
    return method == "PUT" and path.endswith("/identity") and "/parties/" in path


@pytest.mark.slow
async def test_parties_follow_while_rounds_run_and_aggregators_are_away(it: Site) -> None:
    successions = part_of(it.app, Successions)
    before = {party: await key_of(it, party) for party in PARTIES}
    running = await opened(it, "running", 12)
    # one aggregator loses the request, another one its answer: the rest know the new keys already
    for wire, fault in zip(it.house.wires, ("request", "answer"), strict=False):
        wire.fault = lambda method, path, fault=fault: (  # type: ignore[misc]
            fault if shown(it, method, path) else None
        )
    assert await begin(it) == 2
    assert await successions.sweep() == 0
    assert [sorted(each["problems"]) for each in await waiting(it)] == [
        [peer.id for peer in peers(it)[:2]] for _ in PARTIES
    ]
    assert {party: await key_of(it, party) for party in PARTIES} == before
    between = await opened(it, "between")  # those that know the new keys take the old ones still
    assert await begin(it) == 0  # what waits is not replaced again
    for each in (running, between):
        assert (await released(it, each))["participants"] == 2
    for wire in it.house.wires:
        wire.fault = lambda _method, _path: None
    while await waiting(it):
        await successions.sweep()
    for party in PARTIES:
        assert await known(it, party) == {await key_of(it, party)} != {before[party]}
    after = await opened(it, "after")
    assert (await released(it, after))["participants"] == 2
    # and once more: one of two, from what everybody followed
    assert await begin(it, "north") == 1
    await successions.sweep()
    again = await opened(it, "again")
    assert (await released(it, again))["participants"] == 2
    missing = await it.own("POST", "/v1/parties/identities", {"parties": ["nobody"]})
    assert problem(missing) == (404, "unknown_party")


async def link_of(it: Site, party: str, old: bytes) -> PartyChain:
    """What a thief of a private key shows."""
    now = datetime.now(UTC).replace(microsecond=0)
    stolen, own = Identity.from_bytes(old), Identity.generate()
    statement = PartySuccession(
        deployment="tacit",
        party=party,
        replaced=stolen.fingerprint,
        identity_key=own.public_key,
        effective=now,
        overlap_until=now + timedelta(days=1),
    )
    return PartyChain(links=(succeed_party(statement, own, stolen),))


@pytest.mark.slow
async def test_a_stolen_key_and_token_end_in_a_fork_and_the_operators_help(it: Site) -> None:
    await part_of(it.app, Participation).stop()  # it sweeps when it is asked to, and not before
    row = await held(it, "north")
    chain = await link_of(it, "north", row.identity)
    body = chain.model_dump(mode="json", by_alias=True)
    first = peers(it)[0]
    anchor = next(each for each in row.anchors if each.aggregator == first.id)
    path = "/v1/parties/north/identity"
    as_party = {"Authorization": f"Bearer {anchor.token}"}
    others = {"Authorization": f"Bearer {(await held(it, 'south')).anchors[0].token}"}
    refused = await first.client.put(path, json=body, headers=others)
    assert problem(refused) == (403, "not_your_party")
    # the owner was first here, and the thief comes after
    await begin(it, "north")
    assert await part_of(it.app, Successions).sweep() == 1
    forked = await first.client.put(path, json=body, headers=as_party)
    assert problem(forked) == (403, "identity_forked")
    ended = await first.client.put(path, json=body, headers=as_party)
    assert ended.status_code == 401
    # an ordinary join token gives nobody another identity; one of all operators does
    part_of(it.app, Participation).start()
    usual = await it.join_token("north")
    answer = await it.own("PUT", path, {"token": usual.to_text()})
    assert problem(answer) == (409, "peer_refused")
    assert (await held(it, "north")).state == "active"  # nothing has changed for it
    granted = await it.join_token("north", replaces=True)
    elsewhere = await it.own("PUT", "/v1/parties/south/identity", {"token": granted.to_text()})
    assert problem(elsewhere) == (422, "join_token_malformed")
    answer = await it.own("PUT", path, {"token": granted.to_text()})
    assert answer.status_code == 200, answer.text
    now = await held(it, "north")
    assert (now.first, now.state) == (row.first, "active")
    assert await known(it, "north") == {await key_of(it, "north")}
    after = await opened(it, "after")
    assert (await released(it, after))["participants"] == 2
    # the join token is used, and what the thief has opens nothing any more
    again = await it.own("PUT", path, {"token": granted.to_text()})
    assert again.status_code == 200
    for anchor in row.anchors:
        peer = next(each for each in peers(it) if each.id == anchor.aggregator)
        headers = {"Authorization": f"Bearer {anchor.token}"}
        assert (await peer.client.put(path, json=body, headers=headers)).status_code == 401


@pytest.mark.slow
async def test_after_a_theft_parties_renew_the_tokens_that_were_ended(it: Site) -> None:
    first = peers(it)[0]
    before = {party: await held(it, party) for party in PARTIES}
    for service in (first, it.house):
        ended = await service.ask("POST", "/v1/tokens/end")
        assert ended.status_code == 200, ended.text
        assert ended.json()["ended"]["curator"] == 4
    part_of(it.app, Participation).wake()
    async with asyncio.timeout(60):
        while (await held(it, "north")).coordinator_token == before["north"].coordinator_token:
            await asyncio.sleep(0.1)
    after = await opened(it, "after")
    assert (await released(it, after))["participants"] == 2
    for party, row in before.items():
        now = await held(it, party)
        tokens = {each.aggregator: each.token for each in now.anchors}
        changed = [each.aggregator for each in row.anchors if tokens[each.aggregator] != each.token]
        assert changed == [first.id]
    # what was ended opens nothing; by it a party's identity gets another, a thief's does not
    path, row = "/v1/parties/north/token", before["north"]
    old = next(each.token for each in row.anchors if each.aggregator == first.id)
    assert old is not None

    async def renewed(signer: Identity, **changes: Any) -> tuple[int, str]:
        values = {
            "service": first.id,
            "party": "north",
            "token_hash": hash_token(old),
            "new_hash": hash_token("made by the party"),
            "made": datetime.now(UTC),
        }
        statement = TokenRenewal.model_validate(values | changes)
        body = signer.sign(RENEWAL_LABEL, statement).model_dump(mode="json")
        answer = await first.client.post(path, json=body)
        return answer.status_code, "" if answer.is_success else problem(answer)[1]

    own, refused = Identity.from_bytes(row.identity), (403, "renewal_refused")
    new = next(e.token for e in (await held(it, "north")).anchors if e.aggregator == first.id)
    assert new is not None
    assert await renewed(Identity.generate()) == refused
    assert await renewed(own, service="other") == refused
    assert await renewed(own, party="south") == refused
    assert await renewed(own, token_hash=hash_token(new)) == refused  # it is good
    assert await renewed(own, token_hash=hash_token("unknown")) == refused
    assert await renewed(own, made=datetime.now(UTC) - timedelta(seconds=301)) == refused
    assert await renewed(own, new_hash=hash_token(old)) == refused  # ended
    assert await renewed(own) == (204, "")  # as if the answer had been lost
    headers = {"Authorization": f"Bearer {new}"}
    ended = await first.client.put("/v1/parties/north/identity", json={}, headers=headers)
    assert problem(ended) == (401, "token_expired")
