"""What the steps of a round share: their surroundings, how a stored round is read, whom it asks,
and how it ends early.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from pydantic import TypeAdapter

from common.runtime.clock import Clock
from common.store.transactions import Database, Transaction
from common.web.problems import ProblemReceived
from coordinator.budget.ledger import Ledger
from coordinator.errors import RoundExpired, StillVerifying, UnknownRound
from coordinator.registry.identities import Identities
from coordinator.registry.peers import Peer, Peers, refusal, silence
from coordinator.registry.seal_keys import SealKeyMirror
from coordinator.registry.suites import Formats
from coordinator.store import registry
from coordinator.store import rounds as store
from coordinator.store.rounds import RoundHead, RoundRow
from tacit.crypto.signing import Identity, Signed
from tacit.protocol.round import AcceptedSet, RoundDescriptor
from tacit.wire import format_instant

ACCEPTED_SETS = TypeAdapter(list[Signed[AcceptedSet]])


@dataclass(frozen=True)
class Conduct:
    """What every transition needs."""

    database: Database
    identity: Identity
    salt_key: bytes
    deployment: str
    peers: Peers
    clock: Clock
    patience_s: float
    ledger: Ledger
    formats: Formats
    mirror: SealKeyMirror
    identities: Identities


class RoundAborted(Exception):
    """The round cannot continue; the reason is public."""


async def find(transaction: Transaction, round_id: str) -> RoundHead:
    """What is shown of a round. Raises UnknownRound or RoundExpired."""
    row = await store.head(transaction, round_id)
    if row is None:
        raise UnknownRound
    if row.expired is not None:
        raise RoundExpired(extra={"state": row.state.value, "expired": format_instant(row.expired)})
    return row


@lru_cache(maxsize=128)
def _signed(text: str) -> Signed[RoundDescriptor]:
    return Signed[RoundDescriptor].model_validate_json(text)


def signed_descriptor(row: RoundRow) -> Signed[RoundDescriptor]:
    """The signed descriptor of a stored round."""
    return _signed(row.descriptor)


def salt_of(conduct: Conduct, descriptor: RoundDescriptor) -> bytes:
    """The salt of a round's members, always the same: a coordinator that was restored from a backup
    of before the freeze makes the manifest again to which the aggregators have committed."""
    return hmac.digest(conduct.salt_key, b"tacit manifest salt v1" + descriptor.digest(), "sha256")


# --- the aggregators of a round ------------------------------------------------------------------


async def peers_of(conduct: Conduct, descriptor: RoundDescriptor) -> list[Peer]:
    """The aggregators of a round, in its order."""
    async with conduct.database.reading() as transaction:
        rows = await registry.list_aggregators(transaction, also_removed=True)
    by_id = {row.id: row for row in rows}
    return [conduct.peers.of(by_id[entry.id]) for entry in descriptor.aggregators]


def failure(step: str, peers: Sequence[Peer], answers: Sequence[object]) -> Exception:
    """RoundAborted if an aggregator refuses permanently, else StillVerifying if one is at work for
    it, else AggregatorUnreachable: both are retried."""
    reason = refusal(step, peers, answers)
    if reason is not None:
        return RoundAborted(reason)
    if any(_is_at_work(item) for item in answers):
        return StillVerifying()
    return silence(step, peers, answers)


def _is_at_work(answer: object) -> bool:
    return isinstance(answer, ProblemReceived) and answer.name == StillVerifying.name
