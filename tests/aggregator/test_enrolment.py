"""Pairing, grants, enrolment, revocation: who gets on the roster, and who does not."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest

from common.models.base import encode_binary
from common.models.enrolment import ENROLMENT_LABEL, Enrolment
from common.service.clock import ManualClock
from common.signing import Identity
from tests.aggregator.conftest import Alliance
from tests.aggregator.double import DEPLOYMENT, Federation, Sender
from tests.aggregator.test_transitions import refused


async def post(federation: Federation, signed: Any) -> Any:
    return await federation.peers[0].client.post(
        "/v1/enrolments",
        content=signed.model_dump_json().encode(),
        headers={"Content-Type": "application/json"},
    )


async def test_one_coordinator_is_pinned(pair: Federation) -> None:
    peer = pair.peers[0]
    own = {"deployment": DEPLOYMENT, "identity_key": encode_binary(pair.identity.public_key)}
    old = peer.coordinator_token
    answer = await peer.ask("PUT", "/v1/coordinator", own)
    peer.coordinator_token = answer.json()["token"]
    assert (await peer.ask("GET", "/v1/rounds/none", token=old)).status_code == 401
    other = {**own, "identity_key": encode_binary(Identity.generate().public_key)}
    refused(await peer.ask("PUT", "/v1/coordinator", other), 409, "already_paired")
    assert (await peer.ask("PUT", "/v1/coordinator?replace=true", other)).status_code == 200
    refused(
        await peer.ask("PUT", "/v1/coordinator", own, peer.coordinator_token), 401, "token_unknown"
    )


async def test_a_grant_serves_once(pair: Federation) -> None:
    peer, sender = pair.peers[0], pair.sender("one")
    secret = await pair.grant(peer, sender)
    signed = pair.enrolment(peer, sender, secret)
    answer = await post(pair, signed)
    assert answer.status_code == 201
    assert answer.json()["first"] == sender.first
    assert answer.json()["token"].startswith("tct_curator_")
    refused(await post(pair, signed), 409, "join_token_used")
    unknown = pair.enrolment(peer, pair.sender("two"), "x" * 43)
    refused(await post(pair, unknown), 401, "join_token_unknown")


async def test_a_grant_expires(pair: Federation, clock: ManualClock) -> None:
    peer, sender = pair.peers[0], pair.sender("one")
    secret = await pair.grant(peer, sender)
    clock.advance(timedelta(days=2))
    refused(await post(pair, pair.enrolment(peer, sender, secret)), 410, "join_token_expired")


@pytest.mark.parametrize(
    "changes",
    [
        {"service": "aggregator-1"},
        {"party": "other"},
        {"curators": ("host.0", "host.0")},
        {"curators": tuple(f"host.{i}" for i in range(11))},
        {"curators": ()},
        {"first": None},
        {"first": 65},
        {"epoch_key_signature": b"\0" * 64},
        {"kind": "curator"},
    ],
)
async def test_an_enrolment_is_bound_to_its_grant(
    alliance: Alliance, changes: dict[str, Any]
) -> None:
    async with alliance(1) as federation:
        peer = federation.peers[0]
        sender = federation.sender("host", [f"host.{i}" for i in range(10)])
        secret = await federation.grant(peer, sender)
        honest = federation.enrolment(peer, sender, secret).statement
        values = {**honest.model_dump(), **changes}
        values["epoch_key"] = honest.epoch_key
        if "kind" in changes:
            values["kind"] = honest.kind.__class__(changes["kind"])
        signed = sender.identity.sign(ENROLMENT_LABEL, Enrolment(**values))
        refused(await post(federation, signed), 422, "enrolment_refused")
        honest_again = federation.enrolment(peer, sender, secret)
        assert (await post(federation, honest_again)).status_code == 201


async def test_an_enrolment_proves_its_identity(pair: Federation) -> None:
    peer, sender = pair.peers[0], pair.sender("one")
    secret = await pair.grant(peer, sender)
    signed = pair.enrolment(peer, sender, secret)
    forged = Identity.generate().sign(ENROLMENT_LABEL, signed.statement)
    refused(await post(pair, forged), 422, "enrolment_refused")


async def test_numbers_ids_and_identities_are_taken_once(pair: Federation) -> None:
    peer = pair.peers[0]
    host = await pair.host("host", 100)
    lone = (await pair.lone(1, "lone"))[0]

    async def taken(sender: Sender) -> None:
        secret = await pair.grant(peer, sender)
        refused(await post(pair, pair.enrolment(peer, sender, secret)), 409, "curator_enrolled")

    await taken(pair.sender("other", first=host.first + 99))
    await taken(pair.sender("host.7"))  # hosted already
    await taken(pair.sender("second", [lone.id, "new"]))
    await taken(pair.sender("third", ["host.3"]))
    await taken(pair.sender("host", ["new.1"]))
    twin = pair.sender("twin")
    twin.identity = lone.identity
    await taken(twin)
    # after a revocation the ids are free, the numbers are not
    assert (await peer.ask("DELETE", f"/v1/parties/{lone.id}")).status_code == 204
    refused(await peer.ask("DELETE", f"/v1/parties/{lone.id}"), 404, "unknown_party")
    await taken(pair.sender(lone.id, first=lone.first))
    again = pair.sender(lone.id)
    secret = await pair.grant(peer, again)
    assert (await post(pair, pair.enrolment(peer, again, secret))).status_code == 201


async def test_keys_are_announced_by_their_party_only(pair: Federation) -> None:
    one, two = await pair.lone(2)
    peer = pair.peers[0]
    one.epoch = 8
    path = f"/v1/parties/{one.id}/keys/8"
    refused(await peer.ask("PUT", path, one.epoch_key(), two.tokens[0]), 403, "not_your_party")
    wrong = two.identity.sign("tacit epoch key v1", one.epoch_key().statement)
    refused(await peer.ask("PUT", path, wrong, one.tokens[0]), 422, "enrolment_refused")
    assert (await peer.ask("PUT", path, one.epoch_key(), one.tokens[0])).status_code == 201
    one.private_key = two.private_key
    refused(await peer.ask("PUT", path, one.epoch_key(), one.tokens[0]), 409, "epoch_key_conflict")


async def test_the_roster_has_pages(pair: Federation) -> None:
    await pair.lone(3)
    peer = pair.peers[0]
    first = await peer.ask("GET", "/v1/roster?limit=2")
    assert [party["id"] for party in first.json()["parties"]] == ["curator-0", "curator-1"]
    following = first.headers["link"].split(">")[0][1:]
    second = await peer.ask("GET", following)
    assert [party["id"] for party in second.json()["parties"]] == ["curator-2"]
    refused(await peer.ask("GET", "/v1/roster", token=peer.coordinator_token), 403, "scope_missing")


@pytest.mark.slow
async def test_a_million_curators_enrol_at_once(pair: Federation) -> None:
    start = time.perf_counter()
    host = await pair.host("utility", 1_000_000)
    seconds = time.perf_counter() - start
    assert len(host.tokens) == 2
    assert seconds < 60
