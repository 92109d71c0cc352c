"""The history of rounds: what a curator's owner reads back, and what expires.

Contributions, debits and refusals over the curator's position. What the ledger and its chain need
stays permanently; refusals and deliveries of old rounds, and what records spent in old jobs, are
dropped.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Result, Row, bindparam, delete, exists, func, null, select, update

from common.store.transactions import Transaction
from curator.store.outbox import IDS, State
from curator.store.tables import (
    contributions,
    debits,
    federated_jobs,
    job_paths,
    job_spends,
    outbox,
    parties,
    refusals,
    rounds,
)
from tacit import sets


async def history(
    transaction: Transaction, party: str, after: int | None, limit: int
) -> list[Row[Any]]:
    """A party's contributions with their rounds, newest first."""
    query = (
        select(
            contributions,
            rounds.c.descriptor,
            rounds.c.outcome,
            rounds.c.expired,
        )
        .join(rounds, rounds.c.id == contributions.c.round)
        .where(contributions.c.party == party)
        .order_by(contributions.c.id.desc())
        .limit(limit)
    )
    if after is not None:
        query = query.where(contributions.c.id < after)
    return list(await transaction.execute(query))


async def of_round(transaction: Transaction, party: str, round_id: str) -> Row[Any] | None:
    """A party's contribution to one round, its `id` and the `descriptor` of the round."""
    result: Result[Any] = await transaction.execute(
        select(contributions.c.id, rounds.c.descriptor)
        .join(rounds, rounds.c.id == contributions.c.round)
        .where(contributions.c.party == party, contributions.c.round == round_id)
    )
    return result.first()


async def opened_since(
    transaction: Transaction, since: datetime, most: int, party: str | None
) -> list[tuple[str, str]]:
    """(id, signed descriptor) of the newest rounds, oldest first, in which a party was asked; of
    any party if none is given."""
    query = select(contributions.c.round)
    if party is not None:
        query = query.where(contributions.c.party == party)
    newest = (
        select(rounds.c.id, rounds.c.descriptor)
        .where(rounds.c.opened >= since, rounds.c.id.in_(query))
        .order_by(rounds.c.opened.desc(), rounds.c.id)
        .limit(most)
    )
    return [(row.id, row.descriptor) for row in await transaction.execute(newest)][::-1]


async def newest_queries(transaction: Transaction, most: int, party: str | None) -> list[str]:
    """A signed descriptor of each of the queries that a party, or any, was asked last."""
    newest = select(func.max(contributions.c.id).label("id"), rounds.c.query_hash).join(
        rounds, rounds.c.id == contributions.c.round
    )
    if party is not None:
        newest = newest.where(contributions.c.party == party)
    last = newest.group_by(rounds.c.query_hash).order_by(func.max(contributions.c.id).desc())
    chosen = last.limit(most).subquery()
    rows = await transaction.execute(
        select(rounds.c.descriptor)
        .join(contributions, contributions.c.round == rounds.c.id)
        .join(chosen, chosen.c.id == contributions.c.id)
        .order_by(contributions.c.id.desc())
    )
    return list(rows.scalars())


async def left_out(
    transaction: Transaction, party: str, position: int, since: datetime, names: Sequence[str]
) -> set[str]:
    """The rounds since then that a curator refused on grounds of these names."""
    rows = await transaction.execute(
        select(contributions.c.round, refusals.c.offset, refusals.c.length, refusals.c.members)
        .join(contributions, contributions.c.id == refusals.c.contribution)
        .where(
            contributions.c.party == party,
            refusals.c.name.in_(names),
            refusals.c.made >= since,
            refusals.c.offset <= position,
            refusals.c.offset + refusals.c.length > position,
        )
    )
    return {
        row.round for row in rows if sets.unpack(row.members, row.length)[position - row.offset]
    }


async def descriptors(transaction: Transaction, ids: Sequence[int]) -> dict[int, str]:
    """The signed descriptor of each contribution's round, as JSON."""
    rows = await transaction.execute(
        select(contributions.c.id, rounds.c.descriptor)
        .join(rounds, rounds.c.id == contributions.c.round)
        .where(contributions.c.id.in_(ids))
    )
    return {row.id: row.descriptor for row in rows}


async def count_exact(transaction: Transaction, ids: Sequence[int]) -> int:
    """How many of some contributions are to sums without noise."""
    asks = rounds.c.descriptor.contains('"mechanism":"exact"')  # no other text: quotes are escaped
    count = 0
    for start in range(0, len(ids), IDS):
        some = contributions.c.id.in_(ids[start : start + IDS])
        joined = contributions.join(rounds, rounds.c.id == contributions.c.round)
        counted = select(func.count()).select_from(joined).where(some, asks)
        count += int((await transaction.execute(counted)).scalar_one())
    return count


async def contributed_spans(
    transaction: Transaction, first: datetime, last: datetime
) -> list[Row[Any]]:
    """Debits whose window meets [first, last], with their round's descriptor and party's keys."""
    result: Result[Any] = await transaction.execute(
        select(
            debits.c.offset,
            debits.c.length,
            debits.c.presence,
            debits.c.window_start,
            debits.c.window_end,
            parties.c.first_key,
            rounds.c.descriptor,
        )
        .join(contributions, contributions.c.id == debits.c.contribution)
        .join(rounds, rounds.c.id == contributions.c.round)
        .join(parties, parties.c.id == debits.c.party)
        .where(debits.c.window_start <= last, debits.c.window_end > first)
    )
    return list(result.all())


async def spans_over(
    transaction: Transaction, ids: Sequence[int], position: int
) -> tuple[dict[int, Row[Any]], dict[int, list[Row[Any]]]]:
    """The debit and the refusals of each contribution whose span holds a curator's position."""
    spans: dict[int, Row[Any]] = {}
    for row in await transaction.execute(
        select(debits).where(
            debits.c.contribution.in_(ids),
            debits.c.offset <= position,
            debits.c.offset + debits.c.length > position,
        )
    ):
        spans[row.contribution] = row
    refused: dict[int, list[Row[Any]]] = {}
    for row in await transaction.execute(
        select(refusals)
        .where(
            refusals.c.contribution.in_(ids),
            refusals.c.offset <= position,
            refusals.c.offset + refusals.c.length > position,
        )
        .order_by(refusals.c.id)
    ):
        refused.setdefault(row.contribution, []).append(row)
    return spans, refused


_UNHASHED = frozenset({"contribution", "credited", "used", "clamped", "kept", "refused"})
_HASHED = (
    *(c for c in debits.c if c.name not in _UNHASHED),
    contributions.c.round,
    rounds.c.hash,
)
_PAGE = 1000


async def ledger(transaction: Transaction) -> AsyncIterator[Row[Any]]:
    """All debits, oldest first, each with its round and what that round's descriptor hashes to;
    without what is private (counts) or comes later (the credit, a refusal by the proof)."""
    query = (
        select(*_HASHED)
        .outerjoin(contributions, contributions.c.id == debits.c.contribution)
        .outerjoin(rounds, rounds.c.id == contributions.c.round)
        .order_by(debits.c.id)
        .limit(_PAGE)
    )
    after = 0
    while page := (await transaction.execute(query.where(debits.c.id > after))).all():
        for row in page:
            yield row
        after = page[-1].id


async def credited(transaction: Transaction) -> list[Row[Any]]:
    """The credited debits by `id`, with the `descriptor` and the `aborts` of their rounds."""
    rows: Result[Any] = await transaction.execute(
        select(debits.c.id, rounds.c.descriptor, rounds.c.aborts)
        .outerjoin(contributions, contributions.c.id == debits.c.contribution)
        .outerjoin(rounds, rounds.c.id == contributions.c.round)
        .where(debits.c.credited.is_not(None))
    )
    return list(rows.all())


@dataclass(frozen=True)
class Decided:
    """A contribution that is decided, and some of whose curators refuse an open round."""

    contribution: int
    party: str
    round: str


@dataclass(frozen=True)
class Ground:
    """Why some of a span's curators refuse; `members` is a bitmap over the span."""

    offset: int
    length: int
    members: bytes
    name: str


_DECIDED_REFUSALS = (
    select(contributions.c.id, contributions.c.party, contributions.c.round)
    .join(rounds, rounds.c.id == contributions.c.round)
    .where(
        exists().where(
            refusals.c.contribution == contributions.c.id,
            refusals.c.name.not_in(bindparam("uninvited", expanding=True)),
        ),
        contributions.c.state != State.PLANNED.value,
        rounds.c.deadline > bindparam("now"),
        rounds.c.outcome.is_(None),
    )
    .order_by(contributions.c.id)
)


async def decided_refusals(
    transaction: Transaction, now: datetime, uninvited: Collection[str]
) -> list[Decided]:
    """Of rounds whose deadline has not passed and whose outcome is unknown, if there is a ground
    other than these."""
    values = {"now": now, "uninvited": sorted(uninvited)}
    rows = await transaction.execute(_DECIDED_REFUSALS, values)
    return [Decided(row.id, row.party, row.round) for row in rows]


async def grounds(transaction: Transaction, contribution: int) -> list[Ground]:
    """All grounds of a contribution."""
    rows = await transaction.execute(
        select(refusals.c.offset, refusals.c.length, refusals.c.members, refusals.c.name)
        .where(refusals.c.contribution == contribution)
        .order_by(refusals.c.id)
    )
    return [Ground(*row) for row in rows]


async def usage_spans(transaction: Transaction, party: str, position: int) -> list[Any]:
    """`offset`, `length`, `presence`, `used`, `clamped` of every debit over a position."""
    rows = await transaction.execute(
        select(
            debits.c.offset, debits.c.length, debits.c.presence, debits.c.used, debits.c.clamped
        ).where(
            debits.c.party == party,
            debits.c.offset <= position,
            debits.c.offset + debits.c.length > position,
        )
    )
    return list(rows)


# --- retention -----------------------------------------------------------------------------------
#
# The ledger and its chain stay permanently: debits, credits, contributions, and of a round its
# descriptor, final state and abort statements. So policies sum over the same debits as before, and
# no round is answered twice.

_UNDER_WAY: Final = (State.PLANNED.value, State.PREPARED.value)


async def expire(transaction: Transaction, before: datetime, now: datetime, limit: int) -> int:
    """Drop the records of rounds whose deadline was before an instant, the oldest first and at most
    `limit` rounds; returns how many.

    Rounds whose outcome is unknown, or of which something is still to be sent, keep theirs.
    """
    under_way = select(contributions.c.round).where(contributions.c.state.in_(_UNDER_WAY))
    result = await transaction.execute(
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
    ids = list(result.scalars())
    if not ids:
        return 0
    parts = select(contributions.c.id).where(contributions.c.round.in_(ids))
    for table in (refusals, outbox):
        await transaction.execute(delete(table).where(table.c.contribution.in_(parts)))
    await transaction.execute(update(rounds).where(rounds.c.id.in_(ids)).values(expired=now))
    return len(ids)


async def forget_spends(transaction: Transaction, before: datetime) -> int:
    """Drop what records spent in jobs whose newest round was over before an instant; returns how
    many jobs.

    Such a job has no first round from then on, so that its later steps are missed: S must not
    start again at 0. A job whose first round may still be credited keeps it.
    """
    first, last = rounds.alias(), rounds.alias()
    result = await transaction.execute(
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
    ids = list(result.scalars())
    if ids:
        for table in (job_spends, job_paths):
            await transaction.execute(delete(table).where(table.c.job.in_(ids)))
        await transaction.execute(
            update(federated_jobs).where(federated_jobs.c.id.in_(ids)).values(first_round=null())
        )
    return len(ids)
