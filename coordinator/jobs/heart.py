"""The signs of life of one attempt, and its end when it must: a thread beside the algorithm.

Every quarter of a second the coordinator hears how far it is and says whether to go on. Who is
told to end and has not after a second and a half (in one long call, say) loses the process: the
worker's keeper starts a new one, and the coordinator another attempt for whoever shared it.

Memory in use is looked at with every beat. Where much is taken at once the system refuses it
(RLIMIT_DATA, so that an array too many raises MemoryError), at some way beyond the limit: libraries
end the process when they are refused a thread or a buffer. Both say `job_memory_exceeded`. Time:
`job_time_exceeded`.
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

import httpx

from algorithms.contract import Cancelled
from common.errors import DomainError, TooLarge, Unavailable
from common.models.job import Assignment, Beat, Failure
from coordinator.jobs.link import AttemptLost, Link
from coordinator.jobs.problems import plain_problem

BEAT_S: Final = 0.25
GRACE_S: Final = 1.5
MARGIN_BYTES: Final = 256 << 20
"""Between what a job may have in use and what the system refuses: addresses that are taken and not
used, and what Dask needs, which beats in the same process."""
STACK_BYTES: Final = 16 << 20
"""Who has less than this left cannot start a thread, which libraries tell in words of their own."""
_SAID: Final = (DomainError, Cancelled, AttemptLost)
"""Errors of ours, which mean what they say."""
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class MemoryExceeded(TooLarge):
    """The job took more memory than one may."""

    name = "job_memory_exceeded"
    title = "The job needs more memory than is allowed"


class TimeExceeded(Unavailable):
    """The job ran longer than one may."""

    name = "job_time_exceeded"
    title = "The job ran longer than is allowed"
    retryable_by_default = False


class Heart:
    """Beats until the attempt ends. `tell` is cheap and is called by the algorithm."""

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
        """How far it is; raises why it must end: Cancelled, MemoryExceeded, TimeExceeded."""
        self._progress, self._stage = min(max(fraction, 0.0), 1.0), stage[:200]
        self.check()

    def check(self) -> None:
        """Raises why it must end, if it must."""
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
                except httpx.HTTPError:  # the coordinator may be starting anew
                    if time.monotonic() - last > 2 * self._limits.lease_s:
                        stop = Cancelled()
            if stop is not None:
                self._end(stop)
                return

    def _end(self, stop: Exception) -> None:
        self._stop = stop
        if self._over.wait(GRACE_S):
            return
        with contextlib.suppress(AttemptLost, httpx.HTTPError):
            self._link.fail(failure_of(stop), once=True)
        os._exit(1)

    def _broken(self) -> Exception | None:
        if time.monotonic() - self._began > self._limits.wall_s:
            return TimeExceeded(extra={"seconds": self._limits.wall_s})
        if _resident() - self._before > self._limits.memory_bytes:
            return MemoryExceeded(extra={"bytes": self._limits.memory_bytes})
        return None


def failure_of(error: Exception) -> Failure:
    """How an error is told to the coordinator."""
    if isinstance(error, Cancelled):
        return Failure(cancelled=True)
    return Failure(problem=plain_problem(error))


@contextlib.contextmanager
def memory_limit(extra: int) -> Iterator[None]:
    """Let a job take so many bytes and `MARGIN_BYTES`; raises MemoryExceeded for an array too
    many."""
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
