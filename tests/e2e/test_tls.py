"""Services over TLS with real certificates: whom they take, whom they refuse, and renewal."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from cli.services.config import Authority, prepare
from common.runtime.settings import ServiceSettings
from common.runtime.tls import expiry, renew, trust
from common.web.app import build_app
from common.web.client import NoAnswer, ServiceResponse, distrusted, service_client
from common.web.server import make_server
from coordinator.errors import AggregatorUnreachable
from coordinator.registry.peers import Peers


@asynccontextmanager
async def serving(directory: Path, name: str, **settings: Any) -> AsyncIterator[int]:
    """A service that shows `<name>.pem`; its port."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield

    told = ServiceSettings(
        data_dir=directory,
        port=0,
        tls_certificate=directory / f"{name}.pem",
        tls_key=directory / f"{name}.key",
        **settings,
    )
    server = make_server(build_app("probe", told, lifespan, version="1"), told)
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield server.address[1]
    finally:
        server.should_exit = True
        await running


async def ask(port: int, context: ssl.SSLContext, host: str = "127.0.0.1") -> ServiceResponse:
    async with service_client(f"https://{host}:{port}", verify=context) as client:
        return await client.call("GET", "/healthz")


async def refusal(port: int, context: ssl.SSLContext, host: str = "127.0.0.1") -> str:
    with pytest.raises(NoAnswer) as caught:
        await ask(port, context, host)
    return distrusted(caught.value) or "no TLS error"


@pytest.mark.slow
async def test_whom_a_client_takes(tmp_path: Path) -> None:
    prepare(tmp_path, [["right", "127.0.0.1"], ["elsewhere", "10.1.2.3"]], 30)
    authority = Authority.load(tmp_path)
    old, key = authority.issue(["127.0.0.1"], 2, datetime.now(UTC) - timedelta(days=3))
    (tmp_path / "old.pem").write_bytes(old)
    (tmp_path / "old.key").write_bytes(key)
    stranger = tmp_path / "stranger"
    prepare(stranger, [["right", "127.0.0.1"]], 30)
    known = trust(tmp_path / "authority.pem")

    async with serving(tmp_path, "right") as port:
        answer = await ask(port, known)
        assert answer.status == 200
        assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"
        for stranger_trust in (trust(stranger / "authority.pem"), trust()):
            assert "issuer certificate" in await refusal(port, stranger_trust)
        with pytest.raises(NoAnswer):  # no plain HTTP at this port
            async with service_client(f"http://127.0.0.1:{port}") as client:
                await client.call("GET", "/healthz")
    async with serving(tmp_path, "elsewhere") as port:
        assert "IP address mismatch" in await refusal(port, known)
        assert "Hostname mismatch" in await refusal(port, known, "localhost")
    async with serving(tmp_path, "old") as port:
        assert "expired" in await refusal(port, known)
        with pytest.raises(AggregatorUnreachable) as caught:
            await Peers(5, verify=known).identity(f"https://127.0.0.1:{port}")
        assert "certificate has expired" in str(caught.value)


async def test_callers_show_a_certificate_where_they_must(tmp_path: Path) -> None:
    prepare(tmp_path, [["service", "127.0.0.1"], ["caller"]], 30)
    prepare(tmp_path / "stranger", [["caller"]], 30)
    authority = tmp_path / "authority.pem"
    async with serving(tmp_path, "service", tls_client_authority=authority) as port:
        shown = trust(authority, tmp_path / "caller.pem", tmp_path / "caller.key")
        assert (await ask(port, shown)).status == 200
        with pytest.raises(NoAnswer):
            await ask(port, trust(authority))
        other = tmp_path / "stranger"
        with pytest.raises(NoAnswer):
            await ask(port, trust(authority, other / "caller.pem", other / "caller.key"))


async def test_a_renewed_certificate_is_shown_without_a_restart(tmp_path: Path) -> None:
    prepare(tmp_path, [["service", "127.0.0.1"]], 5)
    certificate, key = tmp_path / "service.pem", tmp_path / "service.key"
    first = expiry(certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    watching = asyncio.create_task(renew(context, certificate, key, every_s=0.02))

    async def shown() -> bytes:
        _, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=trust(tmp_path / "authority.pem")
        )
        found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return found

    try:
        before = await shown()
        certificate.write_text("half a file")  # a renewal that went wrong changes nothing
        await asyncio.sleep(0.1)
        assert await shown() == before
        prepare(tmp_path, [["service", "127.0.0.1"]], 9)
        assert expiry(certificate) > first
        async with asyncio.timeout(120):
            while await shown() == before:
                await asyncio.sleep(0.02)
    finally:
        watching.cancel()
        server.close()
