"""One contribution, step by step, in this order (spec: aggregation, section 6, step 3).

    check the descriptor -> policy and ledger -> readings of the window -> f(x), noise, split, seal
    -> debit and sealed bytes in ONE transaction -> only then they may be sent (`delivery`)

It is done lot by lot (`grouping`): each is a separate transaction, so that a crash repeats no
segment and the first can be sent while the next is prepared. Nothing here is drawn twice: a segment
that is in the ledger is never prepared again, its stored bytes are sent again. Participation
depends on public parameters only; a curator without readings contributes like others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np

from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.store.database import exclusive
from common.store.group_commit import GroupCommit, in_transaction
from common.store.transactions import LARGE_BYTES, LARGE_ROWS, Database, Transaction
from common.web.problems import ProblemReceived
from curator import ledger
from curator.engine import HostPart, Prepared, Terms, Total, prepare_parts
from curator.errors import (
    DeadlinePassed,
    LastingSignatureMissing,
    PeerUnavailable,
    RoundRefused,
    SealKeyUnusable,
    StepMissed,
    StepRefused,
)
from curator.ledger import PAID, Charges, charges_of, job_charges
from curator.participation import consent
from curator.participation.federated_steps import Steps
from curator.participation.preparation import (
    PART,
    Decided,
    Portion,
    Task,
    concerned,
    groups,
    keys_of,
    lots,
    portions,
    prepare,
    read_in_blocks,
    runs,
    totals_of,
)
from curator.participation.restoring import Restore
from curator.participation.windows import ReadingSource, WindowReadings, Windows
from curator.parties.identities import Identities
from curator.parties.keys import Keyring, SealKeys
from curator.policy import Policy
from curator.records.records import (
    JobDebit,
    Question,
    RecordSource,
    RecordWindow,
    TableQuestion,
)
from curator.store import accounts, outbox
from curator.store.accounts import NewDebit
from curator.store.outbox import Place, RoundRow, Sealed, State
from curator.store.parties import PartyRow
from tacit import sets
from tacit.crypto.sealing import SealPublicKey, spans
from tacit.errors import DomainError
from tacit.protocol.enrolment import PartyKind
from tacit.protocol.federation import step_of
from tacit.protocol.round.agreement import DescriptorRefused, check_consistent, check_opened
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.query.terms import Function, PrivacyUnit

Window: TypeAlias = WindowReadings | RecordWindow | ReadingSource | RecordSource
"""Readings, or where they are while they are not read."""
STEP_RETRY_S = 1.0
ROWS: Final = 1 << 18
"""Most rows that a transaction reads and writes for its lots."""
CHARGES_KEPT: Final = 1024

_logger = get_logger("tacit.curator.contribution")


@dataclass(frozen=True)
class Work:
    """What all contributions to one round share."""

    terms: Terms
    charges: Charges
    policy: Policy
    debit: JobDebit | None = None


@dataclass(frozen=True)
class Lot:
    """Portions of one round that are prepared together, and what they share."""

    work: Work
    portions: Sequence[Portion]
    window: Window

    @property
    def rows(self) -> int:
        """How many numbers it seals for an aggregator, at most."""
        invited = self.work.terms.invited
        near = (concerned(portion, invited) for portion in self.portions)
        return self.work.terms.dimension * sum(int(span.stop - span.start) for span in near)

    @property
    def is_large(self) -> bool:
        """Whether it is prepared in a thread: a host's numbers are bytes of few rows."""
        aggregators = len(self.work.terms.descriptor.aggregators)
        return self.touches_many or 8 * aggregators * self.rows >= LARGE_BYTES

    @property
    def touches_many(self) -> bool:
        """Whether its transaction is large. Long vectors of few curators are not: only their sealed
        bytes are, which are one statement. Were each of its statements a visit to a thread, all
        other writers would wait for these, and give up where many parts of a question are open."""
        aggregators = len(self.work.terms.descriptor.aggregators)
        return (
            aggregators * len(self.portions) >= LARGE_ROWS
            or sum(portion.span.length for portion in self.portions) >= LARGE_ROWS
            or self.work.terms.proofs is not None
            or isinstance(self.window, ReadingSource | RecordSource)  # read in the transaction
        )


@dataclass(frozen=True)
class Written:
    """The sealed bytes of a lot, and in which states contributions ended with it, by id."""

    sealed: list[Sealed]
    ended: dict[int, State]


@lru_cache(maxsize=4)  # of a large roster each has megabytes
def _verified(descriptor: str, coordinator_key: bytes) -> Terms:
    """The terms of a stored descriptor that this key signed, verified once for all parties.

    The key of this cache is the text itself, so nothing else is ever taken for a verified one.
    Raises DescriptorRefused.
    """
    signed = outbox.signed_descriptor(descriptor)
    return Terms.of(check_consistent(signed, coordinator_key))


def _terms(descriptor: str, keys: Sequence[bytes]) -> Terms:
    """The same by any of these keys. Raises DescriptorRefused."""
    for key in keys[:-1]:
        with suppress(DescriptorRefused):
            return _verified(descriptor, key)
    return _verified(descriptor, keys[-1])


class Contributor:
    """Makes contributions."""

    def __init__(
        self,
        database: Database,
        keyring: Keyring,
        clock: Clock,
        policy: Callable[[], Awaitable[Policy]],
        restore: Restore,
        seal_keys: SealKeys,
        identities: Identities,
        counted: Callable[[str], None] = lambda _: None,
        steps: Steps | None = None,
    ) -> None:
        self._steps, self._seal_keys = steps, seal_keys
        self._identities = identities
        self._store, self._keyring, self._clock = database, keyring, clock
        self._policy, self._restore, self._counted = policy, restore, counted
        self._charges: dict[tuple[bytes, tuple[str, ...]], Charges] = {}
        self._windows = Windows(database)
        self._lots = GroupCommit(
            in_transaction(database.begin, self._write, lambda lot: lot.touches_many),
            size_of=lambda lot: lot.rows,
            batch_size=ROWS,
        )

    async def contribute(
        self, round_row: RoundRow, tasks: Sequence[Task]
    ) -> AsyncIterator[list[Sealed]]:
        """Sealed bytes of one round, as they become durable; each lot may be sent immediately."""
        descriptor = round_row.signed().statement
        terms: Terms | None = None
        charges = await self._charges_of(descriptor)
        willing = []
        for task in tasks:
            try:
                terms = await self._check(round_row, task.party)
            except PeerUnavailable as error:
                _logger.warning("identity_waits", round=descriptor.round, problem=error.name)
                await asyncio.sleep(STEP_RETRY_S)
            except DomainError as error:
                await self._refuse(task, error)
            else:
                willing.append(task)
        question, willing = await self._question(descriptor, willing)
        if terms is None or not willing:
            return
        seal_keys = await self._sealed_to(terms.descriptor, willing)
        if seal_keys is None:
            return
        debit = None if question is None else question.debit
        if debit is not None:
            charges = _charges_of_job(descriptor, debit)
        work = Work(replace(terms, seal_keys=seal_keys), charges, await self._policy(), debit)
        portions_left = await self._left(work, willing)
        source = await self._source(descriptor, question)
        for group in groups(portions_left, source.reach):
            window: Window = source
            if not read_in_blocks(terms, group, source.reach):
                window = await self._load(source, keys_of(group, terms.invited))
            for lot in lots(group, terms.dimension, terms.piece_words):
                sealed = await self._lot(Lot(work, lot, window))
                if sealed:
                    yield sealed
                del sealed  # not held here while the next are prepared

    async def _charges_of(self, descriptor: RoundDescriptor) -> Charges:
        """What a round costs: computed in a thread, once."""
        priced = (descriptor.query.digest(), descriptor.operators)
        if priced not in self._charges:
            charges = await asyncio.to_thread(charges_of, descriptor.query, descriptor.operators)
            while len(self._charges) >= CHARGES_KEPT:
                self._charges.pop(next(iter(self._charges)))
            self._charges[priced] = charges
        return self._charges[priced]

    async def _question(
        self, descriptor: RoundDescriptor, tasks: list[Task]
    ) -> tuple[Question | None, list[Task]]:
        """The question of a federated job, and the tasks left to answer it; all wait while the
        question cannot be fetched."""
        if descriptor.query.function is Function.TABLE:
            return TableQuestion(), tasks
        if self._steps is None or not tasks:
            return None, tasks
        try:
            return await self._steps.of(descriptor, tasks[0].party), tasks
        except RoundRefused as error:
            for task in tasks:
                await self._refuse(task, error)
        except (PeerUnavailable, ProblemReceived) as error:
            _logger.warning("step_waits", round=descriptor.round, problem=error.name)
            await asyncio.sleep(STEP_RETRY_S)
        return None, []

    async def _sealed_to(
        self, descriptor: RoundDescriptor, tasks: Sequence[Task]
    ) -> tuple[SealPublicKey, ...] | None:
        """The seal keys of a round; None while one cannot be fetched, and if one cannot
        be used."""
        try:
            return await self._seal_keys.of(descriptor, tasks[0].party)
        except (SealKeyUnusable, LastingSignatureMissing) as error:
            for task in tasks:
                await self._refuse(task, error)
        except PeerUnavailable as error:
            _logger.warning("seal_key_waits", round=descriptor.round, problem=error.name)
            await asyncio.sleep(STEP_RETRY_S)
        return None

    async def _left(self, work: Work, tasks: Sequence[Task]) -> list[Portion]:
        """What is to be prepared; tasks whose portions all are move on."""
        ids = [task.contribution.id for task in tasks]
        done = await self._store.read(
            lambda transaction: accounts.debited_segments(transaction, ids)
        )
        portions_left: list[Portion] = []
        finished = []
        for task in tasks:
            own_portions = portions(
                task, work.terms.descriptor.segment_size, done[task.contribution.id]
            )
            portions_left += own_portions
            if not own_portions:
                finished.append(task.contribution.id)
        if finished:
            async with self._store.begin() as transaction:
                await outbox.set_state(transaction, finished, State.PREPARED, self._clock.now())
        return portions_left

    async def _source(
        self, descriptor: RoundDescriptor, question: Question | None
    ) -> ReadingSource | RecordSource:
        query, window = descriptor.query, descriptor.window
        if question is not None:
            return RecordSource(question, query, window, descriptor.segment_size)
        return await self._windows.source(descriptor)

    async def _load(
        self, source: ReadingSource | RecordSource, keys: tuple[int, int]
    ) -> WindowReadings | RecordWindow:
        if isinstance(source, ReadingSource):
            return await self._windows.load(source, keys)
        async with self._store.reading(large=keys[1] - keys[0] >= LARGE_ROWS) as transaction:
            return await source.load(transaction, keys)

    async def _check(self, round_row: RoundRow, party: PartyRow) -> Terms:
        """The descriptor, by the pinned coordinator key and the anchors of the join token."""
        if round_row.outcome is not None:
            raise DeadlinePassed("the round is over")
        now = self._clock.now()
        terms = _terms(round_row.descriptor, party.coordinator.keys(now))
        descriptor = terms.descriptor
        check_opened(descriptor.opened, now)
        asks = self._steps is not None and step_of(descriptor.query) is not None
        if descriptor.query.every_record and not asks:
            raise StepRefused("readings of a register can be omitted: no step asks for records")
        await self._identities.check(descriptor, party)
        consent.check_round(party, descriptor, now, self._restore)
        _check_parts(terms, party)
        return terms

    async def _refuse(self, task: Task, error: DomainError) -> None:
        count = task.party.curators
        members = sets.pack(np.ones(count, np.bool_))
        figures = "{}"
        now = self._clock.now()
        async with self._store.begin() as transaction:
            await accounts.add_refusal(
                transaction,
                task.contribution.id,
                (0, count),
                members,
                (error.name, error.detail, figures),
                now,
            )
            await outbox.set_state(transaction, [task.contribution.id], State.REFUSED, now)
        self._note(task, error.name)

    def _note(self, task: Task, outcome: str) -> None:
        self._counted(outcome)
        _logger.info(
            "contribution",
            party=task.party.logged,
            round=task.contribution.round,
            outcome=outcome,
        )

    # --- lots, in one transaction ----------------------------------------------------------------

    async def _lot(self, lot: Lot) -> list[Sealed]:
        """Sealed bytes of a lot, durable; none if no curator participates."""
        written = await self._lots.submit(lot)
        tasks = {portion.task.contribution.id: portion.task for portion in lot.portions}
        for contribution, state in written.ended.items():
            self._note(tasks[contribution], state.value)
        return written.sealed

    async def _write(self, transaction: Transaction, lots: Sequence[Lot]) -> list[Written]:
        """Lots of any rounds, one after the other: each sees the debits of those before it."""
        # Always in this order: two processes would wait for each other otherwise.
        for party in sorted({portion.task.party.id for lot in lots for portion in lot.portions}):
            await exclusive(transaction, f"ledger {party}")
        return [await self._write_lot(transaction, lot) for lot in lots]

    async def _write_lot(self, transaction: Transaction, lot: Lot) -> Written:
        work, portions = lot.work, lot.portions
        sealed: list[Sealed] = []
        ids = list({portion.task.contribution.id: None for portion in portions})
        done = await accounts.debited_segments(transaction, ids)
        portions_left = [
            portion
            for portion in portions  # another process may have been faster
            if portion.span.segment not in done[portion.task.contribution.id]
        ]
        decided = [await self._decide(transaction, work, run) for run in runs(portions_left)]
        every = [portion for run in decided for portion in run]
        if every:
            prepared = iter(await self._prepared(transaction, lot, every))
            for run in filter(None, decided):
                prepared_portions = [next(prepared) for _ in run]
                sealed += await self._debit(transaction, work, run, prepared_portions)
                done[run[0].portion.task.contribution.id].update(
                    portion.portion.span.segment for portion in run
                )
            await outbox.add_sealed(transaction, sealed)
        ended = {
            portion.task.contribution.id: State.PREPARED
            if done[portion.task.contribution.id]
            else State.REFUSED
            for portion in portions
            if portion.last
        }
        for state in set(ended.values()):
            chosen = [contribution for contribution, ended_in in ended.items() if ended_in is state]
            await outbox.set_state(transaction, chosen, state, self._clock.now())
        return Written(sealed, ended)

    async def _decide(
        self, transaction: Transaction, work: Work, run: Sequence[Portion]
    ) -> list[Decided]:
        """Which curators of consecutive portions participate; the portions in which any curator
        does."""
        first, now = run[0], self._clock.now()
        party = first.task.party
        place = (first.offset, sum(portion.span.length for portion in run))
        decision = await consent.consent(
            transaction, party, work.terms, work.charges, work.policy, place, now
        )
        if work.debit is not None and not work.debit.pays:
            paid = await accounts.paid_for_job(transaction, party.id, work.debit.first_round, place)
            decision.refuse(~paid, StepMissed.name, StepMissed.title)
        engine = self._keyring.engine_of(party)
        decided = [
            Decided(portion, decision.within(portion.within(first)), engine) for portion in run
        ]
        await self._record_grounds(transaction, decided, now)
        return [item for item in decided if item.decision.present.any()]

    async def _prepared(
        self, transaction: Transaction, lot: Lot, decided: Sequence[Decided]
    ) -> list[Prepared]:
        """Sealed bodies of each; readings that were too many to be read at once are read here."""
        terms, window = lot.work.terms, lot.window
        if isinstance(window, RecordWindow):
            keys = [key for item in decided for key in item.keys]
            window = await window.admitted(transaction, terms.query, keys)
        if not isinstance(window, ReadingSource | RecordSource):
            if lot.is_large:
                return await asyncio.to_thread(prepare, terms, decided, window)
            await asyncio.sleep(0)  # the loop serves others between lots
            return prepare(terms, decided, window)
        (lone_portion,) = decided
        portion, present = lone_portion.portion, lone_portion.decision.present
        totals: list[Total] = []
        for start in range(0, present.size, window.reach):
            block, key = present[start : start + window.reach], portion.first_key + start
            loaded = await window.load(transaction, (key, key + block.size))
            if isinstance(loaded, RecordWindow):
                present_keys = (key + np.flatnonzero(block)).tolist()
                loaded = await loaded.admitted(transaction, terms.query, present_keys)
            totals += await asyncio.to_thread(totals_of, terms, loaded, key, block)
        part = HostPart(portion.span, present, totals, PART)
        return await asyncio.to_thread(prepare_parts, terms, [lone_portion.engine], [part])

    async def _debit(
        self,
        transaction: Transaction,
        work: Work,
        run: Sequence[Decided],
        prepared: Sequence[Prepared],
    ) -> list[Sealed]:
        """Charge the curators of a run; what they send from then on."""
        task, now = run[0].portion.task, self._clock.now()
        party, contribution = task.party, task.contribution.id
        debits = [
            _debit_of(work, portion, prepared_portion, now)
            for portion, prepared_portion in zip(run, prepared, strict=True)
        ]
        first, last = debits[0], debits[-1]
        members = np.zeros(last.offset + last.length - first.offset, np.bool_)
        for portion in run:
            here, present = portion.portion.offset - first.offset, portion.present_only
            members[here + present.start : here + present.stop] = portion.decision.present[present]
        await accounts.charge_accounts(
            transaction,
            party.id,
            party.curators,
            work.charges[PrivacyUnit.CURATOR],
            now,
            (first.offset, members),
            sorted(run[0].decision.periods),
        )
        await accounts.add_debits(transaction, debits)
        return [
            Sealed(
                Place(contribution, portion.portion.span.segment, PART, body.aggregator),
                body.media_type,
                body.content,
                body.session,
                body.announce,
            )
            for portion, prepared_portion in zip(run, prepared, strict=True)
            for body in prepared_portion.bodies
        ]

    async def _record_grounds(
        self, transaction: Transaction, decided: Sequence[Decided], now: datetime
    ) -> None:
        contribution = decided[0].portion.task.contribution.id
        offsets = [item.portion.offset for item in decided]
        await accounts.forget_refusals(transaction, contribution, offsets)
        for item in decided:
            place = (item.portion.offset, item.portion.span.length)
            for ground in item.decision.grounds:
                self._counted(ground.name)
                await accounts.add_refusal(
                    transaction,
                    contribution,
                    place,
                    sets.pack(ground.members),
                    (ground.name, ground.detail, ground.figures),
                    now,
                )


def _debit_of(work: Work, decided: Decided, prepared: Prepared, now: datetime) -> NewDebit:
    """A portion's row of the ledger, no longer than the portion, so that later rounds of other
    curators need not read it."""
    portion, present_portion = decided.portion, decided.present_only
    present = decided.decision.present[present_portion]
    return NewDebit(
        contribution=portion.task.contribution.id,
        party=portion.task.party.id,
        segment=portion.span.segment,
        part=PART,
        offset=portion.offset + present_portion.start,
        length=present.size,
        presence=sets.pack(present),
        unit=work.terms.query.privacy_unit,
        charges=work.charges,
        window=work.terms.descriptor.window,
        made=now,
        used=ledger.pack_run_lengths(prepared.used),
        clamped=ledger.pack_run_lengths(prepared.clamped),
        kept=ledger.pack_run_lengths(prepared.kept),
    )


def _charges_of_job(descriptor: RoundDescriptor, debit: JobDebit) -> Charges:
    """The first round of a job that is debited once pays for all."""
    if not debit.pays:
        return PAID
    return job_charges(descriptor.query, debit.epsilon, descriptor.operators)


def _check_parts(terms: Terms, party: PartyRow) -> None:
    """Raise DescriptorRefused if a host's part would have more curators than can be proved."""
    if terms.proofs is None or party.kind is not PartyKind.HOST or party.first is None:
        return
    for span in spans(party.first, party.curators, terms.descriptor.segment_size):
        numbers_of_span = slice(span.first, span.first + span.length)
        awaited = (
            span.length if terms.invited is None else int(terms.invited[numbers_of_span].sum())
        )
        if awaited > terms.proofs.largest_part:
            raise DescriptorRefused("a part would be of more curators than the query's n_max")
