"""An operator replaces a seal key before its time. Spec: keys, section 5.3."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tacit.protocol.sealing_sessions import SealKeyStatement
from tests.aggregator.double import Federation, Peer, query
from tests.aggregator.pieces.test_seal_key_routes import current
from tests.aggregator.rounds.test_state_machine import refused


async def rotate(peer: Peer, *, destroy: bool = False) -> dict[str, Any]:
    body = json.dumps({"destroy": destroy}).encode()
    answer = await peer.ask("POST", "/v1/seal-keys/rotation", body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def state_of(peer: Peer, round_id: str) -> dict[str, Any]:
    found: dict[str, Any] = (await peer.coordinate("GET", f"/v1/rounds/{round_id}")).json()
    return found


async def test_the_old_key_opens_no_new_round_and_ends_its_own(single: Federation) -> None:
    [peer] = single.peers
    senders = await single.lone(2)
    old: SealKeyStatement = await current(single)
    running = await single.open(query())
    under_way = await single.descriptor(query())
    assert await rotate(peer) == {"number": 2, "retired": [1], "destroyed": []}
    new = await current(single)
    assert (new.number, new.public_key_hash != old.public_key_hash) == (2, True)
    late = await peer.coordinate("POST", "/v1/rounds", under_way)
    refused(late, 422, "descriptor_refused")
    assert "retired" in late.json()["detail"]
    for sender in senders:
        await running.contribute(sender, np.array([[3]]))
    total, _ = await running.release()
    assert total.tolist() == [6]
    assert (await single.open(query())).descriptor.aggregators[0].seal == new


async def test_destroyed_at_once_the_rounds_that_name_it_abort(single: Federation) -> None:
    [peer] = single.peers
    senders = await single.lone(2)
    running = await single.open(query())
    await running.contribute(senders[0], np.array([[3]]))
    assert await rotate(peer, destroy=True) == {"number": 2, "retired": [1], "destroyed": [1]}
    assert (await state_of(peer, running.id))["state"] == "aborted"
    piece = await peer.ask("POST", running.path("pieces"), b"{}", senders[1].tokens[0])
    assert piece.status_code >= 400
    again = await single.open(query())
    for sender in senders:
        await again.contribute(sender, np.array([[4]]))
    assert (await again.release())[0].tolist() == [8]
    # what was retired before and still served a round dies with it, too
    third = await single.open(query())
    assert (await rotate(peer))["retired"] == [2]
    assert (await rotate(peer, destroy=True))["destroyed"] == [2, 3]
    assert (await state_of(peer, third.id))["state"] == "aborted"


async def test_only_the_operator_rotates(single: Federation) -> None:
    [peer] = single.peers
    path = "/v1/seal-keys/rotation"
    assert (await peer.client.post(path, json={})).status_code == 401
    refused(await peer.coordinate("POST", path, {}), 403, "scope_missing")
    refused(await peer.ask("POST", path, b'{"destroy": "yes"}'), 422, "bad_parameter")
    refused(await peer.ask("POST", path, b'{"now": true}'), 422, "bad_parameter")
