"""Hosts in a proved round: whose parts are counted. Spec: validity, section 4."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from common.store.transactions import Transaction
from coordinator.store import registry
from tacit.protocol.round.accepted import ProvedPart


async def parts_of_largest(
    transaction: Transaction, parts: Iterable[ProvedPart]
) -> tuple[int, ...]:
    """How many curators are in each part of the host with the most of them; () without parts."""
    starts = await registry.host_starts(transaction)
    hosts: dict[int, list[int]] = {}
    for part in parts:
        hosts.setdefault(bisect_right(starts, part.first), []).append(part.curators)
    return tuple(max(hosts.values(), key=sum, default=()))
