"""The final state of rounds, and the one credit: signed "never frozen" abort statements.

Spec: budget, section 5. Whatever the coordinator states, a debit stays; only enough signed
statements of its aggregators give column (e) back, never in local mode, and column (d) never.
Here a party of a proved round also learns whose proof did not hold (spec: validity, section 10).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from pydantic import ValidationError
from pydantic_core import to_json

from common.batches import batches
from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.store.database import exclusive
from common.store.transactions import Database, Transaction
from common.web.problems import ProblemReceived
from curator.errors import PeerUnavailable
from curator.ledger.ledger import presence_bits
from curator.parties.peers import Peers
from curator.store import accounts, outbox
from curator.store import parties as party_store
from curator.store import records as record_store
from curator.store.outbox import ContributionRow, RoundRow
from curator.store.parties import PartyRow
from tacit.accounting.credit import abort_credit
from tacit.crypto.signing import Signed
from tacit.protocol.round import AbortStatement
from tacit.query.proofs import is_proved
from tacit.query.words import PrivacyUnit
from tacit.sets import pack

FINAL = frozenset({"released", "aborted"})
TOGETHER: Final = 1000
TOGETHER_BYTES: Final = 1 << 20
"""Parties whose reports share a request, at most, and the bytes of these."""
Said: TypeAlias = tuple[str, bytes]
"""A party's token at its coordinator, and the bitmap of whom it debited."""
_logger = get_logger("tacit.curator.settling")


@dataclass(frozen=True)
class Settling:
    """Polls coordinators for the final state of rounds."""

    database: Database
    peers: Peers
    clock: Clock

    async def ask(self, row: RoundRow) -> str | None:
        """The final state of a round, None if it is open or not answered; credits what is due."""
        async with self.database.reading() as transaction:
            found = await outbox.of_round(transaction, row.id)
            parties = await party_store.parties_by_id(transaction, [item.party for item in found])
        speaker = next((p for p in parties.values() if p.coordinator_token is not None), None)
        if speaker is None:
            return None
        assert speaker.coordinator_token is not None
        try:
            document = await self.peers.round_state(
                speaker.coordinator_url, speaker.coordinator_token, row.id
            )
        except ProblemReceived as problem:
            # Its statements are gone, and with them a credit; how it ended is still said.
            document = dict(problem.problem) if problem.name == "round_expired" else {}
        except PeerUnavailable:
            document = {}
        state = document.get("state")
        outcome = state if state in FINAL else None
        if outcome is not None and not await self._acknowledged(row.id, found, parties):
            outcome = None  # asked again later
        if outcome is not None and not await self._stood(row, document, found, parties):
            outcome = None
        aborts = statements(document) if outcome == "aborted" else []
        async with self.database.begin() as transaction:
            await outbox.settle_round(transaction, row.id, self.clock.now(), outcome, aborts)
            due = aborts and abort_credit(row.signed().statement, aborts)
            if due and not await _went_on(transaction, row):
                await self._credit(transaction, row, found, parties)
        return outcome

    async def _stood(
        self,
        row: RoundRow,
        document: dict[str, Any],
        found: Sequence[ContributionRow],
        parties: dict[str, PartyRow],
    ) -> bool:
        """Note whose proofs were refused, with their debits, which stay; whether it is known.

        A coordinator that refuses to tell is not asked again.
        """
        if not is_proved(row.signed().statement.query) or document.get("refused") == 0:
            return True
        for item in found:
            party = parties[item.party]
            if party.coordinator_token is None or party.first is None:
                continue
            try:
                refused = await self.peers.standing(
                    party.coordinator_url, party.coordinator_token, row.id
                )
            except PeerUnavailable:
                return False
            except ProblemReceived as problem:
                _logger.info("standing_not_told", round=row.id, problem=problem.name)
                continue
            reasons = {each.number - party.first: ", ".join(each.reasons) for each in refused}
            if reasons:
                async with self.database.begin() as transaction:
                    noted = await accounts.note_refused(transaction, item.id, reasons)
                if noted:
                    _logger.warning("refused_by_proof", party=party.logged, round=row.id)
        return True

    async def _acknowledged(
        self, round_id: str, found: Sequence[ContributionRow], parties: dict[str, PartyRow]
    ) -> bool:
        """Report to coordinators whom this process debited, to be compared; whether all have it.

        A coordinator that refuses a report is not sent it again.
        """
        curators = {item.id: parties[item.party].curators for item in found}
        async with self.database.reading() as transaction:
            members = await accounts.debited_members(transaction, curators)
        said: defaultdict[str, list[Said]] = defaultdict(list)
        for item in found:
            party = parties[item.party]
            if party.coordinator_token is not None:
                report = party.coordinator_token, pack(members[item.id])
                said[party.coordinator_url].append(report)
        for url, reports in said.items():
            for some in batches(reports, lambda each: len(each[1]), TOGETHER_BYTES, TOGETHER):
                if not await self._acknowledge(url, round_id, some):
                    return False
        return True

    async def _acknowledge(self, url: str, round_id: str, reports: Sequence[Said]) -> bool:
        """Send the reports of several parties in one request, or each alone where that is refused:
        the reason may be the first one's token. Whether the coordinator answered."""
        try:
            if len(reports) > 1:
                try:
                    answers = await self.peers.acknowledge_together(url, reports, round_id)
                except ProblemReceived:
                    pass
                else:
                    for answer in answers:
                        if answer.status >= 400:
                            _refused(round_id, answer.problem or "")
                    return True
            for token, members in reports:
                try:
                    await self.peers.acknowledge(url, token, round_id, members)
                except ProblemReceived as problem:
                    _refused(round_id, problem.name)
        except PeerUnavailable:
            return False
        return True

    async def _credit(
        self,
        transaction: Transaction,
        row: RoundRow,
        found: Sequence[ContributionRow],
        parties: dict[str, PartyRow],
    ) -> None:
        for contribution in sorted(found, key=lambda item: item.party):
            party = parties[contribution.party]
            await exclusive(transaction, f"ledger {party.id}")
            now = self.clock.now()
            for debit in await accounts.credit(transaction, contribution.id, now):
                await _give_back(transaction, party, debit)
            await outbox.set_credited(transaction, contribution.id, now)
            _logger.info("credited", party=party.logged, round=row.id)


async def _went_on(transaction: Transaction, row: RoundRow) -> bool:
    """Whether this is the round that a job's one debit was made with, and the job asked more: then
    the debit pays for what was answered since."""
    query = row.signed().statement.query
    if query.job is None:
        return False
    job = await record_store.job(transaction, query.job)
    paid = job is not None and job.terms is not None and job.first_round == row.id
    return paid and job is not None and job.step > 1


async def _give_back(transaction: Transaction, party: PartyRow, debit: Any) -> None:
    charge = accounts.charge_in(debit, PrivacyUnit.CURATOR)
    await accounts.charge_accounts(
        transaction,
        party.id,
        party.curators,
        replace(charge, epsilon_all=0, delta_all=0),
        debit.made,
        (debit.offset, presence_bits(debit.presence, debit.length)),
        (),
        factor=-1,
    )


def _refused(round_id: str, problem: str) -> None:
    _logger.info("acknowledgement_refused", round=round_id, problem=problem)


def statements(document: dict[str, Any]) -> list[Signed[AbortStatement]]:
    """The abort statements in a coordinator's answer; none if they cannot be read."""
    found = []
    for item in document.get("aborts") or []:
        try:
            found.append(Signed[AbortStatement].model_validate_json(to_json(item)))
        except (ValidationError, ValueError, TypeError):
            continue
    return found
