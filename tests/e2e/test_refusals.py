"""Hosts that refuse, as processes: the round ends when all have answered, and says why."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.plain import plain
from tests.e2e.test_budget import QUERY
from tests.rules import RULE


@pytest.mark.slow
async def test_a_round_that_every_host_refuses_ends_long_before_its_deadline(
    tmp_path: Path,
) -> None:
    async with plain(tmp_path, 3) as it:
        await it.enrol("gateway", [f"house-{number}" for number in range(5)])
        # The default policy takes part in no sum without noise.
        opened = await it.open(
            {**QUERY, "mechanism": "exact", "epsilon": None, "rule": RULE, "deadline_s": 3600}
        )
        finished = await it.finish(opened)  # waits for a minute at most
        assert finished["state"] == "aborted"
        assert "0 of those invited are left. 5 refused: their policies" in finished["reason"]
        command = [sys.executable, "-m", "cli.main", "round"]

        def run(*arguments: str) -> subprocess.CompletedProcess[str]:
            home = ["--home", str(tmp_path)]
            return subprocess.run(
                [*command, *arguments, *home],
                capture_output=True,
                text=True,
                check=False,
            )

        shown = await it.call(run, "refusals", opened, "--json")
        assert shown.returncode == 0, shown.stderr
        assert json.loads(shown.stdout)["grounds"] == {"policy": 5, "descriptor": 0, "own": 0}
        shown = await it.call(run, "watch", opened)
        assert shown.returncode != 0
        assert "5 refuse: their policies forbid it" in " ".join(shown.stderr.split())

        shown = await it.call(run, "list", "--limit", "1")
        assert shown.returncode == 0, shown.stderr
        assert opened in shown.stdout  # whole, although the table is wider than the screen
        shown = await it.call(run, "list", "--state", "aborted", "--json")
        assert [each["id"] for each in json.loads(shown.stdout)] == [opened]
        assert json.loads((await it.call(run, "list", "--state", "open", "--json")).stdout) == []
