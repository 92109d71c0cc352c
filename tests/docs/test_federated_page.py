"""Every command of the page about federated jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.deployment import Deployment, Running, pair
from tests.docs.walkthrough import walk

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "federated-jobs.md"


@pytest.mark.slow
def test_the_page_about_federated_jobs_is_true(tmp_path: Path) -> None:
    home = tmp_path / ".tacit"
    home.mkdir()
    deployment = Deployment.plan(home, 3)
    deployment.save()
    running = Running(deployment, {})
    try:
        running.start()
        pair(deployment)
        walk(PAGE, tmp_path, {"COLUMNS": "110"})
    finally:
        running.stop()
