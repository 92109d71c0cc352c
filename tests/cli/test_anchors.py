"""`tacit anchors show`: one line for everyone who anchors the same identities."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.main import app
from tests.cli.test_trust import COORDINATOR, NORTH, SOUTH, token


def run(*words: object, exit_code: int = 0) -> str:
    arguments = ["anchors", "show", *map(str, words)]
    found = CliRunner().invoke(app, arguments, env={"TACIT_TRUST": None, "TACIT_URL": None})
    assert found.exit_code == exit_code, found.output
    return found.output


@pytest.fixture
def join(tmp_path: Path) -> Path:
    path = tmp_path / "join"
    path.write_text(token(north=NORTH, south=SOUTH) + "\n")
    return path


def test_a_join_token_and_a_trust_file_give_one_line(join: Path, tmp_path: Path) -> None:
    file = tmp_path / "trust.json"
    for name, pinned in (("south", SOUTH), ("north", NORTH)):  # in another order
        made = ("from-join", token(**{name: pinned}), "--file", str(file))
        assert CliRunner().invoke(app, ["trust", *made]).exit_code == 0
    of_join: Any = json.loads(run("--join", join, "--json"))
    of_file: Any = json.loads(run("--file", file, "--json"))
    assert of_join == of_file
    assert of_join["coordinator"] == COORDINATOR.hex()
    assert of_join["aggregators"] == {"north": NORTH.hex(), "south": SOUTH.hex()}
    first = run("--join", join).splitlines()[0]
    assert first == of_join["line"]
    assert [len(group) for group in first.split(" ")] == [4] * 8
    assert "ssss" not in run("--join", join)


def test_one_source_is_named(join: Path) -> None:
    assert "one of" in run(exit_code=2)
    assert "one of" in run("--join", join, "--url", "http://127.0.0.1:1", exit_code=2)
    join.write_text("no token")
    run("--join", join, exit_code=2)
