"""The events of a dataset's ledger and the chain of hashes over them (spec: jobs, "Datasets").

As in the ledger of curators, each hash covers the row and the hash before it. The first hash
covers the ledger's id, so rows of one ledger never verify in another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from coordinator.models.budget_ledger import Break
from tacit.wire import canonical_json, format_instant


class EventKind(StrEnum):
    DECLARED = "declared"
    RESERVED = "reserved"
    CHARGED = "charged"
    CREDITED = "credited"
    RELEASED_OUTSIDE_BUDGET = "released_outside_budget"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class DatasetEvent:
    """One row. `payload`: plain JSON values; amounts are integers (10^-6, 10^-15)."""

    seq: int
    time: datetime
    kind: EventKind
    dataset_id: str
    job_id: str | None
    payload: Mapping[str, Any]
    previous: bytes
    hash: bytes


def genesis(ledger_id: str) -> bytes:
    """The head of a ledger without events."""
    return hashlib.sha256(b"tacit dataset ledger v1 " + ledger_id.encode()).digest()


def following(
    seq: int,
    head: bytes,
    kind: EventKind,
    dataset_id: str,
    job_id: str | None,
    payload: Mapping[str, Any],
    time: datetime,
) -> DatasetEvent:
    """The event after number `seq`, whose hash is `head`."""
    time = time.replace(microsecond=time.microsecond // 1000 * 1000)
    digest = _digest(seq + 1, time, kind, dataset_id, job_id, payload, head)
    return DatasetEvent(seq + 1, time, kind, dataset_id, job_id, payload, head, digest)


def first_break(ledger_id: str, events: Iterable[DatasetEvent]) -> Break | None:
    """What is wrong with the rows of a whole ledger, oldest first; None if nothing is."""
    seq, head = 0, genesis(ledger_id)
    for event in events:
        if event.seq != seq + 1:
            return Break(seq + 1, f"row {seq + 1} is missing: row {event.seq} follows")
        if event.previous != head:
            return Break(event.seq, "the row does not follow the one before it")
        content = event.kind, event.dataset_id, event.job_id, event.payload
        if _digest(event.seq, event.time, *content, head) != event.hash:
            return Break(event.seq, "the row does not have the content that its hash covers")
        seq, head = event.seq, event.hash
    return None


def _digest(
    seq: int,
    time: datetime,
    kind: EventKind,
    dataset_id: str,
    job_id: str | None,
    payload: Mapping[str, Any],
    previous: bytes,
) -> bytes:
    body = canonical_json(
        {
            "seq": seq,
            "time": format_instant(time),
            "kind": kind.value,
            "dataset": dataset_id,
            "job": job_id,
            "payload": dict(payload),
            "previous": previous.hex(),
        }
    )
    return hashlib.sha256(body).digest()
