"""One trial: the tests of a module, with a changed source in place of its file.

A trial is a fork of a process that has imported every library, and every module of the project
that does not need the changed one, so it costs little start-up. No file is ever changed: an import
hook gives the changed source. Processes that a test starts see the file, so a module's tests must
run it in their own process.
"""

from __future__ import annotations

import gc
import importlib
import importlib.abc
import importlib.util
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from math import ceil
from pathlib import Path
from types import CodeType

import pytest
from hypothesis import Phase, settings

# The same examples each time, and none made smaller: nobody reads what a failed test says.
settings.register_profile(
    "mutation",
    derandomize=True,
    database=None,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
)


class _Changed(importlib.abc.MetaPathFinder):
    """Finds one module, with a source that is not its file's."""

    def __init__(self, file: Path, source: str) -> None:
        self._file, self._source = file, source
        self._name = _name(file)

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        source = self._source

        class Loader(SourceFileLoader):
            def get_code(self, fullname: str) -> CodeType:
                return compile(source, self.path, "exec")

        place = str(self._file.absolute())
        return importlib.util.spec_from_file_location(
            fullname, place, loader=Loader(fullname, place)
        )


def _name(file: Path) -> str:
    """The name under which a file is imported."""
    parts = file.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


class _Withheld(importlib.abc.MetaPathFinder):
    """Refuses to import one module, so that whatever needs it is not imported either."""

    def __init__(self, file: Path) -> None:
        self._name = _name(file)

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname == self._name:
            raise ModuleNotFoundError(f"{fullname} is imported by each trial")


def warm(file: Path, tests: Sequence[str]) -> None:
    """Import what the tests import, but for `file`, the modules that need it and the tests.

    For one module in the life of a process: what it leaves in memory may need another one.
    """
    with tempfile.NamedTemporaryFile("r") as found:
        if not (child := os.fork()):
            before = set(sys.modules)
            _run([*tests, "--collect-only"])
            names = [m for m in sys.modules if m not in before and m.split(".")[0] != "tests"]
            Path(found.name).write_text("\n".join(names))
            os._exit(0)
        os.waitpid(child, 0)
        withheld = _Withheld(file)
        sys.meta_path.insert(0, withheld)
        for name in found.read().splitlines():
            # A name that pytest made up, a module that cannot come first, or one that needs `file`:
            # the trial imports it.
            try:
                importlib.import_module(name)
            except Exception:
                continue
        sys.meta_path.remove(withheld)
    # pytest collects garbage at its end: in a fork that would copy every page of the libraries.
    gc.collect()
    gc.freeze()


@dataclass(frozen=True)
class Outcome:
    """Whether the tests passed, and the processor time that they took."""

    passed: bool
    cpu_s: float


def trial(file: Path, source: str, tests: Sequence[str], most_cpu_s: float) -> Outcome:
    """Run the tests with this source; they fail too when they take more processor time than that.

    Processor time does not grow with the load of the machine. A test that waits without computing
    is ended by pytest's own time limit. Raises RuntimeError where there are no tests.
    """
    if not (child := os.fork()):
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (ceil(most_cpu_s),) * 2)
        sys.meta_path.insert(0, _Changed(file, source))
        os._exit(_run(tests))
    _, status, usage = os.wait4(child, 0)
    # What the tests started and a failure left behind ends with them.
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    # Negative for a signal; an import that fails stops pytest before any test (2, 4).
    code = os.waitstatus_to_exitcode(status)
    if code == pytest.ExitCode.NO_TESTS_COLLECTED:
        raise RuntimeError(f"no tests in {' '.join(tests)}")
    return Outcome(code == 0, usage.ru_utime + usage.ru_stime)


def _run(tests: Sequence[str]) -> int:
    """pytest without words, in this process."""
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)
    options = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow and not postgres"]
    # pytest reads a file that is named like tests itself, before the import hook gives its change.
    options += ["-o", "python_files=test_*.py"]
    # Nobody reads what a failed assertion compared, and rewriting the tests takes time.
    options += ["--assert=plain", "--hypothesis-profile=mutation"]
    try:
        return int(pytest.main([*options, *tests]))
    except BaseException:
        return 1
