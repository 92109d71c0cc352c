"""What a service's process sets in the operating system at start; child processes inherit it."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

_SET_PARENT_DEATH_SIGNAL: Final = 1
_CORE_FILTER: Final = Path("/proc/self/coredump_filter")


def leave_no_core() -> None:
    """A crash writes no memory anywhere: it holds keys, readings, shares.

    The limit stops a file; the filter (Linux) empties what a handler would be given by a pipe,
    for which the limit does not count.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):
        _CORE_FILTER.write_text("0\n", encoding="ascii")


def end_with_parent(parent: int) -> None:
    """Let the system end this process, by SIGTERM, when the thread that started it ends, however
    that happens; `parent`: the process that started it. Linux; elsewhere nothing happens.

    A service ends in order on SIGTERM. Nothing is done in the parent, which may be killed.
    """
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
    if os.getppid() != parent:  # it ended before
        raise SystemExit(1)


def open_files() -> int:
    """How many files, and so connections, this process may have open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def allow_open_files(wanted: int) -> None:
    """Raise the limit on open files to `wanted`, as far as the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if wanted > soft:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
