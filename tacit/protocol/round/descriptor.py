"""What the parties of a round agree on: its descriptor; how a round ends without a sum, and why
curators refuse one.

Spec: aggregation, section 6. The hash of the descriptor is in every sealed piece, signed set,
commitment and debit: parties that were shown different descriptors cannot end up in one sum.
"""

from __future__ import annotations

import json
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import (
    Field,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from tacit import sets
from tacit.crypto.signing import Signed, fingerprint
from tacit.protocol.enrolment import PublicKey
from tacit.protocol.sealing_sessions import SealKeyStatement
from tacit.query.fields import Window
from tacit.query.query import Query
from tacit.query.terms import MAX_CURATORS, Identifier
from tacit.wire import Binary, Instant, KeptModel, WireModel, require

Hash = Annotated[Binary, Field(min_length=32, max_length=32)]

RoundId = Annotated[
    str,
    Field(
        pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
        examples=["019a4a2e-7c00-7000-8000-000000000001"],
    ),
]

MAX_GROUP_ROSTER = 2**26
"""A longer bitmap (8 MiB) of a descriptor that was not verified yet is never unpacked."""

DESCRIPTOR_LABEL = "tacit round descriptor v1"
ABORT_LABEL = "tacit abort v1"


class AggregatorEntry(WireModel):
    """One aggregator of a round: its identity, the key that pieces are sealed to, signed by it, and
    who runs it."""

    id: Identifier
    operator: Annotated[str, Field(min_length=1, max_length=128)]
    url: str
    identity_key: PublicKey
    seal_key: Signed[SealKeyStatement]

    @property
    def seal(self) -> SealKeyStatement:
        """The seal key."""
        return self.seal_key.statement

    @property
    def fingerprint(self) -> bytes:
        """SHA-256 of the identity key: what a join token pins."""
        return fingerprint(self.identity_key)


class LedgerHead(WireModel):
    """The newest event of the coordinator's budget ledger: its number and hash.

    With a stored descriptor anyone can detect that the ledger was cut or rewritten since.
    """

    seq: Annotated[int, Field(ge=0)]
    head: Hash


@lru_cache(maxsize=256)
def _query(text: str) -> Query:
    return Query.model_validate_json(text)


def _parsed_once(
    value: object, validate: ValidatorFunctionWrapHandler, info: ValidationInfo
) -> Query:
    """The query of a descriptor in JSON; the same query in the next round is not validated
    again."""
    if info.mode == "json" and isinstance(value, dict):
        return _query(json.dumps(value, sort_keys=True))
    query: Query = validate(value)
    return query


class RoundDescriptor(KeptModel):
    """Everything the parties of a round must agree on. Signed by the coordinator.

    `members`: the curators of the query's group, or those whose pieces a job's first round
    accepted, as a compressed bitmap over the roster; no one else participates.
    """

    format: Literal["tacit.round/1"] = "tacit.round/1"
    deployment: Identifier
    round: RoundId
    query_id: Identifier
    query: Annotated[Query, WrapValidator(_parsed_once)]
    window: Window
    opened: Instant
    deadline: Instant
    aggregators: tuple[AggregatorEntry, ...]
    roster_version: Annotated[int, Field(ge=0)]
    roster_size: Annotated[int, Field(ge=0, le=2**32)]
    segment_size: Annotated[int, Field(ge=8, le=262_144)]
    ledger: LedgerHead | None = None
    members: Binary | None = None

    def __hash__(self) -> int:
        """Of few fields: caches ask for it again and again."""
        return hash((self.round, self.roster_version))

    @model_validator(mode="after")
    def _members_of_the_group(self) -> RoundDescriptor:
        if self.query.group is not None:
            require(self.members is not None, None, "a group and its members go together")
        if self.members is not None:
            named = self.query.group is not None or self.query.job is not None
            require(named, None, "members are those of a group or of a job")
            limit = MAX_GROUP_ROSTER
            require(
                self.roster_size <= limit,
                None,
                f"a roster with members has at most {limit} numbers",
            )
            try:
                member_bitmap = sets.decompressed(self.members, self.roster_size)
            except ValueError as error:
                require(False, None, f"members: {error}")
            else:
                require(any(member_bitmap), None, "the group has no member")
        return self

    def invited(self) -> sets.Bits | None:
        """Who may participate, one boolean per roster number; None for everyone."""
        bitmap = self.invited_bitmap()
        return None if bitmap is None else sets.unpack(bitmap, self.roster_size)

    def invited_bitmap(self) -> bytes | None:
        """The same as a bitmap over the roster."""
        return None if self.members is None else sets.decompressed(self.members, self.roster_size)

    @property
    def operators(self) -> tuple[str, ...]:
        """Who runs each aggregator."""
        return tuple(entry.operator for entry in self.aggregators)

    def index_of(self, aggregator: str) -> int:
        """The share index 0..c-1 of an aggregator. Raises KeyError for one that is not in the
        round."""
        for index, entry in enumerate(self.aggregators):
            if entry.id == aggregator:
                return index
        raise KeyError(aggregator)


class AbortRequest(WireModel):
    reason: Annotated[str, Field(min_length=1, max_length=256)]


class Frozen(StrEnum):
    """Whether an aggregator had signed a round's accepted set. `maybe`: for example after a
    restore from a backup."""

    NEVER = "never"
    MAYBE = "maybe"
    YES = "yes"


class AbortStatement(WireModel):
    """An aggregator's statement that a round ended without a sum.

    `frozen`: whether it had signed an accepted set before, or may have. A statement "never
    frozen" can earn a credit.
    """

    round: RoundId
    descriptor_hash: Hash
    aggregator: Identifier
    frozen: Frozen
    reason: str


class RefusalGround(StrEnum):
    """Why curators refuse a round, as far as they report it to a coordinator.

    No ground depends on readings; every ground that depends on a curator's own ledger or past is
    reported as `own`.
    """

    POLICY = "policy"
    DESCRIPTOR = "descriptor"
    OWN = "own"


class Awaited(WireModel):
    """Curators of a round that may deliver yet: a bitmap over its roster."""

    members: Annotated[Binary, Field(max_length=MAX_CURATORS // 8 + 1)]


class Refusal(WireModel):
    """Which of its curators a party keeps out of a round: a bitmap in the order of its numbers,
    and how many on each ground."""

    members: Annotated[Binary, Field(max_length=MAX_CURATORS // 8)]
    grounds: Annotated[dict[RefusalGround, Annotated[int, Field(ge=1)]], Field(min_length=1)]
