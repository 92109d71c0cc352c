"""No aggregator goes back: after a round of format 2 it signs no epoch key, and opens no format 1.

Spec: keys, section 3.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from aggregator.app import create_app
from tests.aggregator.conftest import Alliance, settings
from tests.aggregator.double import Federation, query

ASKED = query(aggregators=2, mechanism="exact")


async def refusal(federation: Federation, signed: Any) -> tuple[int, str]:
    """How the first aggregator answers a descriptor."""
    answer = await federation.peers[0].coordinate("POST", "/v1/rounds", signed)
    return answer.status_code, answer.json()["type"].removeprefix("urn:tacit:problem:")


async def test_an_aggregator_that_opened_format_2_is_past_format_1(
    alliance: Alliance, tmp_path: Path
) -> None:
    async with alliance(2) as federation:
        peer = federation.peers[0]
        replayed = await federation.descriptor(ASKED)  # with epoch keys that were genuine
        assert (await peer.client.get("/v1/keys/current")).status_code == 200
        federation.sessions = True
        # Keys alone turn nothing: a coordinator may ask for them and then open format 1.
        await federation.descriptor(ASKED)
        assert (await peer.client.get("/v1/keys/current")).status_code == 200
        await federation.open(ASKED)
        assert await refusal(federation, replayed) == (403, "suite_downgraded")
        answer = await peer.client.get("/v1/keys/current")
        assert answer.status_code == 410
        assert answer.json()["type"].endswith("epoch_keys_ended")
        shown = (await peer.client.get("/.well-known/tacit-aggregator")).json()
        assert shown["epoch_key"] is None
    # It is stored: another process on the same database knows it.
    app = create_app(settings(0, tmp_path))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://it") as client,
    ):
        assert (await client.get("/v1/keys/current")).status_code == 410


async def test_a_least_suite_by_settings(alliance: Alliance) -> None:
    async with alliance(2, minimum_suite=2) as federation:
        answer = await federation.peers[0].client.get("/v1/keys/current")
        assert answer.status_code == 410
        federation.sessions = True
        await federation.open(ASKED)
