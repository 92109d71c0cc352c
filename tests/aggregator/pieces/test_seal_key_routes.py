"""Seal keys over HTTP: signed and short, fetched by hash, one for a round, handed over."""

from __future__ import annotations

import os
from datetime import timedelta
from uuid import uuid4

import pytest

from common.runtime.clock import ManualClock
from tacit.crypto.sealing import SealKey, SealPublicKey, key_hash
from tacit.crypto.signing import Signed, verify
from tacit.protocol.sealing_sessions import SEAL_KEY_LABEL, SealKeyStatement
from tacit.wire import encode_binary
from tests.aggregator.double import Federation, query
from tests.aggregator.pieces.test_pieces import problem
from tests.aggregator.rounds.test_state_machine import refused

OCTETS = "application/octet-stream"


async def current(federation: Federation) -> SealKeyStatement:
    peer = federation.peers[0]
    answer = await peer.client.get("/v1/seal-keys/current")
    assert answer.status_code == 200, answer.text
    signed = Signed[SealKeyStatement].model_validate_json(answer.content)
    return verify(SEAL_KEY_LABEL, signed, peer.identity_key)


async def test_a_key_serves_one_period(single: Federation, clock: ManualClock) -> None:
    first = await current(single)
    assert (first.party, first.number, first.round) == ("aggregator-0", 1, None)
    assert (first.made, first.until) == (clock.now(), clock.now() + timedelta(hours=1))
    clock.advance(timedelta(seconds=3599))
    assert await current(single) == first
    clock.advance(timedelta(seconds=1))
    second = await current(single)
    assert second.number == 2
    assert second.public_key_hash != first.public_key_hash


async def test_a_key_is_fetched_by_its_hash(single: Federation) -> None:
    signed, client = await current(single), single.peers[0].client
    path = f"/v1/seal-keys/{encode_binary(signed.public_key_hash)}"
    answer = await client.get(path)
    assert answer.headers["content-type"] == OCTETS
    assert "immutable" in answer.headers["cache-control"]
    assert len(answer.content) == 1216
    assert SealPublicKey(answer.content).hash == signed.public_key_hash
    for name in ("AAAA", "no%20hash", encode_binary(bytes(32)), signed.public_key_hash.hex()):
        refused(await client.get(f"/v1/seal-keys/{name}"), 404, "unknown_seal_key")


async def test_a_rounds_key_is_made_once_and_of_it_alone(single: Federation) -> None:
    single.round_keys = True
    peer, round_id = single.peers[0], str(uuid4())
    asked = {"round": round_id}
    assert (await peer.client.post("/v1/seal-keys", json=asked)).status_code == 401
    refused(await peer.coordinate("POST", "/v1/seal-keys", {"round": "x"}), 422, "bad_parameter")
    one = await peer.coordinate("POST", "/v1/seal-keys", asked)
    two = await peer.coordinate("POST", "/v1/seal-keys", asked)
    assert one.status_code == 200 and one.content == two.content
    assert one.json()["statement"]["round"] == round_id
    await single.lone(2)
    other = await single.descriptor(query())
    entry = other.statement.aggregators[0]
    stolen = other.statement.model_copy(update={"round": round_id, "aggregators": (entry,)})
    answer = await peer.coordinate(
        "POST", "/v1/rounds", single.identity.sign("tacit round descriptor v1", stolen)
    )
    refused(answer, 422, "descriptor_refused")


async def test_64_keys_wait_for_their_rounds(single: Federation) -> None:
    single.round_keys = True
    await single.lone(2)
    opened = await single.open(query())
    peer = single.peers[0]
    for _ in range(64):
        answer = await peer.coordinate("POST", "/v1/seal-keys", {"round": str(uuid4())})
        assert answer.status_code == 200
    answer = await peer.coordinate("POST", "/v1/seal-keys", {"round": str(uuid4())})
    refused(answer, 429, "too_many_seal_keys")
    await peer.coordinate("POST", opened.path("abort"), {"reason": "enough"})
    answer = await peer.coordinate("POST", "/v1/seal-keys", {"round": opened.id})
    refused(answer, 410, "seal_key_gone")


async def test_another_aggregators_key_is_handed_over_once(single: Federation) -> None:
    peer, raw = single.peers[0], SealKey(os.urandom(32)).public.raw
    path = f"/v1/seal-keys/{encode_binary(key_hash(raw))}"

    async def put(where: str, body: bytes, form: str = OCTETS) -> tuple[int, str | None]:
        answer = await peer.ask("PUT", where, body, peer.coordinator_token, form=form)
        return answer.status_code, None if answer.is_success else problem(answer)

    assert await put(path, raw) == (201, None)
    assert await put(path, raw) == (200, None)
    assert await put(path, raw[:-1]) == (422, "seal_key_malformed")
    assert await put(path, raw + b"\x00") == (422, "seal_key_malformed")
    assert await put(path, SealKey(os.urandom(32)).public.raw) == (422, "seal_key_malformed")
    assert await put(path, b"\xff" * 1216) == (422, "seal_key_malformed")
    assert await put("/v1/seal-keys/current", raw) == (422, "seal_key_malformed")
    assert (await put(path, raw, "application/json"))[0] == 415
    other = await peer.ask("PUT", path, raw, form=OCTETS)
    assert other.status_code == 403
    # what is handed over is not given out as this aggregator's own
    refused(await peer.client.get(path), 404, "unknown_seal_key")


@pytest.mark.parametrize("sharing", ["shamir", "proved"])
async def test_a_round_whose_aggregators_seal_to_each_other_needs_their_keys(
    trio: Federation, sharing: str
) -> None:
    await trio.lone(2)
    asked = query(
        aggregators=3,
        **(
            {"sharing": "shamir", "threshold": 2, "mechanism": "distributed", "epsilon": "1"}
            if sharing == "shamir"
            else {"validity": "proved"}
        ),
    )
    kept, trio._hand_over = trio._hand_over, _nothing  # type: ignore[method-assign]
    signed = await trio.descriptor(asked)
    answer = await trio.peers[0].coordinate("POST", "/v1/rounds", signed)
    refused(answer, 409, "peer_key_missing")
    others = [entry.seal.public_key_hash for entry in signed.statement.aggregators[1:]]
    assert answer.json()["key_hashes"] == [encode_binary(item) for item in others]
    await kept(signed.statement.aggregators)
    answer = await trio.peers[0].coordinate("POST", "/v1/rounds", signed)
    assert answer.status_code == 201, answer.text


async def _nothing(_: object) -> None:
    """No keys are handed over."""
