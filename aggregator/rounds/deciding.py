"""Whether each contribution of a round counts: decided from the verifier shares of all aggregators.

Each aggregator decides for itself. Shares are opened a chunk of each aggregator at a time, and are
worth nothing unless they are those that their aggregators signed. Spec: validity, section 10,
step 3.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from aggregator.context import Aggregator, RoundContext
from aggregator.pieces.verify_keys import verify_key
from aggregator.rounds.evaluating import Evaluated
from aggregator.rounds.exchanging import Chunks, demand_all, held_chunks, opened
from tacit.protocol.candidates import Candidates
from tacit.protocol.proved_pieces import proof_context
from tacit.protocol.round.verdicts import Verification
from tacit.protocol.verification import VerificationRefused
from tacit.protocol.verifier_shares import chunk_key


async def outcomes_of(
    aggregator: Aggregator,
    context: RoundContext,
    candidates: Candidates,
    verifications: Sequence[Verification],
    evaluated: Evaluated,
    brought: Mapping[int, bytes],
) -> NDArray[np.uint8]:
    """What is decided on each candidate, (items,): values of `Outcome`. `brought`: first chunks of
    other aggregators, by index, that came with the request; they stand in for those held.

    Raises SharesMissing; VerificationRefused for shares that were not signed.
    """
    chunks = Chunks(context, candidates)
    await demand_all(aggregator, context, chunks, brought)
    key = await verify_key(aggregator, context)
    entries = context.descriptor.aggregators
    keys = [chunk_key(key, context.digest, entry.id) for entry in entries]
    hashes = [hashlib.sha256() for _ in entries]
    outcomes = np.zeros(candidates.items, np.uint8)

    def decide(number: int, bodies: Sequence[bytes]) -> None:
        places = [chunks.place(index, number) for index in range(len(entries))]
        contents = opened(keys, places, bodies)
        for entry, digest, content in zip(entries, hashes, contents, strict=True):
            digest.update(content)
            if len(content) != chunks.bytes_of(number):
                raise VerificationRefused(f"the shares of {entry.id} have not their length")
        items = chunks.slices[number]
        outcomes[items] = _decided(context, candidates, items, contents, evaluated)

    for number in range(len(chunks)):
        bodies = await held_chunks(aggregator, context, number, {} if number else brought)
        await asyncio.to_thread(decide, number, bodies)
    for item, digest in zip(verifications, hashes, strict=True):
        if digest.digest() != item.shares_hash:
            raise VerificationRefused(
                f"the shares of {item.aggregator} are not those that it signed"
            )
    return outcomes


def _decided(
    context: RoundContext,
    candidates: Candidates,
    items: slice,
    contents: Sequence[bytes],
    evaluated: Evaluated,
) -> NDArray[np.uint8]:
    """Outcomes of the contributions of one chunk, from the shares (one text per aggregator)."""
    assert context.proofs is not None
    bound = proof_context(context.digest)
    outcomes = np.zeros(items.stop - items.start, np.uint8)
    offset, at = 0, items.start
    while at < items.stop:
        curators, until = candidates.alike(at, items.stop)
        prio3 = context.proofs.of(curators).prio3
        width = prio3.verifier_share_bytes
        end = offset + width * (until - at)
        rows = [
            np.frombuffer(text[offset:end], np.uint8).reshape(until - at, width)
            for text in contents
        ]
        decision = prio3.decide(bound, rows)
        own = evaluated.own(slice(at, until))
        outcomes[at - items.start : until - items.start] = prio3.outcomes(own, decision)
        offset, at = end, until
    return outcomes
