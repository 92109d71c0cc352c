"""Worker processes of the coordinator itself, started when a dataset is uploaded or a job waits.

Each computes one attempt after another: it reads a ticket a line from standard input, and writes an
empty line when the attempt has ended. One that was lost or killed is replaced when the next attempt
needs it. They end with this process.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Final

from common.runtime.logs import describe, get_logger
from common.runtime.process import end_with_parent, give_back, leave_no_core
from coordinator.jobs.workers.cluster import ClusterAway
from coordinator.jobs.workers.link import Ticket

log = get_logger("tacit.jobs")

_PROGRAM: Final = "from coordinator.jobs.workers.own_workers import work; work()"
_ONE_THREAD: Final = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
)


class OwnWorkers:
    """At most `most` processes, each with one attempt at a time."""

    local = True
    """The workers end with this process."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._free: list[asyncio.subprocess.Process] = []
        self._running: dict[asyncio.Task[None], asyncio.subprocess.Process] = {}
        self._warm = self._closed = False

    async def slots(self) -> int:
        """How many attempts may run together."""
        return self._most

    async def warm(self) -> None:
        """Start the first worker, once; it is done while data arrive."""
        if self._warm or self._closed:
            return
        self._warm = True
        with suppress(OSError):  # the attempt that needs one reports it
            self._free.append(await _started())

    async def submit(self, ticket: Ticket, ended: Callable[[], None]) -> None:
        """Run an attempt; `ended` is called when it has stopped running. Raises ClusterAway."""
        if self._closed:
            raise ClusterAway
        self._warm = True
        self._free = [worker for worker in self._free if worker.returncode is None]
        try:
            worker = self._free.pop() if self._free else await _started()
        except OSError as error:
            log.error("worker_not_started", **describe(error))
            raise ClusterAway from None
        task = asyncio.create_task(self._run(worker, ticket, ended))
        self._running[task] = worker
        task.add_done_callback(self._running.pop)

    async def _run(
        self, worker: asyncio.subprocess.Process, ticket: Ticket, ended: Callable[[], None]
    ) -> None:
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            with suppress(ConnectionError):
                worker.stdin.write(json.dumps(asdict(ticket)).encode() + b"\n")
                await worker.stdin.drain()
            if await worker.stdout.readline():
                self._free.append(worker)
            else:
                await worker.wait()
        finally:
            ended()

    async def kill(self, address: str) -> None:
        """End a worker's process."""
        for worker in self._running.values():
            if _address(worker.pid) == address:
                _end(worker)

    async def close(self) -> None:
        """End all."""
        self._closed = True
        for worker in (*self._free, *self._running.values()):
            _end(worker)
            await worker.wait()
        await asyncio.gather(*self._running, return_exceptions=True)


async def _started() -> asyncio.subprocess.Process:
    paths = os.pathsep.join(map(os.path.abspath, sys.path))
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", _PROGRAM, str(os.getpid())),  # -P: see `compute_processes`
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **_ONE_THREAD, "PYTHONPATH": paths},
    )


def _end(worker: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        worker.kill()


def _address(pid: int) -> str:
    """The name of a worker of this machine, as it claims its attempts by."""
    return f"{socket.gethostname()}/{pid}"


def work() -> None:
    """Run attempts, in a process of its own, until standard input ends."""
    end_with_parent(int(sys.argv[1]))
    leave_no_core()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints is no answer
    # Loaded here: the coordinator runs no algorithm.
    from coordinator.jobs.workers.execution import run_attempt

    for line in sys.stdin:
        run_attempt(Ticket(**json.loads(line)))
        give_back()
        answers.write("\n")
