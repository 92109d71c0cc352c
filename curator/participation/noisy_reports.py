"""Noisy reports for federated jobs that collect them: decided, drawn once, stored, then sent.

Spec: jobs, "Federated jobs"; budget, section 5. The algorithm's encoder (`tacit.encoders.sums`)
determines what reports cost and how they are made, from the mechanism that the descriptor names.
All reports of a curator are drawn together and stored in the transaction of their debit; only those
bytes are ever sent. A curator that has reported does not report again, whatever rows it gets: no
noise is drawn a second time.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from secrets import SystemRandom
from typing import Any, Final

import numpy as np
from pydantic import ValidationError

from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.store.database import exclusive
from common.store.transactions import Database, Transaction
from common.web.problems import ProblemReceived
from curator import ledger
from curator.errors import PeerUnavailable, PolicyRefused, RoundRefused, Stopped
from curator.ledger import Charge
from curator.owner.policies import holding
from curator.participation import consent
from curator.participation.restoring import Restore
from curator.parties.peers import Peers
from curator.policy import Policy, check_collection
from curator.records.records import load_rows
from curator.store import accounts, stops
from curator.store import parties as party_store
from curator.store import records as item_store
from curator.store import reports as store
from curator.store.accounts import NewDebit
from curator.store.parties import ACTIVE, Coordinator, PartyRow
from curator.store.reports import CollectionRow, NoisyReport, Stage
from tacit import sets
from tacit.accounting import amounts as accounting
from tacit.accounting.amounts import UNVERIFIED
from tacit.crypto.signing import SignatureBroken, Signed, signer_of, verify
from tacit.encoders.sums import OF_ITEMS, Cost, Encoding, EncodingRefused, read_encoding
from tacit.protocol.federation import DESCRIPTOR_LABEL, Descriptor, ItemTable
from tacit.protocol.identities import IdentityForked, IdentitySuperseded
from tacit.protocol.round.agreement import DescriptorRefused, check_opened
from tacit.query.fields import ALWAYS
from tacit.query.functions import whole
from tacit.query.terms import PrivacyUnit
from tacit.randomness import SecureRandom
from tacit.wire import encode_binary

BULK: Final = 2000
BULK_CHARACTERS: Final = 2 << 20
_moment = SystemRandom()
_logger = get_logger("tacit.curator.reporting")


@dataclass
class Reporting:
    """A process's part in collections."""

    database: Database
    peers: Peers
    clock: Clock
    policy: Callable[[], Awaitable[Policy]]
    send_share: float
    restore: Restore

    async def turn(self) -> None:
        """Make what is due, send what has no answer."""
        async with self.database.reading() as transaction:
            due = await store.due(transaction, self.clock.now())
            parties = await party_store.parties_by_id(transaction, [item.party for item in due])
        for item in due:
            if parties[item.party].state == ACTIVE:
                await self._carry(item, parties[item.party])

    # --- discover --------------------------------------------------------------------------------

    async def take_up(self, known: Set[Coordinator], items: Sequence[Any]) -> bool:
        """Plan the collections that a coordinator lists, `known` as parties here know it;
        returns whether another key signed one."""
        foreign = False
        for item in items:
            try:
                text = json.dumps(item["descriptor"])
                signed = Signed[Descriptor].model_validate_json(text)
            except (ValidationError, KeyError, TypeError):
                _logger.warning("descriptor_malformed")
                continue
            planned = [await self._plan(signed, coordinator) for coordinator in known]
            foreign = foreign or not any(planned)
        return foreign

    async def _plan(self, signed: Signed[Descriptor], coordinator: Coordinator) -> bool:
        """Plan it if it is a valid descriptor of this coordinator; returns whether it is."""
        descriptor = signed.statement
        now = self.clock.now()
        try:
            key = signer_of(DESCRIPTOR_LABEL, signed, coordinator.keys(now))
            verify(DESCRIPTOR_LABEL, signed, key)
            check_opened(descriptor.opened, now)
        except (SignatureBroken, DescriptorRefused, IdentityForked, IdentitySuperseded):
            _logger.warning("descriptor_refused", job=descriptor.job)
            return False
        if now < descriptor.deadline:
            await self._plan_parties(descriptor, signed, coordinator.key, now)
        return True

    async def _plan_parties(
        self,
        descriptor: Descriptor,
        signed: Signed[Descriptor],
        coordinator_key: bytes,
        now: datetime,
    ) -> None:
        whose = (descriptor.job, coordinator_key, descriptor.deployment)
        async with self.database.reading() as transaction:
            if not await store.parties_without(transaction, *whose):
                return
        share = (descriptor.deadline - now) * self.send_share
        async with self.database.begin() as transaction:
            await exclusive(transaction, "collections")
            rows = [
                CollectionRow(
                    descriptor.job,
                    party,
                    descriptor.digest(),
                    signed.model_dump_json(),
                    descriptor.deadline,
                    Stage.PLANNED,
                    None,
                    now + share * _moment.random(),
                )
                for party in await store.parties_without(transaction, *whose)
            ]
            if rows:
                await store.plan(transaction, rows)

    # --- make ------------------------------------------------------------------------------------

    async def _carry(self, item: CollectionRow, party: PartyRow) -> None:
        if self.clock.now() >= item.deadline:
            async with self.database.begin() as transaction:
                await store.change(transaction, item, Stage.OVER)
        elif item.state is Stage.PREPARED or await self._prepare(item, party):
            await self._send(item, party)

    async def _prepare(self, item: CollectionRow, party: PartyRow) -> bool:
        """Decide, draw and store, in one transaction; returns whether there is something to
        send."""
        descriptor = Signed[Descriptor].model_validate_json(item.descriptor).statement
        try:
            encoding, cost = await asyncio.to_thread(self._checked, descriptor)
        except (EncodingRefused, RoundRefused) as error:
            await self._refuse(item, str(error))
            return False
        price = _asked(descriptor, encoding, cost)
        async with self.database.begin() as transaction:
            await exclusive(transaction, f"ledger {party.id}")
            again = await store.find(transaction, item.job, item.party)
            if again is None or again.state is not Stage.PLANNED:
                return again is not None and again.state is Stage.PREPARED
            decision = await self._consent(transaction, party, descriptor, price)
            keys = (party.first_key, party.first_key + party.curators)
            rows = await self._rows(transaction, descriptor, keys)
            taking = {
                key: values[: encoding.most_rows]
                for key, values in rows.items()
                if len(values) and decision.present[key - party.first_key]
            }
            ids = await party_store.curator_ids(transaction, party.id)
            names = {key: ids[key - party.first_key] for key in taking}
            reports = await asyncio.to_thread(_drawn, encoding, taking, names) if taking else []
            if not reports:
                ground = decision.grounds[0].detail if decision.grounds else "there are no rows"
                await store.change(transaction, again, Stage.REFUSED, ground)
                return False
            used = Counter(report.curator for report in reports)
            await self._debit(transaction, party, price, decision, used)
            await store.add(transaction, item.job, party.id, reports)
            await store.change(transaction, again, Stage.PREPARED)
        return True

    async def _rows(
        self, transaction: Transaction, descriptor: Descriptor, keys: tuple[int, int]
    ) -> Mapping[int, Any]:
        """The records of the curators with keys in a half-open range, by key: rows (n, columns), or
        a list of one set of items."""
        column = descriptor.taken[0]
        if not isinstance(column, ItemTable):
            return await load_rows(transaction, descriptor.taken, descriptor.window, keys)
        tables = await item_store.item_tables_of(transaction, column.place, keys, self.clock.now())
        return {
            table.curator: [{table.universe[place] for place in table.lists.items.tolist()}]
            for table in tables
        }

    def _checked(self, descriptor: Descriptor) -> tuple[Encoding, Cost | None]:
        """What to do, and what it costs; None: no verified figure, as the stance `paper` states.
        Raises EncodingRefused for an unknown encoding, or one that does not protect; a
        RoundRefused."""
        self.restore.check(descriptor.opened, self.clock.now())
        encoding = read_encoding(descriptor.algorithm, descriptor.encoding)
        cost = encoding.cost
        if (cost is None) != (descriptor.stance == "paper"):
            raise EncodingRefused("a figure is verified in the sound stance only")
        if encoding.labelled != (descriptor.label is not None):
            raise EncodingRefused("no column but the one named as the label is sent as it is")
        if encoding.columns != len(descriptor.taken):
            raise EncodingRefused("a report takes another number of columns")
        lists = any(isinstance(column, ItemTable) for column in descriptor.taken)
        if lists != (descriptor.algorithm in OF_ITEMS):
            raise EncodingRefused("the algorithm's reports are of other records")
        of_table = {isinstance(column, str | ItemTable) for column in descriptor.taken}
        if len(of_table) != 1:
            raise EncodingRefused("columns are either of a table or statistics of registers")
        if of_table == {True} and descriptor.window != ALWAYS:
            raise EncodingRefused("rows of a table have no time: the window must cover all of it")
        return encoding, cost

    async def _consent(
        self,
        transaction: Transaction,
        party: PartyRow,
        descriptor: Descriptor,
        price: consent.Asked,
    ) -> consent.Consent:
        """Who is not stopped; then the policy, then the ledger."""
        span, now = (0, party.curators), self.clock.now()
        result = consent.Consent(np.ones(party.curators, np.bool_))
        stopped = await stops.members(transaction, party.first_key, party.curators)
        result.refuse(stopped, Stopped.name, Stopped.title)
        for policy, members in await holding(
            transaction, party, await self.policy(), 0, party.curators
        ):
            result.periods.add(policy.period_s)
            try:
                check_collection(policy, descriptor, verified=price.charge.verified)
            except PolicyRefused as error:
                result.refuse(members, error.name, error.detail, dict(error.extra))
                continue
            await consent.afford(transaction, party, price, policy, span, members, now, result)
        return result

    async def _debit(
        self,
        transaction: Transaction,
        party: PartyRow,
        price: consent.Asked,
        decision: consent.Consent,
        rows: Mapping[int, int],
    ) -> None:
        """`rows`: how many are reported of each curator, by its key."""
        members = np.zeros(party.curators, np.bool_)
        members[[key - party.first_key for key in rows]] = True
        used = [rows[key] for key in sorted(rows)]
        now = self.clock.now()
        debit = NewDebit(
            contribution=None,
            party=party.id,
            segment=0,
            part=0,
            offset=0,
            length=party.curators,
            presence=sets.pack(members),
            unit=price.unit,
            charges=price.charges,
            window=price.window,
            made=now,
            used=ledger.pack_run_lengths(np.array(used, np.int64)),
            clamped=ledger.pack_run_lengths(np.zeros(len(used), np.int64)),
            kept=ledger.pack_run_lengths(whole(len(used))),
        )
        await accounts.charge_accounts(
            transaction,
            party.id,
            party.curators,
            price.charges[PrivacyUnit.CURATOR],
            now,
            (0, members),
            sorted(decision.periods),
        )
        await accounts.add_debits(transaction, [debit])

    async def _refuse(self, item: CollectionRow, ground: str) -> None:
        _logger.info("collection_refused", job=item.job, ground=ground)
        async with self.database.begin() as transaction:
            await store.change(transaction, item, Stage.REFUSED, ground)

    # --- send ------------------------------------------------------------------------------------

    async def _send(self, item: CollectionRow, party: PartyRow) -> None:
        """Send what has no answer, in bulk; the rest is for the next turn."""
        while True:
            async with self.database.begin() as transaction:
                await stops.withdraw_reports(transaction, item.job, party.id)
                row = await store.find(transaction, item.job, item.party)
                left = await store.unanswered(transaction, item.job, party.id, BULK)
            assert row is not None
            if not left:
                async with self.database.begin() as transaction:
                    await store.change(transaction, row, Stage.DELIVERED)
                return
            left = _bulk(left)
            try:
                answers = await self._post(item, party, left)
            except PeerUnavailable:
                return
            except ProblemReceived as error:
                if error.status in (404, 409, 410, 422):  # earlier ones may be in the result
                    _logger.info("collection_over", job=item.job, problem=error.name)
                    async with self.database.begin() as transaction:
                        await store.change(transaction, row, Stage.OVER)
                return
            async with self.database.begin() as transaction:
                await store.answer(transaction, item.job, left, answers)

    async def _post(
        self, item: CollectionRow, party: PartyRow, left: Sequence[NoisyReport]
    ) -> list[int]:
        bodies = ",".join(report.body for report in left)
        body = f'{{"descriptor":"{encode_binary(item.hash)}","reports":[{bodies}]}}'
        answers: list[dict[str, Any]] = await self.peers.report(
            party.coordinator_url, party.coordinator_token or "", item.job, body.encode()
        )
        statuses = [int(answer["status"]) for answer in answers]
        if len(statuses) != len(left):
            raise PeerUnavailable("there is not one answer for each report")
        return statuses


def _bulk(left: list[NoisyReport]) -> list[NoisyReport]:
    """As many as one request holds; at least one."""
    sizes = itertools.accumulate(len(report.body) for report in left)
    fitting = sum(size <= BULK_CHARACTERS for size in sizes)
    return left[: max(1, fitting)]


def _asked(descriptor: Descriptor, encoding: Encoding, cost: Cost | None) -> consent.Asked:
    """What a collection charges. There are no aggregators, so their collusion changes nothing."""
    own = PrivacyUnit(encoding.ledger_unit)
    other = next(unit for unit in PrivacyUnit if unit is not own)
    charges = {
        unit: Charge.of(
            *[UNVERIFIED if cost_in_unit is None else accounting.Cost(*cost_in_unit)] * 2
        )
        for unit, cost_in_unit in ((own, cost), (other, encoding.other_cost))
    }
    return consent.Asked(own, descriptor.window, charges)


def _drawn(
    encoding: Encoding, taking: Mapping[int, Any], names: Mapping[int, str]
) -> list[NoisyReport]:
    """Every report of every curator, each numbered from 1."""
    keys = {names[key]: key for key in sorted(taking)}
    rows = {name: taking[key] for name, key in keys.items()}
    reports = encoding.perturbed(rows, SecureRandom())
    return [
        NoisyReport(keys[name], number, report.canonical().decode())
        for name, group in itertools.groupby(reports, key=lambda report: report.curator)
        for number, report in enumerate(group, 1)
    ]
