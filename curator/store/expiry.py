"""Drops the refusals and the deliveries of old rounds, and what records spent in old jobs.

What the ledger and its chain need stays for good: debits, credits, contributions, and of a round
its descriptor, its outcome and the abort statements. So what a policy sums over is the same as
before, no round is taken up twice, and nobody contributes twice to one query and window.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from sqlalchemy import delete, null, select, update

from common.store.transactions import Transaction
from curator.store.outbox import State
from curator.store.tables import (
    contributions,
    federated_jobs,
    job_paths,
    job_spends,
    outbox,
    refusals,
    rounds,
)

_UNDER_WAY: Final = (State.PLANNED.value, State.PREPARED.value)


async def expire(transaction: Transaction, before: datetime, now: datetime, limit: int) -> int:
    """Drop those of rounds whose deadline was before an instant, the oldest first and at most
    `limit` rounds; of how many. Rounds whose outcome is not known, or of which something is still
    to be sent, keep theirs."""
    under_way = select(contributions.c.round).where(contributions.c.state.in_(_UNDER_WAY))
    found = await transaction.execute(
        select(rounds.c.id)
        .where(
            rounds.c.expired.is_(None),
            rounds.c.deadline < before,
            rounds.c.outcome.is_not(None),
            rounds.c.id.not_in(under_way),
        )
        .order_by(rounds.c.deadline)
        .limit(limit)
    )
    ids = list(found.scalars())
    if not ids:
        return 0
    parts = select(contributions.c.id).where(contributions.c.round.in_(ids))
    for table in (refusals, outbox):
        await transaction.execute(delete(table).where(table.c.contribution.in_(parts)))
    await transaction.execute(update(rounds).where(rounds.c.id.in_(ids)).values(expired=now))
    return len(ids)


async def forget_spends(transaction: Transaction, before: datetime) -> int:
    """Drop what records spent in jobs whose newest round was over before an instant; of how many
    jobs. Such a job has no first round from then on, so that its later steps are missed: S must not
    begin again at 0. A job whose first round may still be credited keeps it."""
    first, last = rounds.alias(), rounds.alias()
    found = await transaction.execute(
        select(federated_jobs.c.id)
        .join(first, first.c.id == federated_jobs.c.first_round)
        .join(last, last.c.id == federated_jobs.c.last_round)
        .where(
            federated_jobs.c.terms.is_not(None),
            first.c.outcome.is_not(None),
            last.c.outcome.is_not(None),
            last.c.deadline < before,
        )
    )
    ids = list(found.scalars())
    if ids:
        for table in (job_spends, job_paths):
            await transaction.execute(delete(table).where(table.c.job.in_(ids)))
        await transaction.execute(
            update(federated_jobs).where(federated_jobs.c.id.in_(ids)).values(first_round=null())
        )
    return len(ids)
