"""The workers: our own processes, started when the first job needs them, or those of a Dask
scheduler that the settings name. Dask is imported only here and in workers, when it is needed.

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
from coordinator.settings import CoordinatorSettings

log = get_logger("tacit.jobs")

START_S: Final = 60.0
CLOSE_S: Final = 5.0


_NO_PAGES: Final[dict[str, list[str]]] = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
_NOWHERE: Final = "127.0.0.1:0"
"""Dask always listens for HTTP, by default on 8787 of all interfaces: here it has no pages, on any
free port of the loopback address."""
_GONE: Final = ("closed", "failed")
_NEVER: Final = "1000 days"
"""Dask closes a lost worker's nanny for good if none is there 15 s later, though a slow machine
still starts it, or it was lost again just then. Nannies start workers as often as they end."""


class ClusterAway(Exception):
    """No worker is available at the moment."""


class Cluster:
    """Blocking calls of Dask, each in a thread; a lock ensures that it is started once."""

    def __init__(self, settings: CoordinatorSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._client: Any = None
        self._own: Any = None
        self._closed = False

    @property
    def local(self) -> bool:
        """Whether the workers end with this process."""
        return self._settings.dask_scheduler is None

    async def slots(self) -> int:
        """How many attempts may run together: threads of all workers. Starts the cluster."""
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

    def replace_closed(self) -> None:
        """Start new nannies for those of ours that closed themselves, as after a worker that could
        not start: Dask replaces none, and an attempt would wait for a worker without end."""
        own = self._own
        if own is None:
            return
        closed = [name for name, nanny in list(own.workers.items()) if nanny.status.name in _GONE]
        for name in closed:
            own.workers.pop(name, None)
        if closed:
            log.warning("workers_replaced", count=len(closed))
            own.scale(self._settings.job_workers)

    async def close(self) -> None:
        """Disconnect from the workers; our own end."""
        await asyncio.to_thread(self._close)

    # --- in threads ------------------------------------------------------------------------------

    def _slots(self) -> int:
        workers = self._started().scheduler_info(n_workers=-1)["workers"]
        threads = sum(int(worker["nthreads"]) for worker in workers.values())
        return max(threads, self._settings.job_workers) if self.local else max(threads, 1)

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

        dask.config.set(
            {
                "distributed.scheduler.allowed-failures": 0,
                "distributed.deploy.lost-worker-timeout": _NEVER,
                **_NO_PAGES,
            }
        )
        address = self._settings.dask_scheduler
        if address is None:
            if self._own is not None:
                self._own.close(timeout=CLOSE_S)
            self._own = _made(
                distributed.LocalCluster,
                n_workers=self._settings.job_workers,
                threads_per_worker=1,
                processes=True,
                memory_limit=0,
                host="127.0.0.1",
                dashboard_address=None,
                scheduler_kwargs={"dashboard_address": _NOWHERE},
                worker_dashboard_address=_NOWHERE,
                silence_logs=40,
            )
            address = self._own.scheduler_address
        return _made(distributed.Client, address, timeout=START_S, set_as_default=False)

    def _close(self) -> None:
        with self._lock:
            self._closed = True
            for part in (self._client, self._own):
                if part is not None:
                    try:
                        part.close(timeout=CLOSE_S)
                    except Exception as error:
                        log.warning("cluster_not_closed", **describe(error))
            self._client = self._own = None


def _made(kind: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """An object of Dask's, whose constructors have no types."""
    return kind(*arguments, **named)
