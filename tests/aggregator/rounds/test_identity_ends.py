"""An aggregator's identity is replaced, and its process killed at each step.

Spec: keys, section 5.2.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from common.store.own_identities import SerialFile
from tacit.crypto.signing import HybridIdentity
from tacit.protocol.identities import IdentityChain
from tacit.wire import encode_binary, parse_binary
from tests.aggregator.conftest import settings
from tests.aggregator.double import Federation, Peer, query
from tests.aggregator.process import Process
from tests.aggregator.rounds.test_state_machine import refused

NEXT, AFTER, OTHER = (HybridIdentity(bytes([number]) * 64) for number in range(7, 10))
CHAIN = "/.well-known/tacit-aggregator/identity"


def body(following: HybridIdentity = AFTER, **changes: Any) -> dict[str, Any]:
    return {
        "secret": encode_binary(NEXT.to_bytes()),
        "following": following.public.model_dump(mode="json"),
        **changes,
    }


async def rotate(peer: Peer, **changes: Any) -> httpx.Response:
    return await peer.ask("POST", "/v1/identity/successor", body(**changes))


async def committed(peer: Peer) -> None:
    answer = await peer.ask("PUT", "/v1/identity/next", NEXT.public)
    assert answer.status_code == 200, answer.text


async def test_a_round_that_runs_ends_with_its_own_identity(
    single: Federation, tmp_path: Path
) -> None:
    """Its pieces, which come after the rotation, are opened, and its sum is signed by the old key;
    the next round's by the new one."""
    [peer] = single.peers
    senders = await single.lone(2)
    refused(await peer.client.get(CHAIN), 404, "no_identity_document")
    refused(await rotate(peer), 403, "key_change_unconfirmed")
    await committed(peer)
    running = await single.open(query())
    serial = SerialFile(settings(0, tmp_path).data_dir / "identity.serial")
    assert serial.read() == 0
    assert (await rotate(peer)).status_code == 200
    assert serial.read() == 1  # beside the database
    for sender in senders:
        await running.contribute(sender, np.array([[3]]))
    assert (await running.release())[0].tolist() == [6]
    shown = (await peer.client.get("/.well-known/tacit-aggregator")).json()
    peer.identity_key = parse_binary(shown["identity_key"])
    assert peer.identity_key == NEXT.public.ed25519
    after = await single.open(query())
    for sender in senders:
        await after.contribute(sender, np.array([[4]]))
    assert (await after.release())[0].tolist() == [8]


async def test_what_is_no_successor_is_refused(single: Federation) -> None:
    [peer] = single.peers
    await committed(peer)
    stranger = encode_binary(OTHER.to_bytes())
    refused(await rotate(peer, secret=stranger), 403, "succession_refused")
    refused(await rotate(peer, following=NEXT), 422, "bad_parameter")
    refused(await rotate(peer, overlap_s=31 * 86_400), 422, "bad_parameter")
    refused(await rotate(peer, secret="AAAA"), 422, "bad_parameter")
    refused(await peer.coordinate("POST", "/v1/identity/successor", body()), 403, "scope_missing")
    answer = await peer.ask("PUT", "/v1/identity/next", OTHER.public)
    refused(answer, 409, "next_key_committed")
    assert (await rotate(peer)).status_code == 200
    refused(await rotate(peer, following=OTHER), 409, "next_key_committed")


async def test_a_compromised_identity_opens_no_round(single: Federation) -> None:
    """The thief signs a seal key and a descriptor's entry with the old key: refused."""
    [peer] = single.peers
    await single.lone(2)
    await committed(peer)
    under_way = await single.descriptor(query())
    assert (await rotate(peer, compromised=True)).status_code == 200
    ended = await peer.coordinate("POST", "/v1/rounds", under_way)
    refused(ended, 401, "token_expired")
    await single.pair()
    refused(await peer.coordinate("POST", "/v1/rounds", under_way), 422, "descriptor_refused")


@pytest.mark.slow
@pytest.mark.parametrize(
    "step", ["replacing", "replaced", "aborting", "aborted", "destroying", "destroyed"]
)
async def test_a_rotation_that_is_killed_is_finished_by_the_same_command(
    tmp_path: Path, step: str
) -> None:
    process = Process(tmp_path, variant=f"dies-identity-{step}")
    try:
        federation = await Federation(await process.start()).pair()
        [peer] = federation.peers
        await federation.lone(2)
        await committed(peer)
        running = await federation.open(query())
        folder = tmp_path / "aggregator"
        [store] = folder.glob("*.db")
        with closing(sqlite3.connect(store)) as connection:
            [secret] = connection.execute("SELECT secret FROM identity").fetchone()
        with pytest.raises(httpx.TransportError):
            await rotate(peer, compromised=True)
        await process.died()
        process.variant = "sound"
        peer.client = await process.start()
        answer = await rotate(peer, compromised=True)
        assert answer.status_code == 200, answer.text
        assert answer.json()["serial"] == 1
        chain = IdentityChain.model_validate_json((await peer.client.get(CHAIN)).content)
        assert [each.statement.serial for each in chain.documents] == [0, 1]
        state = (await peer.ask("GET", f"/v1/rounds/{running.id}")).json()
        assert state["state"] == "aborted"
        process.kill()
        peer.client = await process.start()  # a start empties the log that a kill left
        for path in folder.rglob("*"):
            if path.is_file():
                assert secret not in path.read_bytes(), path
                assert secret[:32] not in path.read_bytes(), path
    finally:
        process.stop()
