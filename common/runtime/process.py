"""A service's process: what it sets in the operating system at start, memory after large work,
private directories, and how optional extras are installed.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

_SET_PARENT_DEATH_SIGNAL: Final = 1
_CORE_FILTER: Final = Path("/proc/self/coredump_filter")


def leave_no_core() -> None:
    """Let no crash write memory anywhere: it contains keys, readings, shares.

    The limit prevents a file; the filter (Linux) empties what a handler would receive by a pipe,
    to which the limit does not apply.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):
        _CORE_FILTER.write_text("0\n", encoding="ascii")


def end_with_parent(parent: int) -> None:
    """Let the system end this process, by SIGTERM, when the thread that started it ends for any
    reason; `parent`: the process that started it. Linux only; elsewhere it does nothing.

    A service ends in order on SIGTERM. The parent, which may be killed, does nothing.
    """
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
    if os.getppid() != parent:  # it ended before
        raise SystemExit(1)


def open_files() -> int:
    """How many files, and so connections, this process may have open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def allow_open_files(count: int) -> None:
    """Raise the limit on open files to `wanted`, as far as the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        count = min(count, hard)
    if count > soft:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


# Memory after large work: what glibc keeps for later is returned to the operating system.
#
# Otherwise, after one enrolment of a million curators, a service would keep its peak permanently.

_M_ARENA_MAX: Final = -8
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3


@cache
def _trim() -> object:
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


def give_back() -> None:
    """Return free memory to the system, if the C library can (glibc)."""
    trim = _trim()
    if callable(trim):
        trim(0)


def return_large_blocks(kept_bytes: int) -> None:
    """From now on blocks above 2.5 megabytes return to the system when they are freed (glibc), so
    that a peak of large bodies is not kept.

    Blocks of a segment, two megabytes, are reused, as fresh pages cost several times as much as
    writing them: at most `kept_bytes` stay free at the end of each of two heaps.
    """
    option = getattr(ctypes.CDLL(None), "mallopt", None)
    if callable(option):
        option(_M_MMAP_THRESHOLD, 5 << 19)
        option(_M_TRIM_THRESHOLD, kept_bytes)
        option(_M_ARENA_MAX, 2)


# Directories that only their owner may enter.


def make_private_directory(path: Path) -> None:
    """Make a directory of mode 0700 with its parents; an existing one is not changed."""
    missing = [part for part in (path, *path.parents) if not part.exists()]
    for part in reversed(missing):
        part.mkdir(mode=0o700, exist_ok=True)


# How to install what a service or the command line can do without: one sentence for all errors.


def extra_needed(what_for: str, extra: str) -> str:
    """The error if an extra of `pyproject.toml` is not installed. None of our packages is on the
    public package index: they are installed from a clone."""
    return f"{what_for} needs the extra `{extra}`: pip install '.[{extra}]' in the clone of Tacit"
