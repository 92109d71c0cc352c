"""kill -9 in mid-upload: nothing acknowledged is lost, nothing is counted twice.

The same test must catch a double that acknowledges before its commit, or it proves nothing
(spec: hot-path, section 5).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np
import pytest

from tacit.protocol.round.pieces import Piece
from tests.aggregator.double import Federation, Round, Sender, query
from tests.aggregator.process import Process

HOLD_MS = 20
KILLS = 3


@dataclass
class Upload:
    """What was sent, what was acknowledged, and with which status."""

    statuses: dict[str, list[int]] = field(default_factory=dict)

    def saw(self, name: str, status: int) -> None:
        self.statuses.setdefault(name, []).append(status)

    @property
    def acknowledged(self) -> set[str]:
        return {name for name, seen in self.statuses.items() if set(seen) & {200, 201}}


async def _send_all(
    current: Round, jobs: list[tuple[str, Sender, Piece | bytes]], upload: Upload, clients: int
) -> None:
    """Send what is not acknowledged yet, until the connection breaks."""
    waiting = [job for job in jobs if job[0] not in upload.acknowledged]

    async def client() -> None:
        while waiting:
            name, sender, body = waiting.pop()
            send = current.send_batch if isinstance(body, bytes) else current.send
            try:
                answer = await send(sender, 0, body)  # type: ignore[arg-type]
            except httpx.TransportError:
                return
            upload.saw(name, answer.status_code)

    await asyncio.gather(*(client() for _ in range(clients)))


async def _killed_upload(
    process: Process,
    federation: Federation,
    current: Round,
    jobs: list[tuple[str, Sender, Piece | bytes]],
    clients: int,
) -> tuple[Upload, int]:
    """Upload with kills; (what was acknowledged, how many acknowledged items were lost)."""
    upload, lost = Upload(), 0
    for kill in range(KILLS):
        sending = asyncio.create_task(_send_all(current, jobs, upload, clients))
        target = len(jobs) * (kill + 1) // (KILLS + 2)
        while len(upload.acknowledged) < target and not sending.done():
            await asyncio.sleep(0.001)
        process.kill()
        await sending
        await federation.peers[0].client.aclose()
        federation.peers[0].client = await process.start()
        # what was acknowledged must be known: sending it again answers 200, not 201
        probe = Upload()
        known = [job for job in jobs if job[0] in upload.acknowledged]
        await _send_all(current, known, probe, clients)
        lost += sum(seen[0] != 200 for seen in probe.statuses.values())
        assert len(probe.statuses) == len(known)
        if lost:  # the verdict; nothing after it can be right
            return upload, lost
    await _send_all(current, jobs, upload, clients)
    assert upload.acknowledged == {name for name, _, _ in jobs}
    return upload, lost


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["sound", "broken"])
async def test_lone_pieces_survive_kills(tmp_path: Path, database_url: str, variant: str) -> None:
    process = Process(tmp_path, database_url, variant, HOLD_MS)
    try:
        federation = await Federation(await process.start()).pair()
        lone = await federation.lone(300)
        current = await federation.open(query())
        values = np.arange(300, dtype=np.int64)[:, None]
        words = current.split(values)[0]
        jobs: list[tuple[str, Sender, Piece | bytes]] = [
            (sender.id, sender, current.piece(sender, 0, words[i])) for i, sender in enumerate(lone)
        ]
        _, lost = await _killed_upload(process, federation, current, jobs, clients=24)
        if variant == "broken":
            assert lost > 0
            return
        assert lost == 0
        total, manifest = await current.release()
        assert manifest.count == 300
        assert total.tolist() == [values.sum()]
        await federation.peers[0].client.aclose()
    finally:
        process.stop()
