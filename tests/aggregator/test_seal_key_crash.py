"""kill -9 between any two steps of a seal key's life, and then on.

Whoever takes the files after the end finds no key; until then a start goes on where the last one
ended. Spec: keys, section 9, checks 4 and 5.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import numpy as np
import pytest

from aggregator.seal_keys import Wrapping
from tacit.crypto.sealing import SealKey
from tacit.protocol.round.agreement import manifest_hash
from tacit.protocol.round.messages import Reveal, RevealRequest
from tacit.protocol.round.opening import open_sum
from tests.aggregator.double import Federation, Round, query
from tests.aggregator.process import Process

ASKED = query()


def data_of(folder: Path) -> Path:
    return folder / "aggregator"


def search(folder: Path, secrets: list[bytes]) -> set[str]:
    """The files that hold any of these bytes."""
    return {
        path.name
        for path in data_of(folder).rglob("*")
        if path.is_file() and any(secret in path.read_bytes() for secret in secrets)
    }


def row(folder: Path) -> tuple[str, bytes | None, bytes]:
    """State, wrapped seed and hash of the newest key."""
    with closing(sqlite3.connect(data_of(folder) / "aggregator.db")) as database:
        found: tuple[str, bytes | None, bytes] = database.execute(
            "SELECT state, seed, key_hash FROM seal_key ORDER BY number DESC"
        ).fetchone()
    return found


async def opened(federation: Federation) -> Round:
    current = await federation.open(ASKED)
    for sender in federation.senders.values():
        await current.contribute(sender, np.array([[3]]))
    return current


@pytest.mark.slow
@pytest.mark.parametrize(
    "step", ["overwriting", "removing", "removed", "sessions-deleted", "row-emptied"]
)
async def test_a_destruction_that_is_killed_is_finished(tmp_path: Path, step: str) -> None:
    process = Process(tmp_path, variant=f"dies-{step}", sweep_s=0.2)
    try:
        federation = await Federation(await process.start()).pair()
        federation.round_keys = True
        lone = await federation.lone(2)
        current = await opened(federation)
        entry = current.descriptor.aggregators[0]
        (file,) = (data_of(tmp_path) / "keys").glob("*.kek")
        wrapping_key = file.read_bytes()
        _, wrapped, key_hash = row(tmp_path)
        assert wrapped is not None
        seed = Wrapping(wrapping_key, entry.id, entry.seal.number, key_hash).unwrap("seed", wrapped)
        assert SealKey(seed).public.hash == key_hash  # the search is for the right bytes
        secrets = [seed, wrapping_key, wrapped]
        secrets += [federation.session(sender, 0, entry).key for sender in lone]
        assert search(tmp_path, secrets)
        accepted = await current.freeze()
        manifest, commitments = await current.commit(accepted)
        with contextlib.suppress(httpx.TransportError):
            await current.reveal(manifest, commitments)
        await process.died()
        gone = step not in ("overwriting",)
        assert (wrapping_key in b"".join(_contents(tmp_path))) is not gone
        assert row(tmp_path)[0] == ("destroyed" if step == "row-emptied" else "published")
        process.variant = "sound"
        federation.peers[0].client = await process.start()
        request = RevealRequest(commitments=tuple(commitments))
        answer = await federation.peers[0].coordinate("POST", current.path("reveal"), request)
        assert answer.status_code == 200, answer.text
        reveals = [Reveal.model_validate_json(answer.content)]
        total = open_sum(
            current.descriptor, manifest_hash(manifest), manifest.quorum, commitments, reveals
        )
        assert total.tolist() == [6]
        async with asyncio.timeout(120):
            while search(tmp_path, secrets):
                await asyncio.sleep(0.1)
        assert row(tmp_path)[:2] == ("destroyed", None)
        assert (await (await opened(federation)).release())[0].tolist() == [6]
    finally:
        process.stop()


def _contents(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in data_of(folder).rglob("*") if path.is_file()]


@pytest.mark.slow
@pytest.mark.parametrize("step", ["file-made", "row-made"])
async def test_a_key_whose_making_was_killed_does_not_stand_in_the_way(
    tmp_path: Path, step: str
) -> None:
    process = Process(tmp_path, variant=f"dies-{step}", sweep_s=0.2)
    try:
        federation = await Federation(await process.start()).pair()
        with contextlib.suppress(httpx.TransportError):
            await federation.peers[0].client.get("/v1/seal-keys/current")
        await process.died()
        process.variant = "sound"
        federation.peers[0].client = await process.start()
        await federation.lone(2)
        current = await opened(federation)
        assert current.descriptor.aggregators[0].seal.number == 1
        assert (await current.release())[0].tolist() == [6]
        assert [path.name for path in (data_of(tmp_path) / "keys").glob("*.kek")] == ["1.kek"]
    finally:
        process.stop()
