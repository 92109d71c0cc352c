"""Which aggregators open a round's sum, where more than a threshold answered.

Under Shamir sharing any k of c may open it, and the manifest is the intersection of *their* sets:
a late one would exclude every curator whose piece it does not hold. The chosen quorum is the one
that keeps most curators, the larger one of equals (its partial sums are checked against one
another). The guarantees hold for any manifest, regardless of the choice (spec: aggregation,
section 4).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tacit import sets
from tacit.crypto.signing import Signed
from tacit.protocol.round.accepted import AcceptedSet
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.protocol.round.manifests import manifest_of
from tacit.protocol.round.transcript import Manifest
from tacit.query.mechanisms import noisy_aggregators, shares_its_noise
from tacit.query.query import Query
from tacit.query.words import Sharing

SignedSet = Signed[AcceptedSet]


def quorum_size(query: Query) -> int:
    """How many aggregators open a sum, at least."""
    return query.threshold if query.threshold is not None else query.aggregators


def agree(
    descriptor: RoundDescriptor, accepted: Sequence[SignedSet], salt: bytes
) -> tuple[Manifest, list[SignedSet]]:
    """The manifest of the best quorum, and the signed sets that give it."""
    chosen = list(accepted)
    if descriptor.query.sharing is Sharing.SHAMIR and len(chosen) > quorum_size(descriptor.query):
        chosen = [chosen[place] for place in _best(descriptor, [item.statement for item in chosen])]
    return manifest_of(descriptor, chosen, salt), chosen


def _best(descriptor: RoundDescriptor, accepted: Sequence[AcceptedSet]) -> list[int]:
    """The places of the best quorum's sets."""
    query, places = descriptor.query, range(len(accepted))
    counts = _common(accepted, descriptor.roster_size)
    noisy = noisy_aggregators(query) if shares_its_noise(query) else 0
    heard = [sum(1 << other for other in set(item.contributions)) for item in accepted]
    best, found = (False, -1, 0), list(places)
    for choice in range(1 << len(accepted)):
        members = [place for place in places if choice >> place & 1]
        if len(members) < quorum_size(query):
            continue
        noise = ~0
        for place in members:
            noise &= heard[place]
        enough = noisy == 0 or noise.bit_count() >= noisy
        score = (enough, int(counts[choice]), len(members))
        if score > best:
            best, found = score, members
    return found


def _common(accepted: Sequence[AcceptedSet], roster_size: int) -> NDArray[np.int64]:
    """(2^n,): how many curators are in all sets of each choice, a bit mask over places."""
    holders = np.zeros(roster_size, np.uint16)
    for place, item in enumerate(accepted):
        holders |= sets.unpack(item.members or b"", roster_size).astype(np.uint16) << np.uint16(
            place
        )
    counts = np.bincount(holders, minlength=1 << len(accepted)).astype(np.int64)
    for place in range(len(accepted)):  # sum over supersets, one place at a time
        halves = counts.reshape(-1, 2, 1 << place)
        halves[:, 0] += halves[:, 1]
    return counts
