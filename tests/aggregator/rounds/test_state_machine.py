"""The state machine: what is refused, what is repeated, what is final."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import numpy as np
import pytest
from sqlalchemy import text

from aggregator.context import Aggregator
from aggregator.pieces.intake import Intake
from aggregator.rounds import state_machine
from common.runtime.clock import ManualClock
from tacit import sets
from tacit.crypto.signing import Identity, Signed, verify
from tacit.protocol.round.accepted import AcceptedSet
from tacit.protocol.round.descriptor import ABORT_LABEL, AbortStatement, Frozen
from tacit.protocol.round.manifests import manifest_of
from tacit.protocol.round.transcript import (
    COMMITMENT_LABEL,
    Commitment,
    Manifest,
    RevealRequest,
)
from tests.aggregator.conftest import Alliance
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


async def test_a_look_waits_until_so_many_have_delivered(pair: Federation) -> None:
    lone = await pair.lone(2)
    current = await pair.open(query(**EXACT))
    loop = asyncio.get_running_loop()

    async def look(**asked: Any) -> dict[str, Any]:
        path = current.path("?" + urlencode(asked)).replace("/?", "?")
        answer = await pair.peers[0].coordinate("GET", path)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    began = loop.time()
    assert (await look(accepted=1, wait_s=0.2))["accepted"] == 0
    assert loop.time() - began >= 0.2
    waiting = asyncio.create_task(look(accepted=2, wait_s=20))
    await current.contribute(lone[0], np.array([[1]]))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    await current.contribute(lone[1], np.array([[2]]))
    assert (await asyncio.wait_for(waiting, 5))["accepted"] == 2
    closing = asyncio.create_task(look(accepted=3, wait_s=20))
    await asyncio.sleep(0.1)
    await current.freeze()
    assert (await asyncio.wait_for(closing, 5))["state"] == "frozen"
    answer = await pair.peers[0].coordinate("GET", current.path("?wait_s=31").replace("/?", "?"))
    refused(answer, 422, "bad_parameter")


async def test_never_a_second_manifest(alliance: Alliance) -> None:
    """Two quorums of 3 of 5 share an aggregator, and it signs one manifest only."""
    async with alliance(5) as federation:
        asked = query(aggregators=5, sharing="shamir", threshold=3, mechanism="exact")
        lone = await federation.lone(3)
        current = await federation.open(asked)
        for index in range(5):
            for sender in lone if index < 3 else lone[:2]:
                words = np.array([7], np.uint64)
                answer = await current.send(sender, index, current.piece(sender, index, words))
                assert answer.status_code == 201
        accepted = await current.freeze()
        await current.commit(accepted[:3])
        other = tuple(accepted[2:])
        manifest = manifest_of(current.descriptor, other, SALT)
        answer = await federation.peers[2].coordinate(
            "POST", current.path("commitment"), manifest_request(manifest, other)
        )
        refused(answer, 409, "manifest_refused")


async def test_a_manifest_is_recomputed(pair: Federation) -> None:
    current, _ = await filled(pair)
    peer, path = pair.peers[0], current.path("commitment")
    accepted = await current.freeze()
    honest = manifest_of(current.descriptor, accepted, SALT)
    smaller = honest.model_copy(update={"members": b"\x03", "count": 2})
    request = manifest_request(smaller, accepted)
    refused(await peer.coordinate("POST", path, request), 409, "manifest_refused")
    alone = manifest_request(honest, (accepted[0],))
    refused(await peer.coordinate("POST", path, alone), 409, "manifest_refused")
    forged = accepted[0].model_copy(
        update={"statement": accepted[0].statement.model_copy(update={"members": b"\x06"})}
    )
    request = manifest_request(honest, (forged, accepted[1]))
    refused(await peer.coordinate("POST", path, request), 409, "manifest_refused")
    await current.release()


async def test_too_few_participants(pair: Federation) -> None:
    current, _ = await filled(pair, 3, min_participants=4)
    accepted = await current.freeze()
    made_up = Manifest(
        round=current.id,
        descriptor_hash=current.descriptor.digest(),
        quorum=(0, 1),
        members=accepted[0].statement.members,
        count=sets.count(accepted[0].statement.members),
        contributions=(),
        salt=SALT,
    )
    request = manifest_request(made_up, accepted)
    answer = await pair.peers[0].coordinate("POST", current.path("commitment"), request)
    refused(answer, 409, "too_few_participants")


async def test_no_reveal_before_all_commitments(pair: Federation) -> None:
    current, _ = await filled(pair)
    peer, path = pair.peers[0], current.path("reveal")
    refused(
        await peer.coordinate("POST", path, RevealRequest(commitments=())),
        409,
        "round_not_committed",
    )
    manifest, commitments = await current.commit(await current.freeze())
    own, other = commitments
    altered = other.statement.model_copy(update={"manifest_hash": b"\0" * 32})
    stranger = Identity.generate().sign(COMMITMENT_LABEL, altered)
    for hostile in [(own,), (own, own), (own, stranger), ()]:
        answer = await peer.coordinate("POST", path, RevealRequest(commitments=hostile))
        refused(answer, 409, "commitment_refused")
    await current.reveal(manifest, commitments)


async def test_steps_out_of_order(pair: Federation) -> None:
    current, _ = await filled(pair)
    peer = pair.peers[0]
    for other in pair.peers[1:]:
        answer = await other.coordinate("POST", current.path("freeze"))
        assert answer.status_code == 200
    manifest = Manifest(
        round=current.id,
        descriptor_hash=current.descriptor.digest(),
        quorum=(0, 1),
        members=b"\x07",
        count=3,
        contributions=(),
        salt=SALT,
    )
    request = manifest_request(manifest, ())
    answer = await peer.coordinate("POST", current.path("commitment"), request)
    refused(answer, 409, "round_not_frozen")


@pytest.mark.parametrize("when", ["open", "frozen", "committed"])
async def test_an_abort_is_final(pair: Federation, when: str) -> None:
    current, lone = await filled(pair)
    peer = pair.peers[0]
    commitments: list[Signed[Commitment]] = []
    accepted: list[Signed[AcceptedSet]] = []
    if when != "open":
        accepted = await current.freeze()
    if when == "committed":
        _, commitments = await current.commit(accepted)
    first = await peer.coordinate("POST", current.path("abort"), {"reason": "test"})
    again = await peer.coordinate("POST", current.path("abort"), {"reason": "another"})
    assert first.content == again.content
    statement = Signed[AbortStatement].model_validate_json(first.content)
    assert verify(ABORT_LABEL, statement, peer.identity_key).frozen is (
        Frozen.NEVER if when == "open" else Frozen.YES
    )
    state = (await peer.coordinate("GET", current.path())).json()
    assert (state["state"], state["reason"]) == ("aborted", "test")
    if when != "open":
        manifest = manifest_of(current.descriptor, accepted, SALT)
        request = manifest_request(manifest, accepted)
        answer = await peer.coordinate("POST", current.path("commitment"), request)
        refused(answer, 410, "round_closed")
    else:
        refused(await peer.coordinate("POST", current.path("freeze")), 410, "round_closed")
    if when == "committed":
        request_all = RevealRequest(commitments=tuple(commitments))
        answer = await peer.coordinate("POST", current.path("reveal"), request_all)
        refused(answer, 410, "round_closed")
    sent = await current.send(lone[0], 0, current.piece(lone[0], 0, np.array([3], np.uint64)))
    assert (sent.status_code, sent.json()["state"]) == (410, "aborted")


async def test_pieces_are_destroyed_with_the_release(pair: Federation) -> None:
    host = await pair.host("gateway", 64)
    current, _ = await filled(pair)
    del current
    asked = query(**EXACT)
    current = await pair.open(asked)
    await current.contribute(host, np.ones((64, 1), np.int64))
    lone = pair.sender("last")
    await pair.enrol(lone)
    await current.release()
    database = pair.peers[0].part(Aggregator).database
    async with database.reading() as transaction:
        held = await transaction.execute(
            text("SELECT length(body) FROM batch UNION ALL SELECT length(sealed) FROM contribution")
        )
        assert all(row[0] == 0 for row in held)


async def test_a_round_opens_once_and_by_its_coordinator(pair: Federation) -> None:
    await pair.lone(1)
    signed = await pair.descriptor(query(**EXACT))
    peer = pair.peers[0]
    assert (await peer.coordinate("POST", "/v1/rounds", signed)).status_code == 201
    assert (await peer.coordinate("POST", "/v1/rounds", signed)).status_code == 200
    other = await pair.descriptor(query(**EXACT, name="other"), round=signed.statement.round)
    refused(await peer.coordinate("POST", "/v1/rounds", other), 409, "round_conflict")
    foreign = Signed(statement=other.statement, signature=signed.signature)
    refused(await peer.coordinate("POST", "/v1/rounds", foreign), 422, "descriptor_refused")
    refused(await peer.ask("POST", "/v1/rounds", other), 403, "scope_missing")


@pytest.mark.parametrize(
    ("asked", "changes", "name"),
    [
        ({"name": "late"}, {"deadline": -1}, "descriptor_refused"),
        ({"name": "far"}, {"deadline": 40 * 86_400}, "policy_refused"),
        ({"name": "deployment"}, {"deployment": "elsewhere"}, "descriptor_refused"),
        ({"n_max": 2_000_000}, {}, "policy_refused"),
        ({"min_participants": 1}, {}, "policy_refused"),
        ({"stance": "paper"}, {}, "policy_refused"),
        # full of noise, a sum could wrap: the values alone leave 8.5 * 10^8 units, b is 2 * 10^7
        (
            {
                **{"bounds": ["0", "2305843.009"], "max_readings": 4000},
                **{"mechanism": "distributed", "epsilon": "116", "privacy_unit": "record"},
            },
            {},
            "descriptor_refused",
        ),
        # a coin that leaves most rounds without noise promises nothing
        (
            {
                "mechanism": "two-layer",
                **{"epsilon_u": "7.5", "epsilon_s": "2.5", "pr_u": "0.0001", "pr_s": "0.01"},
            },
            {},
            "policy_refused",
        ),
    ],
)
async def test_own_policy(
    alliance: Alliance, asked: dict[str, Any], changes: dict[str, Any], name: str
) -> None:
    async with alliance(2, allow_paper=False, policy_max_curators=1_000_000) as pair:
        pair.round_keys = True  # which leave the deadline to the policy
        await pair.lone(1)
        if "deadline" in changes:
            seconds = changes["deadline"]
            changes = {
                "opened": pair.now - timedelta(hours=1),
                "deadline": pair.now + timedelta(seconds=seconds),
            }
        signed = await pair.descriptor(query(**{**EXACT, **asked}), **changes)
        answer = await pair.peers[0].coordinate("POST", "/v1/rounds", signed)
        assert problem(answer) == name, answer.text


@pytest.mark.parametrize(("same", "status"), [({}, 201), ({"operator": "everyone"}, 403)])
async def test_aggregators_of_one_operator_are_one(
    alliance: Alliance, same: dict[str, Any], status: int
) -> None:
    """A query that stands one corrupt aggregator does not stand one operator who runs them all."""
    asked = query(aggregators=2, mechanism="distributed", epsilon="1", collusion={"aggregators": 1})
    async with alliance(2, **same) as pair:
        await pair.lone(1)
        signed = await pair.descriptor(asked)
        answer = await pair.peers[0].coordinate("POST", "/v1/rounds", signed)
        assert answer.status_code == status, answer.text


async def test_exact_needs_the_insecure_switch(alliance: Alliance) -> None:
    async with alliance(2, insecure_allow_exact=False) as pair:
        await pair.lone(1)
        signed = await pair.descriptor(query(**EXACT))
        answer = await pair.peers[0].coordinate("POST", "/v1/rounds", signed)
        refused(answer, 403, "policy_refused")


async def test_own_entry_must_be_its_own(pair: Federation) -> None:
    await pair.lone(1)
    signed = await pair.descriptor(query(**EXACT))
    first, second = signed.statement.aggregators
    renamed = first.model_copy(update={"operator": "somebody"})
    changed = await pair.descriptor(query(**EXACT), aggregators=(renamed, second))
    answer = await pair.peers[0].coordinate("POST", "/v1/rounds", changed)
    refused(answer, 422, "descriptor_refused")


async def test_shamir_contributions_are_drawn_once(alliance: Alliance) -> None:
    async with alliance(3) as federation:
        lone = await federation.lone(2)
        asked = query(
            aggregators=3, sharing="shamir", threshold=2, mechanism="distributed", epsilon="1"
        )
        current = await federation.open(asked)
        first = await federation.peers[0].coordinate("POST", "/v1/rounds", current.signed)
        second = await federation.peers[0].coordinate("POST", "/v1/rounds", current.signed)
        assert first.content == second.content
        shares = first.json()["contribution"]["pieces"]
        assert len(shares) == 3
        path = current.path("contributions")
        relayed = [{"aggregator": "aggregator-0", "piece": shares[1]}]
        peer = federation.peers[1]
        answer = await peer.coordinate("POST", path, _list(relayed))
        assert answer.json() == {"contributions": [0, 1, 2]}
        wrong = [{"aggregator": "aggregator-0", "piece": shares[2]}]
        refused(await peer.coordinate("POST", path, _list(wrong)), 400, "seal_broken")
        posed = [{"aggregator": "aggregator-2", "piece": shares[1]}]
        refused(await peer.coordinate("POST", path, _list(posed)), 422, "contribution_refused")
        for sender in lone:
            await current.contribute(sender, np.array([[1]]))
        _, manifest = await current.release((0, 1))
        assert manifest.contributions == (0, 1, 2)


def _list(items: list[dict[str, Any]]) -> bytes:
    return json.dumps(items).encode()


def _files(folder: Path) -> bytes:
    """Everything on the disk."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_abandoned_rounds_are_aborted_and_old_ones_forgotten(
    alliance: Alliance, clock: ManualClock
) -> None:
    async with alliance(1, abandon_s=3600, retention_s=86_400) as federation:
        peer = federation.peers[0]
        aggregator, intake = peer.part(Aggregator), peer.part(Intake)
        (sender,) = await federation.lone(1)
        current = await federation.open(query())
        await current.contribute(sender, np.array([[4]]))
        clock.advance(timedelta(seconds=4000))
        await state_machine.sweep(aggregator, intake)
        shown = (await peer.coordinate("GET", current.path())).json()
        assert (shown["state"], shown["reason"]) == ("aborted", "abandoned")
        clock.advance(timedelta(days=2))
        await state_machine.sweep(aggregator, intake)
        answer = await peer.coordinate("GET", current.path())
        refused(answer, 410, "round_expired")
        replayed = await peer.coordinate("POST", "/v1/rounds", current.signed)
        refused(replayed, 422, "descriptor_refused")
