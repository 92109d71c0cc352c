"""A few kilobytes that stand for gigabytes, as the body of a request, or as a file in one.

A body with a Content-Encoding is answered 415 before any of it is read, at every service. Files of
readings may be compressed as files; they are expanded piece by piece, within limits.
"""

from __future__ import annotations

import gzip

import httpx

from tests.coordinator import conftest as coordinator
from tests.coordinator.conftest import Houses
from tests.curator import conftest as curator
from tests.curator.conftest import OpenSite

house = coordinator.house
site, world = curator.site, curator.world
BOMB = gzip.compress(b" " * 20_000_000 + b"{}", mtime=0)


async def refuses(client: httpx.AsyncClient, path: str, encoding: str) -> None:
    """Says that it does not read such a body, and what it reads; with no token too."""
    headers = {"Content-Type": "application/json", "Content-Encoding": encoding}
    answer = await client.post(path, content=BOMB, headers=headers)
    assert answer.status_code == 415, answer.text
    assert answer.json()["type"] == "urn:tacit:problem:unsupported_encoding"
    assert answer.headers["accept-encoding"] == "identity"


async def test_no_service_expands_a_body(site: OpenSite, house: Houses) -> None:
    assert len(BOMB) * 900 < len(gzip.decompress(BOMB))  # control: what it stands for
    async with site() as s, house(1) as it:
        aggregator = it.federation.peers[0].client
        for encoding in ("gzip", "GZIP", "deflate", "br", "gzip, gzip"):
            await refuses(s.client, "/v1/readings", encoding)
            await refuses(s.client, "/v1/readings/import?unit=kWh", encoding)
            await refuses(it.client, "/v1/queries", encoding)
            await refuses(aggregator, "/v1/rounds", encoding)
        plain = {"Content-Type": "application/json", "Content-Encoding": "identity"}
        answer = await s.client.post("/v1/readings", content=b"[{}]", headers=plain)
        assert answer.status_code == 200


async def test_a_compressed_file_is_expanded_within_limits(site: OpenSite) -> None:
    path = "/v1/readings/import?unit=kWh&layout=wide&start=2025-12-31T12:00:00Z&step_s=900"
    rows = b"meter,a\n" + b"\n" * 1_500_000 + b"house,1\n"
    async with site() as s:
        await s.enrol("house")
        answer = await s.client.post(
            path, content=gzip.compress(rows), headers={"Content-Type": "text/csv"}
        )
        assert answer.status_code == 422
        assert "grows too much" in answer.json()["detail"]
    async with site(import_max_ratio=1000) as s:
        # Control: without the limit on the ratio it is read to its end.
        answer = await s.client.post(
            path, content=gzip.compress(rows), headers={"Content-Type": "text/csv"}
        )
        assert (answer.status_code, answer.json()["accepted"]) == (200, 1)
