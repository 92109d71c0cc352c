"""One attempt at a job, from its ticket to its outcome. Runs in a worker.

Dask receives only the ticket. The worker claims the lease, fetches the data, and requests the
secret seed when the algorithm first needs noise. A task returns only its final state.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal

from algorithms import catalogue
from algorithms.contract import Block, Outcome, Part
from algorithms.datasets.kinds import read
from coordinator.jobs.workers.blocks import map_spread
from coordinator.jobs.workers.heartbeat import Heart, failure_of, memory_limit
from coordinator.jobs.workers.link import AttemptLost, Link, Ticket
from coordinator.jobs.workers.packing import pack
from coordinator.models.job import Assignment, SecretSeed
from tacit.randomness import NoiseSource, SecureRandom, SeededRandom

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
    try:
        from distributed import get_worker

        return str(get_worker().address)
    except (ImportError, ValueError):
        return f"{socket.gethostname()}/{os.getpid()}"


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
        self, function: Callable[[Block], Part], blocks: Iterable[Block]
    ) -> Sequence[Part]:
        """The results of independent blocks, in order."""
        return map_spread(function, blocks, self._ticket, self._key, self._heart.check)


class BlockContext:
    """The context of a block on another worker: the same streams; its blocks are not distributed.

    The attempt itself reports progress, and ends its blocks.
    """

    def __init__(self, url: str, attempt: str, session: str) -> None:
        self._streams = Streams(Link(url, attempt, session))

    def noise(self, stage: str, block: int = 0) -> NoiseSource:
        """The secret stream of a stage and block."""
        return self._streams(stage, block)

    def progress(self, fraction: float, stage: str) -> None:
        """Do nothing."""

    def map_blocks(
        self, function: Callable[[Block], Part], blocks: Iterable[Block]
    ) -> Sequence[Part]:
        """The results, computed one after the other."""
        return [function(block) for block in blocks]
