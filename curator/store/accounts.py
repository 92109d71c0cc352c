"""Debits, running totals and refusals: the ledger's rows.

Totals are kept per chunk of curators, packed as runs (`curator.runs`), one row for ever and one for
each budget period in use. A row that covers the present is updated with every debit, so none that
is read can be stale; a missing period is summed from the debits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Row, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from common.models.query import PrivacyUnit, Window
from curator import runs
from curator.ledger import (
    LIFETIME,
    Bits,
    Charge,
    Debit,
    Totals,
    for_account,
    period_of,
    presence_bits,
    sum_debits,
)
from curator.store.tables import accounts, debits, refusals

CHUNK: Final = 16_384


@dataclass(frozen=True)
class NewDebit:
    """A segment's row of the ledger, as `contribution` makes it; that of reports has no
    contribution (`reporting`)."""

    contribution: int | None
    party: str
    segment: int
    part: int
    offset: int
    length: int
    presence: bytes
    unit: PrivacyUnit
    charge: Charge
    window: Window
    made: datetime
    used: bytes
    clamped: bytes


async def add_debit(connection: AsyncConnection, row: NewDebit) -> None:
    """Write a debit; the pair (contribution, segment, part) exists once."""
    await connection.execute(
        insert(debits).values(
            contribution=row.contribution,
            party=row.party,
            segment=row.segment,
            part=row.part,
            offset=row.offset,
            length=row.length,
            presence=row.presence,
            unit=row.unit.value,
            verified=row.charge.verified,
            epsilon=row.charge.epsilon,
            delta=row.charge.delta,
            epsilon_all=row.charge.epsilon_all,
            delta_all=row.charge.delta_all,
            window_start=row.window.start,
            window_end=row.window.end,
            made=row.made,
            used=row.used,
            clamped=row.clamped,
        )
    )


async def debited_segments(connection: AsyncConnection, contribution: int) -> set[int]:
    """Segments of a contribution that are in the ledger already."""
    rows = await connection.execute(
        select(debits.c.segment).where(debits.c.contribution == contribution)
    )
    return set(rows.scalars())


async def debited_members(
    connection: AsyncConnection, contribution: int, curators: int
) -> NDArray[np.bool_]:
    """Whom of a party's curators a contribution debited, whatever was credited since."""
    members = np.zeros(curators, np.bool_)
    for row in await connection.execute(
        select(debits).where(debits.c.contribution == contribution)
    ):
        part = slice(row.offset, row.offset + row.length)
        members[part] |= presence_bits(row.presence, row.length)
    return members


async def list_debits(
    connection: AsyncConnection,
    party: str,
    unit: PrivacyUnit,
    *,
    since: datetime | None = None,
    overlapping: Window | None = None,
) -> list[Debit]:
    """A party's debits of one unit, oldest first."""
    query = select(debits).where(debits.c.party == party, debits.c.unit == unit.value)
    if since is not None:
        query = query.where(debits.c.made >= since)
    if overlapping is not None:
        query = query.where(
            debits.c.window_start < overlapping.end, debits.c.window_end > overlapping.start
        )
    rows = await connection.execute(query.order_by(debits.c.id))
    return [_debit(row) for row in rows]


def _debit(row: Row[Any]) -> Debit:
    charge = Charge(row.epsilon, row.delta, row.epsilon_all, row.delta_all, row.verified)
    return Debit(
        charge,
        row.offset,
        presence_bits(row.presence, row.length),
        Window(start=row.window_start, end=row.window_end),
        row.made,
        row.credited is not None,
    )


# --- running totals ------------------------------------------------------------------------------


async def totals(
    connection: AsyncConnection,
    party: str,
    unit: PrivacyUnit,
    period_s: int,
    now: datetime,
    span: tuple[int, int],
) -> Totals:
    """What the curators offset..offset+length-1 spent in the present period (or for ever)."""
    offset, length = span
    start, _ = period_of(now, period_s)
    parts = []
    for chunk in range(offset // CHUNK, (offset + length - 1) // CHUNK + 1):
        first = max(offset, chunk * CHUNK)
        last = min(offset + length, (chunk + 1) * CHUNK)
        found = await _account(connection, party, chunk, unit, period_s, start)
        if found is not None:
            parts.append(found.part(first - chunk * CHUNK, last - chunk * CHUNK))
            continue
        made = await list_debits(connection, party, unit, since=start)
        parts.append(sum_debits(made, first, last - first, verified_only=period_s != LIFETIME))
    columns = zip(*(part.columns() for part in parts), strict=True)
    return Totals(*(np.concatenate(column) for column in columns))


async def charge_accounts(
    connection: AsyncConnection,
    party: str,
    curators: int,
    unit: PrivacyUnit,
    charge: Charge,
    made: datetime,
    members: tuple[int, Bits],
    periods: Sequence[int],
    *,
    factor: int = 1,
) -> None:
    """Add a debit to every running total that covers its time (`factor` -1: take (e) back).

    `members`: offset and bits. Rows for `LIFETIME` and for each of `periods` are made if missing;
    call it *before* the debit's own row is written.
    """
    offset, bits = members
    for chunk in range(offset // CHUNK, (offset + len(bits) - 1) // CHUNK + 1):
        size = min(CHUNK, curators - chunk * CHUNK)
        mask = Debit(charge, offset, bits, _ANY, made, False).over(chunk * CHUNK, size)
        if factor > 0:
            for period_s in {LIFETIME, *periods}:
                await _ensure(connection, party, chunk, unit, period_s, made, size)
        rows = await connection.execute(
            select(accounts).where(
                accounts.c.party == party,
                accounts.c.chunk == chunk,
                accounts.c.unit == unit.value,
                accounts.c.period_start <= made,
                accounts.c.period_end > made,
            )
        )
        for row in rows.all():
            changed = _totals(row).plus(for_account(charge, row.period_s), mask, factor=factor)
            await connection.execute(update(accounts).where(*_key(row)).values(**_packed(changed)))


_ANY: Final = Window(
    start=period_of(datetime.fromisoformat("2000-01-01T00:00:00+00:00"), 60)[0],
    end=period_of(datetime.fromisoformat("2000-01-01T00:00:00+00:00"), 60)[1],
)


async def _ensure(
    connection: AsyncConnection,
    party: str,
    chunk: int,
    unit: PrivacyUnit,
    period_s: int,
    now: datetime,
    size: int,
) -> None:
    start, end = period_of(now, period_s)
    if await _account(connection, party, chunk, unit, period_s, start) is not None:
        return
    made = await list_debits(connection, party, unit, since=start)
    found = sum_debits(made, chunk * CHUNK, size, verified_only=period_s != LIFETIME)
    await connection.execute(
        insert(accounts).values(
            party=party,
            chunk=chunk,
            unit=unit.value,
            period_s=period_s,
            period_start=start,
            period_end=end,
            **_packed(found),
        )
    )


async def _account(
    connection: AsyncConnection,
    party: str,
    chunk: int,
    unit: PrivacyUnit,
    period_s: int,
    start: datetime,
) -> Totals | None:
    row = (
        await connection.execute(
            select(accounts).where(
                accounts.c.party == party,
                accounts.c.chunk == chunk,
                accounts.c.unit == unit.value,
                accounts.c.period_s == period_s,
                accounts.c.period_start == start,
            )
        )
    ).first()
    return None if row is None else _totals(row)


def _key(row: Row[Any]) -> tuple[Any, ...]:
    return (
        accounts.c.party == row.party,
        accounts.c.chunk == row.chunk,
        accounts.c.unit == row.unit,
        accounts.c.period_s == row.period_s,
        accounts.c.period_start == row.period_start,
    )


def _totals(row: Row[Any]) -> Totals:
    return Totals(
        *(runs.unpack(b) for b in (row.epsilon, row.delta, row.epsilon_all, row.delta_all))
    )


def _packed(found: Totals) -> dict[str, bytes]:
    names = ("epsilon", "delta", "epsilon_all", "delta_all")
    return {name: runs.pack(column) for name, column in zip(names, found.columns(), strict=True)}


async def credit(connection: AsyncConnection, contribution: int, now: datetime) -> list[Row[Any]]:
    """Mark a contribution's verified debits as credited; the rows that were not before."""
    rows = await connection.execute(
        select(debits).where(
            debits.c.contribution == contribution,
            debits.c.credited.is_(None),
            debits.c.verified.is_(True),
        )
    )
    found = list(rows.all())
    await connection.execute(
        update(debits).where(debits.c.id.in_([row.id for row in found])).values(credited=now)
    )
    return found


# --- refusals ------------------------------------------------------------------------------------


async def add_refusal(
    connection: AsyncConnection,
    contribution: int,
    span: tuple[int, int],
    members: bytes,
    ground: tuple[str, str, str],
    now: datetime,
) -> None:
    """Record why curators of a span stay out: (name, detail, figures as JSON), public only."""
    name, detail, figures = ground
    await connection.execute(
        insert(refusals).values(
            contribution=contribution,
            offset=span[0],
            length=span[1],
            members=members,
            name=name,
            detail=detail,
            figures=figures,
            made=now,
        )
    )


async def forget_refusals(connection: AsyncConnection, contribution: int, offset: int) -> None:
    """Before a span is decided again (after a crash)."""
    await connection.execute(
        refusals.delete().where(
            refusals.c.contribution == contribution, refusals.c.offset == offset
        )
    )
