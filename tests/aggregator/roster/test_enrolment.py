"""Pairing, grants, enrolment, revocation: who gets on the roster, and who does not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from itertools import combinations
from typing import Any

import pytest

from common.runtime.clock import ManualClock
from common.web.paging import encode_cursor
from tacit.crypto.signing import Identity
from tacit.protocol.enrolment import ENROLMENT_LABEL, GRANT_HEADER, Enrolment, PartyKind, grant_hash
from tacit.wire import encode_binary
from tests.aggregator.double import DEPLOYMENT, Federation, Peer, Sender
from tests.aggregator.rounds.test_state_machine import refused


async def post(federation: Federation, signed: Any, **headers: str) -> Any:
    return await federation.peers[0].client.post(
        "/v1/enrolments",
        content=signed.model_dump_json().encode(),
        headers={"Content-Type": "application/json", **headers},
    )


async def works(peer: Peer, sender: Sender, token: str) -> bool:
    """Whether a token is its party's: with another, nothing that the party says is read."""
    path = f"/v1/parties/{sender.id}/sessions/{encode_binary(bytes(16))}"
    answer = await peer.ask("PUT", path, b"{}", token)
    assert answer.status_code in (401, 422), answer.text
    return answer.status_code == 422


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


async def test_a_token_is_renewed_with_overlap(pair: Federation, clock: ManualClock) -> None:
    peer = pair.peers[0]
    own = {"deployment": DEPLOYMENT, "identity_key": encode_binary(pair.identity.public_key)}
    old = peer.coordinator_token
    answer = await peer.ask("PUT", "/v1/coordinator?overlap_s=600", own)
    new = answer.json()["token"]

    async def status(token: str) -> int:
        answer = await peer.ask("GET", "/v1/rounds/none", token=token)
        return int(answer.status_code)

    clock.advance(timedelta(seconds=599))
    assert [await status(old), await status(new)] == [404, 404]
    clock.advance(timedelta(seconds=2))
    assert [await status(old), await status(new)] == [401, 404]
    # Another coordinator's token does not outlive it, overlap or not.
    other = {**own, "identity_key": encode_binary(Identity.generate().public_key)}
    await peer.ask("PUT", "/v1/coordinator?replace=true&overlap_s=600", other)
    assert await status(new) == 401


async def test_a_pairing_is_ended(pair: Federation) -> None:
    peer = pair.peers[0]
    token = peer.coordinator_token
    assert (await peer.ask("DELETE", "/v1/coordinator", token=token)).status_code == 403
    assert (await peer.ask("DELETE", "/v1/coordinator")).status_code == 204
    assert (await peer.ask("GET", "/v1/rounds/none", token=token)).status_code == 401
    refused(await peer.ask("DELETE", "/v1/coordinator"), 409, "not_paired")
    refused(await peer.ask("GET", "/v1/coordinator"), 409, "not_paired")


async def test_a_lost_answer_is_given_again(pair: Federation) -> None:
    peer = pair.peers[0]
    for sender in (pair.sender("one"), pair.sender("gateway", ["a", "b", "c"])):
        secret = await pair.grant(peer, sender)
        signed = pair.enrolment(peer, sender, secret)
        tokens = []
        for _ in range(3):
            answer = await post(pair, signed)
            assert answer.status_code == 201
            shown = answer.json()
            assert (shown["first"], shown["curators"]) == (sender.first, len(sender.curators))
            assert shown["token"].startswith("tct_curator_")
            assert await works(peer, sender, shown["token"])
            assert not any([await works(peer, sender, token) for token in tokens])
            tokens.append(shown["token"])
    roster = (await peer.ask("GET", "/v1/roster")).json()["parties"]
    assert [party["id"] for party in roster] == ["one", "gateway"]
    unknown = pair.enrolment(peer, pair.sender("two"), "x" * 43)
    refused(await post(pair, unknown), 401, "join_token_unknown")


async def test_nobody_else_enters_with_a_used_secret(pair: Federation) -> None:
    """Whatever is altered, alone or together with anything else, and whoever signs it: refused,
    the roster is as it was, and the party's own token goes on."""
    peer = pair.peers[0]
    sender = pair.sender("gateway", [f"home-{i}" for i in range(5)])
    secret = await pair.grant(peer, sender)
    honest = pair.enrolment(peer, sender, secret).statement
    token = (await post(pair, pair.enrolment(peer, sender, secret))).json()["token"]
    roster = (await peer.ask("GET", "/v1/roster")).content
    stranger = Identity.generate()
    alterations: list[dict[str, Any]] = [
        {"identity_key": stranger.public_key},
        {"party": "thief"},
        {"kind": PartyKind.CURATOR},
        {"first": sender.first + 64},
        {"curators": (*sender.curators[:4], "home-9")},
    ]
    for size in (1, 2, len(alterations)):
        for chosen in combinations(alterations, size):
            values = dict(honest)
            for change in chosen:
                values.update(change)
            for signer in (sender.identity, stranger):
                answer = await post(pair, signer.sign(ENROLMENT_LABEL, Enrolment(**values)))
                proven = signer.public_key == values["identity_key"]
                expected = (409, "join_token_used") if proven else (422, "enrolment_refused")
                refused(answer, *expected)
    # the honest words, signed by another
    refused(await post(pair, stranger.sign(ENROLMENT_LABEL, honest)), 422, "enrolment_refused")
    assert (await peer.ask("GET", "/v1/roster")).content == roster
    assert await works(peer, sender, token)


async def test_an_enrolment_is_not_repeated_for_ever(pair: Federation, clock: ManualClock) -> None:
    peer, sender = pair.peers[0], pair.sender("one")
    first = pair.enrolment(peer, sender, await pair.grant(peer, sender))
    assert (await post(pair, first)).status_code == 201
    assert (await peer.ask("DELETE", "/v1/parties/one")).status_code == 204
    refused(await post(pair, first), 409, "join_token_used")  # it left
    clock.advance(timedelta(seconds=1))
    sender.first, pair.next_number = pair.next_number, pair.next_number + 1
    second = pair.enrolment(peer, sender, await pair.grant(peer, sender))
    assert (await post(pair, second)).status_code == 201
    assert (await post(pair, second)).status_code == 201
    refused(await post(pair, first), 409, "join_token_used")  # it came by another door
    clock.advance(timedelta(days=2))
    refused(await post(pair, second), 409, "join_token_used")  # the grant is over


async def test_little_is_read_before_the_grant_is_known(pair: Federation) -> None:
    peer = pair.peers[0]
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        for _ in range(10_000):
            taken += 1 << 14
            yield b" " * (1 << 14)

    async def send(content: Any, **headers: str) -> Any:
        return await peer.client.post(
            "/v1/enrolments",
            content=content,
            headers={"Content-Type": "application/json", **headers},
        )

    open_to_all = 64 * 1024
    answer = await send(b" " * (open_to_all + 1))
    refused(answer, 413, "body_too_large")
    assert answer.json()["max_body_bytes"] == open_to_all
    refused(await send(endless()), 413, "body_too_large")
    assert taken <= open_to_all + (1 << 14)
    refused(await send(endless(), **{GRANT_HEADER: "0" * 64}), 401, "join_token_unknown")
    assert taken <= open_to_all + (1 << 14)
    # a grant opens the door as wide as its number of curators
    sender = pair.sender("gateway", [f"{'x' * 100}-{i}" for i in range(1000)])
    secret = await pair.grant(peer, sender)
    signed = pair.enrolment(peer, sender, secret)
    refused(await post(pair, signed), 413, "body_too_large")
    taken = 0
    named = {GRANT_HEADER: grant_hash(secret)}
    refused(await send(endless(), **named), 413, "body_too_large")
    assert taken <= open_to_all + 1000 * 136 + (1 << 14)
    assert (await post(pair, signed, **named)).status_code == 201
    assert (await post(pair, signed, **named)).status_code == 201  # the answer was lost


async def test_an_enrolment_is_bound_to_its_grant_and_proves_its_identity(
    single: Federation,
) -> None:
    peer = single.peers[0]
    sender = single.sender("host", [f"host.{i}" for i in range(10)])
    secret = await single.grant(peer, sender)
    honest = single.enrolment(peer, sender, secret)
    changes: tuple[dict[str, Any], ...] = (
        {"service": "aggregator-1"},
        {"party": "other"},
        {"curators": ("host.0", "host.0")},
        {"curators": tuple(f"host.{i}" for i in range(11))},
        {"curators": ()},
        {"first": None},
        {"first": 65},
        {"kind": PartyKind.CURATOR},
    )
    for changed in changes:
        altered = Enrolment(**{**honest.statement.model_dump(), **changed})
        signed = sender.identity.sign(ENROLMENT_LABEL, altered)
        refused(await post(single, signed), 422, "enrolment_refused")
    forged = Identity.generate().sign(ENROLMENT_LABEL, honest.statement)
    refused(await post(single, forged), 422, "enrolment_refused")
    assert (await post(single, honest)).status_code == 201


@pytest.mark.usefixtures("database_url")
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


async def test_the_roster_has_pages(pair: Federation) -> None:
    await pair.lone(3)
    peer = pair.peers[0]
    first = await peer.ask("GET", "/v1/roster?limit=2")
    assert [party["id"] for party in first.json()["parties"]] == ["curator-0", "curator-1"]
    following = first.headers["link"].split(">")[0][1:]
    second = await peer.ask("GET", following)
    assert [party["id"] for party in second.json()["parties"]] == ["curator-2"]
    for key in ("curator-0", 2**63):
        path = f"/v1/roster?cursor={encode_cursor(key)}"
        refused(await peer.ask("GET", path), 422, "bad_cursor")
    refused(await peer.ask("GET", "/v1/roster", token=peer.coordinator_token), 403, "scope_missing")
