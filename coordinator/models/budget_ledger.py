"""The ledger's values: its events and the chain of hashes over them, declared figures, checkpoints.

Spec: budget, section 1. An event's hash covers all of it and the hash of the event before. Scaled
amounts are integers: micro-epsilon, and 10^-9 of the readings' unit. A checkpoint is the folded
state in compact bytes, signed by the coordinator; it holds nothing that events and disclosures do
not lead to.

The events of a dataset's ledger and the chain of hashes over them (spec: jobs, "Datasets").

As in the ledger of curators, each hash covers the row and the hash before it. The first hash
covers the ledger's id, so rows of one ledger never verify in another.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fractions import Fraction
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
from pydantic import Field, field_validator, model_validator

from tacit import sets
from tacit.accounting.bounds import CuratorFigures, Disclosed
from tacit.crypto.signing import Identity, Signed, verify
from tacit.wire import Binary, Exact, WireModel, canonical_json, format_instant, require

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
    """An event that is not in the ledger yet. `first` and `count`: the roster numbers that it
    concerns, if it concerns curators; `payload`: plain JSON values without floats."""

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
    """A set of roster numbers in the form of an event: compact text, over `size` numbers."""

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


# What a curator declares, and what the paper stance has it disclose, on the wire and scaled.
#
# Scaled amounts are integers: micro-epsilon, and 10^-9 of the readings' unit for amounts of
# readings. An amount that is finer or larger than that is refused, never rounded: the bounds are
# exact.

MICRO: Final = 10**6
NANO: Final = 10**9
MOST_EPSILON: Final = 10_000
_SALT_BYTES: Final = 16
MOST_AMOUNT: Final = 9 * 10**9
"""Scaled to 10^-9 it fits 64 bits."""


class Declaration(WireModel):
    """A curator's declared figures: its epsilon per local release, the record sensitivity Delta
    of its contribution, and F, the largest possible contribution (default: max_readings *
    Delta)."""

    epsilon: Exact
    sensitivity: Exact
    largest_contribution: Exact | None = None
    max_readings: Annotated[int, Field(ge=1, le=1_000_000)] = 1

    @field_validator("epsilon")
    @classmethod
    def _epsilon(cls, value: Fraction) -> Fraction:
        require(0 < value <= MOST_EPSILON, value, f"must be above 0 and at most {MOST_EPSILON}")
        return require((value * MICRO).denominator == 1, value, "must be whole in millionths")

    @field_validator("sensitivity", "largest_contribution")
    @classmethod
    def _amount(cls, value: Fraction | None) -> Fraction | None:
        if value is None:
            return None
        return require(value > 0 and _scalable(value), value, _AMOUNT)

    @model_validator(mode="after")
    def _fits(self) -> Declaration:
        require(_scalable(self.largest), self, "max_readings * sensitivity is too large")
        return self

    @property
    def largest(self) -> Fraction:
        """F, declared or derived."""
        if self.largest_contribution is not None:
            return self.largest_contribution
        return self.sensitivity * self.max_readings


class Disclosure(WireModel):
    """What a curator discloses in the paper stance: D, f(x), m. Private, for operators only."""

    largest_reading: Exact
    total: Exact
    readings: Annotated[int, Field(ge=0, le=2**40)]
    negative_readings: bool = False

    @field_validator("largest_reading", "total")
    @classmethod
    def _amount(cls, value: Fraction) -> Fraction:
        return require(_scalable(abs(value)), value, _AMOUNT)

    @model_validator(mode="after")
    def _consistent(self) -> Disclosure:
        if self.negative_readings:
            return self
        least, most = self.largest_reading, self.readings * self.largest_reading
        # No value of a disclosure appears in an error.
        require(least >= 0, None, "readings that are not below 0 have no maximum below 0")
        require(least <= self.total <= most, None, "no such readings have this total and maximum")
        return self


def sealed(disclosure: Disclosure) -> tuple[str, str]:
    """(digest, text) under which a disclosure is stored: its event has only the digest, and a
    salt prevents guessing."""
    body = secrets.token_hex(_SALT_BYTES) + disclosure.model_dump_json()
    return hashlib.sha256(body.encode()).hexdigest(), body


def reopened(digest: str, body: str) -> Disclosure:
    """The disclosure of `sealed`; ValueError for a text that was changed."""
    if hashlib.sha256(body.encode()).hexdigest() != digest:
        raise ValueError("a disclosure was changed")
    return Disclosure.model_validate_json(body[2 * _SALT_BYTES :])


def _scalable(value: Fraction) -> bool:
    return value <= MOST_AMOUNT and (value * NANO).denominator == 1


_AMOUNT: Final = f"must be above 0, at most {MOST_AMOUNT} and whole in 10^-9"


@dataclass(frozen=True, slots=True)
class Scaled:
    """A declaration as integers: micro-epsilon, 10^-9 of the unit."""

    epsilon: int
    sensitivity: int
    largest: int

    @classmethod
    def of(cls, declared: Declaration) -> Scaled:
        return cls(
            int(declared.epsilon * MICRO),
            int(declared.sensitivity * NANO),
            int(declared.largest * NANO),
        )


@dataclass(frozen=True, slots=True)
class ScaledDisclosure:
    """A disclosure as integers, 10^-9 of the unit."""

    largest_reading: int
    total: int
    readings: int
    negative: bool

    @classmethod
    def of(cls, disclosure: Disclosure) -> ScaledDisclosure:
        negative = disclosure.negative_readings
        return cls(
            int(disclosure.largest_reading * NANO),
            int(disclosure.total * NANO),
            disclosure.readings,
            negative,
        )


def exact_figures(
    declared: Scaled, disclosed: ScaledDisclosure | None, *, compliant: bool
) -> CuratorFigures:
    """The exact figures that scaled ones represent."""
    disclosure = None
    if disclosed is not None:
        disclosure = Disclosed(
            Fraction(disclosed.largest_reading, NANO),
            Fraction(disclosed.total, NANO),
            disclosed.readings,
            disclosed.negative,
        )
    return CuratorFigures(
        Fraction(declared.epsilon, MICRO),
        Fraction(declared.sensitivity, NANO),
        Fraction(declared.largest, NANO),
        disclosure,
        compliant,
    )


@dataclass(frozen=True)
class Figures:
    """The end of a ledger, and the digest by which a rebuilt state is compared."""

    seq: int
    head: bytes
    digest: bytes


# A checkpoint of the ledger: the folded state in compact bytes, signed by the coordinator.
#
# It holds nothing that the events and disclosures do not lead to. A start takes the state from it
# and folds only the events after it; the events before it are verified while the service runs.

VERSION: Final = 1
"""Of the content and of the figures; a checkpoint of another version is not read."""
LABEL: Final = "tacit ledger checkpoint v1"
_LENGTH_BYTES: Final = 4
_FAST: Final = 1


class CheckpointStatement(WireModel):
    """What is signed: the last event's number and hash, the digest of the figures, the hash of the
    content."""

    version: int
    seq: int
    head: Binary
    figures: Binary
    content: Binary


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint as stored. `doubted`: the rows before it once failed to verify."""

    figures: Figures
    version: int
    content: bytes
    signature: bytes
    doubted: bool = False

    @classmethod
    def of(cls, figures: Figures, parts: Mapping[str, Any], identity: Identity) -> Checkpoint:
        """The checkpoint of a state, signed."""
        content = packed(parts)
        signed = identity.sign(LABEL, _statement(figures, VERSION, content))
        return cls(figures, VERSION, content, signed.signature)

    def check(self, public_key: bytes) -> None:
        """Raise ValueError for another version, and for a checkpoint that this key did not sign."""
        if self.version != VERSION:
            raise ValueError(f"a checkpoint of version {self.version}")
        statement = _statement(self.figures, self.version, self.content)
        signed = Signed[CheckpointStatement](statement=statement, signature=self.signature)
        verify(LABEL, signed, public_key)


def _statement(figures: Figures, version: int, content: bytes) -> CheckpointStatement:
    return CheckpointStatement(
        version=version,
        seq=figures.seq,
        head=figures.head,
        figures=figures.digest,
        content=hashlib.sha256(content).digest(),
    )


def packed(parts: Mapping[str, Any]) -> bytes:
    """Arrays and byte strings by name, compressed. A column of integers is written as differences,
    which are small where it rises or repeats."""
    header, blocks = [], []
    for name, part in parts.items():
        if isinstance(part, bytes):
            kind, shape, raw = "bytes", [len(part)], part
        else:
            kind, shape = part.dtype.str, list(part.shape)
            raw = (np.diff(part, prepend=part.dtype.type(0)) if _rises(part) else part).tobytes()
        block = zlib.compress(raw, _FAST)
        header.append([name, kind, shape, len(block)])
        blocks.append(block)
    described = canonical_json(header)
    return b"".join([len(described).to_bytes(_LENGTH_BYTES, "big"), described, *blocks])


def unpacked(content: bytes) -> dict[str, Any]:
    """What `packed` was given. Raises ValueError for anything else."""
    try:
        place = _LENGTH_BYTES + int.from_bytes(content[:_LENGTH_BYTES], "big")
        parts: dict[str, Any] = {}
        for name, kind, shape, length in json.loads(content[_LENGTH_BYTES:place]):
            raw = zlib.decompress(content[place : place + length])
            parts[name] = raw if kind == "bytes" else _array(raw, kind, shape)
            place += length
    except (zlib.error, TypeError) as error:
        raise ValueError("not the content of a checkpoint") from error
    return parts


def _array(raw: bytes, kind: str, shape: list[int]) -> np.ndarray[Any, Any]:
    values = np.frombuffer(raw, np.dtype(kind)).reshape(shape)
    return np.cumsum(values, dtype=values.dtype) if _rises(values) else values.copy()


def _rises(part: np.ndarray[Any, Any]) -> bool:
    return part.ndim == 1 and part.dtype.kind == "i"


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


def dataset_genesis(ledger_id: str) -> bytes:
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
    digest = _dataset_digest(seq + 1, time, kind, dataset_id, job_id, payload, head)
    return DatasetEvent(seq + 1, time, kind, dataset_id, job_id, payload, head, digest)


def first_break_of_dataset(ledger_id: str, events: Iterable[DatasetEvent]) -> Break | None:
    """What is wrong with the rows of a whole ledger, oldest first; None if nothing is."""
    seq, head = 0, dataset_genesis(ledger_id)
    for event in events:
        if event.seq != seq + 1:
            return Break(seq + 1, f"row {seq + 1} is missing: row {event.seq} follows")
        if event.previous != head:
            return Break(event.seq, "the row does not follow the one before it")
        content = event.kind, event.dataset_id, event.job_id, event.payload
        if _dataset_digest(event.seq, event.time, *content, head) != event.hash:
            return Break(event.seq, "the row does not have the content that its hash covers")
        seq, head = event.seq, event.hash
    return None


def _dataset_digest(
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
