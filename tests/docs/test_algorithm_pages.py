"""Each algorithm's page begins with a sample and a command; both do what the page says.

The commands run in a shell as a reader types them, beside a coordinator for all pages; without one
`tacit job run` starts its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from algorithms import catalogue
from cli import main
from cli.services.deployment import Deployment, Running
from simulation.samples import JOBS
from tests.docs.walkthrough import steps_of, walk

PAGES = Path(__file__).parents[2] / "docs" / "algorithms"


def test_every_algorithm_has_a_job_on_its_samples() -> None:
    assert set(JOBS) == set(catalogue.NAMES)


@pytest.mark.parametrize("name", catalogue.NAMES)
def test_a_page_begins_with_its_command(name: str) -> None:
    (step, *_) = steps_of((PAGES / f"{name}.md").read_text("utf-8"))
    sample, command = step.script.splitlines()
    assert sample == f"tacit dataset sample {name} --out samples"
    assert command == JOBS[name].command(name, Path("samples"))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a running coordinator in `.tacit`."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / ".tacit").mkdir()
    deployment = Deployment.plan(folder / ".tacit", aggregators=0)
    deployment.save()
    running = Running(deployment, {})
    try:
        running.start()
        yield folder
    finally:
        running.stop()


@pytest.mark.slow
@pytest.mark.parametrize("name", catalogue.NAMES)
def test_every_command_of_a_page_runs(name: str, home: Path) -> None:
    walk(PAGES / f"{name}.md", home, {"COLUMNS": "110"}, timeout_s=300)
    out = home / "samples" / name
    result = json.loads((out / "result.json").read_text("utf-8"))
    assert result["summary"]
    assert CliRunner().invoke(main.app, ["job", "plot", str(out)]).exit_code == 0
    drawn = [*out.glob("plots/*.svg"), *out.glob("private/plots/*.svg")]
    assert [plot for plot in drawn if plot.stem != "budget"], "a picture of the result"
