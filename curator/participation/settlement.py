"""The final state of rounds, the one credit, and what is dropped after the retention.

Spec: budget, section 5. Whatever the coordinator states, a debit stays; only enough signed
statements ("never frozen") of its aggregators return it. `Expiry` drops refusals and deliveries of
rounds whose retention is over, a few rounds at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Final

from prometheus_client import Counter
from pydantic import ValidationError
from pydantic_core import to_json

from common.arrays import batches
from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.runtime.tasks import Repeating
from common.store.database import exclusive
from common.store.transactions import Database, Transaction
from common.web.problems import ProblemReceived
from curator.errors import PeerUnavailable
from curator.ledger import presence_bits
from curator.owner.readings_received import KEPT
from curator.parties.peers import Peers, Said
from curator.store import accounts, intake_counts, outbox
from curator.store import history as store
from curator.store import parties as party_store
from curator.store import records as record_store
from curator.store.outbox import Asked, ContributionRow, RoundRow
from curator.store.parties import PartyRow
from tacit.accounting.charges import abort_credit
from tacit.crypto.signing import Signed
from tacit.protocol.round.descriptor import AbortStatement
from tacit.query.proofs import is_proved
from tacit.query.terms import PrivacyUnit
from tacit.sets import pack

FINAL = frozenset({"released", "aborted"})
TOGETHER: Final = 500
TOGETHER_BYTES: Final = 1 << 20
"""Rounds or reports that share a request, at most, and the bytes of reports."""
CURATORS: Final = 1 << 22
"""Of how many curators it is looked up in one go whether they were debited: a byte each."""
_logger = get_logger("tacit.curator.settling")


@dataclass(frozen=True)
class Settling:
    """Polls coordinators for the final state of rounds."""

    database: Database
    peers: Peers
    clock: Clock

    async def ask(self, rows: Sequence[RoundRow]) -> dict[str, str]:
        """The final states of those rounds that are over, by id; credits what is due. Rounds of one
        coordinator share requests, and their final states a transaction."""
        async with self.database.reading() as transaction:
            contributions = await outbox.of_rounds(transaction, [row.id for row in rows])
            ids = [item.party for items in contributions.values() for item in items]
            parties = await party_store.parties_by_id(transaction, ids)
        documents = await self._documents(contributions, parties)
        over = {
            row.id: contributions[row.id]
            for row in rows
            if documents.get(row.id, {}).get("state") in FINAL
        }
        acknowledged = await self._acknowledged(over, parties)
        outcomes: dict[str, str] = {}
        for row in rows:
            document = documents.get(row.id, {})
            if row.id in acknowledged and await self._stood(
                row, document, contributions[row.id], parties
            ):
                outcomes[row.id] = str(document["state"])
        now, aborted = self.clock.now(), {}
        for row in rows:
            if outcomes.get(row.id) == "aborted" and (aborts := statements(documents[row.id])):
                aborted[row.id] = aborts
        settled = [Asked(row.id, outcomes.get(row.id)) for row in rows if row.id not in aborted]
        async with self.database.begin() as transaction:
            await outbox.settle_rounds(transaction, settled, now)
        for row in rows:
            if row.id in aborted:
                await self._settle_aborted(row, aborted[row.id], contributions[row.id], parties)
        return outcomes

    async def _documents(
        self,
        contributions: Mapping[str, Sequence[ContributionRow]],
        parties: Mapping[str, PartyRow],
    ) -> dict[str, dict[str, Any]]:
        """What coordinators answer about rounds, by id; unknown rounds are omitted."""
        by_speaker: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for round_id, items in contributions.items():
            speakers = (parties[item.party] for item in items)
            speaker = next((party for party in speakers if party.coordinator_token), None)
            if speaker is not None and speaker.coordinator_token is not None:
                by_speaker[speaker.coordinator_url, speaker.coordinator_token].append(round_id)
        documents: dict[str, dict[str, Any]] = {}
        for (url, token), ids in by_speaker.items():
            for start in range(0, len(ids), TOGETHER):
                some = ids[start : start + TOGETHER]
                if len(some) > 1:
                    try:
                        documents |= await self.peers.round_states(url, token, some)
                        continue
                    except PeerUnavailable:
                        continue
                    except ProblemReceived:
                        pass  # the token: each alone
                for round_id in some:
                    documents[round_id] = await self._document(url, token, round_id)
        return documents

    async def _document(self, url: str, token: str, round_id: str) -> dict[str, Any]:
        try:
            return await self.peers.round_state(url, token, round_id)
        except ProblemReceived as problem:
            # Its statements are gone, and with them a credit; the final state is still reported.
            return dict(problem.problem) if problem.name == "round_expired" else {}
        except PeerUnavailable:
            return {}

    async def _settle_aborted(
        self,
        row: RoundRow,
        aborts: Sequence[Signed[AbortStatement]],
        contributions: Sequence[ContributionRow],
        parties: Mapping[str, PartyRow],
    ) -> None:
        async with self.database.begin() as transaction:
            settled = [Asked(row.id, "aborted", aborts)]
            await outbox.settle_rounds(transaction, settled, self.clock.now())
            due = abort_credit(row.signed().statement, aborts)
            if due and not await _went_on(transaction, row):
                await credit(transaction, row.id, contributions, parties, self.clock)

    async def _stood(
        self,
        row: RoundRow,
        document: dict[str, Any],
        contributions: Sequence[ContributionRow],
        parties: Mapping[str, PartyRow],
    ) -> bool:
        """Record whose proofs were refused, with their debits, which stay; returns whether that
        is known. A coordinator that refuses to report it is not asked again."""
        if "refused" in document and not document["refused"]:
            return True  # of a declared round it is null
        if not is_proved(row.signed().statement.query):
            return True
        for item in contributions:
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
            reasons = {member.number - party.first: ", ".join(member.reasons) for member in refused}
            if reasons:
                async with self.database.begin() as transaction:
                    noted = await accounts.note_refused(transaction, item.id, reasons)
                if noted:
                    _logger.warning("refused_by_proof", party=party.logged, round=row.id)
        return True

    async def _acknowledged(
        self,
        contributions: Mapping[str, Sequence[ContributionRow]],
        parties: Mapping[str, PartyRow],
    ) -> set[str]:
        """Report to coordinators which curators this process debited, for comparison; returns
        the rounds of which all have it. A report that a coordinator refused is not sent again."""
        every = [item for items in contributions.values() for item in items]
        reports_of: defaultdict[str, list[Said]] = defaultdict(list)
        for some in batches(every, lambda item: parties[item.party].curators, CURATORS):
            curators = {item.id: parties[item.party].curators for item in some}
            members = await self.database.read(partial(accounts.debited_members, curators=curators))
            for item in some:
                party = parties[item.party]
                if party.coordinator_token is not None:
                    report = Said(item.round, party.coordinator_token, pack(members[item.id]))
                    reports_of[party.coordinator_url].append(report)
        silent: set[str] = set()
        for url, reports in reports_of.items():
            for together in batches(
                reports, lambda report: len(report.members), TOGETHER_BYTES, TOGETHER
            ):
                if not await self._acknowledge(url, together):
                    silent |= {report.round for report in together}
        return contributions.keys() - silent

    async def _acknowledge(self, url: str, reports: Sequence[Said]) -> bool:
        """Send several reports in one request, or each separately if that is refused, as the
        first one's token may be the reason. Returns whether the coordinator answered."""
        try:
            if len(reports) > 1:
                try:
                    answers = await self.peers.acknowledge_together(url, reports)
                except ProblemReceived:
                    pass
                else:
                    for report, answer in zip(reports, answers, strict=True):
                        if answer.status >= 400:
                            _refused(report.round, answer.problem or "")
                    return True
            for report in reports:
                try:
                    await self.peers.acknowledge(url, report.token, report.round, report.members)
                except ProblemReceived as problem:
                    _refused(report.round, problem.name)
        except PeerUnavailable:
            return False
        return True


async def credit(
    transaction: Transaction,
    round_id: str,
    contributions: Sequence[ContributionRow],
    parties: Mapping[str, PartyRow],
    clock: Clock,
) -> None:
    """Give back what a round debited, once."""
    for contribution in sorted(contributions, key=lambda item: item.party):
        party = parties[contribution.party]
        await exclusive(transaction, f"ledger {party.id}")
        now = clock.now()
        for debit in await accounts.credit(transaction, contribution.id, now):
            await _give_back(transaction, party, debit)
        await outbox.set_credited(transaction, contribution.id, now)
        _logger.info("credited", party=party.logged, round=round_id)


async def _went_on(transaction: Transaction, row: RoundRow) -> bool:
    """Whether this is the round with which a job's one debit was made, and the job asked more:
    then the debit pays for the later answers."""
    query = row.signed().statement.query
    if query.job is None:
        return False
    job = await record_store.job(transaction, query.job)
    paid = job is not None and job.terms is not None and job.first_round == row.id
    return paid and job is not None and job.last_round != row.id


async def _give_back(transaction: Transaction, party: PartyRow, debit: Any) -> None:
    charge = accounts.charge_in(debit, PrivacyUnit.CURATOR)
    await accounts.charge_accounts(
        transaction,
        party.id,
        party.curators,
        charge.assumed,
        debit.made,
        (debit.offset, presence_bits(debit.presence, debit.length)),
        (),
        factor=-1,
    )


def _refused(round_id: str, problem: str) -> None:
    _logger.info("acknowledgement_refused", round=round_id, problem=problem)


def statements(document: dict[str, Any]) -> list[Signed[AbortStatement]]:
    """The abort statements in a coordinator's answer; none if they cannot be read."""
    aborts = []
    for item in document.get("aborts") or []:
        try:
            aborts.append(Signed[AbortStatement].model_validate_json(to_json(item)))
        except (ValidationError, ValueError, TypeError):
            continue
    return aborts


LOOK_S: Final = 60.0
AT_ONCE: Final = 50
"""Rounds that share a transaction: readings wait for it."""
REST_S: Final = 0.05
_expiry_logger = get_logger("tacit.curator.expiry")


class Expiry(Repeating):
    """Expires rounds whose deadline was more than `retention_s` ago."""

    def __init__(
        self, database: Database, clock: Clock, retention_s: float, expired: Counter
    ) -> None:
        super().__init__("expiry", _expiry_logger, LOOK_S)
        self._database, self._clock = database, clock
        self._retention = timedelta(seconds=retention_s)
        self._expired = expired

    async def look(self) -> None:
        """Expire all that are due."""
        async with self._database.begin() as transaction:
            now = self._clock.now()
            await intake_counts.forget_hours(transaction, now - KEPT)
            await store.forget_spends(transaction, now - self._retention)
        while not self._pauses.ending:
            now = self._clock.now()
            async with self._database.begin() as transaction:
                expired = await store.expire(transaction, now - self._retention, now, AT_ONCE)
            self._expired.inc(expired)
            if expired < AT_ONCE:
                return
            await self._pauses.pause(REST_S)
