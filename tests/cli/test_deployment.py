"""The processes of a deployment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from cli.deployment import Deployment, Running

BURN = """
import sys, threading, time

def burn():
    while time.thread_time() < 0.3:
        pass

burning = threading.Thread(target=burn)
burning.start()
burning.join()
print(time.process_time(), flush=True)
sys.stdin.read()
"""


def test_the_time_of_threads_that_ended_counts(tmp_path: Path) -> None:
    running = Running(Deployment.plan(tmp_path, 1), {})
    service = running.deployment.coordinator
    with subprocess.Popen(
        [sys.executable, "-c", BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        running.processes[service.id] = process  # type: ignore[assignment]
        own = float(process.stdout.readline())
        found = running.cpu_s(service)
        process.stdin.close()
    assert 0.3 <= own <= found < own + 0.5
