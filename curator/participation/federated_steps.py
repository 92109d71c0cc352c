"""The question of a federated job's round: fetched, checked against descriptor and epsilon.

Spec: kmeans, section 6.1, step 2; federated-counting, section 6.2. The descriptor's query holds the
hash of the step. No path through a job's questions spends more than the job's epsilon; that follows
from questions alone, so a refusal reveals nothing private.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Final

from pydantic import ValidationError

from common.runtime.clock import Clock
from common.store.database import exclusive
from common.store.transactions import Database, Transaction
from curator.errors import PathOverspent, StepRefused
from curator.ledger import job_charges
from curator.participation.restoring import Restore
from curator.participation.settlement import credit
from curator.parties.peers import Peers
from curator.records.records import ItemQuestion, JobDebit, Question, RowQuestion
from curator.store import outbox
from curator.store import parties as party_store
from curator.store import records as store
from curator.store.parties import PartyRow
from curator.store.records import JobRow, PathRow
from tacit.accounting.charges import abort_credit
from tacit.encoders import sums
from tacit.encoders.count_sums import MOST_SEQUENCES, CountSum
from tacit.encoders.counts import NoSuchPaths, PathSpends
from tacit.encoders.sums import RecordSum
from tacit.protocol.federation import (
    FederatedStep,
    ItemTable,
    JobTerms,
    RegisterStatistic,
    registers_of,
    step_of,
)
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.query.fields import ALWAYS
from tacit.query.query import Query
from tacit.query.terms import PrivacyUnit, Stance
from tacit.randomness import SEED_BYTES

KEPT: Final = 32


@dataclass
class Steps:
    """The steps of the jobs that this process participates in."""

    database: Database
    peers: Peers
    clock: Clock
    restore: Restore
    _found: OrderedDict[tuple[str, bytes], Question] = field(default_factory=OrderedDict)

    async def of(self, descriptor: RoundDescriptor, party: PartyRow) -> Question | None:
        """The round's question; None if it belongs to no job's step. Raises a RoundRefused;
        PeerUnavailable or ProblemReceived if the step cannot be fetched."""
        query = descriptor.query
        name = step_of(query)
        if name is None:
            return None
        place = descriptor.round, query.digest()
        if place not in self._found:
            assert query.job is not None
            text = await self.peers.step(
                party.coordinator_url, party.coordinator_token or "", query.job, name.step
            )
            self._found[place] = await self._checked(descriptor, text)
            while len(self._found) > KEPT:
                self._found.popitem(last=False)
        return self._found[place]

    async def _checked(self, descriptor: RoundDescriptor, text: bytes) -> Question:
        query = descriptor.query
        try:
            step = FederatedStep.model_validate_json(text)
            record_sum = sums.read(step.algorithm, step.sum)
            _check(query, step, record_sum)
            _check_terms(descriptor, step)
        except (ValidationError, sums.SumRefused) as error:
            reason = str(error) if isinstance(error, sums.SumRefused) else "the step is malformed"
            raise StepRefused(reason) from None
        if isinstance(step.columns[0], str) and descriptor.window != ALWAYS:
            raise StepRefused("rows of a table have no time: the window must cover all of it")
        if step.terms is not None:
            self.restore.check_after(step.terms.opened)
        job, began, undone = await self._noted(step, record_sum, descriptor)
        debit = None
        if step.terms is not None:
            debit = JobDebit(
                step.job, descriptor.round, job.first_round, step.terms.epsilon, began, undone
            )
        return _question(step, record_sum, job, debit)

    async def _noted(
        self, step: FederatedStep, record_sum: sums.RecordSum, descriptor: RoundDescriptor
    ) -> tuple[JobRow, int, frozenset[str]]:
        """The job, the step that first asked its question, and its rounds that opened nothing.

        Its plan, its terms and its steps are compared with those seen before. Raises
        PathOverspent.
        """
        digest = descriptor.query.digest()
        terms = None if step.terms is None else step.terms.canonical()
        async with self.database.begin() as transaction:
            await exclusive(transaction, "federated jobs")
            row = await store.job(transaction, step.job)
            undone = await _undone(transaction, step)
            place = await standing(transaction, step, record_sum, descriptor.round, undone)
            if row is None:
                seed, now = os.urandom(SEED_BYTES), self.clock.now()
                first = descriptor.round if step.of_first_question else None
                new = JobRow(
                    step.job,
                    step.algorithm,
                    step.plan,
                    step.step,
                    digest,
                    seed,
                    now,
                    terms,
                    first,
                    descriptor.round,
                )
                await store.add_job(transaction, new)
                if step.terms is not None:
                    await note(transaction, place, record_sum, step.terms)
                return new, place.row.began, undone
            if (row.plan, row.algorithm) != (step.plan, step.algorithm):
                raise StepRefused("the job's plan is another one than before")
            if row.terms != terms:
                raise StepRefused("the job's terms are other ones than before")
            # Parts of one question are asked together, so that they are seen in any order.
            earlier = step.step < row.step and not (terms is not None and place.known)
            if earlier or (step.step == row.step and digest != row.query_hash):
                raise StepRefused("the job asks a step twice")
            if terms is not None and step.step == row.step and row.last_round != descriptor.round:
                raise StepRefused("the job asks a step twice")
            if step.terms is not None:
                await note(transaction, place, record_sum, step.terms)
            if step.step > row.step:
                await store.note_step(transaction, step.job, step.step, digest, descriptor.round)
                if step.of_first_question and {row.first_round, row.last_round} <= undone:
                    row = await self._paid_again(transaction, row, descriptor.round)
            return row, place.row.began, undone

    async def _paid_again(self, transaction: Transaction, row: JobRow, round_id: str) -> JobRow:
        """Nothing was opened for the job: the debit of its first round is given back, and this
        round makes it."""
        assert row.first_round is not None
        contributions = (await outbox.of_rounds(transaction, [row.first_round]))[row.first_round]
        parties = await party_store.parties_by_id(
            transaction, [contribution.party for contribution in contributions]
        )
        await credit(transaction, row.first_round, contributions, parties, self.clock)
        await store.pay_first(transaction, row.id, round_id)
        return replace(row, first_round=round_id)


async def _undone(transaction: Transaction, step: FederatedStep) -> frozenset[str]:
    """The attempts before that this process has seen, and that opened nothing. Raises
    StepRefused unless the statements prove it."""
    attempts = {attempt.round: attempt.aborts for attempt in step.aborted or ()}
    seen_rounds = await outbox.rounds_by_id(transaction, list(attempts))
    for name, seen_round in seen_rounds.items():
        if not abort_credit(seen_round.signed().statement, attempts[name]):
            raise StepRefused("the job asks a step again that may have been opened")
    return frozenset(seen_rounds)


def _check(query: Query, step: FederatedStep, record_sum: sums.RecordSum) -> None:
    """Raises SumRefused where the query is not that of the step."""
    if step.name != query.name or step.job != query.job:
        raise sums.SumRefused("the step is not the one that the query names")
    if query.stance is not Stance.SOUND:
        raise sums.SumRefused("a job's rounds are sound")
    if query.registers != registers_of(step.columns):
        raise sums.SumRefused("the query's registers are not those of the step's columns")
    if len(step.columns) != record_sum.columns:
        raise sums.SumRefused("the sum takes another number of columns")
    lists = any(isinstance(column, ItemTable) for column in step.columns)
    if query.every_record and isinstance(step.columns[0], RegisterStatistic):
        raise sums.SumRefused("a statistic changes with one reading: it is not one record alone")
    if isinstance(record_sum, CountSum) != lists:
        raise sums.SumRefused("the algorithm's sum is of other records")
    if isinstance(record_sum, CountSum):
        _check_sequences(query, step, record_sum)
    sums.check_query(query, record_sum)


def _check_sequences(query: Query, step: FederatedStep, count_sum: CountSum) -> None:
    """Raise SumRefused if a table can have more records than count, or if indices name no item."""
    if not query.every_record or query.max_readings < MOST_SEQUENCES:
        raise sums.SumRefused("all records of a table count")
    universe = step.universe or ()
    if len(set(universe)) != len(universe) or len(universe) != count_sum.asked.items:
        raise sums.SumRefused("the universe is not that of the question")


def _check_terms(descriptor: RoundDescriptor, step: FederatedStep) -> None:
    """Raise StepRefused if a job's terms differ from those of this round, or if its rounds do
    not guarantee the figure that is debited once."""
    terms, query = step.terms, descriptor.query
    if terms is None:
        return
    terms_here = JobTerms.of(
        query,
        opened=terms.opened,
        aggregators=[entry.id for entry in descriptor.aggregators],
        universe=step.universe or (),
        epsilon=terms.epsilon,
        steps_at_most=terms.steps_at_most,
    )
    if (
        terms != terms_here
        or query.privacy_unit is not PrivacyUnit.RECORD
        or not query.every_record
    ):
        raise StepRefused("the job's terms are not those of its round")
    if step.step > terms.steps_at_most:
        raise StepRefused("the job has more steps than its terms state")
    if (
        terms.epsilon <= 0
        or not job_charges(query, terms.epsilon, descriptor.operators)[PrivacyUnit.RECORD].verified
    ):
        raise StepRefused("the job's rounds do not carry the figure of its terms")


def _question(
    step: FederatedStep, record_sum: sums.RecordSum, job: JobRow, debit: JobDebit | None
) -> Question:
    """The question about the records."""
    column = step.columns[0]
    if isinstance(column, ItemTable):
        assert isinstance(record_sum, CountSum)
        return ItemQuestion(column.place, record_sum, step.universe or (), job.seen, debit)
    assert isinstance(record_sum, sums.RowSum)
    return RowQuestion(step.columns, record_sum, job.seed, job.seen, debit)


# --- the place of a step among a job's questions -------------------------------------------------
#
# Parts of one question, and a part that is asked again after a round that opened nothing, are one
# question, counted once, on paths and in what records spend. A part that is asked a second time
# begins a question of its own. The theorem bounds the sum along a path, so a group may be asked
# again while the sum stays within epsilon. Spec: federated-counting, section 6.2.


@dataclass(frozen=True)
class Standing:
    """A step among the questions of its job. `row`: with this step in it; `spends`: what the
    paths spent before; `known`: whether it belongs to the newest question and is no repetition."""

    row: PathRow
    spends: PathSpends
    known: bool


def _path_question(step: FederatedStep, record_sum: RecordSum) -> bytes:
    """Identifies a question, whichever part of it is asked."""
    document = dict(step.sum)
    if isinstance(record_sum, CountSum):
        document.pop("first", None)
    columns = [json.loads(step.model_dump_json(include={"columns"}))]
    return sha256(json.dumps([columns, document], sort_keys=True).encode()).digest()


async def standing(
    transaction: Transaction,
    step: FederatedStep,
    record_sum: RecordSum,
    round_id: str,
    undone: Collection[str],
) -> Standing:
    """The place of a step; undone: rounds that opened nothing."""
    question = await asyncio.to_thread(_path_question, step, record_sum)
    first = record_sum.first if isinstance(record_sum, CountSum) else 0
    row = await store.find_path(transaction, step.job)
    if row is not None and row.question == question:
        before = row.rounds.get(first)
        if before is None or before == round_id or before in undone:
            rounds = {**row.rounds, first: round_id}
            return Standing(replace(row, rounds=rounds), PathSpends(), known=True)
    spends = PathSpends() if row is None else PathSpends.unpacked(row.spends)
    new = PathRow(step.job, question, step.step, {first: round_id}, b"")
    return Standing(new, spends, known=False)


async def note(
    transaction: Transaction, place: Standing, record_sum: RecordSum, terms: JobTerms
) -> None:
    """Remember a step. Raises PathOverspent, and remembers nothing then."""
    row = place.row
    if not place.known:
        row = replace(row, spends=await asyncio.to_thread(_within, place.spends, record_sum, terms))
    await store.put_path(transaction, row)


def _within(spends: PathSpends, record_sum: RecordSum, terms: JobTerms) -> bytes:
    try:
        after = after_sum(spends, record_sum)
    except NoSuchPaths as error:
        raise PathOverspent(str(error)) from None
    if after.most > terms.epsilon:
        raise PathOverspent("the job's questions spend more along a path than its terms state")
    return after.packed()


def after_sum(spends: PathSpends, record_sum: RecordSum) -> PathSpends:
    """What paths spend after one more question; sums over rows of numbers have no paths. Raises
    NoSuchPaths."""
    return (
        record_sum.after(spends)
        if isinstance(record_sum, CountSum)
        else spends.with_loose(record_sum.epsilon)
    )
