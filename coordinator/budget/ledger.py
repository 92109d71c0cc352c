"""The ledger in the store: starting, catching up, appending, verifying, and its daily seal.

The events are authoritative; every process folds the state from them in memory. A writer holds the
ledger's lock, catches up, decides on the state, and appends. The head is sealed once a day for
readers years later (spec: keys, section 4).

What happens to curators and their data: the update paths (spec: budget, sections 1 and 4).

    joined         a curator that left is back, with its old ledger
    left           it is no longer awaited
    refreshed      its data changed, or what it declares or discloses
    flagged        its data is suspected to be polluted; it stays in U
    cleansed       its data was corrected and it follows the protocol (thesis, case 1.1)
    non_compliant  it adds no noise (thesis, case 1.2): the sources' bounds are infinite
    reinstated     the suspicion was wrong

A host may report of its own curators that they are refreshed or left; only an operator may report
the others. A refresh gives no budget back: the old data was released too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Final, Literal

import numpy as np
from pydantic import Field, model_validator

from common.principals import Principal, Scope
from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.runtime.tasks import Repeating
from common.store.database import exclusive
from common.store.own_identities import OwnIdentities
from common.store.transactions import Database, Transaction
from coordinator.budget.state import Disclosures, LedgerState
from coordinator.errors import (
    DisclosureRefused,
    EventRefused,
    LedgerBroken,
    UnknownCurator,
    UpdateForbidden,
)
from coordinator.models.budget_ledger import (
    Break,
    Checkpoint,
    Declaration,
    Disclosure,
    Draft,
    Event,
    Figures,
    Kind,
    chain,
    first_break,
    reopened,
    sealed,
    unpacked,
)
from coordinator.store import ledger, registry
from coordinator.store import ledger as store
from coordinator.store.ledger import CuratorRow
from coordinator.store.rounds import newest_descriptors
from tacit.crypto.signing import Identity, Signed
from tacit.errors import places_of
from tacit.protocol.identities import IdentitySuperseded
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.protocol.trust import LEDGER_SEAL_LABEL, LedgerSeal, ShownLedgerSeal
from tacit.query.terms import Identifier
from tacit.sets import runs
from tacit.wire import WireModel, require

LOCK = "ledger"
SYSTEM = "system"
HEADS_LOOKED_AT = 100
RENEWED_AFTER: Final = 10_000
"""How many events may follow the newest checkpoint."""
CHECKED_AT_ONCE: Final = 200
RESTS: Final = 2.0
"""How many times as long as a piece of the verification takes, the next one waits."""
LOOK_S: Final = 5.0
log = get_logger("tacit.ledger")


class Ledger:
    """The ledger of one process. `identity`: the current one, which signs its checkpoints; None
    once it is revoked."""

    def __init__(
        self, database: Database, clock: Clock, identity: Callable[[], Identity | None]
    ) -> None:
        self._database = database
        self._clock = clock
        self._identity = identity
        self._disclosures: dict[str, Disclosure] = {}
        self._state = LedgerState(self._disclosures.__getitem__)
        self._check: Check | None = None
        self._kept = 0
        self.broken: Break | None = None

    async def load(self) -> None:
        """Take the state from the newest checkpoint and the rows after it; without one, verify and
        fold the whole chain. Add the curators that were enrolled before there was a ledger.

        A row that does not verify is kept in `broken`, and nothing can be appended.
        """
        async with self._database.reading(large=True) as transaction:
            stored = await self._known(transaction)
            figures = None if stored is None else stored.figures
            state = None
            if stored is not None and not stored.doubted:
                state = await self._continued(transaction, stored)
            del stored  # its content takes as much memory as half of the state
            if state is not None and figures is not None:
                self._state, self._kept = state, figures.seq
                self._check = Check(self._disclosures.__getitem__, figures)
                log.info("ledger_taken_from_checkpoint", row=figures.seq, rows=state.seq)
            else:
                self._state, self.broken = await self._rebuild(transaction, figures)
        if self.broken is not None:
            await self._break(self.broken)
            return
        async with self._database.begin() as transaction:
            await exclusive(transaction, LOCK)
            if (await store.head(transaction))[0] == 0:
                await self._found(transaction)
        if self._check is None:
            await self.checkpoint(instead=True)
        else:
            await self.renew()

    async def readiness(self) -> str | None:
        """For readiness: None, or the row that does not verify."""
        return None if self.broken is None else f"row {self.broken.seq}: {self.broken.reason}"

    @property
    def verified(self) -> int:
        """How many events of the chain, from the first on, this process has verified."""
        return self._state.seq if self._check is None else self._check.state.seq

    async def _found(self, transaction: Transaction) -> None:
        drafts = []
        for party, first, count, departed in await store.runs_of_parties(transaction):
            drafts.append(Draft(Kind.JOINED, SYSTEM, {"party": party}, first, count))
            if departed:
                drafts.append(Draft(Kind.LEFT, SYSTEM, {"party": party}, first, count))
        if drafts:
            await self.append(transaction, drafts)

    @property
    def folded(self) -> LedgerState:
        """The state as far as this process has folded it: for metrics, not for decisions."""
        return self._state

    async def current(self, transaction: Transaction) -> LedgerState:
        """The state after the newest event in the caller's transaction. Raises LedgerBroken."""
        if self.broken is not None:
            raise LedgerBroken(self.broken.reason, extra={"row": self.broken.seq})
        async for events in store.chunks(transaction, self._state.seq):
            await self._disclose(transaction, events)
            for event in events:
                if event.seq > self._state.seq:  # another task may have been faster
                    self._state.fold(event)
        return self._state

    async def follow(self, transaction: Transaction) -> None:
        """Fold the rows that were appended, also by other processes, as long as the ledger
        verifies."""
        if self.broken is None:
            await self.current(transaction)

    async def append(self, transaction: Transaction, drafts: Sequence[Draft]) -> list[Event]:
        """Append events; the caller holds the lock. They are folded after the commit."""
        if self.broken is not None:
            raise LedgerBroken(self.broken.reason, extra={"row": self.broken.seq})
        seq, head = await store.head(transaction)
        now = self._clock.now()
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)
        events = list(chain(drafts, seq, head, now))
        await store.add(transaction, events)
        return events

    async def head(self, transaction: Transaction) -> tuple[int, bytes]:
        """(number, hash) of the newest event."""
        return await store.head(transaction)

    async def checkpoint(self, *, instead: bool = False) -> None:
        """Store a checkpoint of the state, for the next start.

        `instead`: replace any stored one; otherwise never a newer one, nor one that the rows
        contradicted. Does nothing once the identity is revoked: each start then verifies all
        rows.
        """
        if self._identity() is None:
            return
        async with self._database.reading() as transaction:
            state = await self.current(transaction)
        built = await asyncio.to_thread(self._checkpoint, state)  # a second for a million rounds
        async with self._database.begin(large=True) as transaction:
            await exclusive(transaction, LOCK)
            seq, doubted = await store.checkpoint_seq(transaction)
            if instead or (seq < built.figures.seq and not doubted):
                await store.put_checkpoint(transaction, built)
        self._kept = built.figures.seq

    def _checkpoint(self, state: LedgerState) -> Checkpoint:
        snapshot, identity = state.snapshot(), self._identity()
        if identity is None:
            raise IdentitySuperseded
        return Checkpoint.of(snapshot.figures(), snapshot.parts, identity)

    async def renew(self) -> None:
        """Store a checkpoint if many events have followed the newest one."""
        if self.broken is None and self._state.seq - self._kept >= RENEWED_AFTER:
            await self.checkpoint()

    # --- verification ----------------------------------------------------------------------------

    async def verify(self, transaction: Transaction) -> Break | None:
        """Check every row, the checkpoint, and the heads in round descriptors.

        The first bad row; None if the ledger is whole.
        """
        stored = await self._known(transaction)
        return (await self._rebuild(transaction, None if stored is None else stored.figures))[1]

    async def verify_more(self) -> bool:
        """Verify the next rows of those that the start took from a checkpoint; returns whether
        there are more. A row that does not verify is kept in `broken`."""
        check = self._check
        if check is None or self.broken is not None:
            return False
        async with self._database.reading() as transaction:
            events = await store.after(transaction, check.state.seq, CHECKED_AT_ONCE)
            await self._disclose(transaction, events)
            found = None
            if not events:
                found = check.end() or await self._heads(transaction, check.state.seq)
        if events:
            found = await asyncio.to_thread(check.take, events)
        if found is not None:
            await self._break(found)
        elif not events:
            log.info("ledger_verified", rows=check.state.seq)
            self._check = None
        return bool(events) and found is None

    async def _break(self, broken_at: Break) -> None:
        """Append nothing any more; the next start verifies all rows first."""
        self.broken = broken_at
        log.error("ledger_broken", row=broken_at.seq, reason=broken_at.reason)
        async with self._database.begin() as transaction:
            await store.doubt_checkpoint(transaction)

    async def _known(self, transaction: Transaction) -> Checkpoint | None:
        """The newest checkpoint, if this coordinator signed it."""
        stored, identity = await store.checkpoint(transaction), self._identity()
        if identity is None:
            return None
        if stored is not None:
            try:
                stored.check(identity.public_key)
            except ValueError as error:
                log.warning("ledger_checkpoint_not_used", row=stored.figures.seq, reason=str(error))
                return None
        return stored

    async def _continued(self, transaction: Transaction, known: Checkpoint) -> LedgerState | None:
        """The state of a checkpoint with all rows after it; None if they do not fit."""
        figures = known.figures
        try:
            state = await asyncio.to_thread(self._restored, known)
        except ValueError as error:
            log.warning("ledger_checkpoint_not_used", row=figures.seq, reason=str(error))
            return None
        if await store.hash_of(transaction, figures.seq) != figures.head:
            return None
        rest = Check(self._disclosures.__getitem__, None)
        rest.state = state
        async for events in store.chunks(transaction, state.seq):
            await self._disclose(transaction, events)
            if await asyncio.to_thread(rest.take, events) is not None:
                return None
        fits = await self._heads(transaction, state.seq) is None
        return state if fits else None

    def _restored(self, known: Checkpoint) -> LedgerState:
        """The state of a checkpoint. Raises ValueError if its content does not have the stated
        figures."""
        figures = known.figures
        state = LedgerState.of(
            figures.seq, figures.head, unpacked(known.content), self._disclosures.__getitem__
        )
        if state.figures() != figures:
            raise ValueError("the content of the checkpoint does not have its figures")
        return state

    async def _rebuild(
        self, transaction: Transaction, known: Figures | None
    ) -> tuple[LedgerState, Break | None]:
        check = Check(self._disclosures.__getitem__, known)
        async for events in store.chunks(transaction):
            await self._disclose(transaction, events)
            broken = await asyncio.to_thread(check.take, events)
            if broken is not None:
                return check.state, broken
        return check.state, check.end() or await self._heads(transaction, check.state.seq)

    async def _heads(self, transaction: Transaction, last: int) -> Break | None:
        for text in await newest_descriptors(transaction, HEADS_LOOKED_AT):
            descriptor = Signed[RoundDescriptor].model_validate_json(text).statement
            if descriptor.ledger is None:
                continue
            seq, head = descriptor.ledger.seq, descriptor.ledger.head
            if seq > last:
                return Break(last + 1, f"the tail is missing: a round carries row {seq}")
            if await store.hash_of(transaction, seq) != head:
                return Break(seq, f"round {descriptor.round} carries another hash of this row")
        return None

    async def _disclose(self, transaction: Transaction, events: Sequence[Event]) -> None:
        """Load the disclosures to which these events refer; a changed one counts as missing."""
        digests = {
            digest
            for event in events
            if isinstance(digest := event.payload.get("disclosed"), str)
            and digest not in self._disclosures
        }
        if digests:
            for digest, body in (await store.load_disclosures(transaction, digests)).items():
                with suppress(ValueError):
                    self._disclosures[digest] = reopened(digest, body)


class Watch(Repeating):
    """Verifies, step by step, the rows that a start took from a checkpoint, and renews the
    checkpoint."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__("ledger_watch", log, LOOK_S)
        self._ledger = ledger

    async def look(self) -> None:
        """One pass: verify to the end, with pauses in which requests are answered."""
        more = True
        while more and not self._pauses.ending:
            began = time.perf_counter()
            more = await self._ledger.verify_more()
            await self._ledger.renew()
            if more:
                await self._pauses.pause(RESTS * (time.perf_counter() - began))


# Verification of the ledger's rows: the chain, what may follow, and where a checkpoint stood.


class Check:
    """Verifies the rows of a ledger from the first on, and folds them.

    `known`: the figures of a checkpoint, which the rows must give.
    """

    def __init__(self, disclosures: Disclosures, known: Figures | None) -> None:
        self.state = LedgerState(disclosures)
        self._known = known

    def take(self, events: Sequence[Event]) -> Break | None:
        """Verify and fold the next rows; returns the first bad one, None if there is none."""
        state, expected = self.state, self._known
        broken = first_break(events, state.seq, state.head)
        if broken is not None:
            return broken
        for event in events:
            try:
                state.fold(event)
            except (LookupError, ValueError, TypeError, ArithmeticError):
                return Break(event.seq, "the row cannot follow from those before it")
            if expected is not None and event.seq == expected.seq and state.figures() != expected:
                return Break(event.seq, "the stored state differs from what the rows give")
        return None

    def end(self) -> Break | None:
        """What is wrong if no row follows."""
        expected, last = self._known, self.state.seq
        if expected is not None and expected.seq > last:
            return Break(last + 1, f"the tail is missing: row {expected.seq} was there once")
        return None


# The ledger's head, sealed once a day for those who read it years later. Spec: keys, section 4.

SWEEP_S: Final = 600.0
_LOCK: Final = "ledger seal"
_logger = get_logger("tacit.coordinator.ledger_seals")


class LedgerSeals(Repeating):
    """Seals the head of each day once, by the current identity; an identity that is a key alone
    seals nothing."""

    def __init__(
        self, database: Database, own_identities: OwnIdentities, deployment: str, clock: Clock
    ) -> None:
        super().__init__("ledger_seals", _logger, SWEEP_S)
        self._database, self._own, self._clock = database, own_identities, clock
        self._deployment = deployment

    async def look(self) -> None:
        """Seal the head if this day has no seal yet."""
        await self._own.load()
        if self._own.revoked:
            return
        found = self._own.pair(self._own.current.public_key)
        if found is None:
            return
        pair, document = found
        now = self._clock.now()
        day = int(now.timestamp()) // 86_400
        async with self._database.begin() as transaction:
            await exclusive(transaction, _LOCK)
            if await store.has_ledger_seal(transaction, day):
                return
            rows, head = await ledger.head(transaction)
            statement = LedgerSeal(deployment=self._deployment, rows=rows, head=head, time=now)
            sealed = pair.sign(LEDGER_SEAL_LABEL, statement)
            seal = ShownLedgerSeal(document=document, seal=sealed)
            await store.add_ledger_seal(transaction, day, seal)


OWN = frozenset({Kind.REFRESHED, Kind.LEFT})
"""What a curator or host may report about its own curators."""
MAX_NAMED = 100_000


class Update(WireModel):
    """One event of some curators, by id, or of all curators of a party. `declared` (with
    refreshed, cleansed): their declarations from now on. `disclosed`: what one curator discloses
    in the paper stance; it is stored separately, visible only to operators."""

    kind: Literal[
        "joined", "left", "refreshed", "flagged", "cleansed", "non_compliant", "reinstated"
    ]
    curators: (
        Annotated[tuple[Identifier, ...], Field(min_length=1, max_length=MAX_NAMED)] | None
    ) = None
    party: Identifier | None = None
    declared: Declaration | None = None
    disclosed: Disclosure | None = None
    reason: Annotated[str, Field(max_length=500)] | None = None

    @model_validator(mode="after")
    def _whom_and_what(self) -> Update:
        named = (self.curators is None) != (self.party is None)
        require(named, None, "name curators, or a party")
        figures = self.declared is not None or self.disclosed is not None
        with_figures = self.kind in ("refreshed", "cleansed") or not figures
        require(with_figures, None, "figures come with refreshed or cleansed")
        single = self.disclosed is None or (self.curators is not None and len(self.curators) == 1)
        require(single, None, "a disclosure is about one curator")
        return self


async def record(
    transaction: Transaction,
    ledger: Ledger,
    update: Update,
    caller: Principal,
    *,
    allow_paper: bool,
) -> list[Event]:
    """Append the events of an update; a run of consecutive curators is one event.

    Raises UnknownCurator, UpdateForbidden, DisclosureRefused, EventRefused; then nothing happened.
    """
    kind = Kind(update.kind)
    if update.disclosed is not None and not allow_paper:
        raise DisclosureRefused(pointer="/disclosed")
    await exclusive(transaction, LOCK)
    state = await ledger.current(transaction)
    rows = await _concerned(transaction, update, caller, kind)
    payload: dict[str, object] = {}
    if update.reason is not None:
        payload["reason"] = update.reason
    if update.declared is not None:
        payload["declared"] = update.declared.model_dump(mode="json", exclude_none=True)
    if update.disclosed is not None:
        digest, body = sealed(update.disclosed)
        await store.add_disclosure(transaction, digest, body)
        payload["disclosed"] = digest
    drafts = []
    for first, count in _runs([row.number for row in rows]):
        status = state.allows(kind, first, count)
        if status is not None:
            raise EventRefused(
                f"{kind.value} cannot follow: a curator is {status.name.lower()}",
                extra={"standing": status.name.lower(), "first": first, "count": count},
            )
        drafts.append(Draft(kind, actor_of(caller), payload, first, count))
    return await ledger.append(transaction, drafts)


def actor_of(caller: Principal) -> str:
    """The actor written in the ledger: the party of a curator's token, else the token itself."""
    return caller.subject if caller.subject is not None else f"token:{caller.token_id}"


async def _concerned(
    transaction: Transaction, update: Update, caller: Principal, kind: Kind
) -> Sequence[CuratorRow]:
    ids = update.curators
    if ids is None:
        assert update.party is not None
        ids = await registry.curators_of(transaction, update.party)
        if not ids:
            raise UnknownCurator("there is no such party", pointer="/party")
    rows = await store.curators_named(transaction, ids)
    missing = set(ids) - {row.id for row in rows}
    if missing:
        raise UnknownCurator(pointer="/curators", extra=places_of(ids, missing))
    if not caller.has(Scope.OPERATOR):
        if kind not in OWN:
            raise UpdateForbidden(pointer="/kind")
        if any(row.party != caller.subject for row in rows):
            raise UnknownCurator(pointer="/curators")
    return rows


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    base = min(numbers)
    members = np.zeros(max(numbers) - base + 1, np.bool_)
    members[np.array(numbers) - base] = True
    return [(base + start, length) for start, length in runs(members)]
