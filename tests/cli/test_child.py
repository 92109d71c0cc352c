"""The log of a service of `tacit up` rotates, with all that the process writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from cli.services.child import LOGS_KEPT

WRITE = """
import os, sys
from pathlib import Path
from cli.services.child import rotate
for number in range(15):
    print(f"{number} " + "x" * 90, file=sys.stderr, flush=True)
    rotate(Path(sys.argv[1]), 150)
    os.system("echo of a child")
"""


def test_a_log_that_is_large_begins_again_and_the_oldest_goes(tmp_path: Path) -> None:
    log = tmp_path / "service.log"
    with log.open("ab") as file:
        command = [sys.executable, "-c", WRITE, str(log)]
        subprocess.run(command, stdout=file, stderr=file, check=True)
    files = sorted(tmp_path.iterdir())
    assert len(files) == 1 + LOGS_KEPT
    parts = [log.with_name(f"service.log.{number}") for number in range(len(files) - 1, 0, -1)]
    lines = "".join(path.read_text() for path in (*parts, log)).splitlines()
    numbers = [int(line.split()[0]) for line in lines if "x" in line]
    assert numbers[0] > 0  # the oldest file is gone
    assert numbers == list(range(numbers[0], 15))  # in order, and nothing is lost in between
    assert lines.count("of a child") >= len(numbers)
    assert all(path.stat().st_size < 300 for path in files)
