"""The command that started services ends in every way: none of them is left, and none is hidden.

An orphan would answer at its address in place of the next start's own process. The control: a child
that is started without the pipe outlives the process that started it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cli.services.deployment import Deployment, Running
from tacit import Client

NAMES = ("coordinator", "aggregator-1", "curator")


class Up:
    """`tacit up` in a process of its own, with one aggregator."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.process = self.another()
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if "Ctrl-C ends it" in line:
                break
        else:
            pytest.fail(f"it ended by itself: {self.process.communicate()[1]}")
        self.services = {name: self.pid_of(name) for name in NAMES}

    def another(self) -> subprocess.Popen[str]:
        """The command once more, as in a terminal: not under `nohup`, as the tests may run."""
        command = ["env", "--default-signal=HUP", sys.executable, "-m", "cli.main", "up"]
        return subprocess.Popen(
            [*command, "--home", str(self.home), "--aggregators=1"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def pid_of(self, name: str) -> int:
        """The process that answers as a service."""
        document = json.loads((self.home / "deployment.json").read_text())
        (url,) = [each["url"] for each in document["services"] if each["id"] == name]
        with Client(url) as client:
            return int(client.get("/readyz")["pid"])

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Signal the command; its exit code and what it said at its end."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=200)
        return self.process.returncode, said


def gone(pids: Iterable[int]) -> bool:
    """Whether all of these end; a minute each only ends a hang."""
    for pid in pids:
        try:
            process = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        ended, _, _ = select.select([process], [], [], 60)
        os.close(process)
        if not ended:
            return False
    return True


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    found = Up(tmp_path / "home")
    yield found
    with suppress(ProcessLookupError):
        found.process.kill()
    found.process.communicate()
    for pid in found.services.values():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_no_service_outlives_a_command_that_is_killed(up: Up) -> None:
    """And meanwhile a second start in the same home is refused."""
    again = up.another()
    out, said = again.communicate(timeout=200)
    assert again.returncode != 0
    assert "is up already" in said
    assert "Tacit is up" not in out
    assert up.end(signal.SIGKILL) == (-signal.SIGKILL, "")
    assert gone(up.services.values())


@pytest.mark.slow
def test_no_service_outlives_a_command_whose_terminal_closes(up: Up) -> None:
    assert up.end(signal.SIGHUP) == (128 + signal.SIGHUP, "")
    assert gone(up.services.values())


@pytest.mark.slow
def test_a_service_that_dies_is_named_and_ends_all(up: Up) -> None:
    os.kill(up.services["aggregator-1"], signal.SIGKILL)
    _, said = up.process.communicate(timeout=200)
    assert up.process.returncode == 1
    (line,) = said.splitlines()
    assert "aggregator-1 ended by SIGKILL" in line
    assert str(up.home / "aggregator-1" / "service.log") in line
    assert gone(up.services.values())


@pytest.mark.slow
def test_services_that_still_run_are_not_taken_for_those_just_started(tmp_path: Path) -> None:
    """Control: they answer, and their command is gone."""
    deployment = Deployment.plan(tmp_path, 1)
    deployment.save()
    first, second = Running(deployment, {}), Running(deployment, {})
    service = deployment.coordinator
    first.start_one(service)
    first.wait_for(service)
    try:
        with pytest.raises(RuntimeError, match=f"process {first.processes['coordinator'].pid}"):
            second.start()
        assert not second.processes
        second.start_one(service)  # control: both at the same address
        with pytest.raises(RuntimeError, match="did not start, ended with exit code"):
            second.wait_for(service)
    finally:
        first.stop()
        second.stop()
