"""`make demo`, as a newcomer runs it, on generated and on real meters."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
REAL = ROOT.parent / "shared" / "data" / "swiss_meters_15min_400.csv.xz"


COMMAND = Path(sys.executable).parent / "tacit"
OURS = ("tacit", "common", "algorithms", "curator", "aggregator", "coordinator", "cli")


def run(folder: Path, *arguments: str) -> str:
    """The demo, started in a folder of the user's own."""
    started = time.monotonic()
    done = subprocess.run(
        [COMMAND, "demo", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "COLUMNS": "120"},
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - started < 120
    return done.stdout


def check(shown: str) -> None:
    for title in ("two-layer (sound)", "distributed:", "local:", "two-layer (paper)"):
        assert title in shown
    assert shown.count("matches the published one") == 4
    assert shown.count("from 400 curators") == 4
    assert "Nothing is left running" in shown


def test_generated_meters_beside_modules_of_our_names(tmp_path: Path) -> None:
    for name in OURS:
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    shown = run(tmp_path)
    check(shown)
    assert "400 meters" in shown


def test_real_meters_and_nothing_is_left_running(tmp_path: Path) -> None:
    if not REAL.exists():
        pytest.skip(f"{REAL.name} is not there: the real meters are not part of the repository")
    home = tmp_path / "home"
    check(run(tmp_path, "--data", str(REAL), "--home", str(home)))
    for process in Path("/proc").glob("[0-9]*/environ"):
        try:
            assert str(home).encode() not in process.read_bytes()
        except OSError:
            continue
