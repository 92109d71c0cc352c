"""One attempt at a job, from ticket to outcome: runs in a worker, with heartbeats and blocks.

The worker claims the lease, fetches the data, and requests the secret seed when the algorithm first
needs it. Every 250 ms it reports progress and the coordinator answers continue or stop; an attempt
that has not stopped 1.5 s after being told to is killed with its process. Blocks of a job run on
other workers of Dask if that is worth the transfer. A worker is given only the ticket.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from algorithms import catalogue
from algorithms.contract import Block as JobBlock
from algorithms.contract import Cancelled, Outcome
from algorithms.contract import Part as JobPart
from algorithms.datasets.kinds import read
from coordinator.jobs.workers.link import PATIENCE_S, AttemptLost, Link, Ticket, pack
from coordinator.models.job import Assignment, Beat, Failure, SecretSeed, plain_problem
from tacit.errors import DomainError, TooLarge, Unavailable
from tacit.randomness import NoiseSource, SecureRandom, SeededRandom

Block = TypeVar("Block")
Part = TypeVar("Part")

WORTH_S: Final = 0.1
"""A block that takes less time is not worth a task."""
WORTH_LEFT_S: Final = 1.0
WORTH_SEALS: Final = 10
"""Nor one that takes less than this many times its sealing: the transfer takes about five times as
long as that (copies, two hops through the scheduler, opening; 80 ms for 8 MB, `bench.jobs`)."""
LOOKED_AT: Final = 2
LOOK_S: Final = 0.1
_NONCE: Final = 12
_numbers = count()


def map_spread(
    function: Callable[[Block], Part],
    blocks: Iterable[Block],
    ticket: Ticket,
    key: bytes,
    check: Callable[[], None],
) -> list[Part]:
    """The results in order. `check` raises if the job must end."""
    done: list[Part] = []
    rest = iter(blocks)
    began = time.monotonic()
    for block in rest:
        done.append(function(block))
        check()
        if len(done) == LOOKED_AT:
            block_s = (time.monotonic() - began) / LOOKED_AT
            if block_s < WORTH_S:
                break
            remaining = list(rest)
            if block_s * len(remaining) < WORTH_LEFT_S:
                rest = iter(remaining)
                break
            spread_results = _spread(function, remaining, block_s, ticket, key, check)
            if spread_results is not None:
                return done + spread_results
            rest = iter(remaining)
            break
    for block in rest:
        done.append(function(block))
        check()
    return done


def _spread(
    function: Callable[[Block], Part],
    blocks: list[Block],
    each_s: float,
    ticket: Ticket,
    key: bytes,
    check: Callable[[], None],
) -> list[Part] | None:
    """Their results; None if there is no other worker, if they cannot be pickled, or if blocks that
    take `each_s` are not worth the transfer."""
    if not _of_dask():
        return None
    from distributed import worker_client

    sealed = _Sealed(key)
    try:
        code = sealed.seal(function)
        began = time.monotonic()
        cargo = [sealed.seal(blocks[0])]
        if each_s < WORTH_SEALS * (time.monotonic() - began):
            return None
        cargo += [sealed.seal(block) for block in blocks[1:]]
    except (TypeError, pickle.PicklingError, AttributeError):
        return None
    with worker_client() as client:
        if len(client.scheduler_info(n_workers=-1)["workers"]) < 2:
            return None
        shared = client.scatter(code, broadcast=True, hash=False)
        futures = [
            client.submit(
                run_block,
                ticket,
                shared,
                item,
                key=f"{ticket.attempt}/block-{next(_numbers)}",
                pure=False,
            )
            for item in cargo
        ]
        del cargo
        try:
            while not all(future.done() for future in futures):
                check()
                time.sleep(LOOK_S)
            return [
                sealed.open(future.result()) if future.status == "finished" else function(block)
                for future, block in zip(futures, blocks, strict=True)
            ]
        finally:
            client.cancel(futures)


def run_block(ticket: Ticket, code: bytes, block: bytes) -> bytes:
    """Compute one block on any worker; its result is sealed."""
    link = Link(ticket.url, ticket.attempt, ticket.token)
    try:
        sealed = _Sealed(link.block_key())
    except AttemptLost:
        return b""
    finally:
        link.close()
    return sealed.seal(sealed.open(code)(sealed.open(block)))


class _Sealed:
    """Values under the attempt's block key."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def seal(self, value: Any) -> bytes:
        import cloudpickle  # type: ignore[import-untyped]

        nonce = os.urandom(_NONCE)
        return nonce + self._cipher.encrypt(nonce, cloudpickle.dumps(value), None)

    def open(self, data: bytes) -> Any:
        plain = self._cipher.decrypt(data[:_NONCE], data[_NONCE:], None)
        return pickle.loads(plain)  # noqa: S301 - authenticated, and made by an attempt of ours


# Every 250 ms the worker reports progress and the coordinator answers continue or stop. An attempt
# that has not stopped 1.5 s later (in one long call, say) is killed with its process: the worker's
# nanny starts a new process, and the coordinator another attempt for every job that shared it.
#
# Every heartbeat checks the memory in use. A large allocation between two heartbeats is refused by
# the system (RLIMIT_DATA, so that it raises MemoryError), with a margin above the limit: libraries
# end the process when they are refused a thread or a buffer. Both cases report
# `job_memory_exceeded`. Time: `job_time_exceeded`.

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


# One attempt at a job, from its ticket to its outcome. Runs in a worker.
#
# It is given only the ticket. The worker claims the lease, fetches the data, and requests the
# secret seed when the algorithm first needs noise. A task returns only its final state.

Ending = Literal["delivered", "failed", "lost"]
NICE: Final = 10
"""Workers have a lower priority than the services on their machine."""


def run_attempt(ticket: Ticket) -> Ending:
    """Run the job of a ticket, unless the ticket was claimed before."""
    link = Link(ticket.url, ticket.attempt, ticket.token)
    os.setpriority(os.PRIO_PROCESS, 0, NICE)
    try:
        return _run(link, ticket)
    except AttemptLost:
        return "lost"
    finally:
        link.close()


def _run(link: Link, ticket: Ticket) -> Ending:
    assignment = link.claim(worker_name())
    try:
        with Heart(link, assignment) as heart, memory_limit(assignment.memory_bytes):
            packed = pack(_outcome(link, ticket, assignment, heart))
            heart.check()  # a last long call may have exceeded a limit
            link.deliver(packed)
    except AttemptLost:
        raise
    except Exception as error:
        link.fail(failure_of(error))
        return "failed"
    return "delivered"


def _outcome(link: Link, ticket: Ticket, assignment: Assignment, heart: Heart) -> Outcome:
    algorithm = catalogue.find(assignment.algorithm)
    params = algorithm.params.model_validate_json(assignment.params_json)
    params = params.model_copy(update=assignment.lists)
    with link.content() as stream:
        dataset = read(assignment.declaration, stream)
    heart.check()
    algorithm.check(dataset, params, assignment.stance)
    context = JobContext(link, ticket, assignment.block_key, heart)
    return algorithm.run(dataset, params, assignment.stance, context)


def worker_name() -> str:
    """The worker's address if there is one, else host and process id."""
    if not _of_dask():
        return f"{socket.gethostname()}/{os.getpid()}"
    from distributed import get_worker

    return str(get_worker().address)


def _of_dask() -> bool:
    """Whether this process is a worker of Dask, which then has been imported."""
    if "distributed" not in sys.modules:
        return False
    from distributed import get_worker

    try:
        get_worker()
    except ValueError:
        return False
    return True


class Streams:
    """The job's secret streams, by (stage, block); the first one requests the seed."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._lock = threading.Lock()
        self._seed: SecretSeed | None = None

    def __call__(self, stage: str, block: int) -> NoiseSource:
        """The stream of a stage and block."""
        with self._lock:
            if self._seed is None:
                self._seed = self._link.seed()
        name = f"{stage}/{block}"
        if self._seed.secret is not None:
            return SecureRandom.from_secret_seed(self._seed.secret, name)
        return SeededRandom(int.from_bytes(f"{self._seed.chosen}/{name}".encode(), "big"))


class JobContext:
    """What an algorithm is given in a worker (`algorithms.contract.Context`)."""

    def __init__(self, link: Link, ticket: Ticket, block_key: bytes, heart: Heart) -> None:
        self._link, self._ticket, self._key, self._heart = link, ticket, block_key, heart
        self._streams = Streams(link)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled for another worker, in sealed blocks only."""
        return BlockContext, (self._link.url, self._link.attempt, self._link.token)

    def noise(self, stage: str, block: int = 0) -> NoiseSource:
        """The secret stream of a stage and block."""
        return self._streams(stage, block)

    def progress(self, fraction: float, stage: str) -> None:
        """Report progress, from 0 to 1; raises if the job must end."""
        self._heart.tell(fraction, stage)

    def map_blocks(
        self, function: Callable[[JobBlock], JobPart], blocks: Iterable[JobBlock]
    ) -> Sequence[JobPart]:
        """The results of independent blocks, in order."""
        return map_spread(function, blocks, self._ticket, self._key, self._heart.check)


class BlockContext:
    """The context of a block on another worker: the same streams; its blocks are not
    distributed. Only the attempt itself reports progress and ends its blocks."""

    def __init__(self, url: str, attempt: str, session: str) -> None:
        self._streams = Streams(Link(url, attempt, session))

    def noise(self, stage: str, block: int = 0) -> NoiseSource:
        """The secret stream of a stage and block."""
        return self._streams(stage, block)

    def progress(self, fraction: float, stage: str) -> None:
        """Do nothing."""

    def map_blocks(
        self, function: Callable[[JobBlock], JobPart], blocks: Iterable[JobBlock]
    ) -> Sequence[JobPart]:
        """The results, computed one after the other."""
        return [function(block) for block in blocks]
