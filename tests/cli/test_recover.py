"""`tacit recover`, `recipient-key` and `attack-path`, as a user and an owner type them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from algorithms.contract import SequentialContext
from algorithms.path_publishing import Parameters as PathPublishingParameters
from algorithms.path_publishing import run
from cli.main import app
from simulation.samples import path_publishing
from tacit.paths.network import read_json
from tacit.wire import parse_binary


@pytest.fixture
def network(tmp_path: Path) -> Path:
    file = tmp_path / "network.json"
    (sample,) = path_publishing()
    file.write_bytes(sample.content)
    return file


def published(network: Path, stance: Any, **values: Any) -> Path:
    """A job's file, beside its network."""
    with network.open("rb") as stream:
        data = read_json(stream)
    context = SequentialContext(bytes(range(32)))
    outcome = run(data, PathPublishingParameters(**values), stance, context)
    file = network.with_name("published.json")
    file.write_bytes(outcome.files[0].content)
    return file


def typed(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def test_a_path_is_recovered(network: Path) -> None:
    file = published(network, "sound")
    done = typed("recover", network, file)
    assert done.exit_code == 0
    assert done.stdout.splitlines() == ["1 2 3 4 5 6", "6 5 4 3 2 1"]
    file = published(network, "paper")
    done = typed("recover", network, file, "--json")
    assert json.loads(done.stdout) == {
        "paths": [[1, 2, 3, 4, 5, 6]],
        "direction_confidence": "certain",
        "ties": 1,
    }
    assert typed("recover", network, file, "--direction", "nearest-root").exit_code == 0
    assert typed("recover", network, file, "--direction", "other").exit_code == 2


def test_a_sealed_path_opens_with_its_recipients_key(network: Path, tmp_path: Path) -> None:
    own, other = tmp_path / "own.key", tmp_path / "other.key"
    made = typed("recipient-key", own)
    typed("recipient-key", other)
    assert own.read_text().startswith("tctkey_")
    raw = parse_binary(made.stdout.strip())
    assert len(raw) == 1216
    file = published(network, "sound", mode="sealed", recipients=(raw,))
    assert typed("recover", network, file, "--key", own).stdout.splitlines() == ["1 2 3 4 5 6"]
    refused(typed("recover", network, file, "--key", other), "not_a_recipient")
    refused(typed("recover", network, file))
    refused(typed("recover", network, file, "--key", tmp_path / "none"))
    refused(typed("recipient-key", own))
    assert own.stat().st_mode & 0o777 == 0o600
    for wrong in (b"tctkey_AAAA", b"\xff\xfe"):
        own.write_bytes(wrong)
        refused(typed("recover", network, file, "--key", own))


def refused(done: Result, name: str = "") -> None:
    """One line on standard error, exit code 2."""
    assert done.exit_code == 2
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith("tacit: ")
    assert name in done.stderr


def test_errors_are_one_line(network: Path, tmp_path: Path) -> None:
    file = published(network, "sound")
    data = json.loads(network.read_text())
    less = tmp_path / "less.json"
    less.write_text(
        json.dumps({**data, "edges": [edge for edge in data["edges"] if edge != [3, 4]]})
    )
    refused(typed("recover", less, file), "not_a_path")
    more = tmp_path / "more.json"
    more.write_text(json.dumps({**data, "vertices": [*data["vertices"], 7]}))
    refused(typed("recover", more, file), "map_mismatch")
    refused(typed("recover", file, network), "malformed")
    refused(typed("recover", network, network), "malformed_publication")
    refused(typed("recover", tmp_path / "none.json", file))
    refused(typed("attack-path", network, tmp_path / "none.json"))
    refused(typed("attack-path", network, file, "--step", "9"))
    refused(typed("attack-path", more, file), "vertices")


def attacked(network: Path, file: Path, *words: object) -> dict[str, Any]:
    done = typed("attack-path", network, file, "--json", *words)
    assert done.exit_code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_what_an_adversary_finds(network: Path) -> None:
    levelled = attacked(network, published(network, "paper"))
    assert levelled["summary"] == {"identified": 3, "known_beforehand": 2}
    assert levelled["level_sort"]["share_of_path_edges"] > 0.5
    open_rest = attacked(network, published(network, "sound"))
    assert open_rest["summary"] == {"identified": 0, "known_beforehand": 2}
    assert "level_sort" not in open_rest
    noisy = attacked(network, published(network, "sound", mode="randomized", epsilon="1"))
    assert all(0.1 < row["posterior"] <= 1 for row in noisy["steps"])
    one = attacked(network, published(network, "paper"), "--step", 2)
    assert [row["step"] for row in one["steps"]] == [2]
    shown = typed("attack-path", network, published(network, "paper"))
    assert "found by the publication: 3 of 5 steps; known beforehand: 2" in shown.stdout
    data = json.loads(network.read_text())
    other = network.with_name("other.json")
    other.write_text(json.dumps({**data, "path": [1, 2, 3, 4, 6, 5]}))
    file = published(network, "paper")
    refused(typed("attack-path", other, file), "not made of this network")
