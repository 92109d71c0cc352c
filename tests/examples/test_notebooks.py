"""The notebooks of `examples/` run from an empty directory, and print what they show.

The worked example "a year of days". Spec: budget, section 7, check 13.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cli.services.deployment import Deployment, Running, pair
from cli.services.up import service_settings
from tests.docs.walkthrough import pattern_of, plain

EXAMPLES = Path(__file__).parents[2] / "examples"


def cells(name: str) -> list[dict[str, list[str]]]:
    document = json.loads((EXAMPLES / f"{name}.ipynb").read_text(encoding="utf-8"))
    return [cell for cell in document["cells"] if cell["cell_type"] == "code"]


def run(name: str, directory: Path) -> str:
    """What its cells print, run as one script."""
    script = "\n".join("".join(cell["source"]) for cell in cells(name))
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=directory,
        capture_output=True,
        text=True,
        env={"MPLBACKEND": "agg", "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def shown(name: str) -> str:
    """What it shows as printed."""
    outputs = [output for cell in cells(name) for output in cell["outputs"]]
    return "".join("".join(output["text"]) for output in outputs if "text" in output)


def test_the_price_of_a_year_is_as_shown(tmp_path: Path) -> None:
    assert run("year_of_budget", tmp_path) == shown("year_of_budget")


@pytest.mark.slow
def test_a_sum_and_a_job(tmp_path: Path) -> None:
    home = tmp_path / ".tacit"
    home.mkdir()
    deployment = Deployment.plan(home, 3)
    deployment.save()
    running = Running(deployment, service_settings())
    try:
        running.start()
        pair(deployment)
        printed = run("first_sum", tmp_path), run("job", tmp_path)
    finally:
        running.stop()
    assert pattern_of(
        "240 readings accepted\n"
        "sum ... kWh ± 24 kWh of noise in 95 of 100 cases; 60 curators answered\n"
        "the transcript gives the same sum: True\n"
        "true sum ... kWh, which only this notebook knows; stated interval ... kWh\n"
    ).fullmatch(plain(printed[0]))
    assert pattern_of(
        "... may spend epsilon 10 in all\n"
        "reserves epsilon='8' delta='0'\n"
        "kmeans (sound), job ...\n"
        "...\n"
        "left of the dataset's budget: epsilon='2' delta='0'\n"
    ).fullmatch(plain(printed[1]))


HOME = Path(__file__).parents[2]
PAGE = HOME / "docs" / "spec" / "budget.md"


def test_the_page_shows_what_the_script_prints() -> None:
    script = HOME / "examples" / "year_of_days.py"
    printed = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=True
    ).stdout
    _, _, after = PAGE.read_text("utf-8").partition("```console\nA limit of epsilon")
    shown = after.partition("```")[0]
    assert pattern_of(f"A limit of epsilon{shown}").fullmatch(plain(printed))
    lines = printed.splitlines()
    assert lines[0] == "A limit of epsilon 8 at delta 10^-6 is rho 1.052358"
    assert "365 days: rho 1.052357, epsilon 8.000; epsilons added up 117.132" in lines
    assert lines.index("day 366: refused") == lines.index("day 365: admitted") + 1
    assert "epsilon 1: rho 0.024355" in lines
