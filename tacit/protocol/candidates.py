"""Who is verified in a proved round: the contributions that every aggregator holds alike.

Contributions stand in one order everywhere: lone curators by number, then hosts' parts as they are
listed. Spec: validity, section 10, step 1.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit import sets
from tacit.crypto.sealing import Span, in_segment, length_prefixed
from tacit.crypto.signing import Signed
from tacit.protocol.round.accepted import ONLY_PART, AcceptedSet, ProvedPart
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.protocol.round.manifests import (
    ManifestRefused,
    accepted_by_index,
    check_count,
    parts_text,
)
from tacit.sets import Bits
from tacit.wire import Binary, WireModel

_CANDIDATES = b"tacit candidates v1"
_ALL: Final = slice(None)
"""The whole of a part's span."""


class CandidateList(WireModel):
    """Candidates as they are stored; `lone`: a bitmap over roster numbers, compressed."""

    lone: Binary
    parts: tuple[ProvedPart, ...]


@dataclass(frozen=True, eq=False)
class Candidates:
    """The contributions that every aggregator holds alike: what is verified.

    `lone`: the numbers (n,) of lone curators, rising. `hash`: binds them to the round.
    """

    lone: NDArray[np.int64]
    parts: tuple[ProvedPart, ...]
    roster_size: int
    hash: bytes

    @classmethod
    def of(cls, listed: CandidateList, roster_size: int, digest: bytes) -> Candidates:
        """Those of a list that was stored with their hash."""
        lone = sets.unpack(sets.decompressed(listed.lone, roster_size), roster_size)
        return cls(np.flatnonzero(lone), listed.parts, roster_size, digest)

    def listed(self) -> CandidateList:
        """As they are stored."""
        lone = np.zeros(self.roster_size, np.bool_)
        lone[self.lone] = True
        return CandidateList(lone=sets.compressed(sets.pack(lone)), parts=self.parts)

    @property
    def items(self) -> int:
        """How many contributions they are."""
        return len(self.lone) + len(self.parts)

    @property
    def curators(self) -> int:
        """Of how many curators these are."""
        return len(self.lone) + sum(part.curators for part in self.parts)

    def alike(self, at: int, stop: int) -> tuple[int, int]:
        """Of how many curators the contribution at a place is, and where those with as many end
        that follow it, at `stop` at the latest."""
        lone = len(self.lone)
        if at < lone:
            return 1, min(stop, lone)
        curators, until = self.parts[at - lone].curators, at + 1
        while until < stop and self.parts[until - lone].curators == curators:
            until += 1
        return curators, until

    def numbers(self, chosen: Bits) -> Bits:
        """The curators (roster_size,) of the chosen ones among the contributions (items,)."""
        found = np.zeros(self.roster_size, np.bool_)
        found[self.lone[chosen[: len(self.lone)]]] = True
        for part in self.parts_of(chosen):
            found[_slice(part)][part.present if part.presence else _ALL] = True
        return found

    def parts_of(self, chosen: Bits) -> tuple[ProvedPart, ...]:
        """The parts among the chosen contributions (items,)."""
        of_parts = chosen[len(self.lone) :].tolist()
        return tuple(part for part, own in zip(self.parts, of_parts, strict=True) if own)


def candidates_of(
    descriptor: RoundDescriptor, accepted: Sequence[Signed[AcceptedSet]]
) -> Candidates:
    """Lone numbers that are in all signed sets, and parts that are equal in all.

    Raises ManifestRefused for sets that are malformed or not those of all aggregators, and above
    n_max; TooFewParticipants: then nothing may be evaluated.
    """
    return _candidates_of(descriptor, tuple(accepted))


# The same sets are asked about at the verification and at the commitment: what was checked once of
# equal ones holds again, and what was refused is not kept.
@lru_cache(maxsize=2)
def _candidates_of(
    descriptor: RoundDescriptor, accepted: tuple[Signed[AcceptedSet], ...]
) -> Candidates:
    by_index = accepted_by_index(descriptor, accepted)
    size = descriptor.roster_size
    alone: list[bytes] = []
    common: set[ProvedPart] | None = None
    listed: tuple[ProvedPart, ...] = ()
    covered = bytes(sets.byte_length(size))
    for item in by_index.values():
        parts = item.parts or ()
        if parts != listed:  # mostly all hold the same
            listed, covered = parts, sets.pack(_covered(descriptor, parts))
        alone.append(_alone(item, covered, size))
        common = set(parts) if common is None else common & set(parts)
    chosen = tuple(sorted(common or (), key=lambda part: part.order))
    lone = sets.intersection(alone)
    digest = hashlib.sha256(
        length_prefixed(_CANDIDATES, descriptor.digest(), lone, parts_text(chosen))
    ).digest()
    numbers = np.flatnonzero(sets.unpack(lone, size))
    numbers.flags.writeable = False
    found = Candidates(numbers, chosen, size, digest)
    check_count(descriptor.query, found.curators)
    return found


def _alone(item: AcceptedSet, covered: bytes, size: int) -> bytes:
    """A set's lone numbers: a bitmap over the roster. `covered`: those of its parts."""
    if item.lone is None:
        raise ManifestRefused("an accepted set is that of a declared round")
    try:
        lone = sets.decompressed(item.lone, size)
    except ValueError:
        raise ManifestRefused("an accepted set is malformed") from None
    if sets.difference(lone, covered) != lone:
        raise ManifestRefused("an accepted set lists a curator alone and in a part")
    return lone


def _covered(descriptor: RoundDescriptor, parts: Sequence[ProvedPart]) -> Bits:
    """The numbers (roster_size,) of a set's parts, each in one of them."""
    covered = np.zeros(descriptor.roster_size, np.bool_)
    order = [part.place for part in parts]
    if any(one >= other for one, other in itertools.pairwise(order)) or any(
        part.part != ONLY_PART for part in parts
    ):
        raise ManifestRefused("an accepted set's parts are not sorted, one for each span")
    for part in parts:
        span, own = covered[_slice(part)], None
        with contextlib.suppress(ValueError):
            own = part.present if part.presence else _ALL
        if own is None or not _on_roster(part, descriptor) or span[own].any():
            raise ManifestRefused("an accepted set lists parts that no host can have sent")
        span[own] = True
    return covered


def _slice(part: ProvedPart) -> slice:
    return slice(part.first, part.first + part.length)


def _on_roster(part: ProvedPart, descriptor: RoundDescriptor) -> bool:
    span, end = Span(part.segment, part.first, part.length), part.first + part.length
    return in_segment(span, descriptor.segment_size) and end <= descriptor.roster_size
