"""The heartbeat of one attempt, in a thread alongside the algorithm.

Every 250 ms it reports progress and the coordinator answers continue or stop. An attempt that has
not stopped 1.5 s after being told to (in one long call, say) is killed with its process: the
worker's nanny starts a new process, and the coordinator another attempt for every job that shared
it.

Every heartbeat checks the memory in use. A large allocation between two heartbeats is refused by
the system (RLIMIT_DATA, so that it raises MemoryError), with a margin above the limit: libraries
end the process when they are refused a thread or a buffer. Both cases report
`job_memory_exceeded`. Time: `job_time_exceeded`.
"""

from __future__ import annotations

import contextlib
import os
import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from algorithms.contract import Cancelled
from coordinator.jobs.problems import plain_problem
from coordinator.jobs.workers.link import PATIENCE_S, AttemptLost, Link
from coordinator.models.job import Assignment, Beat, Failure
from tacit.errors import DomainError, TooLarge, Unavailable

BEAT_S: Final = 0.25
GRACE_S: Final = 1.5
MARGIN_BYTES: Final = 256 << 20
"""The margin between the memory limit of a job and that of the system: for addresses that are
reserved but unused, and for Dask, whose heartbeat runs in the same process."""
STACK_BYTES: Final = 16 << 20
"""With less than this left no thread starts, and libraries raise their own errors."""
_SAID: Final = (DomainError, Cancelled, AttemptLost)
"""Our own errors, which are reported as they are."""
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class MemoryExceeded(TooLarge):
    """The job used more memory than a job may."""

    name = "job_memory_exceeded"
    title = "The job needs more memory than is allowed"


class TimeExceeded(Unavailable):
    """The job ran longer than a job may."""

    name = "job_time_exceeded"
    title = "The job ran longer than is allowed"
    retryable_by_default = False


class Heart:
    """Sends heartbeats until the attempt ends. `tell` is cheap; the algorithm calls it."""

    def __init__(self, link: Link, assignment: Assignment) -> None:
        self._link, self._limits = link, assignment
        self._progress, self._stage = 0.0, "reading the data"
        self._over = threading.Event()
        self._stop: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="heart", daemon=True)
        self._began = time.monotonic()
        self._before = _resident()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def tell(self, fraction: float, stage: str) -> None:
        """Record progress. Raises Cancelled, MemoryExceeded or TimeExceeded if the job must end."""
        self._progress, self._stage = min(max(fraction, 0.0), 1.0), stage[:200]
        self.check()

    def check(self) -> None:
        """Raise Cancelled, MemoryExceeded or TimeExceeded if the job must end."""
        if self._stop is not None:
            raise self._stop

    def _run(self) -> None:
        last = time.monotonic()
        while not self._over.wait(BEAT_S):
            stop = self._broken()
            if stop is None:
                try:
                    beat = Beat(progress=self._progress, stage=self._stage)
                    if self._link.beat(beat).cancel:
                        stop = Cancelled()
                    last = time.monotonic()
                except AttemptLost:
                    stop = Cancelled()
                # The coordinator may be busy or restarting, or there is no memory for a request.
                # The thread must survive it: for the coordinator silence alone is no failure.
                except Exception:
                    if time.monotonic() - last > max(2 * self._limits.lease_s, PATIENCE_S):
                        stop = Cancelled()
            if stop is not None:
                self._end(stop)
                return

    def _end(self, stop: Exception) -> None:
        self._stop = stop
        if self._over.wait(GRACE_S):
            return
        with contextlib.suppress(Exception):  # in every case the process ends
            self._link.fail(failure_of(stop), once=True)
        os._exit(1)

    def _broken(self) -> Exception | None:
        if time.monotonic() - self._began > self._limits.wall_s:
            return TimeExceeded(extra={"seconds": self._limits.wall_s})
        if _resident() - self._before > self._limits.memory_bytes:
            return MemoryExceeded(extra={"bytes": self._limits.memory_bytes})
        return None


def failure_of(error: Exception) -> Failure:
    """An error as it is reported to the coordinator."""
    if isinstance(error, Cancelled):
        return Failure(cancelled=True)
    return Failure(problem=plain_problem(error))


@contextlib.contextmanager
def memory_limit(extra: int) -> Iterator[None]:
    """Limit a job to this many more bytes and `MARGIN_BYTES`. Raises MemoryExceeded beyond that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = _private() + extra + MARGIN_BYTES
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    try:
        yield
    except MemoryError:
        raise MemoryExceeded(extra={"bytes": extra}) from None
    except Exception as error:
        if isinstance(error, _SAID) or limit - _private() > STACK_BYTES:
            raise
        raise MemoryExceeded(extra={"bytes": extra}) from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _resident() -> int:
    """Bytes of memory that this process has in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE


def _private() -> int:
    """Bytes that count for RLIMIT_DATA."""
    return int(Path("/proc/self/statm").read_text().split()[5]) * _PAGE
