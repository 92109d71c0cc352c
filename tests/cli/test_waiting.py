"""Commands that need several services say which one they wait for, and what is missing."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from cli.services.deployment import Deployment, wait_for_ready, why_not_ready


class Ready(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"status": "ready"}')

    def log_message(self, *_: object) -> None:
        pass


def test_a_service_that_comes_later_is_waited_for_by_name(tmp_path: Path) -> None:
    coordinator = Deployment.plan(tmp_path, 1).coordinator
    reasons: list[str] = []
    servers: list[HTTPServer] = []

    def start(reason: str) -> None:
        reasons.append(reason)
        server = HTTPServer(("127.0.0.1", int(coordinator.url.rpartition(":")[2])), Ready)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)

    try:
        wait_for_ready([coordinator], 60, start)
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
    (reason,) = reasons
    assert reason.startswith(f"waiting for coordinator: no answer from {coordinator.url}")
    assert "docker compose logs coordinator" in reason


def test_a_service_that_does_not_come_is_named(tmp_path: Path) -> None:
    aggregator = Deployment.plan(tmp_path, 1).aggregators[0]
    with pytest.raises(RuntimeError, match=r"gave up after 0 s\. aggregator-1: no answer from"):
        wait_for_ready([aggregator], 0, lambda reason: None)


def test_something_else_at_its_address_is_no_service(tmp_path: Path) -> None:
    class Page(Ready):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>")

    curator = Deployment.plan(tmp_path, 1).curator
    server = HTTPServer(("127.0.0.1", int(curator.url.rpartition(":")[2])), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        assert "gives no answer of this service" in (why_not_ready(curator) or "")
    finally:
        server.shutdown()
        server.server_close()


def test_a_demo_at_services_names_the_one_that_does_not_answer(tmp_path: Path) -> None:
    Deployment.plan(tmp_path, 1).save()
    found = CliRunner().invoke(app, ["demo", "--at", str(tmp_path)])
    assert found.exit_code == 2
    assert found.output.startswith("tacit: coordinator: no answer from")
    none = CliRunner().invoke(app, ["demo", "--at", str(tmp_path / "none")])
    assert (none.exit_code, "no deployment in" in none.output) == (3, True)
