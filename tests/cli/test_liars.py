"""`tacit simulate --liars`: what it prints, writes and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from cli.main import app
from simulation.plots import can_draw


def simulate(*arguments: str) -> Result:
    asked = ("simulate", "--curators", "80", "--rounds", "2", *arguments)
    return CliRunner().invoke(app, asked)


def test_a_table_json_and_a_picture(tmp_path: Path) -> None:
    done = simulate("--liars", "5%", "--out", str(tmp_path / "out"))
    assert done.exit_code == 0, done.stderr
    assert "4 of 80 curators lie" in done.stdout
    assert "enormous: says 1000000000000, 2 of 2 named" in done.stdout
    assert "outside: says 2550.0001, 2 of 2 named" in done.stdout
    assert "within: says 2550, 0 of 2 named" in done.stdout
    assert "lies within the range that passed: 2" in done.stdout
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert files == {"liars.json"} | ({"liars.svg", "liars.png"} if can_draw() else set())
    written = json.loads((tmp_path / "out" / "liars.json").read_text("utf-8"))
    shown = simulate("--liars", "0.05", "--json")
    assert json.loads(shown.stdout) == written
    assert written["format"] == "tacit.simulation-liars/1"
    assert written["query"]["validity"] == "proved"
    assert written["reach"] == "2550"
    for row in written["rows"]:
        assert abs(row["declared_error"]) > 10**11
        assert abs(row["proved_error"]) < 20_000
        assert [each["named"] for each in row["lies"]] == [1, 1, 1, 0]


def test_too_few_left_are_said() -> None:
    done = simulate("--liars", "5%", "--field", "min_participants=80")
    assert done.exit_code == 0, done.stderr
    assert "releases nothing" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--liars", "many"), "such as 5%"),
        (("--liars", "0"), "such as 5%"),
        (("--liars", "101%"), "such as 5%"),
        (("--liars", "5%%"), "such as 5%"),
        (("--liars", "-5%"), "such as 5%"),
        (("--liars", "1/0"), "such as 5%"),
        (("--liars", "nan"), "such as 5%"),
        (("--liars", "5%", "--services"), "in this process"),
        (("--liars", "5%", "--chaos"), "in this process"),
        (("--liars", "5%", "--events", "liar=0.1"), "in this process"),
        (("--liars", "5%", "--sharing", "shamir"), "additive"),
        (("--liars", "5%", "--mechanism", "local"), "additive"),
        (("--liars", "5%", "--field", "function=mean"), "function sum"),
        (("--liars", "5%", "--aggregators", "1"), "aggregators"),
    ],
)
def test_an_error_is_one_line(arguments: tuple[str, ...], words: str) -> None:
    done = simulate(*arguments)
    assert done.exit_code == 2, done.stdout
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
