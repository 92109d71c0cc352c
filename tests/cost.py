"""What a run of the tests cost: CPU of each file and memory of each worker, printed at its end.

The CPU is that of the process that runs the tests and of the processes that these start and wait
for; a database server's is not counted. A slow machine changes the wall clock far more than it.
`TACIT_TEST_COSTS` names a JSON file with the CPU seconds of each test, to which each run adds: what
it prints is of all of them.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import pytest

_DEAREST: Final = 10


def _cpu_s() -> float:
    """CPU seconds of this process and of its children that ended."""
    own, ended = (resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime


def _peak_mb() -> float:
    """The most memory that this process held at once, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Cost:
    """Collects the figures: in a worker for its controller, in the controller for the reader."""

    def __init__(self) -> None:
        self._last_s = _cpu_s()
        self._tests: defaultdict[str, float] = defaultdict(float)
        self._workers: list[dict[str, float]] = []

    def pytest_collection_finish(self) -> None:
        """What imports took is no test's."""
        self._last_s = _cpu_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Give each report the CPU since the last one; xdist carries it to the controller."""
        report = yield
        now_s = _cpu_s()
        report.cpu_s = now_s - self._last_s
        self._last_s = now_s
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test's CPU; in a worker too, where nobody reads it."""
        self._tests[report.nodeid] += getattr(report, "cpu_s", 0.0)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Tell the controller what the whole worker took, its imports and collection included."""
        figures = {"cpu_s": _cpu_s(), "peak_mb": _peak_mb()}
        if (output := getattr(session.config, "workeroutput", None)) is not None:
            output["cost"] = figures
        elif not self._workers:
            self._workers.append(figures)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker ended: keep its figures."""
        if figures := getattr(node, "workeroutput", {}).get("cost"):
            self._workers.append(figures)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the run's CPU minutes, the most memory of a worker and the dearest files."""
        whole_s = sum(worker["cpu_s"] for worker in self._workers)
        peak_mb = max((worker["peak_mb"] for worker in self._workers), default=0.0)
        tests: dict[str, float] = self._tests
        if name := os.environ.get("TACIT_TEST_COSTS"):
            path = Path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a+") as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # another run may end now, too
                file.seek(0)
                if content := file.read():
                    before = json.loads(content)
                    whole_s += before["cpu_s"]
                    peak_mb = max(peak_mb, before["peak_mb"])
                    tests = before["tests"] | tests
                file.truncate(0)
                json.dump({"cpu_s": whole_s, "peak_mb": peak_mb, "tests": tests}, file)
        files: defaultdict[str, float] = defaultdict(float)
        for test, cpu_s in tests.items():
            files[test.split("::", maxsplit=1)[0]] += cpu_s
        write = terminalreporter.write_line
        write(f"CPU {whole_s / 60:.1f} min, at most {peak_mb:.0f} MB a worker; dearest files:")
        for file in sorted(files, key=files.__getitem__, reverse=True)[:_DEAREST]:
            write(f"{files[file]:8.1f} s  {file}")
