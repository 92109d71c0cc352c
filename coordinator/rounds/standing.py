"""Who was refused by the proof of its contribution in a proved round, and why.

Shown to operators with numbers and names, to each party for its own curators only, and to everyone
else as a count. Spec: validity, section 10, step 6.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import numpy as np
from pydantic import Field

from common.store.transactions import Transaction
from coordinator.errors import UnknownParty
from coordinator.rounds import context
from coordinator.store import registry
from coordinator.store import rounds as store
from coordinator.store.ledger import curator_names
from coordinator.store.rounds import RoundHead
from tacit import sets
from tacit.protocol.round.verdicts import REFUSED_BY_PROOF, ProofReason
from tacit.wire import Binary, WireModel

NAMED: Final = 1000


class Refused(WireModel):
    """As it is stored. `reasons`: compressed bitmaps over the round's roster of this `size`;
    `statements`: what aggregators signed that cannot all be true."""

    size: Annotated[int, Field(ge=0)]
    reasons: dict[ProofReason, Binary]
    statements: tuple[str, ...]

    def within(self, first: int, count: int) -> dict[int, list[str]]:
        """The refused numbers of a run, rising, with the reasons for each."""
        found: dict[int, list[str]] = {}
        for reason, bitmap in self.reasons.items():
            members = sets.unpack(sets.decompressed(bitmap, self.size), self.size)
            own = np.flatnonzero(members[first : first + count]) + first
            for number in own.tolist():
                found.setdefault(number, []).append(reason.value)
        return dict(sorted(found.items()))


async def own_standing(transaction: Transaction, round_id: str, party_id: str) -> dict[str, Any]:
    """Which curators of a party were refused. Raises UnknownRound, RoundExpired, UnknownParty."""
    head = await context.find(transaction, round_id)
    party = await registry.party(transaction, party_id)
    if party is None:
        raise UnknownParty
    refused = await _refused(transaction, round_id)
    own = {} if refused is None else refused.within(party.first, party.curators)
    return {**_head(head), "refused": _listed(own)}


async def whole_standing(transaction: Transaction, round_id: str) -> dict[str, Any]:
    """Which curators were refused, the first of them by name; for operators."""
    head = await context.find(transaction, round_id)
    refused = await _refused(transaction, round_id)
    found = {} if refused is None else refused.within(0, refused.size)
    first = dict(list(found.items())[:NAMED])
    names = await curator_names(transaction, list(first))
    listed = [{**item, "curator": names.get(item["number"])} for item in _listed(first)]
    statements = [] if refused is None else list(refused.statements)
    return {**_head(head), "count": len(found), "refused": listed, "statements": statements}


async def _refused(transaction: Transaction, round_id: str) -> Refused | None:
    """None before the verdicts, and in a round without proofs."""
    text = await store.document(transaction, round_id, "standing")
    return None if text is None else Refused.model_validate_json(text)


def _head(head: RoundHead) -> dict[str, Any]:
    return {"round": head.id, "state": head.state.value}


def _listed(refused: dict[int, list[str]]) -> list[dict[str, Any]]:
    return [
        {"number": number, "reasons": reasons, "detail": REFUSED_BY_PROOF}
        for number, reasons in refused.items()
    ]
