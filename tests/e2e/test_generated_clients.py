"""Generators make clients of all three API documents without a warning, and the client in Python
makes a real call.

openapi-python-client is in an environment of its own (`make test-generators`), openapi-typescript
runs where node is; without them these tests are skipped and say so.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.services.deployment import Deployment, Running, ServiceAddress, pair
from docs.generate import SERVICES, api_document

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
CONFIGURATION = ROOT / "integrations/generators/openapi-python-client.yml"
ENVIRONMENT = ROOT / ".venv-generators/bin"
TYPESCRIPT = "openapi-typescript@7.13.0"
CALL = """
import asyncio, sys
from coordinator_client import AuthenticatedClient
from coordinator_client.api.budget import get_budget
from coordinator_client.api.tokens import create_token, list_tokens
from coordinator_client.models import ListOfTokens, NewToken, Scope

client = AuthenticatedClient(base_url=sys.argv[1], token=sys.stdin.readline().strip())
made = create_token.sync(client=client, body=NewToken(scope=Scope.ANALYST, label="generated"))
found = list_tokens.sync(client=client)
assert isinstance(found, ListOfTokens), found
assert made.id in {each.id for each in found.tokens if each.label == "generated"}
budget = asyncio.run(get_budget.asyncio(client=client))
print(budget.released.rounds, budget.ledger.seq)
"""


@pytest.fixture(scope="module")
def coordinator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceAddress]:
    plan = Deployment.plan(tmp_path_factory.mktemp("generated"), 1)
    running = Running(plan, {})
    try:
        running.start()
        pair(plan)
        yield plan.coordinator
    finally:
        running.stop()


def python_client(service: str, folder: Path) -> Path:
    """The folder of a generated client. A warning fails the test."""
    generator = ENVIRONMENT / "openapi-python-client"
    if not generator.exists():
        pytest.skip("openapi-python-client is not installed: make test-generators")
    document = folder / f"{service}.json"
    document.write_text(json.dumps(api_document(service)))
    made = folder / f"{service}_client"
    line = [str(generator), "generate", "--path", str(document), "--meta", "none"]
    line += ["--config", str(CONFIGURATION), "--output-path", str(made), "--fail-on-warning"]
    path = f"{ENVIRONMENT}:{os.environ['PATH']}"
    done = subprocess.run(line, capture_output=True, text=True, env={**os.environ, "PATH": path})
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "warning" not in said.lower(), said
    return made


@pytest.mark.parametrize("service", SERVICES)
def test_a_client_in_python_is_made_without_a_warning(service: str, tmp_path: Path) -> None:
    made = python_client(service, tmp_path)
    operations = sum(len(item) for item in api_document(service)["paths"].values())
    assert len([*made.glob("api/*/[a-z]*.py")]) == operations


def test_the_client_in_python_makes_a_real_call(
    coordinator: ServiceAddress, tmp_path: Path
) -> None:
    python_client("coordinator", tmp_path)
    token = (Path(coordinator.directory) / "operator.token").read_text()
    line = [str(ENVIRONMENT / "python"), "-c", CALL, coordinator.url]
    done = subprocess.run(line, input=token, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == "0"


@pytest.mark.parametrize("service", SERVICES)
def test_types_of_typescript_are_made_without_a_warning(service: str, tmp_path: Path) -> None:
    if shutil.which("npx") is None:
        pytest.skip("there is no node on this machine")
    document, types = tmp_path / "document.json", tmp_path / "types.ts"
    document.write_text(json.dumps(api_document(service)))
    line = ["npx", "--yes", TYPESCRIPT, str(document), "--output", str(types)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300)
    said = done.stdout + done.stderr
    if "npm error" in said and not types.exists():
        pytest.skip("npm does not get openapi-typescript here")
    assert done.returncode == 0, said
    assert "warn" not in said.lower(), said
    for item in api_document(service)["paths"].values():
        for operation in item.values():
            assert f'operations["{operation["operationId"]}"]' in types.read_text()
