"""Progress of open rounds (whom they await, who delivered or refused, what arrives), and the
documents of rounds that the API and the console show.

A round is complete when each of its curators has delivered or is refused; a party can refuse for
its own curators only. Also how many pieces each aggregator reports, and counts of where
contributions stop; no contribution itself. Spec: console, sections 5 and 7.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Final, TypeAlias, TypeVar

import numpy as np
from pydantic import Field

from common.runtime.clock import Clock
from common.store.database import exclusive
from common.store.transactions import Database, Transaction
from common.web.paging import Page
from common.web.problems import ProblemReceived
from coordinator.errors import NotReleased, RefusalConflict, RoundClosed, UnknownParty, UnknownRound
from coordinator.registry.answers import Progress, answered, gather, soon
from coordinator.registry.peers import Peer, Peers
from coordinator.rounds import context
from coordinator.rounds.context import Conduct, peers_of, signed_descriptor
from coordinator.store import registry, round_details
from coordinator.store import registry as registry_store
from coordinator.store import round_details as store
from coordinator.store import rounds as round_store
from coordinator.store.rounds import Filter, RoundHead, RoundRow
from coordinator.web import encode, time_text
from tacit import sets
from tacit.answers import rounds as answers
from tacit.answers.queries import RoundCompleteness, RoundResult
from tacit.crypto.signing import Signed
from tacit.errors import FieldError, Invalid
from tacit.protocol.round.agreement import TooFewParticipants, manifest_hash
from tacit.protocol.round.descriptor import Refusal, RefusalGround, RoundDescriptor
from tacit.protocol.round.messages import (
    KEPT,
    LEAST,
    AcceptedSet,
    Commitment,
    Flow,
    FreezeRequest,
    Manifest,
    reported,
    totals,
)
from tacit.protocol.round.state import RoundState
from tacit.query.terms import PRESENCE, Function
from tacit.report.model import PrivacyReport
from tacit.sets import Bits
from tacit.wire import Instant, WireModel, format_instant

Item = TypeVar("Item")


async def invited_curators(conduct: Conduct, row: RoundRow) -> Bits:
    """The curators from which the round expects an answer: those charged at its opening, which
    were in U then and on its roster, or in its group. A curator that enrolled later is in no
    round opened before."""
    async with conduct.database.reading() as transaction:
        state = await conduct.ledger.current(transaction)
        members = state.spending.members_of(state.spending.rounds[row.id])
    invited = np.zeros(signed_descriptor(row).statement.roster_size, np.bool_)
    invited[: members.size] = members[: invited.size]
    return invited


Closing: TypeAlias = Signed[Commitment] | Signed[AcceptedSet]
"""What closes a round at an aggregator: the commitment to all that were invited, or its set."""


@dataclass(frozen=True)
class Delivered:
    """Whether every aggregator has a piece of every expected curator, and how many pieces the
    first one has, if known. `shown`: the answers that all of them have signed to this step, in
    their order and not yet verified."""

    whole: bool
    count: int | None = None
    shown: Sequence[Closing] = ()


async def delivered(
    peers: Sequence[Peer],
    descriptor: RoundDescriptor,
    awaited: Bits,
    wait_s: float,
    *,
    expected: Manifest | None,
    all_invited: bool,
) -> Delivered:
    """Whether all awaited curators have delivered.

    The first aggregator is asked alone, until it holds this many or `wait_s` is over, and the
    others only then. Where `all_invited` are awaited a count suffices, and who holds that many
    freezes immediately, as no curator can follow, and commits to the `expected` manifest. Otherwise
    it does not, as curators that refuse may deliver all the same, and each aggregator is asked
    which are missing. A round that will be aborted freezes nowhere, so that its curators get their
    credit. It may be cancelled at any moment.
    """
    count = int(awaited.sum())
    if count == 0:
        return Delivered(not all_invited)
    if not all_invited or count < descriptor.query.min_participants:
        return await _delivered_by_number(peers, descriptor.round, awaited, count, wait_s)
    first, *others = peers
    round_id = descriptor.round
    request = FreezeRequest(accepted=count, wait_s=wait_s)
    if expected is not None:
        named = {"salt": expected.salt, "manifest_hash": manifest_hash(expected)}
        request = request.model_copy(update=named)
    [answer] = await gather([first.freeze_once_held(round_id, request)])
    if not isinstance(answer, Signed):
        return Delivered(False, answer.accepted if isinstance(answer, Progress) else None)
    rest = await gather(peer.freeze_once_held(round_id, request) for peer in others)
    shown = [answer, *(item for item in rest if isinstance(item, Signed))]
    whole = len(shown) == len(peers)
    return Delivered(whole, count, shown if whole else ())


async def _delivered_by_number(
    peers: Sequence[Peer], round_id: str, awaited: Bits, expected: int, wait_s: float
) -> Delivered:
    [progress] = await gather([peers[0].progress(round_id, expected, wait_s)])
    if isinstance(progress, Exception):
        return Delivered(False)
    if progress.accepted < expected:
        return Delivered(False, progress.accepted)
    missing = await gather(peer.missing(round_id, awaited) for peer in peers)
    counts = answered(missing)
    return Delivered(len(counts) == len(peers) and not any(counts), progress.accepted)


# A party's refusal counts only for the curators that it hosts: the coordinator no longer awaits
# those, and still awaits every other one by number, not by count. So a party that refuses and
# delivers all the same ends no round early.


async def take_refusals(
    transaction: Transaction, round_id: str, party_id: str, body: Refusal, clock: Clock
) -> None:
    """Store a party's refusal; a repetition changes nothing. Raises UnknownRound, RoundExpired,
    UnknownParty, Invalid, RefusalConflict or RoundClosed."""
    # Rows get their ids in the order of their commits, so that an incremental reader misses none.
    await exclusive(transaction, f"refusals {round_id}")
    head = await context.find(transaction, round_id)
    party = await registry.party(transaction, party_id)
    if party is None:
        raise UnknownParty
    try:
        members = sets.unpack(body.members, party.curators)
    except ValueError as error:
        raise Invalid(str(error), pointer="/members") from None
    if sum(body.grounds.values()) != int(members.sum()):
        raise Invalid("the grounds are of as many curators as refuse", pointer="/grounds")
    refusal = await store.find_refusal(transaction, round_id, party_id)
    if refusal is not None:
        if refusal != body:
            raise RefusalConflict
        return
    # Counts as a change of the round: long polls on it are notified.
    if not await round_store.change(transaction, round_id, RoundState.OPEN):
        raise RoundClosed(extra={"state": head.state.value})
    await store.add_refusal(transaction, round_id, party_id, body, clock.now())


class Refusing:
    """The curators refused so far, one boolean per roster number; reads on from the last row."""

    def __init__(self, round_id: str, size: int) -> None:
        self._round, self._last = round_id, 0
        self.members: Bits = np.zeros(size, np.bool_)

    async def read_on(self, transaction: Transaction) -> None:
        """Read the refusals stored since the last call."""
        for row in await store.refusals_after(transaction, self._round, self._last):
            bits = sets.unpack(row.members, row.curators)
            inside = self.members[row.first : row.first + row.curators]
            inside |= bits[: inside.size]  # a party may have enrolled after the round was opened
            self._last = row.id


def too_few_left(needed: int, left: int, grounds: Mapping[RefusalGround, int]) -> str:
    """Why a round is aborted whose curators refuse: how many are left, and why the others are
    not."""
    refused = "; ".join(
        f"{count} refused: {answers.REFUSED_BECAUSE[ground.value]}"
        for ground, count in grounds.items()
        if count
    )
    return (
        f"{TooFewParticipants.title}: {needed} are needed, and {left} of those invited are left. "
        f"{refused}"
    )


LOOK_KEPT: Final = timedelta(seconds=1)
_HELD: Final = 64


class Held(WireModel):
    """The number of curators whose pieces one aggregator reports; None if it does not answer."""

    id: str
    accepted: int | None


class Received(WireModel):
    """An open round as it was within the last second.

    `expected`: how many curators were charged when it was opened; `least`: every aggregator has
    pieces of at least this many, so at most this many are in all of them by now; None unless all
    answer, and in any other state. `refused`: curators that refuse, by ground.
    """

    round: str
    state: RoundState
    expected: int | None
    minimum: int | None
    least: int | None = None
    aggregators: tuple[Held, ...] = ()
    refused: dict[str, int]


@dataclass
class _Look:
    at: datetime | None = None
    found: Received | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class ReceivingLooks:
    """Polls the aggregators of a round at most once a second, for all callers together."""

    def __init__(self, conduct: Conduct) -> None:
        self._conduct = conduct
        self._looks: dict[str, _Look] = {}

    async def look(self, round_id: str) -> Received:
        """How far a round is. Raises UnknownRound, RoundExpired."""
        look = self._looks.setdefault(round_id, _Look())
        async with look.lock:
            now = self._conduct.clock.now()
            fresh = look.at is not None and timedelta() <= now - look.at < LOOK_KEPT
            if look.found is None or not fresh:
                look.found, look.at = await received(self._conduct, round_id), now
            while len(self._looks) > _HELD:
                self._looks.pop(next(iter(self._looks)))
            return look.found


async def received(conduct: Conduct, round_id: str) -> Received:
    """How far a round is now. Raises UnknownRound, RoundExpired."""
    async with conduct.database.reading() as transaction:
        await context.find(transaction, round_id)
        row = await round_store.find(transaction, round_id)
        grounds = await round_details.count_refusals(transaction, round_id)
        state = await conduct.ledger.current(transaction)
    if row is None:
        raise UnknownRound
    descriptor, charge = signed_descriptor(row).statement, state.spending.rounds.get(round_id)
    received_pieces = Received(
        round=round_id,
        state=row.state,
        expected=None if charge is None else int(state.spending.members_of(charge).sum()),
        minimum=descriptor.query.min_participants,
        refused={ground.value: count for ground, count in grounds.items()},
    )
    if row.state is not RoundState.OPEN:
        return received_pieces
    peers = await peers_of(conduct, descriptor)
    answers = await gather(soon(peer.progress(round_id)) for peer in peers)
    held_by = tuple(
        Held(id=peer.id, accepted=answer.accepted if isinstance(answer, Progress) else None)
        for peer, answer in zip(peers, answers, strict=True)
    )
    counts = [entry.accepted for entry in held_by if entry.accepted is not None]
    least = min(counts) if counts and len(counts) == len(held_by) else None
    return received_pieces.model_copy(update={"aggregators": held_by, "least": least})


DAY: Final = timedelta(days=1)
SENTENCE: Final = (
    "Each aggregator counts uploads by hour and reports an hour once it is over; an outcome that "
    "was counted fewer than five times in an hour is not named. A batch is one upload of many "
    "curators. An aggregator reports its own counts; nothing proves them."
)


class AggregatorFlow(WireModel):
    """One aggregator's report: uploads until `until`, lone pieces and batches, by outcome; or
    the `problem` because of which there is none."""

    id: str
    until: Instant | None = None
    lone: dict[str, int] = Field(default_factory=dict)
    batch: dict[str, int] = Field(default_factory=dict)
    problem: str | None = None


class DeploymentFlow(WireModel):
    """Rounds that were opened within a span, by state; curators that refused them, by ground;
    uploads at the aggregators."""

    begin: Annotated[Instant, Field(alias="from")]
    end: Annotated[Instant, Field(alias="to")]
    rounds: dict[str, int]
    refused: dict[str, int]
    aggregators: tuple[AggregatorFlow, ...]
    least: int = LEAST
    sentence: str = SENTENCE


async def flow_of(
    database: Database,
    peers: Peers,
    clock: Clock,
    begin: datetime | None = None,
    end: datetime | None = None,
) -> DeploymentFlow:
    """The flow from `begin` to `end`. Raises Invalid."""
    start, until = span_of(clock, begin, end)
    async with database.reading() as transaction:
        states = await round_store.states_between(transaction, start, until)
        refused = await round_details.count_refusals_between(transaction, start, until)
        rows = await registry_store.list_aggregators(transaction)
    peers_asked = [peers.of(row) for row in rows]
    answers = await gather(soon(peer.flow(start, until)) for peer in peers_asked)
    return DeploymentFlow(
        begin=start,
        end=until,
        rounds={state.value: count for state, count in states.items()},
        refused=reported({ground.value: count for ground, count in refused.items()}),
        aggregators=_aggregators(peers_asked, answers),
    )


def span_of(
    clock: Clock, begin: datetime | None, end: datetime | None
) -> tuple[datetime, datetime]:
    """The requested span, within the last 31 days. Raises Invalid."""
    now = clock.now()
    until = now if end is None else min(end, now)
    start = max(until, now - KEPT) - DAY if begin is None else begin
    if start >= until:
        raise Invalid(errors=(FieldError("/from", "is not before the end", "query"),))
    if start < now - KEPT - DAY:
        raise Invalid(errors=(FieldError("/from", "counts are kept for 31 days", "query"),))
    return start, until


def _aggregators(
    peers: Sequence[Peer], answers: Sequence[Flow | Exception]
) -> tuple[AggregatorFlow, ...]:
    flows = []
    for peer, answer in zip(peers, answers, strict=True):
        if isinstance(answer, Flow):
            shown = AggregatorFlow(
                id=peer.id,
                until=answer.until,
                lone=totals(answer.hours, "lone"),
                batch=totals(answer.hours, "batch"),
            )
        else:
            name = answer.name[:64] if isinstance(answer, ProblemReceived) else "unreachable"
            shown = AggregatorFlow(id=peer.id, problem=name)
        flows.append(shown)
    return tuple(flows)


COMPLETENESS: Final = (
    "answered: curators whose contribution is in the sum; one without a reading answers too, with "
    "zeros. with_readings: a noisy count of those that had one, where the query pays for it."
)


def head(row: RoundHead) -> answers.RoundHead:
    """A round as lists show it. `figures`: of a released one (`state_machine`)."""
    summary = json.loads(row.summary)
    return answers.RoundHead(
        id=row.id,
        query_id=row.query_id,
        query=summary["query"],
        state=row.state,
        reason=row.reason,
        opened=format_instant(row.opened),
        deadline=format_instant(row.deadline),
        window=summary["window"],
        descriptor_hash=summary["descriptor_hash"],
        participants=row.participants if row.state is RoundState.RELEASED else None,
        minimum=summary.get("minimum"),
        refused=row.refused,
        aggregators=summary["aggregators"],
        unit=summary["unit"],
        figures=None if row.figures is None else json.loads(row.figures),
        steps=_steps(row),
        finished=time_text(row.finished),
        aborts=json.loads(row.aborts or "[]"),
    )


async def heads(
    database: Database, which: Filter, page_asked: Page
) -> tuple[list[answers.RoundHead], str | None]:
    """Rounds as lists show them, and the newest id of all if this page is full."""
    rows, newest = await database.read(partial(_paged, round_store.heads, which, page_asked))
    return [head(row) for row in rows], newest


async def page(
    database: Database, which: Filter, page_asked: Page
) -> tuple[list[str], list[bytes], str | None]:
    """(ids, items as JSON, the newest id of all if this page is full): signed descriptors of open
    rounds, unless their heads are asked for, as they are stored."""
    if which.state is not RoundState.OPEN or which.heads:
        rounds, newest = await heads(database, which, page_asked)
        return (
            [round_row.id for round_row in rounds],
            [encode(round_row) for round_row in rounds],
            newest,
        )
    stored, newest = await database.read(
        partial(_paged, round_store.descriptors, which, page_asked)
    )
    return [item[0] for item in stored], [item[1].encode() for item in stored], newest


async def _paged(
    read: Callable[[Transaction, Filter, str | None, int], Awaitable[list[Item]]],
    which: Filter,
    page_asked: Page,
    transaction: Transaction,
) -> tuple[list[Item], str | None]:
    """The items of a page, and the newest id of all if it is full."""
    items = await read(transaction, which, page_asked.after_text(), page_asked.limit)
    full = len(items) == page_asked.limit
    return items, await round_store.newest(transaction, which) if full else None


async def several(
    database: Database, ids: Sequence[str]
) -> list[answers.RoundHead | answers.ExpiredRound]:
    """Rounds as in lists; a round whose content was dropped has its final state only."""
    rows = await database.read(lambda transaction: round_store.heads_of(transaction, ids))
    return [
        head(row)
        if row.expired is None
        else answers.ExpiredRound(id=row.id, state=row.state, expired=format_instant(row.expired))
        for row in rows
    ]


async def find(database: Database, round_id: str) -> RoundHead:
    """A round, or UnknownRound, or RoundExpired."""
    return await database.read(lambda transaction: context.find(transaction, round_id))


async def document(database: Database, round_id: str, name: str) -> bytes:
    """One JSON text of a round: see `coordinator.store.rounds.document`. Raises NotReleased if
    it does not exist yet, or never will."""
    async with database.reading() as transaction:
        row = await context.find(transaction, round_id)
        return (await _document(transaction, row, name)).encode()


async def _document(transaction: Transaction, row: RoundHead, name: str) -> str:
    text = await round_store.document(transaction, row.id, name)
    if text is None:
        state = row.state.value
        detail = f"The round is {state}" + (f": {row.reason}" if row.reason else "")
        raise NotReleased(detail, extra={"state": state, "reason": row.reason})
    return text


async def result(database: Database, round_id: str) -> RoundResult:
    """A released result with its report. Raises NotReleased."""
    async with database.reading() as transaction:
        row = await context.find(transaction, round_id)
        content = json.loads(await _document(transaction, row, "result"))
        report = await _document(transaction, row, "report")
        summary, text = json.loads(row.summary), None
        if summary["function"] == Function.TABLE:
            text = await _document(transaction, row, "descriptor")
    columns = None
    if text is not None:
        columns = Signed[RoundDescriptor].model_validate_json(text).statement.query.columns
    return RoundResult(
        format="tacit.round-result/1",
        round=row.id,
        query_id=row.query_id,
        function=summary["function"],
        unit=summary["unit"],
        window=summary["window"],
        participants=row.participants,
        completeness=RoundCompleteness(
            answered=row.participants,
            with_readings=content.get(PRESENCE),
            note=COMPLETENESS,
        ),
        columns=None if columns is None else list(columns),
        result=content,
        report=PrivacyReport.model_validate_json(report),
    )


def _steps(row: RoundHead) -> list[answers.Step]:
    """The completed steps, each with its time. `released` or `aborted` is the last."""
    done: list[tuple[str, datetime | None]] = [("opened", row.opened)]
    if row.announced:
        done.append(("announced", row.announced_at))
    for step in ("frozen", "verified", "committed"):
        if (at := getattr(row, f"{step}_at")) is not None:
            done.append((step, at))
    if row.finished is not None:
        done.append((row.state.value, row.finished))
    return [answers.Step(step=step, at=time_text(at)) for step, at in done]
