"""The parts of hosts in proved rounds. Spec: validity, section 4."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from common.store.transactions import Transaction
from coordinator.store import registry
from tacit.protocol.round.accepted import ProvedPart


async def parts_of_hosts(
    transaction: Transaction, parts: Iterable[ProvedPart]
) -> list[tuple[int, ...]]:
    """The curators in each part of each host of a round."""
    starts = [first for first, _ in await registry.host_runs(transaction)]
    hosts: dict[int, list[int]] = {}
    for part in parts:
        hosts.setdefault(bisect_right(starts, part.first), []).append(part.curators)
    return [tuple(found) for found in hosts.values()]
