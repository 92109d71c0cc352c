"""Suites of parties, when each delivered, and the seal keys of rounds of format 2."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import bindparam, delete, func, insert, or_, select, update

from common.store.transactions import Transaction
from coordinator.store.tables import parties, roster, seal_keys
from tacit.protocol.enrolment import PartyKind

CHUNK: Final = 500


# Asked at every release: made once, and so compiled once.
_SEEN_BEFORE = select(parties.c.id, parties.c.first, parties.c.curators).where(
    parties.c.first < bindparam("end"),
    or_(parties.c.delivered.is_(None), parties.c.delivered < bindparam("before")),
)


@dataclass(frozen=True)
class Reach:
    """Parties whose best suite is the same: how many, of how many curators, and when the last of
    them delivered (to a day)."""

    suite: int
    parties: int
    curators: int
    delivered: datetime | None


@dataclass(frozen=True)
class Laggard:
    """A party that can do the first suite only, and may be in use."""

    id: str
    kind: PartyKind
    software: str | None
    enrolled: datetime
    delivered: datetime | None


@dataclass(frozen=True)
class SealKeyRow:
    """`content`: the key's bytes once they were asked for."""

    aggregator: str
    content: bytes | None


# --- what parties can do -------------------------------------------------------------------------


async def put_suite(
    transaction: Transaction, party: str, suite: int, software: str, now: datetime
) -> None:
    """The best suite that a party said it can do."""
    await transaction.execute(
        update(parties)
        .where(parties.c.id == party)
        .values(suite=suite, software=software, suites_told=now)
    )


async def suite_of(transaction: Transaction, party: str) -> int | None:
    """The best suite of a party; None for a stranger."""
    found = await transaction.execute(_SUITE_OF, {"party": party})
    suite: int | None = found.scalar_one_or_none()
    return suite


async def laggards(
    transaction: Transaction, suite: int, since: datetime, limit: int
) -> list[Laggard]:
    """Parties below a suite that delivered, or enrolled, after an instant."""
    rows = await transaction.execute(
        select(
            parties.c.id,
            parties.c.kind,
            parties.c.software,
            parties.c.enrolled,
            parties.c.delivered,
        )
        .where(
            parties.c.left.is_(None),
            parties.c.suite < suite,
            or_(parties.c.enrolled > since, parties.c.delivered > since),
        )
        .order_by(parties.c.id)
        .limit(limit)
    )
    return [
        Laggard(row.id, PartyKind(row.kind), row.software, row.enrolled, row.delivered)
        for row in rows
    ]


async def reach(transaction: Transaction) -> list[Reach]:
    """All parties that have not left, by their best suite."""
    rows = await transaction.execute(
        select(
            parties.c.suite,
            func.count(),
            func.sum(parties.c.curators),
            func.max(parties.c.delivered),
        )
        .where(parties.c.left.is_(None))
        .group_by(parties.c.suite)
        .order_by(parties.c.suite)
    )
    return [Reach(row[0], row[1], int(row[2]), row[3]) for row in rows]


async def seen_before(
    transaction: Transaction, before: datetime, roster_size: int
) -> list[tuple[str, int, int]]:
    """(id, first number, curators) of parties that are not known to have delivered since."""
    rows = await transaction.execute(_SEEN_BEFORE, {"end": roster_size, "before": before})
    return [(row.id, row.first, row.curators) for row in rows]


async def mark_delivered(transaction: Transaction, ids: Sequence[str], now: datetime) -> None:
    """Parties that are in a sum that was released now."""
    for start in range(0, len(ids), CHUNK):
        chosen = ids[start : start + CHUNK]
        await transaction.execute(
            update(parties).where(parties.c.id.in_(chosen)).values(delivered=now)
        )


# --- the format of rounds ------------------------------------------------------------------------


async def highest_format(transaction: Transaction) -> int:
    """The highest format of a round that was ever opened here."""
    found: int = (await transaction.execute(_FORMAT)).scalar_one()
    return found


# Asked in every round: made once, and so compiled once.
_FORMAT = select(roster.c.round_format)
_SUITE_OF = select(parties.c.suite).where(parties.c.id == bindparam("party"))
_RAISE = (
    update(roster)
    .where(roster.c.round_format < bindparam("raised"))
    .values(round_format=bindparam("raised"))
)
_KEEP = (
    update(seal_keys)
    .where(seal_keys.c.hash == bindparam("of_hash"), seal_keys.c.kept_until < bindparam("until"))
    .values(kept_until=bindparam("until"))
)
_FORGET = delete(seal_keys).where(seal_keys.c.kept_until < bindparam("before"))
_SEAL_KEY = select(seal_keys.c.aggregator, seal_keys.c.content).where(
    seal_keys.c.hash == bindparam("of_hash")
)


async def raise_format(transaction: Transaction, number: int) -> None:
    """A round of this format was opened."""
    await transaction.execute(_RAISE, {"raised": number})


# --- seal keys -----------------------------------------------------------------------------------


async def expect_seal_keys(
    transaction: Transaction, keys: Iterable[tuple[bytes, str]], until: datetime
) -> None:
    """Hashes of seal keys and their aggregators, which curators may ask for until then. The caller
    holds the ledger's lock, so nobody else adds the same."""
    for key_hash, aggregator in keys:
        done = await transaction.execute(_KEEP, {"of_hash": key_hash, "until": until})
        if done.rowcount or await seal_key(transaction, key_hash) is not None:
            continue
        await transaction.execute(
            insert(seal_keys).values(hash=key_hash, aggregator=aggregator, kept_until=until)
        )


async def forget_seal_keys(transaction: Transaction, before: datetime) -> None:
    """Those of rounds that are over."""
    await transaction.execute(_FORGET, {"before": before})


async def seal_key(transaction: Transaction, key_hash: bytes) -> SealKeyRow | None:
    """A seal key that a round names."""
    row = (await transaction.execute(_SEAL_KEY, {"of_hash": key_hash})).first()
    return None if row is None else SealKeyRow(row.aggregator, row.content)


async def keep_seal_key(transaction: Transaction, key_hash: bytes, content: bytes) -> None:
    """Keep a key that was compared with its hash."""
    await transaction.execute(
        update(seal_keys).where(seal_keys.c.hash == key_hash).values(content=content)
    )
