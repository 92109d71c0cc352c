"""The service around the rounds: identity, documents, metrics, replicas, silence of the logs."""

from __future__ import annotations

import re
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text

from aggregator import app as app_module
from aggregator.app import MIGRATIONS, create_app
from aggregator.context import Aggregator
from aggregator.pieces.intake import Intake
from aggregator.rounds import key_rotation
from aggregator.store.tables import metadata
from common.runtime.clock import ManualClock
from common.store.database import migrate
from common.store.migration import drift
from common.store.transactions import Database
from tacit.crypto.signing import fingerprint
from tacit.noise import SelfTest
from tacit.wire import encode_binary, parse_binary
from tests.aggregator.conftest import Running, settings
from tests.aggregator.double import Federation, query
from tests.aggregator.pieces.test_pieces import problem


async def test_revisions_make_the_tables(database: Database) -> None:
    await migrate(database, MIGRATIONS)
    assert await drift(database, metadata) == []


async def test_it_says_who_it_is(pair: Federation) -> None:
    peer = pair.peers[0]
    document = (await peer.client.get("/.well-known/tacit-aggregator")).json()
    key = parse_binary(document["identity_key"])
    assert document["fingerprint"] == fingerprint(key).hex()
    assert document["fingerprint_base64url"] == encode_binary(fingerprint(key))
    assert document["self_test"] == "passed"
    assert document["policy"]["min_participants"] == 2


async def test_failed_samplers_take_no_round(
    tmp_path: Path, clock: ManualClock, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failed(SelfTest):
        passed = False

    monkeypatch.setattr(app_module, "self_test", lambda _: Failed(()))
    async with running(create_app(settings(0, tmp_path), clock=clock)) as client:
        federation = await Federation(client, now=clock.now()).pair()
        document = (await client.get("/.well-known/tacit-aggregator")).json()
        assert document["self_test"] == "failed"
        ready = await client.get("/readyz")
        assert (ready.status_code, problem(ready)) == (503, "not_ready")
        await federation.lone(1)
        signed = await federation.descriptor(query())
        answer = await federation.peers[0].coordinate("POST", "/v1/rounds", signed)
        assert (answer.status_code, problem(answer)) == (503, "samplers_failed")


async def test_two_processes_share_one_store(
    tmp_path: Path, database_url: str, clock: ManualClock, running: Running
) -> None:
    """A piece that one replica took is known to the other; a freeze holds for both. They share a
    directory of keys, too."""
    async with AsyncExitStack() as stack:
        clients = []
        shared: dict[str, Any] = {"aggregator_id": "a", "operator": "o", "key_dir": tmp_path / "k"}
        for index in range(2):
            own = settings(index, tmp_path, database_url, **shared)
            clients.append(await stack.enter_async_context(running(create_app(own, clock=clock))))
        federation = await Federation(clients[0], now=clock.now()).pair()
        lone = await federation.lone(3)
        host = await federation.host("gateway", 64)
        current = await federation.open(query())
        peer = federation.peers[0]
        pieces = [
            current.piece(sender, 0, np.array([i], np.uint64)) for i, sender in enumerate(lone)
        ]
        (batch,) = current.batches(host, 0, np.ones((64, 1), np.uint64))
        statuses = []
        for client in (clients[0], clients[1], clients[0]):
            peer.client = client
            statuses.append((await current.send(lone[0], 0, pieces[0])).status_code)
            statuses.append((await current.send_batch(host, 0, batch)).status_code)
        assert statuses == [201, 201, 200, 200, 200, 200]
        peer.client = clients[1]
        other = current.piece(lone[0], 0, np.array([9], np.uint64))
        assert (await current.send(lone[0], 0, other)).status_code == 409
        assert (await current.send(lone[1], 0, pieces[1])).status_code == 201
        accepted = await current.freeze()
        peer.client = clients[0]
        assert await current.freeze() == accepted
        assert (await current.send(lone[1], 0, pieces[1])).json()["included"] is True
        assert (await current.send(lone[2], 0, pieces[2])).json()["included"] is False
        total, manifest = await current.release()
        assert (manifest.count, total.tolist()) == (66, [65])


@pytest.mark.parametrize(
    "database_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
async def test_a_replica_without_the_directory_of_keys_says_so(
    tmp_path: Path, database_url: str, clock: ManualClock, running: Running
) -> None:
    """It takes nothing and destroys nothing; the round goes on where its key is."""
    async with AsyncExitStack() as stack:
        clients = []
        for index in range(2):
            own = settings(index, tmp_path, database_url, aggregator_id="a", operator="o")
            app = create_app(own, clock=clock)
            client = await stack.enter_async_context(running(app))
            client.app = app  # type: ignore[attr-defined]
            clients.append(client)
        federation = await Federation(clients[0], now=clock.now()).pair()
        one, two = await federation.lone(2)
        current = await federation.open(query())
        peer = federation.peers[0]
        peer.client = clients[1]
        piece = current.piece(one, 0, np.array([3], np.uint64))
        answer = await current.send(one, 0, piece)
        assert (answer.status_code, problem(answer)) == (503, "seal_key_unavailable")
        assert await key_rotation.sweep_keys(peer.part(Aggregator), peer.part(Intake)) == 0
        peer.client = clients[0]
        assert (await current.send(one, 0, piece)).status_code == 201
        await current.contribute(two, np.array([[4]]))
        assert (await current.release())[0].tolist() == [7]


async def test_what_is_stored_and_logged_does_not_depend_on_values(
    pair: Federation, capfd: pytest.CaptureFixture[str]
) -> None:
    """Two rounds with other secrets leave rows and lines of the same shape; no value among them."""
    lone = await pair.lone(2)
    host = await pair.host("gateway", 64)
    database = pair.peers[0].part(Aggregator).database
    shapes, logs = [], []
    for secret in (7, 0, 1234567890123456):  # in the first round sessions begin
        capfd.readouterr()
        current = await pair.open(query(aggregators=2, mechanism="exact"))
        for sender in (*lone, host):
            values = np.full((len(sender.curators), 1), secret, np.int64)
            await current.contribute(sender, values)
        shapes.append(await _shape(database, current.id))
        accepted = await current.freeze()
        manifest, commitments = await current.commit(accepted)
        await current.reveal(manifest, commitments)
        lines = "".join(capfd.readouterr())
        assert str(secret) not in lines or secret < 10
        logs.append(re.sub(r"\d[\d:.\-]*", "#", lines))
    assert shapes[1] == shapes[2]
    assert logs[1] == logs[2]


async def _shape(database: Database, round_id: str) -> dict[str, Any]:
    """What a round's rows hold, with sealed content replaced by its length."""
    queries = {
        "piece": "SELECT numbers, length(tags), length(bodies) FROM piece",
        "batch": "SELECT segment, host, part, presence, length(body) FROM batch",
    }
    async with database.reading() as transaction:
        found = await transaction.execute(text(f"SELECT key FROM round WHERE id = '{round_id}'"))
        key = found.scalar_one()
        return {
            name: [
                tuple(row)
                for row in await transaction.execute(
                    text(f"{statement} WHERE round = {key} ORDER BY id")
                )
            ]
            for name, statement in queries.items()
        }


async def test_metrics_are_coarse(pair: Federation) -> None:
    lone = await pair.lone(2)
    current = await pair.open(query(aggregators=2, mechanism="exact"))
    piece = current.piece(lone[0], 0, np.array([1], np.uint64))
    for _ in range(2):
        await current.send(lone[0], 0, piece)
    await current.send(lone[1], 0, piece)
    shown = (await pair.peers[0].client.get("/metrics")).text
    assert 'tacit_aggregator_rounds{state="open"} 1.0' in shown
    assert 'tacit_aggregator_pieces_accepted_total{form="lone",status="201"} 1.0' in shown
    assert 'tacit_aggregator_pieces_accepted_total{form="lone",status="200"} 1.0' in shown
    assert 'refused_total{form="lone",reason="not_your_piece"} 1.0' in shown
    assert lone[0].id not in shown
    assert current.id not in shown
