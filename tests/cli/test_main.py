"""The list of commands: each loaded when it is called, and the list is true."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
import typer
from typer.testing import CliRunner

from cli.main import COMMANDS, Commands, app
from tacit.version import VERSION


def test_the_list_says_what_each_command_says() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, Commands)
    for name, command in COMMANDS.items():
        listed = group.commands[name].help
        assert listed is not None
        loaded = command.load(name)
        assert loaded.name == name
        assert " ".join(loaded.help.split()).startswith(listed.rstrip("."))


HEAVY = {
    "aiohttp", "alembic", "algorithms", "asyncpg", "dask", "distributed", "fastapi", "matplotlib",
    "numba", "numpy", "prometheus_client", "pyarrow", "pydantic_settings", "scipy", "sklearn",
    "sqlalchemy", "starlette", "structlog", "uvicorn",
}  # fmt: skip
SERVICES = {"aggregator", "coordinator", "curator"}


def loaded_by(*arguments: str) -> tuple[set[str], str]:
    """The packages that a command imported, and the end of what it printed."""
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('\\nloaded', *sys.modules))\n"
        "from cli.main import main\n"
        f"sys.argv = {['tacit', *arguments]!r}\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    printed, _, loaded = done.stdout.rpartition("\nloaded ")
    return {name.partition(".")[0] for name in loaded.split()}, printed


def test_the_list_imports_no_client_and_no_numbers() -> None:
    """So it is there at once; what is called imports what it needs."""
    loaded, printed = loaded_by("--help")
    assert "whatif" in printed and "typer" in loaded
    assert not loaded & (HEAVY | SERVICES | {"httpx", "pydantic"})


ROUND = {
    "id": "r1", "query_id": "q1", "query": "load", "state": "released", "reason": None,
    "opened": "2026-11-28T00:00:00Z", "deadline": "2026-11-28T00:10:00Z",
    "window": {"start": "2026-11-27T00:00:00Z", "end": "2026-11-28T00:00:00Z"},
    "descriptor_hash": "x", "participants": 200, "minimum": 100, "refused": 0,
    "aggregators": ["a"], "unit": "kWh", "figures": None, "steps": [],
    "finished": "2026-11-28T00:09:00Z", "aborts": [],
}  # fmt: skip
ANSWERS = {
    "/v1/rounds": {"rounds": [ROUND], "newest": None},
    "/v1/jobs": {"jobs": []},
    "/v1/queries": {"queries": []},
    "/v1/datasets": {"datasets": []},
    "/v1/curators": {"curators": []},
    "/v1/budget/limits": {"limits": []},
    "/v1/tokens": {"tokens": []},
}


class Fixed(BaseHTTPRequestHandler):
    """A service that has one answer for each path."""

    def do_GET(self) -> None:
        body = json.dumps(ANSWERS[self.path.partition("?")[0]]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Fixed) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("round list", "200"),
        ("job list", ""),
        ("query list", ""),
        ("dataset list", ""),
        ("readings curators", ""),
        ("budget limits", ""),
        ("token list", ""),
    ],
)
def test_a_command_that_asks_one_thing_imports_no_service_and_no_numbers(
    address: str, command: str, shown: str
) -> None:
    loaded, printed = loaded_by(*command.split(), "--url", address, "--token", "t")
    assert shown in printed
    assert {"httpx", "tacit"} <= loaded
    assert not loaded & (HEAVY | SERVICES)


def test_the_version_is_that_of_the_library() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.output) == (0, f"tacit {VERSION}\n")


def test_a_misspelt_command_is_told_the_nearest() -> None:
    done = CliRunner().invoke(app, ["roumd", "list"])
    assert done.exit_code == 2
    assert "'round'" in done.output
