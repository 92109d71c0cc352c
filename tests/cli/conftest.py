"""A coordinator in a process of its own, for commands that need no other service."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.deployment import free_ports
from tacit import Client

ROOT = Path(__file__).parents[2]
OPERATOR = "operator-token-of-a-lone-coordinator-0123456789"


@pytest.fixture(scope="session")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a coordinator in a process of its own."""
    (port,) = free_ports(1)
    settings = {
        "TACIT_DATA_DIR": str(tmp_path_factory.mktemp("coordinator")),
        "TACIT_OPERATOR_TOKEN": OPERATOR,
        "TACIT_PORT": str(port),
        "TACIT_LOG_LEVEL": "error",
        "TACIT_JOB_WORKERS": "1",
    }
    command = [sys.executable, "-m", "cli.main", "serve", "coordinator"]
    with subprocess.Popen(command, cwd=ROOT, env={**os.environ, **settings}) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            with Client(url, OPERATOR) as client:
                client.wait_until_ready(30)
            yield url
        finally:
            process.terminate()
