"""`tacit simulate`: what it prints, writes and refuses. A small soak is part of its page."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from algorithms.drawing import can_draw
from cli.main import app
from cli.services.deployment import Deployment, Running, join_token, pair
from cli.services.up import service_settings
from tacit.protocol.enrolment import PartyKind
from tests.docs.walkthrough import walk

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results go into the current directory unless another is named."""
    monkeypatch.chdir(tmp_path)


def simulate(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["simulate", *arguments])


def document(*arguments: str) -> dict[str, Any]:
    done = simulate(*arguments, "--json")
    assert done.exit_code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_table_and_files(tmp_path: Path) -> None:
    done = simulate(
        *("--curators", "200", "--rounds", "3", "--out", str(tmp_path / "out")),
        *("--events", "dropout=0.1", "--network", "loss=0.01"),
    )
    assert done.exit_code == 0, done.stderr
    assert "3 of 3 rounds released" in done.stdout
    found = json.loads((tmp_path / "out" / "simulation.json").read_text("utf-8"))
    assert found["format"] == "tacit.simulation/1"
    assert [row["state"] for row in found["rows"]] == ["released"] * 3
    for row in found["rows"]:
        assert 0 < row["participants"] < row["enrolled"] == 200
    written = {path.name for path in (tmp_path / "out").glob("simulation.*")}
    assert written == {"simulation.json", "simulation.csv"} | (
        {"simulation.svg", "simulation.png"} if can_draw() else set()
    )


METERS = "meter,00:00\nA,1\nB,6\nC,14\n"
SPLIT = ("noise", "rounding", "clamping", "dropouts", "late", "lies")


def test_the_truth_is_of_raw_readings_and_the_error_is_split(tmp_path: Path) -> None:
    """By hand: meters of 1, 6 and 14 kWh, bounds up to 6: 21 in truth, 13 clamped; at a resolution
    of 4 kWh these are 0, 8 and 8 of an upper bound of 8, so that 12 are clamped to 8."""
    (tmp_path / "meters.csv").write_text(METERS)
    asked = ("--population", str(tmp_path / "meters.csv"), "--rounds", "2", "--mechanism", "exact")
    for bounds in ("[0,6]", '["0", "6"]'):
        found = document(*asked, "--field", f"bounds={bounds}")
        assert [row["true"] for row in found["rows"]] == ["21", "21"]
        assert [row["released"] for row in found["rows"]] == ["13", "13"]
        assert [row["clamping"] for row in found["rows"]] == [-8.0, -8.0]
    for resolution in ("4", '"4"', "4.0"):
        found = document(*asked, "--field", "bounds=[0,6]", "--field", f"resolution={resolution}")
        (row, _) = found["rows"]
        assert (row["true"], row["released"], row["rounding_at_most"]) == ("21", "16", 6.0)
        # clamped to 8: 1, 6, 8; rounded to 0, 8 (a tie, to even) and 8
        assert (row["clamping"], row["rounding"]) == (-6.0, 1.0)


def test_every_round_is_a_line_and_dropouts_and_late_curators_are_apart(tmp_path: Path) -> None:
    events = "dropout=0.2,straggler=0.3,liar=0.1"
    done = simulate(
        *("--curators", "200", "--rounds", "4", "--events", events),
        *("--field", "function=mean"),
    )
    assert done.exit_code == 0, done.stderr
    with (tmp_path / "simulation" / "simulation.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["round"] for row in rows] == ["0", "1", "2", "3"]
    for row in rows:
        in_all = sum(int(row[name]) for name in ("participants", "dropped", "belated"))
        assert in_all == int(row["enrolled"]) == 200
        assert int(row["dropped"]) > 0
        assert int(row["belated"]) > 0
        assert int(row["liars"]) > 0 == int(row["refused"])
        assert float(row["error"]) == pytest.approx(sum(float(row[name]) for name in SPLIT))


@pytest.mark.parametrize("mechanism", ["distributed", "two-layer", "local"])
def test_the_defaults_run_at_any_epsilon(mechanism: str) -> None:
    for epsilon in ("0.01", "20"):
        found = document("--epsilon", epsilon, "--mechanism", mechanism, "--rounds", "1")
        assert [row["state"] for row in found["rows"]] == ["released"]


def test_an_exact_simulation_has_no_error_and_a_seed_repeats() -> None:
    asked = ("--curators", "50", "--rounds", "2", "--population", "households")
    exact = document(*asked, "--mechanism", "exact")
    assert [row["noise"] for row in exact["rows"]] == [0.0, 0.0]
    assert all(row["error"] == row["rounding"] + row["clamping"] for row in exact["rows"])
    first, second = document(*asked, "--seed", "5"), document(*asked, "--seed", "5")
    released = [[row["released"] for row in found["rows"]] for found in (first, second)]
    assert released[0] == released[1]
    assert first["figures"]["mean_forecast"] > 0


WRONG = (
    (("--population", "nobody"), "no population"),
    (("--mechanism", "magic"), "mechanism"),
    (("--epsilon", "0.001", "--field", "resolution=0.0001"), "scale"),
    (("--events", "drop=0.1"), "one of dropout"),
    (("--events", "dropout=2"), "dropout is a probability"),
    (("--network", "loss=1"), "delivers nothing"),
    (("--field", "function"), "give name=value"),
    (("--against", "http://127.0.0.1:1"), "--against needs"),
    (("--against", "http://127.0.0.1:1", "--token", "t", "--join", "x"), "not a join token"),
    (("--chaos", "--aggregators", "1"), "at least two"),
    (("--liars", "many"), "such as 5%"),
    (("--liars", "0"), "such as 5%"),
    (("--liars", "101%"), "such as 5%"),
    (("--liars", "1/0"), "such as 5%"),
    (("--liars", "nan"), "such as 5%"),
    (("--liars", "5%", "--services"), "in this process"),
    (("--liars", "5%", "--events", "liar=0.1"), "in this process"),
    (("--liars", "5%", "--sharing", "shamir"), "additive"),
    (("--liars", "5%", "--field", "function=mean"), "function sum"),
    (("--liars", "5%", "--aggregators", "1"), "aggregators"),
)


def test_an_error_is_one_line() -> None:
    for arguments, words in WRONG:
        done = simulate("--curators", "20", *arguments)
        assert done.exit_code == 2, (arguments, done.stdout)
        assert words in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


LIARS = ("--curators", "80", "--rounds", "2", "--liars")


def test_a_table_json_and_a_picture_of_liars(tmp_path: Path) -> None:
    done = simulate(*LIARS, "5%", "--out", str(tmp_path / "out"))
    assert done.exit_code == 0, done.stderr
    assert "4 of 80 curators lie" in done.stdout
    assert "enormous: says 1000000000000, 2 of 2 named" in done.stdout
    assert "outside: says 2550.0001, 2 of 2 named" in done.stdout
    assert "within: says 2550, 0 of 2 named" in done.stdout
    assert "lies within the range that passed: 2" in done.stdout
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert files == {"liars.json"} | ({"liars.svg", "liars.png"} if can_draw() else set())
    written = json.loads((tmp_path / "out" / "liars.json").read_text("utf-8"))
    assert document(*LIARS, "0.05") == written
    assert written["format"] == "tacit.simulation-liars/1"
    assert written["query"]["validity"] == "proved"
    assert written["reach"] == "2550"
    for row in written["rows"]:
        assert abs(row["declared_error"]) > 10**11
        assert abs(row["proved_error"]) < 20_000
        assert [each["named"] for each in row["lies"]] == [1, 1, 1, 0]
    few = simulate(*LIARS, "5%", "--field", "min_participants=80")
    assert (few.exit_code, "releases nothing" in few.stdout) == (0, True)


@pytest.mark.slow
def test_against_a_running_deployment(tmp_path: Path) -> None:
    deployment = Deployment.plan(tmp_path, 2)
    running = Running(deployment, service_settings(exact_from=2))
    needed = (deployment.coordinator, *deployment.aggregators)
    try:
        for service in needed:
            running.start_one(service)
        for service in needed:
            running.wait_for(service)
        pair(deployment)
        join = join_token(deployment, "rehearsal", PartyKind.HOST, 12, 600).to_text()
        token = Path(deployment.coordinator.directory, "operator.token").read_text().strip()
        there = ("--against", deployment.coordinator.url, "--token", token, "--join", join)
        asked = ("--rounds", "2", "--aggregators", "2", "--mechanism", "exact", *there)
        # A process of its own: a curator service lives in it.
        done = subprocess.run(
            [sys.executable, "-m", "cli.main", "simulate", *asked, "--curators", "12", "--json"],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert [row["error"] for row in found["rows"]] == [0.0, 0.0]
        assert [row["participants"] for row in found["rows"]] == [12, 12]
        too_many = simulate(*asked, "--curators", "13")
        assert too_many.exit_code == 2
        assert "fewer curators" in too_many.stderr
    finally:
        running.stop()


@pytest.mark.release
def test_the_page_is_true(tmp_path: Path) -> None:
    walk(DOCS / "how-to" / "simulate.md", tmp_path, {"COLUMNS": "110"}, timeout_s=200)
