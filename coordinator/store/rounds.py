"""Rounds, and their leases. A change names the state it expects: it happens once.

Long texts are kept packed (`common.store.columns`): the texts of a query's rounds hardly
differ, so those of later rounds are packed against those of the first that was released, the
sample, which never change. A transcript repeats its own round's descriptor and commitments, and
is packed against these.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, lru_cache, partial
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    Update,
    and_,
    bindparam,
    func,
    insert,
    or_,
    select,
    update,
)

from common.runtime.clock import first_uuid7
from common.store import columns
from common.store.transactions import LARGE_BYTES, Result, Transaction
from coordinator.store.tables import queries, rounds
from tacit.protocol.round.state import RoundState

ACTIVE = (
    RoundState.OPEN.value,
    RoundState.FROZEN.value,
    RoundState.VERIFIED.value,
    RoundState.COMMITTED.value,
)


@dataclass(frozen=True)
class RoundHead:
    """What a list shows of a round.

    `summary` is the JSON of its descriptor's content, `due` the latest time of its freeze,
    `ending` the reason of a requested abort, `figures` the figures of a result in lists (JSON),
    `expired` when its content was dropped (`coordinator.store.round_details`).
    """

    id: str
    query_id: str
    state: RoundState
    announced: bool
    due: datetime
    ending: str | None
    version: int
    opened: datetime
    deadline: datetime
    slot: int | None
    summary: str
    aborts: str | None
    reason: str | None
    participants: int | None
    refused: int | None
    finished: datetime | None
    announced_at: datetime | None
    frozen_at: datetime | None
    verified_at: datetime | None
    committed_at: datetime | None
    figures: str | None
    expired: datetime | None


@dataclass(frozen=True)
class RoundRow(RoundHead):
    """With what its transitions need: JSON of the models of `tacit.protocol.round`."""

    descriptor: str
    accepted: str | None
    verdicts: str | None
    manifest: str | None
    commitments: str | None


TEXTS: Final = (
    "descriptor",
    "accepted",
    "verdicts",
    "manifest",
    "commitments",
    "report",
    "transcript",
)
"""The columns that are kept packed."""
_TRANSCRIBED: Final = ("descriptor", "commitments")
_SAMPLES_AT_HAND: Final = 512
_samples: dict[str, bytes] = {}

_HEAD = tuple(rounds.c[name] for name in RoundHead.__dataclass_fields__)
_ROW = (*(rounds.c[name] for name in RoundRow.__dataclass_fields__), rounds.c.sample)
# Built once, so that it is compiled once.
_HEAD_OF = select(*_HEAD).where(rounds.c.id == bindparam("round_id"))
_HEADS_OF = select(*_HEAD).where(rounds.c.id.in_(bindparam("round_ids", expanding=True)))
_ROWS_OF = select(*_ROW).where(rounds.c.id.in_(bindparam("round_ids", expanding=True)))
_ADD = insert(rounds)
_SAMPLE_OF = select(queries.c.sample).where(queries.c.id == bindparam("query_id"))
_SAMPLE = select(rounds.c.report, rounds.c.descriptor).where(rounds.c.id == bindparam("round_id"))
_KNOWN = select(*(rounds.c[name] for name in (*_TRANSCRIBED, "sample"))).where(
    rounds.c.id == bindparam("round_id")
)
_ALIVE = select(func.count(), func.sum(rounds.c.version)).where(rounds.c.state.in_(ACTIVE))
_LAST = select(func.max(rounds.c.id))
_HELD = select(rounds.c.id).where(
    rounds.c.state.in_(ACTIVE),
    rounds.c.lease_holder == bindparam("holder"),
    rounds.c.lease_until >= bindparam("now"),
)
_CLAIMABLE = (
    select(rounds.c.id)
    .where(
        rounds.c.state.in_(ACTIVE),
        or_(
            rounds.c.lease_until.is_(None),
            rounds.c.lease_until < bindparam("now"),
            and_(
                rounds.c.lease_holder == bindparam("holder"),
                rounds.c.lease_until < bindparam("soon"),
            ),
        ),
    )
    .order_by(rounds.c.id)
)
_CLAIMABLE_LOCKED = _CLAIMABLE.with_for_update(skip_locked=True)
_CLAIM = (
    update(rounds)
    .where(rounds.c.id.in_(bindparam("round_ids", expanding=True)))
    .values(lease_holder=bindparam("holder"), lease_until=bindparam("until"))
)
_OFFER = (
    update(queries)
    .where(
        queries.c.id
        == select(rounds.c.query_id)
        .where(rounds.c.id == bindparam("round_id"), rounds.c.sample.is_(None))
        .scalar_subquery(),
        queries.c.sample.is_(None),
    )
    .values(sample=bindparam("round_id"))
)


@cache
def _change(names: tuple[str, ...]) -> Update:
    """The change of these columns."""
    return (
        update(rounds)
        .where(rounds.c.id == bindparam("round_id"), rounds.c.state == bindparam("expected"))
        .values(
            {name: bindparam(f"new_{name}") for name in names} | {"version": rounds.c.version + 1}
        )
    )


def _values(row: Any) -> dict[str, Any]:
    values = dict(row._mapping)
    values["state"] = RoundState(values["state"])
    return values


async def _dictionary(transaction: Transaction, sample: str | None) -> bytes:
    """What texts of this sample are packed against."""
    if sample is None:
        return b""
    if sample not in _samples:
        row = (await transaction.execute(_SAMPLE, {"round_id": sample})).one()
        half = columns.WINDOW_BYTES // 2
        content = b"".join(columns.unpacked(text or "").encode()[:half] for text in row)
        while len(_samples) >= _SAMPLES_AT_HAND:
            _samples.pop(next(iter(_samples)))
        _samples[sample] = content
    return _samples[sample]


async def _packed(
    transaction: Transaction, round_id: str, values: dict[str, Any]
) -> dict[str, Any]:
    """These values with their texts packed."""
    if values.keys().isdisjoint(TEXTS) or not columns.packs(transaction.dialect):
        return values
    row = (await transaction.execute(_KNOWN, {"round_id": round_id})).first()
    if row is None:
        return values
    dictionary = await _dictionary(transaction, row.sample)
    known = {name: row._mapping[name] for name in _TRANSCRIBED}
    packs = dict(values)
    for name in TEXTS:
        if values.get(name) is not None:
            against = dictionary
            if name == "transcript":
                against += _joined(known, dictionary)
            pack = partial(columns.packed, transaction.dialect, values[name], against)
            packs[name] = await _aside(pack, len(values[name]))
    return packs


async def _unpacked(stored: str | bytes, dictionary: bytes) -> str:
    return await _aside(partial(columns.unpacked, stored, dictionary), len(stored))


async def _aside(work: Callable[[], Result], size: int) -> Result:
    """What `work` returns; in a thread where texts are long."""
    return await asyncio.to_thread(work) if size >= LARGE_BYTES else work()


def _joined(known: Mapping[str, Any], dictionary: bytes) -> bytes:
    """What a transcript repeats."""
    parts = (known[name] for name in _TRANSCRIBED)
    return "".join(
        columns.unpacked(part, dictionary) for part in parts if part is not None
    ).encode()


async def add(
    transaction: Transaction,
    round_id: str,
    query_id: str,
    opened: datetime,
    deadline: datetime,
    descriptor: str,
    summary: str,
    slot: int | None,
) -> None:
    sample = (await transaction.execute(_SAMPLE_OF, {"query_id": query_id})).scalar_one_or_none()
    dictionary = await _dictionary(transaction, sample)
    values = {
        "id": round_id,
        "query_id": query_id,
        "state": RoundState.OPEN.value,
        "announced": False,
        "due": deadline,
        "version": 1,
        "opened": opened,
        "deadline": deadline,
        "slot": slot,
        "descriptor": columns.packed(transaction.dialect, descriptor, dictionary),
        "sample": sample,
        "summary": summary,
    }
    await transaction.execute(_ADD, values)


async def head(transaction: Transaction, round_id: str) -> RoundHead | None:
    row = (await transaction.execute(_HEAD_OF, {"round_id": round_id})).first()
    return None if row is None else RoundHead(**_values(row))


async def heads_of(transaction: Transaction, ids: Sequence[str]) -> list[RoundHead]:
    """Those of some rounds that there are."""
    rows = await transaction.execute(_HEADS_OF, {"round_ids": ids})
    return [RoundHead(**_values(row)) for row in rows]


async def find(transaction: Transaction, round_id: str) -> RoundRow | None:
    return (await find_all(transaction, [round_id]))[0]


async def find_all(transaction: Transaction, ids: Sequence[str]) -> list[RoundRow | None]:
    """Rounds in the order of their ids; None for one that is not there."""
    rows = await transaction.execute(_ROWS_OF, {"round_ids": ids})
    round_of = {row.id: await _read(transaction, row) for row in rows}
    return [round_of.get(round_id) for round_id in ids]


async def _read(transaction: Transaction, row: Row[Any]) -> RoundRow:
    values = _values(row)
    dictionary = await _dictionary(transaction, values.pop("sample"))
    for name in values.keys() & set(TEXTS):
        if values[name] is not None:
            values[name] = await _unpacked(values[name], dictionary)
    return RoundRow(**values)


async def document(transaction: Transaction, round_id: str, name: str) -> str | None:
    """One stored JSON text: `descriptor`, `result`, `report`, `transcript` or
    `standing`."""
    row = (await transaction.execute(_document(name), {"round_id": round_id})).first()
    stored = None if row is None else row._mapping[name]
    if row is None or stored is None or name not in TEXTS:
        return stored
    dictionary = await _dictionary(transaction, row.sample)
    if name == "transcript":
        dictionary += _joined(dict(row._mapping), dictionary)
    return await _unpacked(stored, dictionary)


@cache
def _document(name: str) -> Select[Any]:
    names = {name, "sample", *(_TRANSCRIBED if name == "transcript" else ())}
    chosen = select(*(rounds.c[name] for name in sorted(names)))
    return chosen.where(rounds.c.id == bindparam("round_id"))


@dataclass(frozen=True)
class Filter:
    """Which rounds a list has; `heads`: also of open rounds, else their descriptors; `search`: a
    text in the id, or in the summary, which has the query's name and unit."""

    state: RoundState | None = None
    query_id: str | None = None
    newest_first: bool = False
    heads: bool = False
    search: str = ""

    def apply(self, chosen: Select[Any]) -> Select[Any]:
        """Hide open rounds that too few aggregators have received, and rounds without their
        content."""
        chosen = chosen.where(rounds.c.expired.is_(None))
        if self.state is not None:
            chosen = chosen.where(rounds.c.state == self.state.value)
        if self.state is RoundState.OPEN and not self.heads:
            chosen = chosen.where(rounds.c.announced.is_(True))
        if self.query_id is not None:
            chosen = chosen.where(rounds.c.query_id == self.query_id)
        if self.search:
            texts = (rounds.c.id, rounds.c.summary)
            matches = (text.icontains(self.search, autoescape=True) for text in texts)
            chosen = chosen.where(or_(*matches))
        return chosen


def _page(chosen: Select[Any], which: Filter, after: str | None, limit: int) -> Select[Any]:
    if which.newest_first:
        chosen = chosen.order_by(rounds.c.id.desc()).limit(limit)
        return chosen if after is None else chosen.where(rounds.c.id < after)
    chosen = chosen.order_by(rounds.c.id).limit(limit)
    return chosen if after is None else chosen.where(rounds.c.id > after)


async def heads(
    transaction: Transaction, which: Filter, after: str | None, limit: int
) -> list[RoundHead]:
    rows = await transaction.execute(_page(which.apply(select(*_HEAD)), which, after, limit))
    return [RoundHead(**_values(row)) for row in rows]


async def opened_between(
    transaction: Transaction, start: datetime, end: datetime, limit: int
) -> list[RoundHead]:
    """Rounds that were opened from `start` to before `end`, the newest first."""
    which = Filter(newest_first=True, heads=True)
    chosen = _page(which.apply(select(*_HEAD)), which, None, limit).where(*_span(start, end))
    return [RoundHead(**_values(row)) for row in await transaction.execute(chosen)]


async def states_between(
    transaction: Transaction, start: datetime, end: datetime
) -> dict[RoundState, int]:
    """How many rounds that were opened from `start` to before `end` are in each state."""
    chosen = select(rounds.c.state, func.count()).where(*_span(start, end))
    rows = await transaction.execute(chosen.group_by(rounds.c.state))
    return {RoundState(state): count for state, count in rows}


def _span(start: datetime, end: datetime) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """Ids sort by the instant at which a round was opened."""
    return rounds.c.id >= first_uuid7(start), rounds.c.id < first_uuid7(end)


async def descriptors(
    transaction: Transaction, which: Filter, after: str | None, limit: int
) -> list[tuple[str, str]]:
    """(id, signed descriptor as stored)."""
    rows = await transaction.execute(_descriptors(which, after, limit))
    return [
        (
            row.id,
            columns.unpacked(row.descriptor, await _dictionary(transaction, row.sample)),
        )
        for row in rows
    ]


@lru_cache(64)  # every host asks for the same, again and again
def _descriptors(which: Filter, after: str | None, limit: int) -> Select[Any]:
    chosen = which.apply(select(rounds.c.id, rounds.c.descriptor, rounds.c.sample))
    return _page(chosen, which, after, limit)


async def newest_descriptors(transaction: Transaction, limit: int) -> list[str]:
    """The newest rounds' signed descriptors, the newest first."""
    chosen = (
        select(rounds.c.descriptor, rounds.c.sample)
        .where(rounds.c.expired.is_(None))
        .order_by(rounds.c.id.desc())
        .limit(limit)
    )
    return [
        columns.unpacked(row.descriptor, await _dictionary(transaction, row.sample))
        for row in await transaction.execute(chosen)
    ]


async def newest(transaction: Transaction, which: Filter) -> str | None:
    """The last id of a whole list, whatever the page."""
    result = await transaction.execute(which.apply(select(func.max(rounds.c.id))))
    newest_id: str | None = result.scalar_one_or_none()
    return newest_id


async def newest_slot(transaction: Transaction, query_id: str) -> int | None:
    result = await transaction.execute(
        select(func.max(rounds.c.slot)).where(rounds.c.query_id == query_id)
    )
    slot: int | None = result.scalar_one_or_none()
    return slot


async def count_active(transaction: Transaction, query_id: str) -> int:
    result = await transaction.execute(
        select(func.count()).where(rounds.c.query_id == query_id, rounds.c.state.in_(ACTIVE))
    )
    return int(result.scalar_one())


async def pulse(transaction: Transaction) -> tuple[Any, ...]:
    """Differs after any round was opened, changed or finished, in whatever process."""
    return (
        *(await transaction.execute(_ALIVE)).one(),
        (await transaction.execute(_LAST)).scalar_one(),
    )


async def change(
    transaction: Transaction, round_id: str, expected: RoundState, **values: Any
) -> bool:
    """Change a round that is in the expected state; whether it was."""
    if isinstance(values.get("state"), RoundState):
        values["state"] = values["state"].value
    packs = await _packed(transaction, round_id, values)
    done = await transaction.execute(
        _change(tuple(values)),
        {
            "round_id": round_id,
            "expected": expected.value,
            **{f"new_{name}": value for name, value in packs.items()},
        },
    )
    if done.rowcount == 1 and values.get("report") and columns.packs(transaction.dialect):
        await _offer(transaction, round_id)
    return done.rowcount == 1


async def _offer(transaction: Transaction, round_id: str) -> None:
    """Make a released round the sample of its query, if the query has none and the round is
    packed against none."""
    await transaction.execute(_OFFER, {"round_id": round_id})


async def wish_end(transaction: Transaction, round_id: str, reason: str) -> bool:
    """Request the abort of an unfinished round, for its conductor; returns whether it was
    unfinished."""
    done = await transaction.execute(
        update(rounds)
        .where(rounds.c.id == round_id, rounds.c.state.in_(ACTIVE))
        .values(version=rounds.c.version + 1, ending=func.coalesce(rounds.c.ending, reason))
    )
    return done.rowcount == 1


async def wish_all_end(transaction: Transaction, reason: str) -> None:
    """The same for all unfinished rounds."""
    ending = func.coalesce(rounds.c.ending, reason)
    await transaction.execute(
        update(rounds)
        .where(rounds.c.state.in_(ACTIVE))
        .values(version=rounds.c.version + 1, ending=ending)
    )


# --- leases --------------------------------------------------------------------------------------


async def held(transaction: Transaction, holder: str, now: datetime) -> set[str]:
    """The unfinished rounds whose lease this holder has."""
    rows = await transaction.execute(_HELD, {"holder": holder, "now": now})
    return {row.id for row in rows}


async def claimable(
    transaction: Transaction, holder: str, now: datetime, lease: timedelta, *, lock: bool = False
) -> list[str]:
    """Unfinished rounds without a lease, and this process's own whose lease is half over."""
    rows = await transaction.execute(
        _CLAIMABLE_LOCKED if lock else _CLAIMABLE,
        {"holder": holder, "now": now, "soon": now + lease / 2},
    )
    return [row.id for row in rows]


async def claim(
    transaction: Transaction, holder: str, now: datetime, lease: timedelta
) -> Sequence[str]:
    """Take or renew the leases that can be had."""
    ids = await claimable(transaction, holder, now, lease, lock=True)
    for start in range(0, len(ids), 1000):
        await take(transaction, ids[start : start + 1000], holder, now + lease)
    return ids


async def take(transaction: Transaction, ids: list[str], holder: str, until: datetime) -> None:
    """Give a holder the leases of some rounds."""
    await transaction.execute(_CLAIM, {"round_ids": ids, "holder": holder, "until": until})


async def give_back(transaction: Transaction, holder: str) -> None:
    """End all leases of a holder."""
    await transaction.execute(
        update(rounds)
        .where(rounds.c.lease_holder == holder)
        .values(lease_holder=None, lease_until=None)
    )


# --- what metrics say ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Release:
    """When a round was released, and of how many curators."""

    finished: datetime
    participants: int


async def count_states(transaction: Transaction) -> dict[str, int]:
    """How many rounds there are in each state."""
    rows = await transaction.execute(select(rounds.c.state, func.count()).group_by(rounds.c.state))
    return {row[0]: int(row[1]) for row in rows}


async def count_overdue(transaction: Transaction, now: datetime) -> int:
    """How many open rounds are past their deadline."""
    late = select(func.count()).where(
        rounds.c.state == RoundState.OPEN.value, rounds.c.deadline < now
    )
    return int((await transaction.execute(late)).scalar_one())


async def newest_releases(transaction: Transaction, most: int) -> list[str]:
    """The rounds that were released last, the newest first."""
    rows = await transaction.execute(
        select(rounds.c.id)
        .where(rounds.c.state == RoundState.RELEASED.value)
        .order_by(rounds.c.finished.desc())
        .limit(most)
    )
    return [str(row.id) for row in rows]


@dataclass(frozen=True)
class Participation:
    """How many curators are in the sum of a released round."""

    id: str
    query_id: str
    opened: datetime
    participants: int


async def participation_since(transaction: Transaction, since: datetime) -> list[Participation]:
    """Of the rounds that were opened since and released, the oldest first."""
    rows = await transaction.execute(
        select(rounds.c.id, rounds.c.query_id, rounds.c.opened, rounds.c.participants)
        .where(
            rounds.c.id >= first_uuid7(since),
            rounds.c.state == RoundState.RELEASED.value,
            rounds.c.participants.is_not(None),
        )
        .order_by(rounds.c.id)
    )
    return [Participation(*row) for row in rows]


async def last_release(transaction: Transaction) -> Release | None:
    """The release that came last; None before the first."""
    result = await transaction.execute(
        select(rounds.c.finished, rounds.c.participants)
        .where(rounds.c.state == RoundState.RELEASED.value)
        .order_by(rounds.c.finished.desc())
        .limit(1)
    )
    row = result.first()
    return None if row is None else Release(row.finished, row.participants or 0)
