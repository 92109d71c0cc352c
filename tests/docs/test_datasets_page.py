"""The page about datasets, run as a reader would."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.deployment import Deployment, Running, pair
from tests.docs.walkthrough import walk

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "datasets.md"


@pytest.mark.slow
def test_the_page_about_datasets_is_true(tmp_path: Path) -> None:
    home = tmp_path / ".tacit"
    home.mkdir()
    deployment = Deployment.plan(home, 1)
    deployment.save()
    running = Running(deployment, {})
    try:
        running.start()
        pair(deployment)
        walk(PAGE, tmp_path, {"COLUMNS": "110"})
    finally:
        running.stop()
