"""Seal keys die by the aggregator's own clock, and with what they open."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from aggregator.context import Aggregator
from aggregator.errors import SealKeyGone
from aggregator.pieces.intake import Intake
from aggregator.rounds import key_rotation
from aggregator.store import seal_keys as store
from aggregator.store.seal_keys import KeyState
from common.runtime.clock import ManualClock
from tacit.crypto.signing import Signed
from tacit.protocol.round.descriptor import AbortStatement, Frozen
from tests.aggregator.conftest import settings
from tests.aggregator.double import Federation, Round, query
from tests.aggregator.rounds.test_state_machine import refused

ASKED = query(aggregators=2, mechanism="exact")
HOUR = 3600


async def sweep(federation: Federation, index: int = 0) -> int:
    peer = federation.peers[index]
    return await key_rotation.sweep_keys(peer.part(Aggregator), peer.part(Intake))


async def states(federation: Federation) -> dict[int, KeyState]:
    """Of the first aggregator's keys, by number."""
    found = {}
    async with federation.peers[0].part(Aggregator).database.reading() as transaction:
        for number in range(1, await store.highest(transaction) + 1):
            row = await store.by_number(transaction, number)
            assert row is not None
            found[number] = row.state
            gone = row.state is KeyState.DESTROYED
            assert (row.seed is None) == (row.verification_secret is None) == gone
    return found


def files(folder: Path) -> list[str]:
    keys = settings(0, folder).data_dir / "keys"
    return sorted(path.name for path in keys.glob("*.kek"))


async def contributed(federation: Federation, **changes: Any) -> Round:
    current = await federation.open(ASKED, **changes)
    for sender in federation.senders.values():
        await current.contribute(sender, np.ones((len(sender.curators), 1), np.int64))
    return current


async def state(current: Round) -> tuple[str, str | None]:
    shown = (await current.federation.peers[0].coordinate("GET", current.path())).json()
    return shown["state"], shown["reason"]


@pytest.mark.usefixtures("database_url")
async def test_a_round_of_lone_curators_and_hosts_is_summed(pair: Federation) -> None:
    await pair.lone(3)
    await pair.host("gateway", 70)
    pair.round_keys = True
    current = await contributed(pair)
    assert (await current.release())[0].tolist() == [73]


@pytest.mark.parametrize("end", ["release", "abort"])
async def test_a_rounds_key_dies_with_the_round(pair: Federation, tmp_path: Path, end: str) -> None:
    pair.round_keys = True
    (sender, _) = await pair.lone(2)
    current = await pair.open(ASKED)
    piece = current.piece(sender, 0, np.array([5], np.uint64))
    assert (await current.send(sender, 0, piece)).status_code == 201
    assert files(tmp_path) == ["1.kek"]
    peer = pair.peers[0]
    if end == "release":
        for own in pair.senders.values():
            await current.send(own, 0, current.piece(own, 0, np.array([5], np.uint64)))
            await current.send(own, 1, current.piece(own, 1, np.array([5], np.uint64)))
        await current.release()
    else:
        await peer.coordinate("POST", current.path("abort"), {"reason": "enough"})
    assert await states(pair) == {1: KeyState.DESTROYED}
    assert files(tmp_path) == []
    answer = await current.send(sender, 0, piece)
    assert (answer.status_code, answer.json()["included"]) == (410, True)
    with pytest.raises(SealKeyGone):
        await peer.part(Aggregator).seal_keyring.of(1)
    own = pair.session(sender, 0, current.descriptor.aggregators[0])
    refused(await pair.announce(sender, 0, own), 410, "seal_key_gone")


async def test_an_unused_key_of_a_round_dies_after_a_quarter_of_an_hour(
    single: Federation, clock: ManualClock, tmp_path: Path
) -> None:
    peer = single.peers[0]
    await peer.coordinate("POST", "/v1/seal-keys", {"round": str(uuid4())})
    clock.advance(timedelta(seconds=899))
    assert await sweep(single) == 0
    clock.advance(timedelta(seconds=1))
    assert await sweep(single) == 1
    assert await states(single) == {1: KeyState.DESTROYED}
    assert files(tmp_path) == []


async def test_a_periods_key_dies_after_its_grace_when_no_live_round_names_it(
    pair: Federation, clock: ManualClock, tmp_path: Path
) -> None:
    await pair.lone(2)
    current = await contributed(pair)
    clock.advance(timedelta(seconds=HOUR + 600))
    assert await sweep(pair) == 0
    assert await states(pair) == {1: KeyState.RETIRED}
    with_old = await pair.descriptor(ASKED, opened=clock.now(), deadline=_later(clock))
    assert with_old.statement.aggregators[0].seal.number == 2
    assert (await current.release())[0].tolist() == [2]
    assert await sweep(pair) == 1
    assert await states(pair) == {1: KeyState.DESTROYED, 2: KeyState.PUBLISHED}
    assert files(tmp_path) == ["2.kek"]


def _later(clock: ManualClock) -> Any:
    return clock.now() + timedelta(seconds=300)


async def test_no_deadline_keeps_a_periods_key(
    pair: Federation, clock: ManualClock, tmp_path: Path
) -> None:
    """A hostile coordinator opens a round with the furthest deadline under every key."""
    await pair.lone(2)
    furthest = clock.now() + timedelta(hours=1 + 3) - timedelta(seconds=1)
    refusal = await pair.descriptor(ASKED, deadline=furthest + timedelta(seconds=1))
    answer = await pair.peers[0].coordinate("POST", "/v1/rounds", refusal)
    refused(answer, 422, "descriptor_refused")
    assert "a key of its own" in answer.json()["detail"]
    current = await contributed(pair, deadline=furthest)
    peer = pair.peers[0]
    clock.advance(timedelta(seconds=7 * HOUR - 1))
    assert await sweep(pair) == 0
    assert (await state(current))[0] == "open"
    clock.advance(timedelta(seconds=1))
    assert await sweep(pair) == 1
    assert await state(current) == ("aborted", "seal_key_gone")
    assert await states(pair) == {1: KeyState.DESTROYED}
    assert files(tmp_path) == []
    answer = await peer.coordinate("POST", current.path("abort"), {"reason": "again"})
    statement = Signed[AbortStatement].model_validate_json(answer.content).statement
    assert statement.frozen is Frozen.NEVER


async def test_rounds_whose_wrapping_file_is_lost_end(pair: Federation, tmp_path: Path) -> None:
    """As after the end of a machine that had the directory in memory."""
    (sender, _) = await pair.lone(2)
    current = await contributed(pair)
    keys = settings(0, tmp_path).data_dir / "keys"
    for path in keys.iterdir():
        path.unlink()
    aggregator = pair.peers[0].part(Aggregator)
    aggregator.seal_keyring.forget_all_but([])
    aggregator.forget_rounds()
    piece = current.piece(sender, 0, np.array([5], np.uint64))
    refused(await current.send(sender, 0, piece), 410, "seal_key_gone")
    assert await sweep(pair) == 1
    assert await state(current) == ("aborted", "seal_key_gone")
    again = await contributed(pair)
    assert again.descriptor.aggregators[0].seal.number == 2
    assert (await again.release())[0].tolist() == [2]


async def test_a_key_that_cannot_be_destroyed_is_reported(
    single: Federation, clock: ManualClock, tmp_path: Path
) -> None:
    peer = single.peers[0]
    await peer.client.get("/v1/seal-keys/current")
    path = settings(0, tmp_path).data_dir / "keys" / "1.kek"
    path.unlink()
    path.mkdir()  # nothing that a file system would let us overwrite
    clock.advance(timedelta(seconds=HOUR + 600))
    assert await sweep(single) == 1
    assert await states(single) == {1: KeyState.RETIRED}
    assert (await peer.client.get("/readyz")).status_code == 200
    clock.advance(timedelta(seconds=HOUR))
    answer = await peer.client.get("/readyz")
    assert answer.status_code == 503
    assert "keys_overdue" in answer.text
    path.rmdir()
    assert await sweep(single) == 1
    assert (await peer.client.get("/readyz")).status_code == 200


async def test_a_file_without_a_row_is_removed(single: Federation, tmp_path: Path) -> None:
    keys = settings(0, tmp_path).data_dir / "keys"
    (keys / "7.kek").write_bytes(bytes(32))
    await single.peers[0].client.get("/v1/seal-keys/current")
    await sweep(single)
    assert files(tmp_path) == ["1.kek"]
