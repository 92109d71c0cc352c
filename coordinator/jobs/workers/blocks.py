"""Blocks of a job on other workers, if that is worth the transfer.

An attempt computes its first blocks itself and measures how long one takes. If many are left, other
workers exist and a block takes longer than its transfer there and back, the rest is distributed:
function and blocks are pickled, sealed with the attempt's block key (so no task graph, log or
spilled file contains the data), and opened by a worker that fetches the key under the attempt's
lease. Results return in order, sealed as well. What cannot be pickled (such as a stream of noise)
is computed locally. A block draws from streams with its own name, so the place does not matter.
"""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, Final, TypeVar

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from coordinator.jobs.workers.link import AttemptLost, Link, Ticket

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
            each = (time.monotonic() - began) / LOOKED_AT
            if each < WORTH_S:
                break
            left = list(rest)
            if each * len(left) < WORTH_LEFT_S:
                rest = iter(left)
                break
            found = _spread(function, left, each, ticket, key, check)
            if found is not None:
                return done + found
            rest = iter(left)
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
    try:
        from distributed import get_worker, worker_client

        get_worker()
    except (ImportError, ValueError):
        return None
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
