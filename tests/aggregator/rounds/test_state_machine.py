"""The state machine: what is refused, what is repeated, what is final."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
from sqlalchemy import text

from aggregator.context import Aggregator
from tacit.crypto.signing import Signed, verify
from tacit.protocol.round.descriptor import ABORT_LABEL, AbortStatement, Frozen
from tacit.protocol.round.manifests import manifest_of
from tacit.protocol.round.transcript import (
    RevealRequest,
)
from tests.aggregator.double import SALT, Federation, Round, Sender, manifest_request, query
from tests.aggregator.pieces.test_pieces import problem

EXACT = {"aggregators": 2, "mechanism": "exact"}


async def filled(pair: Federation, count: int = 3, **asked: Any) -> tuple[Round, list[Sender]]:
    """A round in which every curator has delivered."""
    lone = await pair.lone(count)
    current = await pair.open(query(**{**EXACT, **asked}))
    for value, sender in enumerate(lone):
        await current.contribute(sender, np.array([[value + 1]]))
    return current, lone


def refused(answer: httpx.Response, status: int, name: str) -> None:
    assert (answer.status_code, problem(answer)) == (status, name), answer.text


async def test_each_transition_repeats_its_bytes(pair: Federation) -> None:
    current, _ = await filled(pair)
    peer = pair.peers[0]

    async def twice(path: str, body: Any = None) -> bytes:
        first = await peer.coordinate("POST", path, body)
        second = await peer.coordinate("POST", path, body)
        assert first.status_code in (200, 201)
        assert second.status_code == 200
        assert first.content == second.content
        return first.content

    await twice("/v1/rounds", current.signed)
    await twice(current.path("freeze"))
    accepted = await current.freeze()
    manifest = manifest_of(current.descriptor, accepted, SALT)
    request = manifest_request(manifest, accepted)
    await twice(current.path("commitment"), request)
    _, commitments = await current.commit(accepted)
    await twice(current.path("reveal"), RevealRequest(commitments=tuple(commitments)))
    # every earlier step still answers, and the round cannot be aborted any more
    await twice("/v1/rounds", current.signed)
    await twice(current.path("freeze"))
    await twice(current.path("commitment"), request)
    answer = await peer.coordinate("POST", current.path("abort"), {"reason": "too late"})
    refused(answer, 409, "round_released")


async def test_an_abort_after_the_commitment_is_final(pair: Federation) -> None:
    current, lone = await filled(pair)
    peer = pair.peers[0]
    accepted = await current.freeze()
    manifest, commitments = await current.commit(accepted)
    first = await peer.coordinate("POST", current.path("abort"), {"reason": "test"})
    again = await peer.coordinate("POST", current.path("abort"), {"reason": "another"})
    assert first.content == again.content
    statement = Signed[AbortStatement].model_validate_json(first.content)
    assert verify(ABORT_LABEL, statement, peer.identity_key).frozen is Frozen.YES
    state = (await peer.coordinate("GET", current.path())).json()
    assert (state["state"], state["reason"]) == ("aborted", "test")
    for step, body in (
        ("commitment", manifest_request(manifest, accepted)),
        ("reveal", RevealRequest(commitments=tuple(commitments))),
    ):
        refused(await peer.coordinate("POST", current.path(step), body), 410, "round_closed")
    sent = await current.send(lone[0], 0, current.piece(lone[0], 0, np.array([3], np.uint64)))
    assert (sent.status_code, sent.json()["state"]) == (410, "aborted")


async def test_pieces_are_destroyed_with_the_release(database_url: str, pair: Federation) -> None:
    host = await pair.host("gateway", 64)
    current, _ = await filled(pair)
    await current.contribute(host, np.ones((64, 1), np.int64))
    await current.release()
    database = pair.peers[0].part(Aggregator).database
    async with database.reading() as transaction:
        held = await transaction.execute(
            text("SELECT length(body) FROM batch UNION ALL SELECT length(sealed) FROM contribution")
        )
        assert all(row[0] == 0 for row in held)


async def test_a_round_is_opened_by_its_coordinator(pair: Federation) -> None:
    await pair.lone(1)
    signed = await pair.descriptor(query(**EXACT))
    peer = pair.peers[0]
    other = await pair.descriptor(query(**EXACT, name="other"))
    foreign = Signed(statement=other.statement, signature=signed.signature)
    refused(await peer.coordinate("POST", "/v1/rounds", foreign), 422, "descriptor_refused")
    refused(await peer.ask("POST", "/v1/rounds", other), 403, "scope_missing")
