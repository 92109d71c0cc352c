"""`tacit policy` against a curator service: the default, one curator's own, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.main import app
from cli.services.deployment import Deployment


@pytest.fixture
def home(deployment: Deployment) -> Iterator[str]:
    """A deployment's directory; its default policy is put back afterwards."""
    with deployment.curator.client() as client:
        before = client.policies.get()
        yield str(deployment.directory)
        client.policies.set(before)
        client.policies.delete("house-1")


def tacit(home: str, *arguments: str, code: int = 0) -> str:
    """What `tacit policy` prints when it ends so; a refusal prints one line, on standard error."""
    done = CliRunner().invoke(app, ["policy", *arguments, "--home", home])
    assert done.exit_code == code, done.output
    if code:
        assert done.stdout == ""
        assert done.stderr.startswith("tacit: ")
        assert done.stderr.count("\n") == 1
    return done.output


def shown(home: str, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(tacit(home, "show", *arguments, "--json"))
    return found


def test_what_changes_is_shown_and_then_holds(home: str, tmp_path: Path) -> None:
    changes = ("record.period.epsilon=2.50", "algorithms=kmeans,crowd-tasking")
    printed = "record.period.epsilon: 1 -> 2.5\nalgorithms: none -> kmeans,crowd-tasking\n"
    before = shown(home)
    assert tacit(home, "set", *changes, "--dry-run") == f"{printed}nothing was sent\n"
    assert shown(home) == before
    assert tacit(home, "set", *changes) == f"{printed}it is set\n"
    after = shown(home)
    assert after["record"]["period"] == {"epsilon": "2.5", "delta": "0.000001"}
    assert {**after, "record": 0, "algorithms": 0} == {**before, "record": 0, "algorithms": 0}
    assert tacit(home, "set", *changes) == "nothing changes\n"
    table = [line.split("│")[1:3] for line in tacit(home, "show").splitlines() if "│" in line]
    assert ["algorithms", "kmeans,crowd-tasking"] in [[cell.strip() for cell in r] for r in table]
    kept = tmp_path / "policy.json"
    kept.write_text(json.dumps(before))
    found = json.loads(tacit(home, "set", str(kept), "--json"))
    assert [item["name"] for item in found["changes"]] == ["record.period.epsilon", "algorithms"]
    assert found["sent"]
    assert found["policy"] == shown(home) == before


WRONG = (
    (("set", "min_participant=3"), "min_participant: "),
    (("set", "min_participants=3", "epsilon=1"), "epsilon: "),
    (("set", "nothing.json"), "nothing.json: "),
    (("set", "min_participants=3", "--curator", "nobody"), "unknown_curator: "),
    (("show", "--curator", "nobody"), "unknown_curator: "),
    (("drop", "nobody"), "unknown_curator: "),
)


def test_a_refusal_names_the_field_and_changes_nothing(home: str) -> None:
    before = shown(home)
    for arguments, said in WRONG:
        assert tacit(home, *arguments, code=2).startswith(f"tacit: {said}")
    assert shown(home) == before


def test_stopping_and_starting_again(home: str) -> None:
    one = ("--curator", "house-1")
    assert tacit(home, "stops", *one) == "house-1: not stopped\n"
    assert tacit(home, "stop", *one).startswith("house-1: stopped (operator since 20")
    assert tacit(home, "stops") == "all curators of this process: not stopped\n"
    assert tacit(home, "start", *one) == "house-1: not stopped\n"
    assert json.loads(tacit(home, "stop", "--json"))["stopped"]
    assert "process since 20" in tacit(home, "stops", *one)
    assert tacit(home, "start") == "all curators of this process: not stopped\n"
    tacit(home, "stop", "--curator", "nobody", code=2)
