"""`tacit notifications`, with a coordinator in a process of its own and a receiver on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from cli.services.deployment import free_ports
from tacit import Client
from tests.cli.conftest import OPERATOR, ROOT
from tests.cli.test_pairing import tacit

KEY = "webhook-key-0123456789-abcdefghij"


class Receiver(BaseHTTPRequestHandler):
    """Takes every POST."""

    bodies: list[bytes]

    def do_POST(self) -> None:
        self.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[HTTPServer]:
    Receiver.bodies = []
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_an_operator_tries_the_outlets(tmp_path: Path, receiver: HTTPServer) -> None:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    settings = {
        "TACIT_DATA_DIR": str(tmp_path),
        "TACIT_OPERATOR_TOKEN": OPERATOR,
        "TACIT_PORT": str(port),
        "TACIT_LOG_LEVEL": "error",
        "TACIT_NOTIFY_WEBHOOK_URL": f"http://127.0.0.1:{receiver.server_port}/",
        "TACIT_NOTIFY_WEBHOOK_KEY": KEY,
    }
    at = ("--url", url, "--token", OPERATOR)
    command = [sys.executable, "-m", "cli.main", "serve", "coordinator"]
    with subprocess.Popen(command, cwd=ROOT, env={**os.environ, **settings}) as process:
        try:
            with Client(url, OPERATOR) as client:
                client.wait_until_ready(120)
            done = tacit("notifications", "test", *at)
            assert (done.returncode, done.stdout) == (0, "webhook: delivered\n"), done.stderr
            [body] = Receiver.bodies
            assert json.loads(body)["event"] == "test"
            receiver.shutdown()
            receiver.server_close()
            failed = tacit("notifications", "test", *at)
            assert failed.returncode == 1
            assert failed.stdout == "webhook: no connection (given up)\n"
            listed = json.loads(tacit("notifications", "list", *at, "--json").stdout)
            assert [each["deliveries"][0]["problem"] for each in listed] == ["no connection", None]
        finally:
            process.terminate()


def test_without_outlets_the_command_says_which_settings_are_missing(coordinator: str) -> None:
    done = tacit("notifications", "test", "--url", coordinator, "--token", OPERATOR)
    assert done.returncode == 1
    assert "TACIT_NOTIFY_WEBHOOK_URL" in done.stderr
