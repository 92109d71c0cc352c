"""Rows about a round: member sets of frozen rounds, refusals, and what expiry leaves.

A refusal is a row for each party and never changes. Expiry drops the content of old rounds; the row
of a round stays permanently, with its id, its query and place in a schedule, its final state, when
and of how many curators: so no round is opened twice.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import (
    ColumnElement,
    bindparam,
    case,
    delete,
    distinct,
    exists,
    func,
    insert,
    or_,
    select,
    text,
    update,
)

from common.runtime.clock import first_uuid7
from common.store.released_sets import ReleasedSets
from common.store.transactions import Transaction
from coordinator.models.job import FINISHED
from coordinator.store.rounds import ACTIVE
from coordinator.store.tables import (
    frozen_sets,
    job_steps,
    jobs,
    parties,
    queries,
    refusals,
    rounds,
)
from tacit.protocol.differencing import scopes
from tacit.protocol.round.descriptor import Refusal, RefusalGround
from tacit.protocol.round.state import RoundState
from tacit.query.fields import Window
from tacit.query.query import Query

FROZEN: Final = ReleasedSets(
    frozen_sets,
    frozen_sets.c.round_id,
    (
        rounds.c.id == frozen_sets.c.round_id,
        or_(rounds.c.state != RoundState.ABORTED.value, rounds.c.commitments.is_not(None)),
    ),
)
"""Those of rounds that ended before any aggregator was asked to reveal do not count: their sums
were never opened."""


_EXACT: Final = (
    select(func.count(distinct(rounds.c.id)))
    .select_from(frozen_sets)
    .join(rounds, rounds.c.id == frozen_sets.c.round_id)
    .join(queries, queries.c.id == rounds.c.query_id)
    .where(
        frozen_sets.c.family.in_(bindparam("scopes", expanding=True)),
        frozen_sets.c.window_end > bindparam("start"),
        frozen_sets.c.window_start < bindparam("end"),
        rounds.c.state == RoundState.RELEASED.value,
        queries.c.body.contains('"mechanism":"exact"'),
    )
)


async def exact_sums(transaction: Transaction, query: Query, window: Window) -> int:
    """How many sums without noise are released over a register of the query, in a window that
    meets this one."""
    values = {"scopes": list(scopes(query)), "start": window.start, "end": window.end}
    return int((await transaction.execute(_EXACT, values)).scalar_one())


# Refusals of rounds, a row for each party; a row never changes.

# Built once, so that it is compiled once.
_REFUSALS_AFTER = (
    select(refusals.c.id, parties.c.first, parties.c.curators, refusals.c.members)
    .join(parties, parties.c.id == refusals.c.party)
    .where(refusals.c.round_id == bindparam("of_round"), refusals.c.id > bindparam("last"))
    .order_by(refusals.c.id)
)


@dataclass(frozen=True)
class RefusalRow:
    """A party's refusal: `members` is a bitmap over its run of roster numbers."""

    id: int
    first: int
    curators: int
    members: bytes


async def add_refusal(
    transaction: Transaction, round_id: str, party: str, refusal: Refusal, made_at: datetime
) -> None:
    """Keep a party's refusal; it has none of this round yet."""
    counts = {ground.value: refusal.grounds.get(ground, 0) for ground in RefusalGround}
    await transaction.execute(
        insert(refusals).values(
            round_id=round_id, party=party, members=refusal.members, made=made_at, **counts
        )
    )


async def find_refusal(transaction: Transaction, round_id: str, party: str) -> Refusal | None:
    """A party's stored refusal."""
    result = await transaction.execute(
        select(refusals).where(refusals.c.round_id == round_id, refusals.c.party == party)
    )
    row = result.first()
    if row is None:
        return None
    counts = {ground: row._mapping[ground.value] for ground in RefusalGround}
    grounds = {ground: count for ground, count in counts.items() if count}
    return Refusal(members=row.members, grounds=grounds)


async def refusals_after(transaction: Transaction, round_id: str, last: int) -> list[RefusalRow]:
    """A round's refusals above a row id, in the order in which they were committed."""
    rows = await transaction.execute(_REFUSALS_AFTER, {"of_round": round_id, "last": last})
    return [RefusalRow(row.id, row.first, row.curators, row.members) for row in rows]


async def count_refusals(transaction: Transaction, round_id: str) -> dict[RefusalGround, int]:
    """How many curators refuse a round on each ground that there is."""
    return await _refusal_counts(transaction, refusals.c.round_id == round_id)


async def count_refusals_between(
    transaction: Transaction, start: datetime, end: datetime
) -> dict[RefusalGround, int]:
    """The same of all rounds that were opened from `start` to before `end`."""
    first, after = first_uuid7(start), first_uuid7(end)
    return await _refusal_counts(
        transaction, refusals.c.round_id >= first, refusals.c.round_id < after
    )


async def _refusal_counts(
    transaction: Transaction, *which: ColumnElement[bool]
) -> dict[RefusalGround, int]:
    sums = [func.sum(refusals.c[ground.value]) for ground in RefusalGround]
    row = (await transaction.execute(select(*sums).where(*which))).one()
    return {ground: int(count) for ground, count in zip(RefusalGround, row, strict=True) if count}


# The sets against differencing, the acknowledgements and the steps of jobs still have the round
# that they name. Dropped: descriptor, signed sets, verdicts, manifest, commitments, result, report,
# transcript and its parties' refusals; not the ledger, which has the cost.
#
# Texts of a query's rounds are packed against those of its sample (`coordinator.store.rounds`). So
# an expired sample keeps its descriptor and its report, which is not shown any more, until the
# last round that is packed against them has expired as well.

_MOVE: Final = text(
    "UPDATE round SET rowid = (SELECT max(rowid) + 1 FROM round) WHERE id = :round_id"
)
_GONE: Final = ""
"""Replaces a text that was dropped."""


async def expire(
    transaction: Transaction, before: datetime, now: datetime, *, spared: int, limit: int
) -> int:
    """Drop the content of rounds that ended before an instant, the oldest first and at most
    `limit`; returns how many.

    The newest `spared` rounds of all keep theirs, and so do those of jobs that have not ended.
    """
    newest = select(rounds.c.id).order_by(rounds.c.id.desc()).limit(spared)
    under_way = (
        select(job_steps.c.round_id)
        .join(jobs, jobs.c.id == job_steps.c.job_id)
        .where(
            jobs.c.state.not_in([state.value for state in FINISHED]),
            job_steps.c.round_id.is_not(None),
        )
    )
    rows = await transaction.execute(
        select(rounds.c.id, rounds.c.sample)
        .where(
            rounds.c.expired.is_(None),
            rounds.c.finished < before,
            rounds.c.state.not_in(ACTIVE),  # found by `finished`, not by state
            rounds.c.id.not_in(newest),
            rounds.c.id.not_in(under_way),
        )
        .order_by(rounds.c.finished)
        .limit(limit)
    )
    samples = {row.id: row.sample for row in rows}
    if samples:
        await _drop(transaction, list(samples), now)
        candidates = samples.keys() | {name for name in samples.values() if name is not None}
        await _drop_unneeded_samples(transaction, candidates)
    return len(samples)


async def _drop(transaction: Transaction, ids: Collection[str], now: datetime) -> None:
    # That a round was committed decides whether its set counts against differencing
    # (`coordinator.store.round_details`): it stays known.
    committed = case((rounds.c.commitments.is_(None), None), else_=_GONE)
    await transaction.execute(
        update(rounds)
        .where(rounds.c.id.in_(ids))
        .values(
            expired=now,
            summary=_GONE,
            accepted=None,
            verdicts=None,
            standing=None,
            manifest=None,
            commitments=committed,
            aborts=None,
            reason=None,
            ending=None,
            result=None,
            figures=None,
            transcript=None,
        )
    )
    if transaction.dialect.name == "sqlite":
        # A row that got shorter where it is leaves its page as it was, mostly empty: it moves.
        await transaction.execute(_MOVE, [{"round_id": name} for name in ids])
    await transaction.execute(delete(refusals).where(refusals.c.round_id.in_(ids)))


async def _drop_unneeded_samples(transaction: Transaction, ids: Collection[str]) -> None:
    """Drop descriptor and report of those expired rounds that no compressed text needs as a
    sample any more. A query whose sample was dropped takes a new one."""
    packed = rounds.alias("packed")
    needed = exists().where(packed.c.sample == rounds.c.id, packed.c.expired.is_(None))
    dropped = await transaction.execute(
        update(rounds)
        .where(rounds.c.id.in_(ids), rounds.c.expired.is_not(None), ~needed)
        .values(descriptor=_GONE, report=None)
        .returning(rounds.c.id, rounds.c.query_id)
    )
    gone = {row.id: row.query_id for row in dropped}
    await transaction.execute(
        update(queries)
        .where(queries.c.id.in_(set(gone.values())), queries.c.sample.in_(gone.keys()))
        .values(sample=None)
    )
