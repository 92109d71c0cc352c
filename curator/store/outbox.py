"""Rounds as received, contributions and their state, and sealed bytes in transit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

import numpy as np
from pydantic import TypeAdapter
from sqlalchemy import BindParameter, Integer, Row, bindparam, func, insert, or_, select, update

from common.store.erasure import to_erase
from common.store.transactions import LARGE_BYTES, Transaction
from curator.ledger import Bits, presence_bits
from curator.store.tables import contributions, debits, outbox, rounds
from tacit.crypto.signing import Signed
from tacit.protocol.round.descriptor import AbortStatement, RoundDescriptor
from tacit.query.fields import Window

PENDING, SENT, MISSED = "pending", "sent", "missed"
"""Of sealed bytes."""
_ABORTS: Final = TypeAdapter(list[Signed[AbortStatement]])


class State(StrEnum):
    """Of a contribution: planned -> prepared -> delivered | missed, or refused."""

    PLANNED = "planned"
    PREPARED = "prepared"
    DELIVERED = "delivered"
    MISSED = "missed"
    REFUSED = "refused"


@dataclass(frozen=True)
class RoundRow:
    """A round as its signed descriptor, with its question and window; `outcome` once the
    coordinator reported its final state."""

    id: str
    hash: bytes
    descriptor: str
    query_hash: bytes
    window: tuple[datetime, datetime]
    deadline: datetime
    outcome: str | None

    def signed(self) -> Signed[RoundDescriptor]:
        """The descriptor with its signature."""
        return signed_descriptor(self.descriptor)


@dataclass(frozen=True)
class ContributionRow:
    """One party's part in one round."""

    id: int
    party: str
    round: str
    state: State
    send_at: datetime


@dataclass(frozen=True)
class Plan:
    """When a party sends its contribution to a round."""

    round: str
    party: str
    send_at: datetime


@dataclass(frozen=True)
class Place:
    """What sealed bytes are: a part of a contribution's segment, for one aggregator."""

    contribution: int
    segment: int
    part: int
    aggregator: str


@dataclass(frozen=True)
class Sealed:
    """Sealed bytes for one aggregator. `session`: under which they are sealed, in a round of format
    2; `announce`: of the session, in CBOR, if the aggregator may not know it."""

    place: Place
    media_type: str
    body: bytes
    session: bytes | None = None
    announce: bytes | None = None


@dataclass(frozen=True)
class Answer:
    """The final answer to sealed bytes: `SENT`, or `MISSED` with the name of the problem."""

    place: Place
    state: str
    problem: str | None = None


DUE: Final = 1000
"""Most contributions that one pass takes."""
IDS: Final = 500
"""Most ids that one statement lists."""
SHORT: Final = 1 << 14
"""Of shorter descriptors more are kept at hand: hundreds of rounds are due together."""
_IDS: Final[BindParameter[Any]] = bindparam("ids", expanding=True)
# Asked in every round: made once, and so compiled once.
_ROUNDS_OF: Final = select(rounds).where(rounds.c.id.in_(_IDS))
_ADD_ROUND: Final = insert(rounds)
_ADD_CONTRIBUTION: Final = insert(contributions)
_ADD_SEALED: Final = insert(outbox)
_STATES: Final = (
    select(outbox.c.contribution, outbox.c.state, func.count().label("n"))
    .where(outbox.c.contribution.in_(_IDS))
    .group_by(outbox.c.contribution, outbox.c.state)
)
_MOVE: Final = {
    name: update(contributions)
    .where(contributions.c.id.in_(_IDS))
    .values({"state": bindparam("moved"), name: bindparam("now")})
    for name in ("prepared", "finished")
}
_SETTLE: Final = (
    update(rounds)
    .where(rounds.c.id == bindparam("of_round"))
    .values({name: bindparam(name) for name in ("asked", "outcome", "aborts")})
)
_OF_ROUNDS: Final = select(contributions).where(contributions.c.round.in_(_IDS))
_PARTIES_OF: Final = select(contributions.c.round, contributions.c.party).where(
    contributions.c.round.in_(_IDS)
)
_OPEN_ENDED: Final = select(rounds).where(
    rounds.c.query_hash == bindparam("of_query"),
    rounds.c.window_start == bindparam("start"),
    rounds.c.window_end == bindparam("end"),
    rounds.c.id != bindparam("except_round"),
    rounds.c.outcome.is_(None),
)
_CONTRIBUTED: Final = (
    select(rounds.c.id)
    .distinct()
    .join(contributions, contributions.c.round == rounds.c.id)
    .join(debits, debits.c.contribution == contributions.c.id)
    .where(
        contributions.c.party == bindparam("of_party"),
        contributions.c.credited.is_(None),
        rounds.c.query_hash == bindparam("of_query"),
        rounds.c.window_start == bindparam("start"),
        rounds.c.window_end == bindparam("end"),
        rounds.c.id != bindparam("except_round"),
    )
)


_WITHOUT_NOISE: Final = (
    select(rounds.c.id, rounds.c.descriptor, debits.c.offset, debits.c.length, debits.c.presence)
    .join(contributions, contributions.c.round == rounds.c.id)
    .join(debits, debits.c.contribution == contributions.c.id)
    .where(
        debits.c.party == bindparam("of_party"),
        debits.c.record_epsilon_all == 0,  # true of these, and of rounds that a job has paid
        debits.c.window_end > bindparam("start"),
        debits.c.window_start < bindparam("end"),
        debits.c.offset < bindparam("last"),
        debits.c.offset + debits.c.length > bindparam("first"),
        contributions.c.credited.is_(None),
        rounds.c.id != bindparam("except_round"),
    )
)


def signed_descriptor(text: str) -> Signed[RoundDescriptor]:
    """A parsed text; the text itself is the key of the cache."""
    return _short(text) if len(text) < SHORT else _long(text)


@lru_cache(maxsize=512)
def _short(text: str) -> Signed[RoundDescriptor]:
    return Signed[RoundDescriptor].model_validate_json(text)


@lru_cache(maxsize=4)  # of a large group each has megabytes
def _long(text: str) -> Signed[RoundDescriptor]:
    return Signed[RoundDescriptor].model_validate_json(text)


# --- rounds --------------------------------------------------------------------------------------


async def find_round(transaction: Transaction, round_id: str) -> RoundRow | None:
    """A round that was received before."""
    return (await rounds_by_id(transaction, [round_id])).get(round_id)


async def rounds_by_id(transaction: Transaction, ids: Sequence[str]) -> dict[str, RoundRow]:
    """Those of these rounds that were received before, by id."""
    by_id: dict[str, RoundRow] = {}
    for start in range(0, len(ids), IDS):
        rows = await transaction.execute(_ROUNDS_OF, {"ids": ids[start : start + IDS]})
        by_id |= {row.id: _round(row) for row in rows}
    return by_id


async def add_rounds(transaction: Transaction, signed: Sequence[Signed[RoundDescriptor]]) -> None:
    """Store checked descriptors."""
    if signed:
        await transaction.execute(
            _ADD_ROUND,
            [
                {
                    "id": statement.statement.round,
                    "hash": statement.statement.digest(),
                    "descriptor": statement.model_dump_json(),
                    "deployment": statement.statement.deployment,
                    "query_hash": statement.statement.query.digest(),
                    "window_start": statement.statement.window.start,
                    "window_end": statement.statement.window.end,
                    "opened": statement.statement.opened,
                    "deadline": statement.statement.deadline,
                }
                for statement in signed
            ],
        )


_MOST = bindparam("most", type_=Integer)
_UNSETTLED = (
    select(rounds)
    .where(
        rounds.c.outcome.is_(None),
        rounds.c.deadline <= bindparam("before"),
        or_(rounds.c.asked.is_(None), rounds.c.asked <= bindparam("asked_before")),
    )
    .order_by(rounds.c.asked, rounds.c.deadline)
    .limit(_MOST)
)
_DUE = (
    select(contributions)
    .where(
        contributions.c.state == State.PLANNED.value,
        contributions.c.send_at <= bindparam("before"),
    )
    .order_by(contributions.c.send_at)
    .limit(_MOST)
)
_NEXT_MOMENT = (
    select(contributions.c.send_at)
    .where(
        contributions.c.state == State.PLANNED.value,
        contributions.c.send_at > bindparam("after"),
    )
    .order_by(contributions.c.send_at)
    .limit(1)
)


async def unsettled_rounds(
    transaction: Transaction, before: datetime, asked_before: datetime, limit: int = 50
) -> list[RoundRow]:
    """Rounds past their deadline whose outcome is not known, least recently asked first."""
    values = {"before": before, "asked_before": asked_before, "most": limit}
    return [_round(row) for row in await transaction.execute(_UNSETTLED, values)]


@dataclass(frozen=True)
class Asked:
    """What a coordinator reported about a round, with the abort statements it sent."""

    round: str
    outcome: str | None
    aborts: Sequence[Signed[AbortStatement]] = ()


async def settle_rounds(transaction: Transaction, settled: Sequence[Asked], now: datetime) -> None:
    """Store what coordinators reported about rounds."""
    values = [
        {
            "of_round": row.round,
            "asked": now,
            "outcome": row.outcome,
            "aborts": _ABORTS.dump_json(list(row.aborts)).decode() if row.aborts else None,
        }
        for row in settled
    ]
    if values:
        await transaction.execute(_SETTLE, values)


def stored_aborts(text: str | None) -> list[Signed[AbortStatement]]:
    """The abort statements that `settle_round` stored with a round."""
    return [] if text is None else _ABORTS.validate_json(text)


async def contributed_rounds(
    transaction: Transaction, party: str, query_hash: bytes, window: Window, except_round: str
) -> list[str]:
    """Rounds of the same query and window in which the party has a debit that was not credited."""
    values = {
        "of_party": party,
        "of_query": query_hash,
        "start": window.start,
        "end": window.end,
        "except_round": except_round,
    }
    return list((await transaction.execute(_CONTRIBUTED, values)).scalars())


async def in_exact_sums(
    transaction: Transaction, party: str, descriptor: RoundDescriptor, offset: int, length: int
) -> Bits:
    """Which curators of a span have readings in another sum without noise over the same register,
    whose window meets that of this round and whose debit was not credited."""
    values = {
        "of_party": party,
        "start": descriptor.window.start,
        "end": descriptor.window.end,
        "first": offset,
        "last": offset + length,
        "except_round": descriptor.round,
    }
    members = np.zeros(length, np.bool_)
    register = descriptor.query.register_name
    for row in await transaction.execute(_WITHOUT_NOISE, values):
        query = signed_descriptor(row.descriptor).statement.query
        if query.rule is None or query.register_name != register:
            continue
        start, end = max(row.offset, offset), min(row.offset + row.length, offset + length)
        present = presence_bits(row.presence, row.length)
        members[start - offset : end - offset] |= present[start - row.offset : end - row.offset]
    return members


async def open_ended(transaction: Transaction, of: RoundRow) -> list[RoundRow]:
    """Other rounds of the same query and window whose outcome is not known."""
    values = {
        "of_query": of.query_hash,
        "start": of.window[0],
        "end": of.window[1],
        "except_round": of.id,
    }
    return [_round(row) for row in await transaction.execute(_OPEN_ENDED, values)]


def _round(row: Row[Any]) -> RoundRow:
    window = row.window_start, row.window_end
    return RoundRow(
        row.id, row.hash, row.descriptor, row.query_hash, window, row.deadline, row.outcome
    )


# --- contributions -------------------------------------------------------------------------------


async def parties_of(transaction: Transaction, ids: Sequence[str]) -> dict[str, set[str]]:
    """The parties that have taken up each of some rounds."""
    by_round: dict[str, set[str]] = {round_id: set() for round_id in ids}
    for start in range(0, len(ids), IDS):
        rows = await transaction.execute(_PARTIES_OF, {"ids": ids[start : start + IDS]})
        for row in rows:
            by_round[row.round].add(row.party)
    return by_round


async def plan(transaction: Transaction, plans: Sequence[Plan], now: datetime) -> None:
    """Store who contributes to which rounds when."""
    if plans:
        state = State.PLANNED.value
        values = [{**vars(plan), "state": state, "planned": now} for plan in plans]
        await transaction.execute(_ADD_CONTRIBUTION, values)


async def due(
    transaction: Transaction, before: datetime, limit: int = DUE
) -> list[ContributionRow]:
    """Planned contributions whose moment comes before an instant, earliest first."""
    rows = await transaction.execute(_DUE, {"before": before, "most": limit})
    return [_contribution(row) for row in rows]


async def next_moment(transaction: Transaction, after: datetime) -> datetime | None:
    """The earliest moment of sending that is planned and comes after an instant."""
    result = await transaction.execute(_NEXT_MOMENT, {"after": after})
    moment: datetime | None = result.scalar_one_or_none()
    return moment


async def undelivered(transaction: Transaction) -> list[ContributionRow]:
    """Contributions that are fully prepared and not closed: some bytes may still have to be sent,
    or all were sent and the process ended before it recorded that."""
    rows = await transaction.execute(
        select(contributions).where(contributions.c.state == State.PREPARED.value)
    )
    return [_contribution(row) for row in rows]


async def set_state(
    transaction: Transaction, ids: Sequence[int], state: State, now: datetime
) -> None:
    """Set the state of contributions."""
    column = "prepared" if state is State.PREPARED else "finished"
    for start in range(0, len(ids), IDS):
        values = {"ids": ids[start : start + IDS], "moved": state.value, "now": now}
        await transaction.execute(_MOVE[column], values)


async def set_credited(transaction: Transaction, contribution: int, now: datetime) -> None:
    """Note the credit in the contribution."""
    await transaction.execute(
        update(contributions).where(contributions.c.id == contribution).values(credited=now)
    )


async def of_rounds(
    transaction: Transaction, ids: Sequence[str]
) -> dict[str, list[ContributionRow]]:
    """All parties' contributions to each of some rounds."""
    by_round: dict[str, list[ContributionRow]] = {round_id: [] for round_id in ids}
    for start in range(0, len(ids), IDS):
        for row in await transaction.execute(_OF_ROUNDS, {"ids": ids[start : start + IDS]}):
            by_round[row.round].append(_contribution(row))
    return by_round


def _contribution(row: Row[Any]) -> ContributionRow:
    return ContributionRow(row.id, row.party, row.round, State(row.state), row.send_at)


# --- sealed bytes --------------------------------------------------------------------------------


async def add_sealed(transaction: Transaction, items: Sequence[Sealed]) -> None:
    """Put sealed bytes into the outbox, in the transaction of their debits."""
    written = sum(len(item.body) for item in items)
    await transaction.execute(
        _ADD_SEALED,
        [
            {
                **vars(item.place),
                "media_type": item.media_type,
                "state": PENDING,
                "body": item.body,
                "session": item.session,
                "announce": item.announce,
            }
            for item in items
        ],
        large=written >= LARGE_BYTES,
    )


async def pending(transaction: Transaction, contribution: int) -> list[Sealed]:
    """The unsent sealed bytes of a contribution."""
    rows = await transaction.execute(
        select(outbox)
        .where(outbox.c.contribution == contribution, outbox.c.state == PENDING)
        .order_by(outbox.c.id)
    )
    return [
        Sealed(_place(row), row.media_type, bytes(row.body), row.session, row.announce)
        for row in rows
    ]


async def mark_sent(transaction: Transaction, answers: Sequence[Answer]) -> None:
    """Note final answers; the bytes are dropped, nothing will resend them."""
    noted = [
        {
            **{f"of_{name}": value for name, value in vars(answer.place).items()},
            "state": answer.state,
            "problem": answer.problem,
            "body": None,
            "announce": None,
        }
        for answer in answers
    ]
    await to_erase(transaction)
    await transaction.execute(_MARK, noted)


_PLACE = ("contribution", "segment", "part", "aggregator")
_MARK = update(outbox).where(*(outbox.c[name] == bindparam(f"of_{name}") for name in _PLACE))


def _place(row: Row[Any]) -> Place:
    return Place(row.contribution, row.segment, row.part, row.aggregator)


async def delivery_states(
    transaction: Transaction, ids: Sequence[int]
) -> dict[int, dict[str, int]]:
    """How many sealed bodies of each contribution are pending, sent, missed."""
    result: dict[int, dict[str, int]] = {}
    for start in range(0, len(ids), IDS):
        for row in await transaction.execute(_STATES, {"ids": ids[start : start + IDS]}):
            result.setdefault(row.contribution, {})[row.state] = row.n
    return result


async def problems_of(transaction: Transaction, ids: Sequence[int]) -> dict[int, list[str]]:
    """Why bodies of each contribution were refused."""
    rows = await transaction.execute(
        select(outbox.c.contribution, outbox.c.problem)
        .distinct()
        .where(outbox.c.contribution.in_(ids), outbox.c.problem.is_not(None))
    )
    result: dict[int, list[str]] = {}
    for row in rows:
        result.setdefault(row.contribution, []).append(row.problem)
    return result
