"""One contribution, step by step, in the order of the spec (aggregation, section 6, step 3).

    check the descriptor -> policy and ledger -> readings of the window -> f(x), noise, split, seal
    -> debit and sealed bytes in ONE transaction -> only then they may be sent (`delivery`)

It is done lot by lot (`lots`): each is a transaction of its own, so that a crash repeats no segment
and the first can be sent while the next is prepared. Nothing here is drawn twice: a
segment that is in the ledger is never prepared again, its stored bytes are sent again.
Taking part depends on public parameters only; a curator without readings contributes like others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from common import sets
from common.agreement import check_anchors, check_descriptor
from common.errors import DomainError
from common.functions import dimension
from common.models.federation import step_of
from common.models.query import PrivacyUnit
from common.models.round import RoundDescriptor
from common.service.clock import Clock
from common.service.database import exclusive, reading
from common.service.logs import get_logger
from common.service.problems import ProblemReceived
from curator import consent, runs
from curator.errors import DeadlinePassed, PeerUnavailable, StepRefused
from curator.ledger import Charges, charges_of
from curator.lots import Portion, Task, groups, keys_of, lots, portions
from curator.parties import Keyring
from curator.policy import Policy
from curator.records import Question, RecordSource, RecordWindow
from curator.restoring import Restore
from curator.steps import Steps
from curator.store import accounts, outbox
from curator.store.accounts import NewDebit
from curator.store.outbox import Place, RoundRow, Sealed, State
from curator.store.parties import PartyRow
from curator.windows import ReadingSource, WindowReadings, reading_source

PART = 0
STEP_RETRY_S = 1.0

_logger = get_logger("tacit.curator.contribution")


@dataclass(frozen=True)
class Work:
    """What all contributions to one round share."""

    descriptor: RoundDescriptor
    charges: Charges
    policy: Policy


class Contributor:
    """Makes contributions."""

    def __init__(
        self,
        engine: AsyncEngine,
        keyring: Keyring,
        clock: Clock,
        policy: Callable[[], Awaitable[Policy]],
        restore: Restore,
        counted: Callable[[str], None] = lambda _: None,
        steps: Steps | None = None,
    ) -> None:
        self._steps = steps
        self._store, self._keyring, self._clock = engine, keyring, clock
        self._policy, self._restore, self._counted = policy, restore, counted

    async def contribute(
        self, round_row: RoundRow, tasks: Sequence[Task]
    ) -> AsyncIterator[list[Sealed]]:
        """Sealed bytes of one round, as they become durable; each lot may be sent at once."""
        descriptor = round_row.signed().statement
        charges = await asyncio.to_thread(charges_of, descriptor.query, descriptor.operators)
        willing = []
        for task in tasks:
            try:
                self._check(round_row, task.party)
            except DomainError as error:
                await self._refuse(task, error)
            else:
                willing.append(task)
        question, willing = await self._question(descriptor, willing)
        if not willing:
            return
        work = Work(descriptor, charges, await self._policy())
        left = await self._left(work, willing)
        source = await self._source(descriptor, question)
        for group in groups(left, source.reach):
            async with reading(self._store) as connection:
                window = await source.load(connection, keys_of(group))
            for lot in lots(group, dimension(descriptor.query)):
                sealed = await self._lot(work, lot, window)
                if sealed:
                    yield sealed
                del sealed  # not held here while the next are prepared

    async def _question(
        self, descriptor: RoundDescriptor, tasks: list[Task]
    ) -> tuple[Question | None, list[Task]]:
        """What a federated job asks, and who is left to answer; all wait while nobody tells."""
        if self._steps is None or not tasks:
            return None, tasks
        try:
            return await self._steps.of(descriptor, tasks[0].party), tasks
        except StepRefused as error:
            for task in tasks:
                await self._refuse(task, error)
        except (PeerUnavailable, ProblemReceived) as error:
            _logger.warning("step_waits", round=descriptor.round, problem=error.name)
            await asyncio.sleep(STEP_RETRY_S)
        return None, []

    async def _left(self, work: Work, tasks: Sequence[Task]) -> list[Portion]:
        """What is to be prepared; tasks whose portions all are move on."""
        ids = [task.contribution.id for task in tasks]
        async with reading(self._store) as connection:
            done = await accounts.debited_segments(connection, ids)
        left: list[Portion] = []
        whole = []
        for task in tasks:
            found = portions(task, work.descriptor.segment_size, done[task.contribution.id])
            left += found
            if not found:
                whole.append(task.contribution.id)
        if whole:
            async with self._store.begin() as connection:
                await outbox.set_state(connection, whole, State.PREPARED, self._clock.now())
        return left

    async def _source(
        self, descriptor: RoundDescriptor, question: Question | None
    ) -> ReadingSource | RecordSource:
        query, window = descriptor.query, descriptor.window
        if question is not None:
            return RecordSource(question, query, window, descriptor.segment_size)
        async with reading(self._store) as connection:
            return await reading_source(connection, descriptor)

    def _check(self, round_row: RoundRow, party: PartyRow) -> None:
        """The descriptor, by the pinned coordinator key and the anchors of the join token."""
        assert party.coordinator_key is not None
        if round_row.outcome is not None:
            raise DeadlinePassed("the round is over")
        now = self._clock.now()
        descriptor = check_descriptor(round_row.signed(), party.coordinator_key, now)
        asks = self._steps is not None and step_of(descriptor.query) is not None
        if descriptor.query.every_record and not asks:
            raise StepRefused("readings of a register may be left out: no step tells of records")
        check_anchors(descriptor, {a.aggregator: a.fingerprint for a in party.anchors})
        consent.check_round(party, descriptor, now, self._restore)

    async def _refuse(self, task: Task, error: DomainError) -> None:
        count = task.party.curators
        members = sets.pack(np.ones(count, np.bool_))
        figures = "{}"
        now = self._clock.now()
        async with self._store.begin() as connection:
            await accounts.add_refusal(
                connection,
                task.contribution.id,
                (0, count),
                members,
                (error.name, error.detail, figures),
                now,
            )
            await outbox.set_state(connection, [task.contribution.id], State.REFUSED, now)
        self._note(task, error.name)

    def _note(self, task: Task, outcome: str) -> None:
        self._counted(outcome)
        _logger.info(
            "contribution",
            party=task.party.logged,
            round=task.contribution.round,
            outcome=outcome,
        )

    # --- a lot, in one transaction ---------------------------------------------------------------

    async def _lot(
        self, work: Work, lot: Sequence[Portion], window: WindowReadings | RecordWindow
    ) -> list[Sealed]:
        """Sealed bytes of a lot, durable; none if nobody takes part."""
        tasks = {each.task.contribution.id: each.task for each in lot}
        sealed: list[Sealed] = []
        async with self._store.begin() as connection:
            # Always in this order: two processes would wait for each other otherwise.
            for party in sorted({task.party.id for task in tasks.values()}):
                await exclusive(connection, f"ledger {party}")
            done = await accounts.debited_segments(connection, list(tasks))
            for portion in lot:
                segments = done[portion.task.contribution.id]
                if portion.span.segment in segments:
                    continue  # another process was faster
                found = await self._portion(connection, work, portion, window)
                if found:
                    segments.add(portion.span.segment)
                    sealed += found
            if sealed:
                await outbox.add_sealed(connection, sealed)
            ended = {
                each.task.contribution.id: State.PREPARED
                if done[each.task.contribution.id]
                else State.REFUSED
                for each in lot
                if each.last
            }
            for state in set(ended.values()):
                ids = [contribution for contribution, found in ended.items() if found is state]
                await outbox.set_state(connection, ids, state, self._clock.now())
        for contribution, state in ended.items():
            self._note(tasks[contribution], state.value)
        return sealed

    async def _portion(
        self,
        connection: AsyncConnection,
        work: Work,
        portion: Portion,
        window: WindowReadings | RecordWindow,
    ) -> list[Sealed]:
        """Decide, prepare and debit; an empty list if nobody takes part."""
        task, span = portion.task, portion.span
        party, contribution = task.party, task.contribution.id
        place = (portion.offset, span.length)
        now = self._clock.now()
        decision = await consent.consent(
            connection, party, work.descriptor, work.charges, work.policy, place, now
        )
        await self._record_grounds(connection, contribution, place, decision, now)
        if not decision.present.any():
            return []
        readings = window.of(portion.first_key, decision.present)
        engine = await self._keyring.engine_of(connection, party.id)
        prepared = await asyncio.to_thread(
            *(
                (engine.prepare_segment, work.descriptor, span, decision.present, readings, PART)
                if portion.hosted
                else (engine.prepare, work.descriptor, readings)
            )
        )
        debit = NewDebit(
            contribution=contribution,
            party=party.id,
            segment=span.segment,
            part=PART,
            offset=portion.offset,
            length=span.length,
            presence=sets.pack(decision.present),
            unit=work.descriptor.query.privacy_unit,
            charges=work.charges,
            window=work.descriptor.window,
            made=now,
            used=runs.pack(prepared.used),
            clamped=runs.pack(prepared.clamped),
        )
        await accounts.charge_accounts(
            connection,
            party.id,
            party.curators,
            debit.charges[PrivacyUnit.CURATOR],
            now,
            (portion.offset, decision.present),
            sorted(decision.periods),
        )
        await accounts.add_debit(connection, debit)
        return [
            Sealed(
                Place(contribution, span.segment, PART, body.aggregator),
                body.media_type,
                body.content,
            )
            for body in prepared.bodies
        ]

    async def _record_grounds(
        self,
        connection: AsyncConnection,
        contribution: int,
        span: tuple[int, int],
        decision: consent.Consent,
        now: datetime,
    ) -> None:
        await accounts.forget_refusals(connection, contribution, span[0])
        for ground in decision.grounds:
            self._counted(ground.name)
            await accounts.add_refusal(
                connection,
                contribution,
                span,
                sets.pack(ground.members),
                (ground.name, ground.detail, ground.figures),
                now,
            )
