"""`make demo`, as a newcomer runs it, on generated and on real meters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from cli.services.demo import distributed

ROOT = Path(__file__).parents[2]
REAL = ROOT.parent / "shared" / "data" / "swiss_meters_15min_400.csv.xz"


COMMAND = Path(sys.executable).parent / "tacit"
OURS = ("tacit", "common", "algorithms", "curator", "aggregator", "coordinator", "cli")


def run(folder: Path, *arguments: str) -> str:
    """The demo, started in a folder of the user's own."""
    done = subprocess.run(
        [COMMAND, "demo", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "COLUMNS": "120"},
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_without_options_it_fits_a_screen_and_needs_no_vocabulary(tmp_path: Path) -> None:
    shown = run(tmp_path)
    assert len(shown.splitlines()) <= 25
    assert max(map(len, shown.splitlines())) <= 100
    assert "they add up to the answer" in shown
    for word in ("infinite", "OAOC", "D_X", "mechanism"):
        assert word not in shown.replace("by four mechanisms", "")
    assert "Nothing is left running" in shown


def check(shown: str, meters: int) -> None:
    for title in ("two-layer (sound)", "distributed:", "local:", "two-layer (paper)"):
        assert title in shown
    assert shown.count("matches the published one") == 4
    assert shown.count(f"from {meters} curators") == 4
    assert "Nothing is left running" in shown


@pytest.mark.slow
def test_generated_meters_beside_modules_of_our_names(tmp_path: Path) -> None:
    for name in OURS:
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    shown = run(tmp_path, "--full")
    check(shown, 1000)
    assert "1,000 meters" in shown


@pytest.mark.slow
def test_real_meters_and_nothing_is_left_running(tmp_path: Path) -> None:
    if not REAL.exists():
        pytest.skip(f"{REAL.name} is not there: the real meters are not part of the repository")
    home = tmp_path / "home"
    check(run(tmp_path, "--full", "--data", str(REAL), "--home", str(home)), 400)
    for process in Path("/proc").glob("[0-9]*/environ"):
        try:
            assert str(home).encode() not in process.read_bytes()
        except OSError:
            continue


def rows(count: int, values: int, value: str = "0.5") -> bytes:
    return "".join(",".join([f"m{n}", *[value] * values]) + "\n" for n in range(count)).encode()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "has 0 meters with 0 values each"),
        (bytes(range(128, 256)) * 20, "line 1: not UTF-8"),
        (b"id" + rows(2, 200)[2:], "has 1 meters with 200 values each"),
        (rows(30, 20), "line 1: a header is missing"),
        (rows(30, 200, "hello"), "fewer than 10 meters have a number"),
    ],
    ids=["empty", "binary", "one meter", "an hour", "words"],
)
def test_a_file_that_is_no_meters_is_refused_before_anything_starts(
    tmp_path: Path, content: bytes, said: str
) -> None:
    file = tmp_path / "meters.csv"
    file.write_bytes(content)
    found = CliRunner().invoke(app, ["demo", "--data", str(file)])
    assert found.exit_code == 2
    assert said in found.output.replace("\n", " ")
    assert len(found.output.splitlines()) == 1


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["demo", "--data", str(tmp_path / "none.csv")])
    assert (found.exit_code, found.output) == (
        2,
        f"tacit: {tmp_path / 'none.csv'}: no such file or directory\n",
    )


def test_a_few_meters_are_enough_for_a_round() -> None:
    assert distributed(3, 12).query["min_participants"] == 12
    assert distributed(3, 400).query["min_participants"] == 100
