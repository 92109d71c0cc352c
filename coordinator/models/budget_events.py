"""The events of the ledger and the chain of hashes over them (spec: budget, section 1).

An event holds its time, its actor, the curators and the change; its hash covers all of that and the
hash of the event before. So an edited, removed or moved row is detected. A cut-off tail is detected
only against a head that another party keeps: every round descriptor carries one.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

from tacit import sets
from tacit.wire import canonical_json, format_instant

GENESIS: Final = hashlib.sha256(b"tacit ledger v1").digest()
"""The head of a ledger without events."""


class Kind(StrEnum):
    JOINED = "joined"
    LEFT = "left"
    REFRESHED = "refreshed"
    FLAGGED = "flagged"
    CLEANSED = "cleansed"
    NON_COMPLIANT = "non_compliant"
    REINSTATED = "reinstated"
    ROUND_DEBITED = "round_debited"
    ROUND_RELEASED = "round_released"
    ROUND_ABORTED = "round_aborted"
    LIMIT_CHANGED = "limit_changed"
    JOB_DEBITED = "job_debited"
    JOB_SETTLED = "job_settled"


@dataclass(frozen=True, slots=True)
class Draft:
    """An event that is not in the ledger yet.

    `first` and `count`: the run of roster numbers that it is about, if it is about curators;
    `payload`: plain JSON values without floats.
    """

    kind: Kind
    actor: str
    payload: Mapping[str, Any]
    first: int | None = None
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the ledger."""

    seq: int
    time: datetime
    kind: Kind
    actor: str
    first: int | None
    count: int | None
    payload: Mapping[str, Any]
    previous: bytes
    hash: bytes


def _digest(seq: int, time: datetime, draft: Draft, previous: bytes) -> bytes:
    body = canonical_json(
        {
            "seq": seq,
            "time": format_instant(time),
            "kind": draft.kind.value,
            "actor": draft.actor,
            "first": draft.first,
            "count": draft.count,
            "payload": dict(draft.payload),
            "previous": previous.hex(),
        }
    )
    return hashlib.sha256(body).digest()


def chain(drafts: Iterable[Draft], seq: int, head: bytes, time: datetime) -> Iterator[Event]:
    """These drafts as the events after number `seq`, whose hash is `head`."""
    for number, draft in enumerate(drafts, seq + 1):
        digest = _digest(number, time, draft, head)
        yield Event(
            number,
            time,
            draft.kind,
            draft.actor,
            draft.first,
            draft.count,
            draft.payload,
            head,
            digest,
        )
        head = digest


@dataclass(frozen=True, slots=True)
class Break:
    """The first bad row of a ledger, and what is wrong with it."""

    seq: int
    reason: str


def first_break(events: Iterable[Event], seq: int = 0, head: bytes = GENESIS) -> Break | None:
    """What is wrong with events that should follow number `seq`; None if nothing is."""
    for event in events:
        if event.seq != seq + 1:
            return Break(seq + 1, f"row {seq + 1} is missing: row {event.seq} follows")
        if event.previous != head:
            return Break(event.seq, "the row does not follow the one before it")
        draft = Draft(event.kind, event.actor, event.payload, event.first, event.count)
        if _digest(event.seq, event.time, draft, head) != event.hash:
            return Break(event.seq, "the row does not have the content that its hash covers")
        seq, head = event.seq, event.hash
    return None


class MemberSet(NamedTuple):
    """A set of roster numbers as it stands in an event: compact text, over `size` numbers."""

    text: str
    size: int

    @classmethod
    def of(cls, members: sets.Bits) -> MemberSet:
        """The set of one boolean per number."""
        return cls.packed(sets.pack(members), int(members.size))

    @classmethod
    def packed(cls, bitmap: bytes, size: int) -> MemberSet:
        """The set of a bitmap over `size` numbers."""
        return cls(base64.b85encode(zlib.compress(bitmap, 6)).decode("ascii"), size)

    def bits(self) -> sets.Bits:
        """One boolean per number; ValueError for a text that is no set."""
        return sets.unpack(self.bitmap(), self.size)

    def bitmap(self) -> bytes:
        """The set as a bitmap, not checked; ValueError for a text that is none."""
        return zlib.decompress(base64.b85decode(self.text))
