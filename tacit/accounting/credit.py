"""The one credit: a round that aborted before anything can have been opened.

Spec: budget, section 5.

A debit is final once a piece may have left. It is reversed, under the query's own assumption only,
when enough aggregators sign "never frozen, pieces destroyed" that no quorum can have opened the sum
even if t_s of them lie.
"""

from __future__ import annotations

from collections.abc import Sequence

from tacit.crypto.signing import SignatureBroken, Signed, verify
from tacit.protocol.round.descriptor import ABORT_LABEL, AbortStatement, Frozen, RoundDescriptor
from tacit.query.query import Query
from tacit.query.words import Sharing


def statements_needed(query: Query) -> int | None:
    """How many "never frozen" statements earn a credit; None where none ever does.

    Enough that no quorum can have opened the sum even if `t_s` of them lie.
    """
    corrupt = query.collusion.aggregators
    if query.sharing is Sharing.NONE:
        return None
    if query.sharing is Sharing.SHAMIR:
        assert query.threshold is not None
        return query.aggregators - query.threshold + 1 + corrupt
    return corrupt + 1


def abort_credit(descriptor: RoundDescriptor, aborts: Sequence[Signed[AbortStatement]]) -> bool:
    """Whether enough operators of the round's aggregators signed that it ended without a frozen
    set: two aggregators of one operator are one."""
    needed = statements_needed(descriptor.query)
    if needed is None:
        return False
    digest, believed = descriptor.digest(), set()
    for signed in aborts:
        statement = signed.statement
        if statement.frozen is not Frozen.NEVER or statement.round != descriptor.round:
            continue
        if statement.descriptor_hash != digest:
            continue
        try:
            entry = descriptor.aggregators[descriptor.index_of(statement.aggregator)]
            verify(ABORT_LABEL, signed, entry.identity_key)
        except (KeyError, SignatureBroken):
            continue
        believed.add(entry.operator)
    return len(believed) >= needed
