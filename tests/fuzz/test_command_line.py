"""Every file that a command reads, as something else: one line that says so, and exit code 2."""

from __future__ import annotations

import gzip
import json
import lzma
import random
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from typer.testing import CliRunner

from cli.main import app
from tests.fuzz.mutations import mutated
from tests.fuzz.targets import valid_query

NOWHERE = ["--url", "URL", "--token", "t"]
"""What answers there knows no token: a file that can be read ends there, with exit code 2 too."""
COMMANDS: dict[str, list[str]] = {
    "readings import": ["FILE.csv", *NOWHERE],
    "readings import gz": ["FILE.csv.gz", *NOWHERE],
    "readings import xz": ["FILE.csv.xz", *NOWHERE],
    "readings import days": [
        "FILE.csv",
        "--days",
        "1",
        "--start",
        "2026-01-01",
        *NOWHERE,
    ],
    "readings import map": ["valid.csv", "--map", "FILE.toml", *NOWHERE],
    "readings import json": ["valid.csv", "--map", "FILE.json", *NOWHERE],
    "query create": ["FILE.json", *NOWHERE],
    "query preview": ["FILE.json", *NOWHERE],
    "whatif": ["FILE.json"],
    "group create": ["g", "FILE.txt", *NOWHERE],
    "policy set": ["FILE.json", *NOWHERE],
    "budget limits": ["FILE.json", *NOWHERE],
    "enroll join": ["house", "FILE.json"],
    "recover": ["FILE.json", "FILE.json"],
    "dataset add": ["FILE.csv", "--kind", "transactions", "--universe", "FILE.json", *NOWHERE],
    "job preview": ["kmeans", "--params", "FILE.json", "--dataset", "d", *NOWHERE],
    "restore": ["curator", "FILE.json", "--key", "FILE.json"],
}
VALID = valid_query()
BAD = {
    "empty": b"",
    "one column": b"7\n8\n9\n",
    "binary": random.Random(1).randbytes(500),
    "zeros": b"\0" * 50,
    "latin": "z\xe4hler,zeit\n".encode("latin-1"),
    "list": b"[1, 2]",
    "number": b"7",
    "text": b'"x"',
    "deep": b"[" * 5000,
    "open quote": b'a,"b\n1,2',
    "cut gzip": gzip.compress(b"time,value\n" * 50, mtime=0)[:-9],
    "cut xz": lzma.compress(b"time,value\n" * 50)[:-9],
}


class Closed(BaseHTTPRequestHandler):
    """Lets nobody in."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", "0")))
        document = {"type": "urn:tacit:problem:token_unknown", "title": "no", "status": 401}
        body = json.dumps(document).encode()
        self.send_response(401)
        self.send_header("Content-Type", "application/problem+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_PUT = do_PATCH = do_GET = do_POST  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module", autouse=True)
def _closed() -> Iterator[None]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Closed) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        NOWHERE[1] = f"http://127.0.0.1:{server.server_port}"
        yield
        server.shutdown()


def refused(command: str, arguments: list[str], folder: Path, content: bytes) -> str:
    """What a command says of a file, after a look at how."""
    (folder / "valid.csv").write_text("time,value\n")
    given = []
    for argument in arguments:
        if argument.startswith("FILE"):
            (folder / argument).write_bytes(content)
        local = argument.startswith(("FILE", "valid"))
        given.append(str(folder / argument) if local else argument.replace("URL", NOWHERE[1]))
    words = [word for word in command.split() if word not in ("gz", "xz", "days", "map", "json")]
    found = CliRunner().invoke(app, [*words, *given])
    assert found.exception is None or isinstance(found.exception, SystemExit), (
        command,
        content[:60],
        repr(found.exception),
    )
    at_service = found.stderr.startswith("tacit: token_unknown:")  # it was refused by the service
    code = 4 if at_service else 2
    assert found.exit_code == code, (command, content[:60], found.exit_code, found.output)
    assert "Usage:" not in found.output, found.output  # the command itself was right
    lines = [line for line in found.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, found.stderr
    assert lines[0].startswith("tacit: "), found.stderr
    return lines[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_of_another_kind_gives_one_line(tmp_path: Path, command: str) -> None:
    for content in BAD.values():
        refused(command, COMMANDS[command], tmp_path, content)


@pytest.mark.parametrize("command", ["readings import", "query preview", "whatif"])
def test_changed_files_give_one_line_or_are_read(tmp_path: Path, command: str) -> None:
    folder = tmp_path
    for content in mutated(VALID, 12, seed=15):
        (folder / "FILE.json").write_bytes(content)
        (folder / "FILE.csv").write_bytes(content)
        arguments = [
            str(folder / each) if each.startswith("FILE") else each.replace("URL", NOWHERE[1])
            for each in COMMANDS[command]
        ]
        found = CliRunner().invoke(app, [*command.split(), *arguments])
        assert found.exception is None or isinstance(found.exception, SystemExit), content
        assert found.exit_code in (0, 2, 4)


def test_the_place_is_named(tmp_path: Path) -> None:
    at = ["FILE.csv", *NOWHERE]
    binary = refused("readings import", at, tmp_path, b"\x89PNG\r\n\x1a\n")
    assert "FILE.csv, line 1: not UTF-8" in binary
    cut = COMMANDS["readings import gz"]
    said = refused("readings import gz", cut, tmp_path, BAD["cut gzip"][:14])
    assert "FILE.csv.gz: the compressed file is damaged or truncated" in said
    said = refused("query preview", ["FILE.json", *NOWHERE], tmp_path, b'{"a": 1,\n "b" 2}')
    assert "FILE.json: not JSON, line 2" in said
    json.loads(VALID)
