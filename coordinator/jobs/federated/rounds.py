"""A federated job by rounds: one query and one round for each sum that the algorithm requests.

Spec: jobs, "Federated jobs"; kmeans, section 6. Only the steps and their rounds are stored; the
state of the algorithm is computed again from them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from fractions import Fraction
from typing import Any, Final

import numpy as np
from sqlalchemy.exc import IntegrityError

from algorithms import catalogue
from algorithms.contract import FederatedRounds, Outcome, PrivacyScope
from common.store.database import exclusive
from common.store.transactions import Transaction
from coordinator import queries
from coordinator.budget import charging
from coordinator.errors import NotEnoughAggregators, RoundFailed
from coordinator.jobs.federated import lifecycle
from coordinator.jobs.federated.computing import Computing, released
from coordinator.jobs.federated.lifecycle import Desk, Ending, JobEnded
from coordinator.jobs.federated.preparation import (
    JobPlan,
    asking,
    noise_share,
    one_debit,
    plan_from,
    step_of_sum,
)
from coordinator.jobs.privacy_statements import completed, under_one_debit
from coordinator.models.budget_ledger import Draft
from coordinator.models.job import JobState
from coordinator.rounds import opening
from coordinator.rounds.context import signed_descriptor
from coordinator.rounds.opening import OpenRequest, Prepared
from coordinator.store import jobs as store
from coordinator.store import queries as query_store
from coordinator.store import registry
from coordinator.store import rounds as round_store
from coordinator.store.jobs import JobRow, StepRow
from coordinator.store.queries import QueryRow
from coordinator.store.rounds import RoundHead
from tacit.accounting.charges import abort_credit
from tacit.crypto.signing import Signed
from tacit.encoders.count_sums import MOST_PARTS
from tacit.encoders.sums import RecordSum, length
from tacit.encoders.sums import read as read_sum
from tacit.errors import Conflict, DomainError
from tacit.protocol.federation import (
    MOST_ATTEMPTS,
    AbortedAttempt,
    FederatedStep,
    Federation,
    JobTerms,
)
from tacit.protocol.round.descriptor import AbortStatement
from tacit.protocol.round.state import RoundState
from tacit.query.functions import parts
from tacit.query.query import Query
from tacit.report.model import PrivacyReport
from tacit.sets import Bits


@dataclass(frozen=True)
class Asking:
    """A sum to be asked; aborted: the attempts before."""

    asked: RecordSum
    aborted: tuple[AbortedAttempt, ...] = ()


@dataclass(frozen=True)
class Matter:
    """What does not change during a job."""

    rounds: FederatedRounds
    params: Any
    scope: PrivacyScope
    plan: JobPlan

    @property
    def federation(self) -> Federation:
        """Which curators it asks, and under which assumptions."""
        return self.plan.federation


def matter_of(job: JobRow, steps: Sequence[StepRow]) -> Matter:
    """terms are those of its first step, once there is one."""
    algorithm = catalogue.find(job.algorithm)
    assert algorithm.rounds is not None
    assert job.federation is not None
    params = algorithm.params.model_validate_json(job.params)
    federation = Federation.model_validate_json(job.federation)
    plan = plan_from(job.id, job.algorithm, job.stance, job.params, federation)
    if algorithm.rounds.universe is not None:
        plan = replace(plan, universe=algorithm.rounds.universe(params))
    if steps:
        plan = replace(plan, terms=FederatedStep.model_validate_json(steps[0].document).terms)
    return Matter(algorithm.rounds, params, algorithm.rounds.scope(params), plan)


def first_state(matter: Matter) -> Any:
    """The first state, planned for the noise of this federation's rounds."""
    names, rounds = matter.federation.names, matter.rounds
    sum_asked = rounds.next_sum(rounds.first(matter.params, names, Fraction(1)))
    assert sum_asked is not None
    _, query = step_of_sum(matter.plan, 1, sum_asked, matter.scope)
    return rounds.first(matter.params, names, noise_share(query, matter.scope))


def next_sums(matter: Matter, state: Any) -> Sequence[RecordSum]:
    """The next queries, whose rounds are open at the same time; empty at the end."""
    rounds = matter.rounds
    if rounds.next_sums is not None:
        return rounds.next_sums(state)
    sum_asked = rounds.next_sum(state)
    return () if sum_asked is None else (sum_asked,)


def asked_in(row: StepRow) -> RecordSum:
    """What a step asks."""
    step = FederatedStep.model_validate_json(row.document)
    return read_sum(step.algorithm, step.sum)


def absorbed(matter: Matter, state: Any, row: StepRow, query: Query, result: str) -> Any:
    """The state with a step's released sum."""
    sum_asked, figures = asked_in(row), json.loads(result)
    words: list[int] = []
    for part in parts(query):
        words += [int(Fraction(text) / part.value) for text in figures[part.name]]
    opened = np.array(words, np.int64)
    assert len(opened) == length(sum_asked)
    return matter.rounds.absorb(state, sum_asked, sum_asked.restored(opened))


# Only the steps and their rounds are stored; the state of the algorithm is a function of the job's
# row and of the sums that were opened, and is recomputed from them when it is not in memory. In a
# job that is debited once, a step whose round never froze, because too few aggregators signed, is
# tried again, `MOST_ATTEMPTS` times in total; every other abort is final (spec: federated-counting,
# section 7; jobs, "Federated jobs"; kmeans, section 6).

CANCELLED: Final = "the job was cancelled"
KEPT_STATES: Final = 16
_DONE: Final = {
    RoundState.OPEN: 0.25,
    RoundState.FROZEN: 0.5,
    RoundState.VERIFIED: 0.6,
    RoundState.COMMITTED: 0.75,
    RoundState.RELEASED: 1.0,
    RoundState.ABORTED: 1.0,
}


@dataclass(frozen=True, eq=False)
class Known:
    """A job's state after its first `steps` sums."""

    steps: int
    state: Any


@dataclass(frozen=True)
class PreparedStep:
    """What is stored when a step's round is opened; debited: the event of a job's one debit."""

    query: QueryRow
    prepared: Prepared
    step: StepRow
    debited: Draft | None


class Rounds:
    """Advances jobs that collect by rounds."""

    def __init__(self, desk: Desk, computing: Computing) -> None:
        self._desk, self._conduct, self._computing = desk, desk.conduct, computing
        self._known: dict[str, Known] = {}

    async def drop(self, job: JobRow) -> None:
        """Abort the rounds in progress."""
        async with self._conduct.database.begin() as transaction:
            steps = await store.steps_of_job(transaction, job.id)
            open_ = [head.id for head in await _heads(transaction, steps) if not _over(head)]
            for round_id in open_:
                await round_store.wish_end(transaction, round_id, CANCELLED)
        for round_id in open_:
            self._desk.woken(round_id)

    async def carry(self, job: JobRow) -> bool:
        """Make the transition that is due; return whether there was one."""
        async with self._conduct.database.reading() as transaction:
            steps = await store.steps_of_job(transaction, job.id)
        matter = await asyncio.to_thread(matter_of, job, steps)
        async with self._conduct.database.reading() as transaction:
            heads = await _heads(transaction, steps)
        if not all(map(_over, heads)):
            await self._tell(job, matter, steps, heads)
            return False
        state = await self._state(job, matter, steps)
        failed = _failed(steps, heads)
        due: list[Asking] = []
        for row, head in failed:
            sum_asked = await asyncio.to_thread(asked_in, row)
            if (attempts := await self._attempts(matter, row)) is None:
                state = matter.rounds.aborted(state, sum_asked)
                if state is None:
                    raise JobEnded(RoundFailed(extra={"round": head.id, "reason": head.reason}))
                due = []
                break
            due.append(Asking(sum_asked, attempts))
        if not failed:
            sums = await asyncio.to_thread(next_sums, matter, state)
            due = [Asking(sum_asked) for sum_asked in sums]
        if due:
            await self._ask(job, matter, steps, due)
            return True
        if not any(head.state is RoundState.RELEASED for head in heads):
            raise JobEnded(RoundFailed("no round was released"))
        if job.id not in self._computing:
            self._computing.begin(job.id, released, job.algorithm, state)
        outcome = self._computing.outcome(job.id)
        if outcome is None:
            return False
        await self._conclude(job, matter, outcome, steps, heads)
        return True

    # --- asking ----------------------------------------------------------------------------------

    async def _attempts(self, matter: Matter, row: StepRow) -> tuple[AbortedAttempt, ...] | None:
        """The attempts of a step whose newest round was aborted; None if it is not repeated."""
        before = FederatedStep.model_validate_json(row.document).aborted or ()
        if matter.plan.terms is None or len(before) + 1 >= MOST_ATTEMPTS:
            return None
        assert row.round_id is not None
        async with self._conduct.database.reading() as transaction:
            ended = await round_store.find(transaction, row.round_id)
        assert ended is not None
        aborts = tuple(
            Signed[AbortStatement].model_validate_json(json.dumps(item))
            for item in json.loads(ended.aborts or "[]")
        )
        if not abort_credit(signed_descriptor(ended).statement, aborts):
            return None
        return (*before, AbortedAttempt(round=row.round_id, aborts=aborts))

    async def _ask(
        self, job: JobRow, matter: Matter, steps: Sequence[StepRow], due: Sequence[Asking]
    ) -> None:
        """Open the rounds of the following steps: they, their steps and queries are stored
        together. Once a job's first round is over, only curators with its one debit are invited."""
        conduct = self._conduct
        if not steps:
            matter = await self._with_terms(job, matter, due[0].asked)
        cohort = None
        if steps and matter.plan.terms is not None:
            async with conduct.database.reading() as transaction:
                cohort = await lifecycle.cohort(conduct, transaction, steps)
        opened = [
            await self._prepared(job, matter, place, asking, cohort)
            for place, asking in enumerate(due, len(steps) + 1)
        ]
        try:
            async with conduct.database.begin() as transaction:
                await exclusive(transaction, "queries")
                there = await store.find(transaction, job.id, lock=True)
                if there is None or there.state is not JobState.RUNNING or there.cancelling:
                    return
                for asking in opened:
                    if await queries.known(transaction, asking.query.query) is None:
                        await query_store.add(transaction, asking.query, scheduled=False)
                    await opening.add(conduct, transaction, asking.prepared)
                    if asking.debited is not None:
                        await conduct.ledger.append(transaction, [asking.debited])
                    await store.add_step(transaction, asking.step)
                await store.change(transaction, job.id, (JobState.RUNNING,), charged=True)
        except IntegrityError:
            return  # another replica opens it
        except Conflict as error:
            raise JobEnded(error) from None
        self._desk.woken(None)
        self._desk.changed()

    async def _prepared(
        self, job: JobRow, matter: Matter, number: int, due: Asking, cohort: Bits | None
    ) -> PreparedStep:
        """A step whose round could be opened; nothing is stored."""
        conduct = self._conduct
        step, query = step_of_sum(matter.plan, number, due.asked, matter.scope, due.aborted)
        terms = matter.plan.terms
        chosen = None if terms is None else terms.aggregators
        paid = terms is not None and not step.of_first_question
        price = charging.PAID if paid else None
        async with conduct.database.reading() as transaction:
            existing = await queries.known(transaction, query)
        row = existing or await queries.prepare(
            conduct.database, query, self._desk.attempts.settings, conduct.clock
        )
        try:
            if terms is not None and price is None:
                operators = await self._operators(terms.aggregators)
                price = charging.price_of_job(query, terms.epsilon, operators)
            request = OpenRequest(query_id=row.id, aggregators=chosen)
            prepared = await opening.prepare(conduct, row, request, price, cohort)
        except NotEnoughAggregators as error:
            raise JobEnded(error) from None
        except DomainError:
            self._give_up_late(job, matter)
            raise
        name = prepared.signed.statement.round
        text = step.model_dump_json(exclude_none=True)
        stored = StepRow(job.id, number, text, row.id, name, conduct.clock.now())
        debited = None
        if terms is not None and not paid:
            debited = lifecycle.debited(job.id, terms, name)
        return PreparedStep(row, prepared, stored, debited)

    async def _with_terms(self, job: JobRow, matter: Matter, record_sum: RecordSum) -> Matter:
        """With what its first step promises for all, if the job is debited once."""
        _, query = step_of_sum(matter.plan, 1, record_sum, matter.scope)
        async with self._conduct.database.reading() as transaction:
            rows = await registry.list_aggregators(transaction)
        operators = tuple(row.operator for row in rows[: query.aggregators])
        budget = await asyncio.to_thread(
            one_debit, matter.rounds, matter.params, matter.federation, query, operators or None
        )
        if budget is None:
            return matter
        state = await asyncio.to_thread(first_state, matter)
        terms = JobTerms.of(
            query,
            opened=job.started or job.created,
            aggregators=[row.id for row in rows[: query.aggregators]],
            universe=matter.plan.universe or (),
            epsilon=budget,
            steps_at_most=matter.rounds.planned(state) * MOST_PARTS,
        )
        return replace(matter, plan=replace(matter.plan, terms=terms))

    async def _operators(self, chosen: Sequence[str]) -> tuple[str, ...]:
        async with self._conduct.database.reading() as transaction:
            rows = {row.id: row for row in await registry.list_aggregators(transaction)}
        return tuple(rows[name].operator for name in chosen if name in rows)

    def _give_up_late(self, job: JobRow, matter: Matter) -> None:
        """Raise JobEnded if the next round is not opened in the time that all rounds may take."""
        since = job.started or job.created
        patience = timedelta(seconds=self._conduct.patience_s + matter.federation.deadline)
        rounds = matter.rounds.planned(self._known[job.id].state) if job.id in self._known else 1
        if self._conduct.clock.now() > since + patience * rounds:
            raise JobEnded(RoundFailed("the next round cannot be opened"))

    async def _tell(
        self, job: JobRow, matter: Matter, steps: Sequence[StepRow], heads: Sequence[RoundHead]
    ) -> None:
        """The stage of the slowest round, and the share of all that is done."""
        waiting = [place for place, head in enumerate(heads) if not _over(head)]
        state = await self._state(job, matter, steps[: waiting[0]])
        slowest = min((heads[place] for place in waiting), key=lambda head: _DONE[head.state])
        collecting = slowest.state is RoundState.OPEN
        stage = ("collecting" if slowest.announced else "open") if collecting else "aggregating"
        planned = max(1, matter.rounds.planned(state), len(heads))
        await self._desk.tell(job, stage, sum(_DONE[head.state] for head in heads) / planned)

    # --- the state -------------------------------------------------------------------------------

    async def _state(self, job: JobRow, matter: Matter, steps: Sequence[StepRow]) -> Any:
        """The state after all released sums among these steps."""
        progress_known = self._known.get(job.id)
        if progress_known is None or progress_known.steps > len(steps):
            state, done = await asyncio.to_thread(first_state, matter), 0
        else:
            state, done = progress_known.state, progress_known.steps
        for row in steps[done:]:
            assert row.round_id is not None
            assert row.query_id is not None
            async with self._conduct.database.reading() as transaction:
                result = await round_store.document(transaction, row.round_id, "result")
                query = (await queries.find(transaction, row.query_id)).query
            if result is not None:  # else it was aborted
                state = await asyncio.to_thread(absorbed, matter, state, row, query, result)
            done += 1
        self._known.pop(job.id, None)
        self._known[job.id] = Known(done, state)
        while len(self._known) > KEPT_STATES:
            self._known.pop(next(iter(self._known)))
        return state

    async def _conclude(
        self,
        job: JobRow,
        matter: Matter,
        outcome: Outcome,
        steps: Sequence[StepRow],
        heads: Sequence[RoundHead],
    ) -> None:
        reports: list[PrivacyReport] = []
        async with self._conduct.database.reading() as transaction:
            for row in steps:
                assert row.round_id is not None
                text = await round_store.document(transaction, row.round_id, "report")
                if text is not None:
                    reports.append(PrivacyReport.model_validate_json(text))
            assert steps[0].query_id is not None
            query = (await queries.find(transaction, steps[0].query_id)).query
        rounds = [row.round_id for row in steps]
        own_report = outcome.report
        if matter.rounds.forecast is not None:
            error = matter.rounds.forecast(
                matter.params, asking(query, matter.scope, matter.federation)
            )
            own_report = own_report.model_copy(update={"error": error})
        terms = matter.plan.terms
        whole_statement = None
        if terms is not None:
            operators = await self._operators(terms.aggregators)
            whole_statement = under_one_debit(reports[0], query, terms.epsilon, operators)
        met = [head.participants or 0 for head in heads if head.state is RoundState.RELEASED]
        report = completed(
            own_report,
            job.id,
            reports,
            whole_statement,
            timed_only=matter.federation.timed_only,
            participants=met,
            rounds_asked=rounds,
        )
        await lifecycle.settle(self._conduct, job.id)
        await self._desk.succeed(job, Ending(outcome, report))
        self._known.pop(job.id, None)


def _over(head: RoundHead) -> bool:
    return head.state in (RoundState.RELEASED, RoundState.ABORTED)


async def _heads(transaction: Transaction, steps: Sequence[StepRow]) -> list[RoundHead]:
    """Of each step's round, in order."""
    ids = [row.round_id for row in steps if row.round_id is not None]
    head_of = {head.id: head for head in await round_store.heads_of(transaction, ids)}
    return [head_of[name] for name in ids]


def _failed(
    steps: Sequence[StepRow], heads: Sequence[RoundHead]
) -> list[tuple[StepRow, RoundHead]]:
    """Steps whose round was aborted and that were not asked again."""
    pairs = zip(steps, heads, strict=True)
    failed = [(row, head) for row, head in pairs if head.state is RoundState.ABORTED]
    if not failed:
        return []
    aborted_attempts = (
        FederatedStep.model_validate_json(row.document).aborted or () for row in steps
    )
    again = {attempt.round for attempts in aborted_attempts for attempt in attempts}
    return [(row, head) for row, head in failed if head.id not in again]
