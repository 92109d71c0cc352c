"""Drops the content of old rounds, and keeps that they were.

The row of a round stays for good, with its id, its query and place in a schedule, how it ended,
when and of how many curators: so no round is opened twice, and the sets against differencing, the
acknowledgements and the steps of jobs still have the round that they name. What it said goes:
descriptor, signed sets, verdicts, manifest, commitments, result, report, transcript and its
parties' refusals. The ledger, which has what it cost, is no part of this.

Texts of a query's rounds are packed against those of its sample (`coordinator.store.rounds`). So an
expired sample keeps its descriptor and its report, which nobody is shown any more, until the last
round that is packed against them has expired as well.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Final

from sqlalchemy import case, delete, exists, select, text, update

from common.store.transactions import Transaction
from coordinator.models.job import FINISHED
from coordinator.store.rounds import ACTIVE
from coordinator.store.tables import job_steps, jobs, queries, refusals, rounds

_MOVE: Final = text(
    "UPDATE round SET rowid = (SELECT max(rowid) + 1 FROM round) WHERE id = :round_id"
)
_GONE: Final = ""
"""What stands in place of a text that went."""


async def expire(
    transaction: Transaction, before: datetime, now: datetime, *, spared: int, limit: int
) -> int:
    """Drop the content of rounds that ended before an instant, the oldest first and at most `limit`
    of them; how many there were.

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
    found = await transaction.execute(
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
    samples = {row.id: row.sample for row in found}
    if samples:
        await _drop(transaction, list(samples), now)
        candidates = samples.keys() | {name for name in samples.values() if name is not None}
        await _drop_unneeded_samples(transaction, candidates)
    return len(samples)


async def _drop(transaction: Transaction, ids: Collection[str], now: datetime) -> None:
    # That a round was committed decides whether its set counts against differencing
    # (`coordinator.store.frozen_sets`): it stays known.
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
    """Drop descriptor and report of those expired rounds against which none is packed any more. A
    query whose sample this was takes a new one."""
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
