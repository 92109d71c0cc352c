"""What the steps of a round share: their surroundings, how a stored round is read, whom it asks,
and how it ends early.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter

from common.runtime.clock import Clock
from common.store.group_commit import GroupCommit, InTurn, in_transaction, in_turn, reading
from common.store.own_identities import OwnIdentities
from common.store.transactions import Database, Transaction
from common.web.problems import ProblemReceived
from coordinator.budget.ledger import Ledger
from coordinator.errors import RoundExpired, StillVerifying, UnknownRound
from coordinator.registry.aggregators import Attendance, Identities, SealKeyMirror
from coordinator.registry.answers import refusal, silence
from coordinator.registry.peers import Peer, Peers
from coordinator.store import registry
from coordinator.store import rounds as store
from coordinator.store.registry import AggregatorRow
from coordinator.store.rounds import RoundHead, RoundRow
from tacit.crypto.signing import Signed
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.protocol.round.messages import AcceptedSet
from tacit.protocol.round.state import RoundState
from tacit.wire import format_instant

ACCEPTED_SETS = TypeAdapter(list[Signed[AcceptedSet]])


Result = TypeVar("Result")
FIGURES: Final = 128
"""Of how many queries it is known that their figures are at hand: of more they are kept."""


@lru_cache(maxsize=2)
def accepted_sets(text: str) -> tuple[Signed[AcceptedSet], ...]:
    """The signed sets of a stored round. Cached, as two steps need them and they are long."""
    return tuple(ACCEPTED_SETS.validate_json(text))


@dataclass(frozen=True)
class Conduct:
    """What every transition needs."""

    database: Database
    own: OwnIdentities
    salt_key: bytes
    deployment: str
    peers: Peers
    clock: Clock
    patience_s: float
    ledger: Ledger
    key_per_round: bool
    mirror: SealKeyMirror
    identities: Identities
    attendance: Attendance
    lasting_seals: bool = False
    """Whether aggregators are asked to seal transcripts."""
    _figured: dict[Hashable, None] = field(default_factory=dict)

    async def figured(self, of: Hashable, work: Callable[[], Result]) -> Result:
        """The result of `work`, which caches its figures. It runs in a thread if those `of` this
        were not computed yet, as that can take a second."""
        if of in self._figured:
            return work()
        figures = await asyncio.to_thread(work)
        while len(self._figured) >= FIGURES:
            self._figured.pop(next(iter(self._figured)))
        self._figured[of] = None
        return figures

    @cached_property
    def changes(self) -> GroupCommit[InTurn, Any]:
        """Transitions: those that are due in many rounds share a transaction."""
        return GroupCommit(in_transaction(self.database.begin, in_turn))

    @cached_property
    def rows(self) -> GroupCommit[str, RoundRow | None]:
        """Stored rounds by id, as those of many are read together."""
        return GroupCommit(reading(self.database, store.find_all))

    @cached_property
    def looks(self) -> GroupCommit[InTurn, Any]:
        """Other reading that is due in many rounds."""
        return GroupCommit(in_transaction(self.database.reading, in_turn))

    @cached_property
    def registered(self) -> GroupCommit[None, Mapping[str, AggregatorRow]]:
        """All aggregators by id, also those removed since a round began."""
        return GroupCommit(reading(self.database, _registered))


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


@lru_cache(maxsize=512)
def _signed(text: str) -> Signed[RoundDescriptor]:
    return Signed[RoundDescriptor].model_validate_json(text)


def signed_descriptor(row: RoundRow) -> Signed[RoundDescriptor]:
    """The signed descriptor of a stored round."""
    return _signed(row.descriptor)


def salt_of(conduct: Conduct, descriptor: RoundDescriptor) -> bytes:
    """The salt of a round's members, always the same: a coordinator restored from a backup of
    before the freeze then makes the manifest to which the aggregators have committed."""
    return hmac.digest(conduct.salt_key, b"tacit manifest salt v1" + descriptor.digest(), "sha256")


# --- the aggregators of a round ------------------------------------------------------------------


async def change(conduct: Conduct, round_id: str, expected: RoundState, **values: Any) -> None:
    """Change a round if it is in the expected state, in a transaction that others may share."""

    async def run(transaction: Transaction) -> None:
        await store.change(transaction, round_id, expected, **values)

    await conduct.changes.submit(run)


async def peers_of(conduct: Conduct, descriptor: RoundDescriptor) -> list[Peer]:
    """The aggregators of a round, in its order."""
    by_id = await conduct.registered.submit(None)
    return [conduct.peers.of(by_id[entry.id]) for entry in descriptor.aggregators]


def failure(step: str, peers: Sequence[Peer], answers: Sequence[object]) -> Exception:
    """RoundAborted if an aggregator refuses permanently, else StillVerifying if one is still
    computing, else AggregatorUnreachable: the last two are retried."""
    reason = refusal(step, peers, answers)
    if reason is not None:
        return RoundAborted(reason)
    if any(_is_at_work(item) for item in answers):
        return StillVerifying()
    return silence(step, peers, answers)


def _is_at_work(answer: object) -> bool:
    return isinstance(answer, ProblemReceived) and answer.name == StillVerifying.name


async def _registered(
    transaction: Transaction, requests: Sequence[None]
) -> list[Mapping[str, AggregatorRow]]:
    rows = await registry.list_aggregators(transaction, also_removed=True)
    return [{row.id: row for row in rows}] * len(requests)
