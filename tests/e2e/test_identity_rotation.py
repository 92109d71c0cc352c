"""An aggregator's identity is replaced while rounds run: everybody follows, and nobody is fooled.

Spec: keys, sections 5 and 9 (check 10). Real coordinator, aggregators and curators.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from aggregator.context import Aggregator
from aggregator.pieces.intake import Intake
from aggregator.rounds import key_rotation
from aggregator.store import rounds as round_store
from common.store import own_identities
from common.web.dependencies import part_of
from curator.parties.identities import Identities as CuratorIdentities
from curator.parties.peers import Peers
from curator.store import parties as party_store
from tacit.crypto.signing import HybridIdentity
from tacit.protocol.identities import IdentityChain, IdentitySuperseded
from tacit.wire import encode_binary
from tests.coordinator.double import problem
from tests.e2e.federation import Site, site
from tests.e2e.rotation import (
    CHAIN,
    KEYS,
    commit,
    coordinator_token,
    forged,
    lied,
    look_again,
    opened,
    peers,
    refused,
    released,
    rotate,
    secrets_of,
    settled,
    shown_by,
    successor,
)


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path) as found:
        await settled(found)
        yield found


@pytest.mark.slow
async def test_a_planned_rotation_while_rounds_run(
    it: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = peers(it)[0]
    await commit(first, KEYS[0])
    running = [await opened(it, f"running-{number}", 12) for number in range(3)]
    old = running[0].descriptor.aggregators[0].identity_key
    await rotate(first, 0)
    assert secrets_of(first) == 1
    between = await opened(it, "between")  # the coordinator knows nothing yet
    assert between.descriptor.aggregators[0].identity_key == old
    look_again(it)
    later = await opened(it, "later")
    assert later.descriptor.aggregators[0].identity_key == KEYS[0].public.ed25519 != old
    for each in (*running, between, later):
        assert (await released(it, each))["participants"] == 2
    monkeypatch.setattr(own_identities, "GRACE", timedelta())
    await key_rotation.sweep_identities(first.part(Aggregator), first.part(Intake))
    assert secrets_of(first) == 0
    # and again, from what everybody followed; the same request again changes nothing
    done = await rotate(first, 1)
    assert await rotate(first, 1) == done
    look_again(it)
    third = await opened(it, "third")
    assert third.descriptor.aggregators[0].identity_key == KEYS[1].public.ed25519
    assert (await released(it, third))["participants"] == 2


@pytest.mark.slow
async def test_a_compromised_identity_ends_at_once(it: Site) -> None:
    """Its rounds abort without "never frozen", its keys are gone, and new rounds go on."""
    first = peers(it)[0]
    await commit(first, KEYS[0])
    running = await opened(it, "running", 60)
    await rotate(first, 0, compromised=True)
    assert secrets_of(first) == 0
    shown = (await it.house.ask("GET", f"/v1/rounds/{running.id}")).json()
    answer = await first.ask("GET", f"/v1/rounds/{running.id}")
    assert answer.json()["state"] == "aborted", (answer.text, shown)
    stored = first.part(Aggregator).database
    async with stored.reading() as transaction:
        row = await round_store.round_row(transaction, running.id)
    assert row is not None and row.abort_statement is not None
    assert json.loads(row.abort_statement)["statement"]["frozen"] != "never"
    old = running.descriptor.aggregators[0].identity_key
    assert await first.part(Aggregator).seal_keyring.signed_by(old) == ()
    look_again(it)
    after = await opened(it, "after", 20)  # parties renew their tokens first
    assert (await released(it, after))["participants"] == 2


@pytest.mark.slow
async def test_who_steals_the_running_key_gets_no_further(it: Site) -> None:
    """A succession without the next pair, shown at the aggregator's own address."""
    first = peers(it)[0]
    await commit(first, KEYS[0])
    await opened(it, "seen")  # everybody knows the document
    chain = await shown_by(first)
    stolen = first.part(Aggregator).identities
    secret = stolen._held[-1].secret
    assert secret is not None
    thief, own = HybridIdentity(b"t" * 64), HybridIdentity(secret)
    link = forged(chain, thief, own)
    it.house.wires[0].lie = lambda path, answer: (
        lied(chain, thief, link) if path == CHAIN else answer
    )
    look_again(it)
    assert await refused(it, "stolen") == (403, "succession_refused")
    it.house.wires[0].lie = None
    assert (await released(it, await opened(it, "sound")))["participants"] == 2


@pytest.mark.slow
async def test_two_successors_are_a_fork_until_a_person_confirms_one(it: Site) -> None:
    """Who has both pairs can fork: coordinator, peers and curators each refuse both."""
    first, second, _ = peers(it)
    await commit(first, KEYS[0])
    await opened(it, "seen")
    before = await shown_by(first)
    new = await rotate(first, 0)
    look_again(it)
    sound = await opened(it, "sound")
    assert (await released(it, sound))["participants"] == 2
    # the same next pair, another document; not signed as planned, for the old key is not needed
    fork = forged(before, KEYS[0], None)
    both = lied(before, KEYS[0], fork)
    it.house.wires[0].lie = lambda path, answer: both if path == CHAIN else answer
    look_again(it)
    assert await refused(it, "forked") == (403, "identity_forked")
    it.house.wires[0].lie = None
    assert await refused(it, "forked-still") == (403, "identity_forked")
    await it.house.restart()
    assert await refused(it, "after-a-restart") == (403, "identity_forked")
    chain = IdentityChain.model_validate_json(json.dumps(both))
    token = await coordinator_token(it, second)
    answer = await second.ask("PUT", f"/v1/peers/{first.id}/identity", chain, token)
    assert problem(answer) == (403, "identity_forked")
    # confirmed, each by its own operator
    path = f"/v1/aggregators/{first.id}/confirmation"
    body = {"fingerprint": encode_binary(bytes.fromhex(new["fingerprint"]))}
    wrong = {"fingerprint": encode_binary(bytes(32))}
    assert problem(await it.house.ask("POST", path, wrong)) == (403, "key_not_anchored")
    assert (await it.house.ask("POST", path, body)).status_code == 200
    path = f"/v1/peers/{first.id}/confirmation"
    assert problem(await second.ask("POST", path, body)) == (403, "key_not_anchored")
    await second.ask("PUT", f"/v1/peers/{first.id}/identity", await shown_by(first), token)
    answer = await second.ask("POST", path, body)
    assert answer.status_code == 200, answer.text
    assert (await released(it, await opened(it, "confirmed")))["participants"] == 2


@pytest.mark.slow
async def test_curators_refuse_a_fork_until_their_operator_confirms(it: Site) -> None:
    """Only the curators are shown both successors: they refuse rounds of both, and say so."""
    first = peers(it)[0]
    await commit(first, KEYS[0])
    assert (await released(it, await opened(it, "seen")))["participants"] == 2
    before = await shown_by(first)
    new = await rotate(first, 0)
    true = await shown_by(first)
    false = IdentityChain.model_validate_json(
        json.dumps(lied(true, KEYS[0], forged(before, KEYS[0], None)))
    )
    asked = part_of(it.app, Peers)
    honest = asked.identities

    async def lie(url: str, document: str) -> IdentityChain | None:
        shown = await honest(url, document)
        own = shown is not None and shown.documents[0].statement.name == first.id
        return false if own else shown

    asked.identities = lie  # type: ignore[method-assign]
    look_again(it)
    assert "descriptor" in await refused_by_curators(it, "forked")
    asked.identities = honest  # type: ignore[method-assign]
    assert "descriptor" in await refused_by_curators(it, "forked-still")
    listed = (await it.own("GET", "/v1/anchors")).json()["anchors"]
    assert {each["name"]: each["forked"] for each in listed} == {
        "tacit": False,
        **{peer.id: peer is first for peer in peers(it)},
    }
    path = f"/v1/anchors/{first.id}/confirmation"
    wrong = {"fingerprint": encode_binary(bytes(32))}
    assert problem(await it.own("POST", path, wrong)) == (403, "key_not_anchored")
    body = {"fingerprint": encode_binary(bytes.fromhex(new["fingerprint"]))}
    answer = await it.own("POST", path, body)
    assert answer.status_code == 200, answer.text
    assert [each["forked"] for each in answer.json()["anchors"]] == [False]
    assert (await released(it, await opened(it, "confirmed")))["participants"] == 2


@pytest.mark.slow
async def test_a_dropped_aggregator_is_in_no_round_of_curators(it: Site) -> None:
    first = peers(it)[0]
    assert (await it.own("DELETE", f"/v1/anchors/{first.id}")).status_code == 204
    answer = await it.own("DELETE", f"/v1/anchors/{first.id}")
    assert problem(answer) == (404, "unknown_anchor")
    assert "descriptor" in await refused_by_curators(it, "without")


async def refused_by_curators(it: Site, name: str) -> dict[str, int]:
    """The grounds on which curators refuse a round, which ends without a sum."""
    asked = await opened(it, name)
    ended = await it.house.finish(asked)
    assert ended["state"] == "aborted", ended
    answer = await it.house.ask("GET", f"/v1/rounds/{asked.id}/refusals")
    found: dict[str, int] = answer.json()["grounds"]
    return found


@pytest.mark.slow
async def test_who_pinned_after_a_rotation_follows_the_next_one(it: Site) -> None:
    """Curators that enrol, and aggregators that pin, once the identity was replaced."""
    first, second, _ = peers(it)
    await commit(first, KEYS[0])
    await rotate(first, 0)
    await it.enrol("east")
    items = [{"curator": "east", "time": "2025-12-31T23:30:00Z", "value": "1", "unit": "kWh"}]
    assert (await it.own("POST", "/v1/readings", items)).status_code == 200
    shown = (await first.client.get("/.well-known/tacit-aggregator")).json()
    body = {
        "id": first.id,
        "operator": first.operator,
        "fingerprint": shown["fingerprint_base64url"],
    }
    assert (await second.ask("DELETE", f"/v1/peers/{first.id}")).status_code == 204
    assert (await second.ask("PUT", "/v1/peers", body)).status_code == 200
    await rotate(first, 1)
    look_again(it)
    assert (await released(it, await opened(it, "twice")))["participants"] == 3


@pytest.mark.slow
async def test_a_revoked_identity_opens_nothing_more(it: Site) -> None:
    """Without the next pair nothing is revoked; with it, everybody refuses it, also later."""
    first = peers(it)[0]
    await commit(first, KEYS[0])
    await released(it, await opened(it, "seen"))
    running = await opened(it, "running", 60)
    path, secret = "/v1/identity/revocation", encode_binary(KEYS[0].to_bytes())
    false = await first.ask("POST", path, {"secret": encode_binary(KEYS[1].to_bytes())})
    assert problem(false) == (403, "succession_refused")
    answer = await first.ask("POST", path, {"secret": secret})
    assert answer.status_code == 200, answer.text
    assert (await first.ask("POST", path, {"secret": secret})).json() == answer.json()
    assert secrets_of(first) == 0
    assert (await first.ask("GET", f"/v1/rounds/{running.id}")).json()["state"] == "aborted"
    look_again(it)
    assert await refused(it, "after") == (403, "identity_superseded")
    kept = await refused(it, "without-another-look")
    assert kept == (403, "identity_superseded")
    # no successor follows, and no other commitment; what it was is shown
    assert problem(await successor(first, 0)) == (403, "identity_superseded")
    next_one = await first.ask("PUT", "/v1/identity/next", KEYS[2].public)
    assert problem(next_one) == (403, "identity_superseded")
    chain = await shown_by(first)
    assert chain.links[-1].statement.revoked_by == KEYS[0].public
    document = (await first.client.get("/.well-known/tacit-aggregator")).json()
    assert document["identity_key"] == encode_binary(chain.documents[0].statement.ed25519)
    # a curator that looks learns of it, too, and answers no round that names the old key
    identities = part_of(it.app, CuratorIdentities)
    identities._checked.clear()
    async with identities.database.reading() as transaction:
        party = await party_store.party(transaction, "north")
    assert party is not None
    with pytest.raises(IdentitySuperseded):
        await identities.check(running.descriptor, party)
