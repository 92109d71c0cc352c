"""The workers of a Dask scheduler that the settings name. Dask is imported only here and in its
workers, when it is needed.

Dask must not retry a task (`allowed-failures: 0`): an attempt's ticket is valid once, and the
dispatcher begins the next attempt.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Final

from common.runtime.logs import describe, get_logger
from coordinator.jobs.workers.link import Ticket

log = get_logger("tacit.jobs")

START_S: Final = 60.0
CLOSE_S: Final = 5.0


class ClusterAway(Exception):
    """No worker is available at the moment."""


class Cluster:
    """Blocking calls of Dask, each in a thread; a lock ensures that it is started once."""

    local = False
    """The workers go on when this process ends."""

    def __init__(self, scheduler: str) -> None:
        self._scheduler = scheduler
        self._lock = threading.Lock()
        self._client: Any = None
        self._closed = False

    async def slots(self) -> int:
        """How many attempts may run together: threads of all workers. Connects."""
        return await asyncio.to_thread(self._slots)

    async def submit(self, ticket: Ticket, ended: Callable[[], None]) -> None:
        """Run an attempt; `ended` is called in this loop when it has stopped running.

        Raises ClusterAway.
        """
        loop = asyncio.get_running_loop()

        def tell(_: Any) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(ended)

        await asyncio.to_thread(self._submit, ticket, tell)

    async def kill(self, address: str) -> None:
        """End a worker's process; its nanny starts a new one."""
        await asyncio.to_thread(self._kill, address)

    async def warm(self) -> None:
        """Its workers run already."""

    async def close(self) -> None:
        """Disconnect from the workers."""
        await asyncio.to_thread(self._close)

    # --- in threads ------------------------------------------------------------------------------

    def _slots(self) -> int:
        workers = self._started().scheduler_info(n_workers=-1)["workers"]
        threads = sum(int(worker["nthreads"]) for worker in workers.values())
        return max(threads, 1)

    def _submit(self, ticket: Ticket, tell: Callable[[Any], None]) -> None:
        from coordinator.jobs.workers.execution import run_attempt

        client = self._started()
        key = f"job-attempt/{ticket.attempt}"
        with self._lock:
            if self._closed:
                raise ClusterAway
        future = client.submit(run_attempt, ticket, key=key, pure=False, retries=0)
        future.add_done_callback(tell)

    def _kill(self, address: str) -> None:
        if self._client is None:
            return
        try:
            self._client.restart_workers([address], timeout=START_S, raise_for_error=False)
        except Exception as error:  # it may be gone, or not one of Dask's
            log.warning("worker_not_killed", **describe(error))

    def _started(self) -> Any:
        with self._lock:
            if self._closed:
                raise ClusterAway
            if self._client is not None and self._client.status == "running":
                return self._client
            try:
                self._client = self._start()
            except (OSError, TimeoutError) as error:
                log.error("cluster_away", **describe(error))
                raise ClusterAway from None
            return self._client

    def _start(self) -> Any:
        import dask
        import distributed

        dask.config.set({"distributed.scheduler.allowed-failures": 0})
        return _made(distributed.Client, self._scheduler, timeout=START_S, set_as_default=False)

    def _close(self) -> None:
        with self._lock:
            self._closed = True
            if self._client is not None:
                try:
                    self._client.close(timeout=CLOSE_S)
                except Exception as error:
                    log.warning("cluster_not_closed", **describe(error))
            self._client = None


def _made(kind: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """An object of Dask's, whose constructors have no types."""
    return kind(*arguments, **named)
