"""One contribution, step by step, in the order of the spec (aggregation, section 6, step 3).

    check the descriptor -> policy and ledger -> readings of the window -> f(x), noise, split, seal
    -> debit and sealed bytes in ONE transaction -> only then they may be sent (`delivery`)

A host's run is done segment by segment: each is a transaction of its own, so that a crash repeats
no segment and the first can be sent while the next is prepared. Nothing here is drawn twice: a
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
from common.models.enrolment import PartyKind
from common.models.federation import step_of
from common.models.round import RoundDescriptor
from common.sealing import Span, spans
from common.service.clock import Clock
from common.service.database import exclusive, reading
from common.service.logs import get_logger
from common.service.problems import ProblemReceived
from curator import consent, runs
from curator.errors import DeadlinePassed, PeerUnavailable, StepRefused
from curator.ledger import Charge, charge_of
from curator.parties import Keyring
from curator.policy import Policy
from curator.records import Question, RecordWindow, load_records
from curator.steps import Steps
from curator.store import accounts, outbox
from curator.store.accounts import NewDebit
from curator.store.outbox import ContributionRow, RoundRow, Sealed, State
from curator.store.parties import PartyRow
from curator.windows import WindowReadings, fits_together, load_window

PART = 0
STEP_RETRY_S = 1.0
LONE_TOGETHER, LONE_WORDS = 100, 1 << 18
"""Lone curators whose contributions share a transaction."""

_logger = get_logger("tacit.curator.contribution")


@dataclass(frozen=True)
class Task:
    """A contribution to make: whose, and to which round."""

    contribution: ContributionRow
    party: PartyRow


@dataclass(frozen=True)
class Work:
    """What all contributions to one round share."""

    descriptor: RoundDescriptor
    charge: Charge
    policy: Policy
    question: Question | None = None


class Contributor:
    """Makes contributions; `restored` is when this store was restored from a backup, if ever."""

    def __init__(
        self,
        engine: AsyncEngine,
        keyring: Keyring,
        clock: Clock,
        policy: Callable[[], Awaitable[Policy]],
        restored: datetime | None,
        counted: Callable[[str], None] = lambda _: None,
        steps: Steps | None = None,
    ) -> None:
        self._steps = steps
        self._store, self._keyring, self._clock = engine, keyring, clock
        self._policy, self._restored, self._counted = policy, restored, counted

    async def contribute(
        self, round_row: RoundRow, tasks: Sequence[Task]
    ) -> AsyncIterator[list[Sealed]]:
        """Sealed bytes of one round, as they become durable; each lot may be sent at once."""
        descriptor = round_row.signed().statement
        operators = [entry.operator for entry in descriptor.aggregators]
        charge = await asyncio.to_thread(charge_of, descriptor.query, operators)
        willing = []
        for task in tasks:
            try:
                self._check(round_row, task.party)
            except DomainError as error:
                await self._refuse(task, error)
            else:
                willing.append(task)
        question, willing = await self._question(descriptor, willing)
        work = Work(descriptor, charge, await self._policy(), question)
        lone = [task for task in willing if task.party.kind is PartyKind.CURATOR]
        if lone:
            async for sealed in self._lone(work, lone):
                yield sealed
        hosts = [task for task in willing if task.party.kind is PartyKind.HOST]
        window = await self._whole_window(work, hosts)
        for task in hosts:
            async for sealed in self._host(work, task, window):
                yield sealed

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

    async def _window(
        self, connection: AsyncConnection, work: Work, keys: tuple[int, int]
    ) -> WindowReadings | RecordWindow:
        descriptor = work.descriptor
        if work.question is None:
            return await load_window(connection, descriptor, keys)
        query, window = descriptor.query, descriptor.window
        return await load_records(connection, work.question, query, window, keys)

    def _check(self, round_row: RoundRow, party: PartyRow) -> None:
        """The descriptor, by the pinned coordinator key and the anchors of the join token."""
        assert party.coordinator_key is not None
        if round_row.outcome is not None:
            raise DeadlinePassed("the round is over")
        descriptor = check_descriptor(round_row.signed(), party.coordinator_key)
        asks = self._steps is not None and step_of(descriptor.query) is not None
        if descriptor.query.every_record and not asks:
            raise StepRefused("readings of a register may be left out: no step tells of records")
        check_anchors(descriptor, {a.aggregator: a.fingerprint for a in party.anchors})
        consent.check_round(party, descriptor, self._clock.now(), self._restored)

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
            await outbox.set_state(connection, task.contribution.id, State.REFUSED, now)
        self._note(task, error.name)

    def _note(self, task: Task, outcome: str) -> None:
        self._counted(outcome)
        _logger.info(
            "contribution",
            party=task.party.id,
            round=task.contribution.round,
            outcome=outcome,
        )

    # --- lone curators ---------------------------------------------------------------------------

    async def _lone(self, work: Work, tasks: Sequence[Task]) -> AsyncIterator[list[Sealed]]:
        keys = [task.party.first_key for task in tasks]
        async with reading(self._store) as connection:
            window = await self._window(connection, work, (min(keys), max(keys) + 1))
        ordered = sorted(tasks, key=lambda task: task.party.id)
        together = max(1, min(LONE_TOGETHER, LONE_WORDS // dimension(work.descriptor.query)))
        for start in range(0, len(ordered), together):
            sealed: list[Sealed] = []
            done: list[tuple[Task, State]] = []
            async with self._store.begin() as connection:
                for task in ordered[start : start + together]:
                    await exclusive(connection, f"ledger {task.party.id}")
                    span = Span(0, 0, 1)
                    made = await self._segment(connection, work, task, span, window)
                    if made is None:
                        continue
                    state = State.PREPARED if made else State.REFUSED
                    now = self._clock.now()
                    await outbox.set_state(connection, task.contribution.id, state, now)
                    sealed += made
                    done.append((task, state))
            for task, state in done:
                self._note(task, state.value)
            if sealed:
                yield sealed

    # --- hosts -----------------------------------------------------------------------------------

    async def _whole_window(
        self, work: Work, tasks: Sequence[Task]
    ) -> WindowReadings | RecordWindow | None:
        """The window's readings of all hosts, in one scan; nothing if they are too many."""
        if not tasks or work.question is not None:
            return None
        keys = (
            min(task.party.first_key for task in tasks),
            max(task.party.first_key + task.party.curators for task in tasks),
        )
        async with reading(self._store) as connection:
            if not await fits_together(connection, work.descriptor):
                return None
            return await self._window(connection, work, keys)

    async def _host(
        self, work: Work, task: Task, whole: WindowReadings | RecordWindow | None
    ) -> AsyncIterator[list[Sealed]]:
        """`whole`: the window of all hosts, where there is room for it; else one a segment."""
        party, first = task.party, task.party.first
        assert first is not None
        async with reading(self._store) as connection:
            done = await accounts.debited_segments(connection, task.contribution.id)
        prepared = bool(done)
        for span in spans(first, party.curators, work.descriptor.segment_size):
            if span.segment in done:
                continue
            window = whole
            if window is None:
                start = party.first_key + span.first - first
                async with reading(self._store) as connection:
                    keys = (start, start + span.length)
                    window = await self._window(connection, work, keys)
            async with self._store.begin() as connection:
                await exclusive(connection, f"ledger {party.id}")
                sealed = await self._segment(connection, work, task, span, window)
            prepared |= sealed != []
            if sealed:
                yield sealed
        state = State.PREPARED if prepared else State.REFUSED
        async with self._store.begin() as connection:
            await outbox.set_state(connection, task.contribution.id, state, self._clock.now())
        self._note(task, state.value)

    # --- one segment, one transaction ------------------------------------------------------------

    async def _segment(
        self,
        connection: AsyncConnection,
        work: Work,
        task: Task,
        span: Span,
        window: WindowReadings | RecordWindow,
    ) -> list[Sealed] | None:
        """Nothing if another process was faster, an empty list if nobody takes part."""
        party, contribution = task.party, task.contribution.id
        if span.segment in await accounts.debited_segments(connection, contribution):
            return None
        host = party.kind is PartyKind.HOST
        offset = span.first - party.first if host and party.first is not None else 0
        now = self._clock.now()
        decision = await consent.consent(
            connection,
            party,
            work.descriptor,
            work.charge,
            work.policy,
            (offset, span.length),
            now,
        )
        await self._record_grounds(connection, contribution, (offset, span.length), decision, now)
        if not decision.present.any():
            return []
        readings = window.of(party.first_key + offset, decision.present)
        engine = await self._keyring.engine_of(connection, party.id)
        prepared = await asyncio.to_thread(
            *(
                (engine.prepare_segment, work.descriptor, span, decision.present, readings, PART)
                if host
                else (engine.prepare, work.descriptor, readings)
            )
        )
        debit = NewDebit(
            contribution=contribution,
            party=party.id,
            segment=span.segment,
            part=PART,
            offset=offset,
            length=span.length,
            presence=sets.pack(decision.present),
            unit=work.descriptor.query.privacy_unit,
            charge=work.charge,
            window=work.descriptor.window,
            made=now,
            used=runs.pack(prepared.used),
            clamped=runs.pack(prepared.clamped),
        )
        await accounts.charge_accounts(
            connection,
            party.id,
            party.curators,
            debit.unit,
            debit.charge,
            now,
            (offset, decision.present),
            sorted(decision.periods),
        )
        await accounts.add_debit(connection, debit)
        items = [(body.aggregator, body.media_type, body.content) for body in prepared.bodies]
        return await outbox.add_sealed(connection, contribution, span.segment, PART, items)

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
