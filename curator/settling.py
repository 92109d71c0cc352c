"""How rounds ended, and the one credit: signed "never frozen" abort statements.

Spec: budget, section 5. Whatever the coordinator says of a round, a debit stays; only enough signed
statements of its aggregators give column (e) back, never in local mode, and column (d) never.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from common.accounting.credit import abort_credit
from common.models.query import PrivacyUnit
from common.models.round import AbortStatement, RoundDescriptor
from common.service.clock import Clock
from common.service.database import exclusive, reading
from common.service.logs import get_logger
from common.service.problems import ProblemReceived
from common.sets import pack
from common.signing import Signed
from curator.errors import PeerUnavailable
from curator.ledger import presence_bits
from curator.peers import Peers
from curator.store import accounts, outbox
from curator.store import parties as party_store
from curator.store.outbox import ContributionRow, RoundRow
from curator.store.parties import PartyRow

FINAL = frozenset({"released", "aborted"})
_aborts: TypeAdapter[list[Signed[AbortStatement]]] = TypeAdapter(list[Signed[AbortStatement]])
_logger = get_logger("tacit.curator.settling")


@dataclass(frozen=True)
class Settling:
    """Asks coordinators how rounds ended."""

    engine: AsyncEngine
    peers: Peers
    clock: Clock

    async def ask(self, row: RoundRow) -> str | None:
        """How a round ended, if it did and the coordinator answers; credits what is due."""
        async with reading(self.engine) as connection:
            found = await outbox.of_round(connection, row.id)
            parties = await party_store.parties_by_id(connection, [item.party for item in found])
        speaker = next((p for p in parties.values() if p.coordinator_token is not None), None)
        if speaker is None:
            return None
        assert speaker.coordinator_token is not None
        try:
            document = await self.peers.round_state(
                speaker.coordinator_url, speaker.coordinator_token, row.id
            )
        except (PeerUnavailable, ProblemReceived):
            document = {}
        state = document.get("state")
        outcome = state if state in FINAL else None
        if outcome is not None and not await self._acknowledged(row.id, found, parties):
            outcome = None  # asked again later
        aborts = statements(document) if outcome == "aborted" else []
        async with self.engine.begin() as connection:
            text = _aborts.dump_json(aborts).decode() if aborts else None
            await outbox.settle_round(connection, row.id, self.clock.now(), outcome, text)
            if aborts and abort_credit(row.signed().statement, aborts):
                await self._credit(connection, row, found, parties)
        return outcome

    async def _acknowledged(
        self, round_id: str, found: Sequence[ContributionRow], parties: dict[str, PartyRow]
    ) -> bool:
        """Tell coordinators whom this process debited, for them to compare; whether they know.

        One that refuses to hear it is not told again.
        """
        for item in found:
            party = parties[item.party]
            if party.coordinator_token is None:
                continue
            async with reading(self.engine) as connection:
                members = await accounts.debited_members(connection, item.id, party.curators)
            try:
                await self.peers.acknowledge(
                    party.coordinator_url, party.coordinator_token, round_id, pack(members)
                )
            except PeerUnavailable:
                return False
            except ProblemReceived as problem:
                _logger.info("acknowledgement_refused", round=round_id, problem=problem.name)
        return True

    async def _credit(
        self,
        connection: AsyncConnection,
        row: RoundRow,
        found: Sequence[ContributionRow],
        parties: dict[str, PartyRow],
    ) -> None:
        for contribution in sorted(found, key=lambda item: item.party):
            party = parties[contribution.party]
            await exclusive(connection, f"ledger {party.id}")
            now = self.clock.now()
            for debit in await accounts.credit(connection, contribution.id, now):
                await _give_back(connection, party, debit)
            await outbox.set_credited(connection, contribution.id, now)
            _logger.info("credited", party=party.logged, round=row.id)


async def _give_back(connection: AsyncConnection, party: PartyRow, debit: Any) -> None:
    charge = accounts.charge_in(debit, PrivacyUnit.CURATOR)
    await accounts.charge_accounts(
        connection,
        party.id,
        party.curators,
        replace(charge, epsilon_all=0, delta_all=0),
        debit.made,
        (debit.offset, presence_bits(debit.presence, debit.length)),
        (),
        factor=-1,
    )


def descriptor_of(row: RoundRow) -> RoundDescriptor:
    """The stored descriptor."""
    return row.signed().statement


def stored_statements(text: str | None) -> list[Signed[AbortStatement]]:
    """Those that came with a round's outcome."""
    return [] if text is None else _aborts.validate_json(text)


def statements(document: dict[str, Any]) -> list[Signed[AbortStatement]]:
    """The abort statements in a coordinator's answer; none if they cannot be read."""
    found = []
    for item in document.get("aborts") or []:
        try:
            found.append(Signed[AbortStatement].model_validate_json(_json(item)))
        except (ValidationError, ValueError, TypeError):
            continue
    return found


def _json(item: object) -> bytes:
    from pydantic_core import to_json

    return to_json(item)
