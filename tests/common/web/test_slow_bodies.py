"""Bodies that trickle, over real sockets."""

import asyncio
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from common.web import limits
from common.web.problems import BodyTooSlow
from tests.common.web.serving import serving, upload

SLOW = {"transfer_grace_s": 0.5, "transfer_least_bytes_per_s": 20_000}


async def test_a_body_that_never_comes_is_answered_408(tmp_path: Path) -> None:
    async with serving(tmp_path, **SLOW) as it:
        assert (await it.ask(upload(10))).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(("size", "slow"), [(5000, False), (1000, True)])
async def test_each_piece_of_a_body_buys_time_and_the_services_own_counts_for_nothing(
    monkeypatch: pytest.MonkeyPatch, size: int, slow: bool
) -> None:
    """Thirty pieces, 4 s each, under a grace of 10 s and a least rate of 1000 bytes a second."""
    now = [0.0]
    monkeypatch.setattr(limits.time, "monotonic", lambda: now[0])

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0)
        now[0] += 4
        return {"type": "http.request", "body": bytes(size), "more_body": True}

    body = limits._Body(receive, 10**9, None, 10, 1000)
    with pytest.raises(BodyTooSlow) if slow else nullcontext():
        for _ in range(30):
            await body.receive()
            now[0] += 1000  # in which nobody reads
