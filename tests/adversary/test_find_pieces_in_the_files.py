"""The attacker takes an aggregator's files after a round, while the seal key still lives.

What was destroyed must be in no page of the database and nowhere in its write-ahead log, even where
a reader held the log back while it was destroyed.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import text

from aggregator.context import Aggregator
from aggregator.pieces.intake import Intake
from aggregator.rounds import state_machine
from common.store.erasure import Erasure
from common.web.dependencies import part_of
from curator.participation.loop import Participation
from tests.aggregator.conftest import settings
from tests.aggregator.double import Federation, Round, query
from tests.e2e.hostile import PLAIN, Deviating

ASKED = query(aggregators=2, mechanism="exact")


def holding(data: Path, secrets: list[bytes]) -> set[str]:
    """The files of a directory in which any of these bytes are."""
    return {
        path.name
        for path in data.iterdir()
        if path.is_file() and any(secret in path.read_bytes() for secret in secrets)
    }


def found(folder: Path, secrets: list[bytes]) -> set[str]:
    """The files of the first aggregator that hold any of these bytes."""
    return holding(settings(0, folder).data_dir, secrets)


async def delivered(federation: Federation) -> tuple[Round, list[bytes]]:
    """An open round, and the very bytes that the first aggregator holds."""
    lone = await federation.lone(8)
    opened = await federation.open(ASKED)
    for sender in lone:
        await opened.contribute(sender, np.array([[3]]))
    async with federation.peers[0].part(Aggregator).database.reading() as transaction:
        bodies = (await transaction.execute(text("SELECT bodies FROM piece"))).scalars().all()
    return opened, [bytes(body)[-24:] for body in bodies if body]


async def sweep(federation: Federation) -> None:
    peer = federation.peers[0]
    await state_machine.sweep(peer.part(Aggregator), peer.part(Intake))


async def test_pieces_of_a_released_round_are_in_no_file(pair: Federation, tmp_path: Path) -> None:
    opened, pieces = await delivered(pair)
    assert pieces
    assert found(tmp_path, pieces)  # while the round is open they are there
    await opened.release()
    assert found(tmp_path, pieces)  # the control: destroyed in the table, not in the log
    await sweep(pair)
    assert found(tmp_path, pieces) == set()


async def test_a_reader_only_delays_it(pair: Federation, tmp_path: Path) -> None:
    opened, pieces = await delivered(pair)
    (file,) = settings(0, tmp_path).data_dir.glob("*.db")
    reader = sqlite3.connect(file)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM piece").fetchone()
    await opened.release()
    erasure: Erasure = pair.peers[0].part(Aggregator).erasure
    assert not await erasure.erase()
    assert found(tmp_path, pieces)
    assert erasure.since is not None
    assert not erasure.overdue
    assert await erasure.readiness() is None
    reader.close()
    await sweep(pair)
    assert found(tmp_path, pieces) == set()
    assert erasure.since is None


async def test_a_crash_before_the_erasure_is_made_up_for(pair: Federation, tmp_path: Path) -> None:
    """What has to be erased is in the database, not in the process."""
    opened, pieces = await delivered(pair)
    await opened.release()
    assert found(tmp_path, pieces)
    other = Erasure(pair.peers[0].part(Aggregator).database)
    assert await other.erase()
    assert found(tmp_path, pieces) == set()


async def test_what_a_curator_sent_is_in_none_of_its_files(
    deviating: Deviating, homes: Any, tmp_path: Path
) -> None:
    async with deviating(3) as it, homes(it, "meter", "other") as (meter, _):
        await meter.read("3", "2025-12-31T23:30:00Z")
        signed = await it.descriptor(PLAIN)
        await it.announce(signed)
        it.show("meter", signed)
        await meter.take_part()
        (item,) = await meter.history()
        assert item["state"] == "delivered"
        (file,) = settings(0, tmp_path).data_dir.glob("*.db")
        with closing(sqlite3.connect(file)) as store:  # the aggregator has the same bytes
            (body,) = store.execute("SELECT bodies FROM piece").fetchone()
        sealed = [body[60:72]]  # the session's key, wrapped (60 bytes), nonce (12), ciphertext
        assert holding(tmp_path / "meter", sealed)  # the control
        assert await part_of(meter.app, Participation).erasure.erase()
        assert not holding(tmp_path / "meter", sealed)
