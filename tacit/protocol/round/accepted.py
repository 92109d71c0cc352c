"""Whose pieces an aggregator holds at the freeze, and the parts of hosts in proved rounds.

Spec: aggregation, section 6; validity, section 10.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from tacit import sets
from tacit.crypto.sealing import Span
from tacit.protocol.round.descriptor import Hash, RoundId
from tacit.query.words import LONGEST_PART, MAX_CURATORS, Identifier
from tacit.sets import Bits
from tacit.wire import Binary, WireModel, require

ONLY_PART = 0
"""The number of a host's part in proved rounds: roster number and segment alone say which curators
make one part. With parts of its choice a host could prove one curator at a time, each with the
largest noise. Spec: validity, section 9."""
ACCEPTED_LABEL = "tacit accepted set v1"
PROVED_SET_LABEL = "tacit proved set v1"


class ProvedPart(WireModel):
    """A host's part of a proved round: one contribution for all curators that `presence` tells, a
    bitmap over `first`..`first + length - 1`; empty: all of them, as in most parts. It is counted
    or refused whole."""

    segment: Annotated[int, Field(ge=0, lt=2**32)]
    first: Annotated[int, Field(ge=0, lt=2**32)]
    length: Annotated[int, Field(ge=1, le=LONGEST_PART)]
    part: Annotated[int, Field(ge=0, lt=2**32)]
    presence: Annotated[Binary, Field(max_length=LONGEST_PART // 8)]

    @classmethod
    def of(cls, span: Span, part: int, bitmap: bytes) -> ProvedPart:
        """The part of a span, in its shortest form; one boolean per number in the bitmap."""
        whole = sets.count(bitmap) == span.length
        return cls(
            segment=span.segment,
            first=span.first,
            length=span.length,
            part=part,
            presence=b"" if whole else bitmap,
        )

    @property
    def place(self) -> tuple[int, int, int, int]:
        """Which part it is, whichever curators are in it."""
        return self.segment, self.first, self.length, self.part

    @property
    def present(self) -> Bits:
        """Which numbers of the span it is of, (length,). Raises ValueError for no bitmap of one
        curator or more."""
        if not self.presence:
            return np.ones(self.length, np.bool_)
        found = sets.unpack(self.presence, self.length)
        if not found.any():
            raise ValueError("a part of nobody")
        return found

    @property
    def order(self) -> tuple[int, int, int, int, bytes]:
        """By what lists of parts are sorted."""
        return self.segment, self.first, self.length, self.part, self.presence

    @property
    def curators(self) -> int:
        """n': of how many curators it is."""
        return sets.count(self.presence) if self.presence else self.length


class AcceptedSet(WireModel):
    """Whose pieces an aggregator holds at the freeze, and whose noise contributions (aggregator
    indices).

    Declared rounds: `members`, a bitmap over roster numbers. Proved rounds: `parts` of hosts,
    sorted, and `lone`, a compressed bitmap of all others.
    """

    round: RoundId
    descriptor_hash: Hash
    aggregator: Identifier
    members: Binary | None = None
    contributions: tuple[int, ...]
    lone: Binary | None = None
    parts: tuple[ProvedPart, ...] | None = None

    @property
    def label(self) -> str:
        """For what purpose it is signed."""
        return ACCEPTED_LABEL if self.lone is None else PROVED_SET_LABEL

    @model_validator(mode="after")
    def _one_form(self) -> AcceptedSet:
        one = (self.members is None) != (self.lone is None)
        require(one, None, "either members, or lone curators and parts")
        require((self.lone is None) == (self.parts is None), None, "lone goes with parts")
        return self

    def held(self, size: int) -> bytes:
        """Everybody in it, a bitmap over `size` numbers. Raises ValueError if it is malformed."""
        if self.lone is None:
            return self.members or b""
        found = sets.unpack(sets.decompressed(self.lone, size), size).copy()
        for part in self.parts or ():
            found[part.first : part.first + part.length] |= part.present
        return sets.pack(found)


class FreezeRequest(WireModel):
    """Freeze once pieces of `accepted` curators are held, within `wait_s`; without it, now."""

    accepted: Annotated[int, Field(ge=1, le=MAX_CURATORS)]
    wait_s: Annotated[float, Field(ge=0, le=30)] = 0
