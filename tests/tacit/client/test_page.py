"""The page on the client, against real processes: every command and every answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.deployment import Deployment, Running, pair
from cli.up import service_settings
from tests.docs.walkthrough import walk

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "python-client.md"


@pytest.mark.slow
def test_the_page_is_true(tmp_path: Path) -> None:
    home = tmp_path / ".tacit"
    home.mkdir()
    deployment = Deployment.plan(home, 3)
    deployment.save()
    running = Running(deployment, service_settings())
    try:
        running.start()
        pair(deployment)
        walk(PAGE, tmp_path, {"COLUMNS": "110"})
    finally:
        running.stop()
