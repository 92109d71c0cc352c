"""A coordinator in a process of its own, and a whole deployment, for commands to speak to."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.services.deployment import Deployment, Running, free_ports, join_token, pair
from cli.services.up import service_settings
from tacit import Client
from tacit.protocol.enrolment import PartyKind

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
                client.wait_until_ready(120)
            yield url
        finally:
            process.terminate()


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Services with one aggregator, in processes of their own; house-1 and house-2 are enrolled."""
    plan = Deployment.plan(tmp_path_factory.mktemp("deployment"), 1)
    plan.save()
    running = Running(plan, service_settings())
    try:
        running.start()
        pair(plan)
        token = join_token(plan, "gateway", PartyKind.HOST, 2, 3600).to_text()
        with plan.curator.client() as client:
            client.parties.enrol(token, ["house-1", "house-2"])
        yield plan
    finally:
        running.stop()


@pytest.fixture
def two_aggregators(tmp_path: Path) -> Iterator[Running]:
    """Paired services with two aggregators, for tests that end one of them."""
    plan = Deployment.plan(tmp_path, 2)
    plan.save()
    running = Running(plan, service_settings())
    try:
        running.start()
        pair(plan)
        yield running
    finally:
        running.stop()
