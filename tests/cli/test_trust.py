"""`tacit trust` and `tacit anchors`: the identities that a verifier knows from elsewhere."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from cli.context import plain_errors
from cli.main import app
from tacit.crypto.signing import Identity
from tacit.protocol.enrolment import Grant, JoinToken, PartyKind
from tacit.protocol.trust import TranscriptNotAnchored

COORDINATOR, NORTH, SOUTH = (Identity.generate().fingerprint for _ in range(3))


def run(*words: str, exit_code: int = 0) -> str:
    found = CliRunner().invoke(app, ["trust", *words])
    assert found.exit_code == exit_code, found.output
    return found.output


def token(deployment: str = "demo", **aggregators: bytes) -> str:
    def grant(party: str, fingerprint: bytes) -> Grant:
        return Grant(party=party, url="http://it.test", fingerprint=fingerprint, secret="s" * 40)

    return JoinToken(
        party="meter-1",
        kind=PartyKind.CURATOR,
        max_curators=1,
        coordinator=grant(deployment, COORDINATOR),
        aggregators=tuple(grant(name, pinned) for name, pinned in aggregators.items()),
        expires=datetime(2030, 1, 1, tzinfo=UTC),
    ).to_text()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "trust.json"


def shown(file: Path) -> Any:
    return json.loads(run("show", "--file", str(file), "--json"))


def pins(file: Path) -> dict[str, list[str]]:
    return {
        item["id"]: [pin["fingerprint"] for pin in item["fingerprints"]]
        for item in shown(file)["aggregators"]
    }


def test_a_join_token_pins_everyone_and_leaves_no_secret(file: Path) -> None:
    run("from-join", token(north=NORTH, south=SOUTH), "--file", str(file))
    assert pins(file) == {"north": [NORTH.hex()], "south": [SOUTH.hex()]}
    assert shown(file)["coordinator"] == [COORDINATOR.hex()]
    assert "ssss" not in file.read_text()
    before = file.read_text()
    run("from-join", token(north=NORTH, south=SOUTH), "--file", str(file))
    assert file.read_text() == before


def test_pinning_by_hand(file: Path) -> None:
    run("coordinator", "demo", COORDINATOR.hex(":").upper(), "--file", str(file))
    run("add", "north", NORTH.hex(), "--operator", "North Ltd", "--file", str(file))
    run("add", "north", SOUTH.hex(), "--file", str(file))
    assert pins(file) == {"north": [NORTH.hex(), SOUTH.hex()]}
    assert shown(file)["aggregators"][0]["operator"] == "North Ltd"
    run("compromised", "north", NORTH.hex(), "--file", str(file))
    stolen = {pin["fingerprint"]: pin["compromised"] for pin in _pins_of_north(file)}
    assert stolen == {NORTH.hex(): True, SOUTH.hex(): False}
    # What was stolen is not made good by being pinned again.
    run("add", "north", NORTH.hex(), "--file", str(file), exit_code=2)
    assert {pin["fingerprint"]: pin["compromised"] for pin in _pins_of_north(file)} == stolen


def _pins_of_north(file: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = shown(file)["aggregators"][0]["fingerprints"]
    return found


WRONG = (
    (("add", "north", "12"), "64 hexadecimal digits"),
    (("add", "south", "0" * 64, "--operator", "x" * 200), "no such file"),
    (("from-join", "nonsense"), "not a join token"),
    (("show",), "no such file"),
    (("coordinator", "not a name", "0" * 64), "deployment: "),
)


def test_what_is_refused(file: Path) -> None:
    for words, said in WRONG:
        output = run(*words, "--file", str(file), exit_code=2)
        assert len(output.strip().splitlines()) == 1
        assert said in output
        assert not file.exists()


def test_a_file_of_another_deployment_or_operator_is_kept(file: Path) -> None:
    run("from-join", token(north=NORTH), "--file", str(file))
    run("add", "north", NORTH.hex(), "--operator", "North Ltd", "--file", str(file))
    before = file.read_text()
    run("from-join", token("other", north=NORTH), "--file", str(file), exit_code=2)
    run("add", "north", SOUTH.hex(), "--operator", "Other", "--file", str(file), exit_code=2)
    run("compromised", "south", SOUTH.hex(), "--file", str(file), exit_code=2)
    file.write_text("{}")
    run("show", "--file", str(file), exit_code=2)
    file.write_text(before)
    assert pins(file) == {"north": [NORTH.hex()]}


def test_what_is_listed_twice_is_refused(file: Path) -> None:
    """Of two entries one would be overlooked, with what it marks as stolen."""
    run("from-join", token(north=NORTH, south=SOUTH), "--file", str(file))
    before = file.read_text()
    assert "pinned twice" in run("add", "south", NORTH.hex(), "--file", str(file), exit_code=2)
    assert file.read_text() == before
    document = json.loads(before)
    document["aggregators"].append({**document["aggregators"][0], "operator": "North Ltd"})
    file.write_text(json.dumps(document))
    output = run("show", "--file", str(file), exit_code=2)
    assert "listed twice" in output
    assert len(output.strip().splitlines()) == 1


def test_what_is_refused_here_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A round that rests on another identity than the file pins: no traceback."""
    with pytest.raises(typer.Exit) as ended, plain_errors():
        raise TranscriptNotAnchored("the coordinator shows an identity that is not pinned")
    assert ended.value.exit_code == 1
    said = "tacit: transcript_not_anchored: the coordinator shows an identity that is not pinned\n"
    assert capsys.readouterr().err == said


def anchors(*words: object, exit_code: int = 0) -> str:
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
    of_join: Any = json.loads(anchors("--join", join, "--json"))
    of_file: Any = json.loads(anchors("--file", file, "--json"))
    assert of_join == of_file
    assert of_join["coordinator"] == COORDINATOR.hex()
    assert of_join["aggregators"] == {"north": NORTH.hex(), "south": SOUTH.hex()}
    first = anchors("--join", join).splitlines()[0]
    assert first == of_join["line"]
    assert [len(group) for group in first.split(" ")] == [4] * 8
    assert "ssss" not in anchors("--join", join)


def test_one_source_of_anchors_is_named(join: Path) -> None:
    assert "one of" in anchors(exit_code=2)
    assert "one of" in anchors("--join", join, "--url", "http://127.0.0.1:1", exit_code=2)
    join.write_text("no token")
    anchors("--join", join, exit_code=2)
