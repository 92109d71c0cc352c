"""What a service's process asks of the system, in a process of its own."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, resource, subprocess, sys
from common.runtime.process import allow_open_files, leave_no_core, open_files
resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
leave_no_core()
allow_open_files(300)
raised = open_files()
allow_open_files(200)
allow_open_files(2**40)
child = subprocess.run(["cat", "/proc/self/limits", "/proc/self/coredump_filter"],
                       capture_output=True, text=True).stdout
print(json.dumps([raised, resource.getrlimit(resource.RLIMIT_NOFILE), child]))
"""


@pytest.fixture(scope="module")
def said() -> list[object]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=True
    )
    found: list[object] = json.loads(done.stdout)
    return found


def test_open_files_are_allowed_as_far_as_the_system_lets_us(said: list[object]) -> None:
    assert said[0] == 300
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY:
        assert said[1] == [hard, hard]


@pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="needs /proc")
def test_a_crash_leaves_no_memory_behind_not_even_of_a_child(said: list[object]) -> None:
    lines = str(said[2]).splitlines()
    core = next(line for line in lines if line.startswith("Max core file size"))
    assert core.split()[4:6] == ["0", "0"]
    assert int(lines[-1], 16) == 0
