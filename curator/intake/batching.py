"""Many small requests, one transaction: requests that wait during a write form the next batch.

A gateway's devices each send a reading in a separate request. Written one by one, each reading
costs a transaction; batched, thousands share one, and each request waits at most for the write
before its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any, Final, TypeAlias

from common.principals import Principal
from common.store.group_commit import GroupCommit
from curator.intake.intake import Answer, Intake

SMALL: Final = 256
"""Most items in a request that is batched; a larger one gets its own transaction."""
TOGETHER: Final = 4_096
MOST_WAITING: Final = 20_000
Request: TypeAlias = tuple[Sequence[Any], Principal]


class Batching:
    """Writes the requests that wait."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._requests: GroupCommit[Request, list[Answer]] = GroupCommit(
            self._write,
            size_of=lambda request: len(request[0]),
            batch_items=inf,
            batch_size=TOGETHER,
            max_size=MOST_WAITING,
            abandoned=True,
        )

    async def take(self, raws: Sequence[Any], caller: Principal) -> list[Answer]:
        """Store the items of a request; one answer each, after the commit.

        What is waiting is written even if its sender goes away. Raises QueueFull before anything
        is queued, and what the store raises.
        """
        if len(raws) > SMALL:
            return await self._intake.take(raws, caller)
        return await self._requests.submit((raws, caller))

    async def _write(self, requests: Sequence[Request]) -> list[list[Answer]]:
        return await together(self._intake, requests)


async def together(intake: Intake, requests: Sequence[Request]) -> list[list[Answer]]:
    """The items of several requests in one transaction; the answers of each, counted from 0."""
    answers = await intake.take_sent([(raw, caller) for raws, caller in requests for raw in raws])
    found, begin = [], 0
    for raws, _ in requests:
        own = answers[begin : begin + len(raws)]
        found.append([replace(answer, index=answer.index - begin) for answer in own])
        begin += len(raws)
    return found
