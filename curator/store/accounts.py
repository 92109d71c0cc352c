"""Debits, running totals and refusals: the ledger's rows.

A debit has its charges in both privacy units. Totals of the unit `curator` (those of `record`
depend on windows, and are summed from the debits) are kept per chunk of curators, packed as runs
(`curator.ledger`), one row for the lifetime and one for each budget period in use. A
row that covers the current time is updated with every debit, so none that is read can be stale; a
missing period is summed from the debits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Row, Select, bindparam, insert, select, update

from common.store.transactions import Transaction
from curator import ledger
from curator.ledger import (
    LIFETIME,
    Bits,
    Charge,
    Charges,
    Debit,
    Totals,
    for_account,
    members_over,
    period_of,
    presence_bits,
    sum_debits,
)
from curator.store.tables import accounts, contributions, debits, refusals
from tacit.query.fields import Window
from tacit.query.terms import PrivacyUnit

CHUNK: Final = 16_384
IDS: Final = 500
"""Most ids that one statement lists."""
# Asked for every party of a round: made once, and so compiled once.
_DEBIT: Final = insert(debits)
_ACCOUNT: Final = insert(accounts)
_MEMBERS: Final = select(
    debits.c.contribution, debits.c.offset, debits.c.length, debits.c.presence
).where(debits.c.contribution.in_(bindparam("contributions", expanding=True)))
_SEGMENTS: Final = select(debits.c.contribution, debits.c.segment).where(
    debits.c.contribution.in_(bindparam("contributions", expanding=True))
)
_SPAN: Final = select(accounts).where(
    accounts.c.party == bindparam("of_party"),
    accounts.c.chunk >= bindparam("first"),
    accounts.c.chunk < bindparam("end"),
)
_TOTALS: Final = _SPAN.where(
    accounts.c.period_s == bindparam("period"), accounts.c.period_start == bindparam("start")
)
_COVERING: Final = _SPAN.where(
    accounts.c.period_start <= bindparam("at"), accounts.c.period_end > bindparam("at")
)
_ADD_REFUSAL: Final = insert(refusals)
_FORGET: Final = refusals.delete().where(
    refusals.c.contribution == bindparam("of_contribution"),
    refusals.c.offset == bindparam("at_offset"),
)
_CONDITIONS: Final = {
    "of_party": debits.c.party == bindparam("of_party"),
    "after_span": debits.c.offset < bindparam("after_span"),
    "before_span": debits.c.offset + debits.c.length > bindparam("before_span"),
    "since": debits.c.made >= bindparam("since"),
    "after_window": debits.c.window_start < bindparam("after_window"),
    "before_window": debits.c.window_end > bindparam("before_window"),
}


@cache
def _debits(values: frozenset[str]) -> Select[Any]:
    """Debits that meet these of the conditions, oldest first."""
    met = [condition for name, condition in _CONDITIONS.items() if name in values]
    return select(debits).where(*met).order_by(debits.c.id)


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
    charges: Charges
    window: Window
    made: datetime
    used: bytes
    clamped: bytes
    kept: bytes


async def add_debits(transaction: Transaction, rows: Sequence[NewDebit]) -> None:
    """Write debits; the pair (contribution, segment, part) exists once."""
    await transaction.execute(_DEBIT, [_values(row) for row in rows])


def _values(row: NewDebit) -> dict[str, Any]:
    amounts = {
        f"{unit}_{name}": amount
        for unit, charge in row.charges.items()
        for name, amount in zip(_AMOUNTS, charge.amounts(), strict=True)
    }
    return amounts | {
        "contribution": row.contribution,
        "party": row.party,
        "segment": row.segment,
        "part": row.part,
        "offset": row.offset,
        "length": row.length,
        "presence": row.presence,
        "unit": row.unit.value,
        "window_start": row.window.start,
        "window_end": row.window.end,
        "made": row.made,
        "used": row.used,
        "clamped": row.clamped,
        "kept": row.kept,
    }


async def debited_segments(transaction: Transaction, ids: Sequence[int]) -> dict[int, set[int]]:
    """Segments of each contribution that are in the ledger already."""
    rows = await transaction.execute(_SEGMENTS, {"contributions": ids})
    segments: dict[int, set[int]] = {contribution: set() for contribution in ids}
    for row in rows:
        segments[row.contribution].add(row.segment)
    return segments


async def paid_for_job(
    transaction: Transaction, party: str, first_round: str | None, span: tuple[int, int]
) -> Bits:
    """Which curators offset..offset+length-1 of a party have the debit of a job, made with the
    round of its first step and not credited since."""
    offset, length = span
    paid = np.zeros(length, np.bool_)
    if first_round is None:
        return paid
    rows = await transaction.execute(
        select(debits.c.offset, debits.c.length, debits.c.presence)
        .join(contributions, contributions.c.id == debits.c.contribution)
        .where(
            contributions.c.party == party,
            contributions.c.round == first_round,
            debits.c.credited.is_(None),
        )
    )
    for row in rows:
        members = row.offset, presence_bits(row.presence, row.length)
        paid |= members_over(members, offset, length)
    return paid


async def debited_members(
    transaction: Transaction, curators: Mapping[int, int]
) -> dict[int, NDArray[np.bool_]]:
    """Which of a party's curators each contribution debited, whatever was credited since;
    `curators`: how many the party has, by contribution."""
    members = {contribution: np.zeros(count, np.bool_) for contribution, count in curators.items()}
    ids = list(members)
    for start in range(0, len(ids), IDS):
        values = {"contributions": ids[start : start + IDS]}
        for row in await transaction.execute(_MEMBERS, values):
            part = slice(row.offset, row.offset + row.length)
            members[row.contribution][part] |= presence_bits(row.presence, row.length)
    return members


async def list_debits(
    transaction: Transaction,
    party: str,
    unit: PrivacyUnit,
    *,
    since: datetime | None = None,
    overlapping: Window | None = None,
    span: tuple[int, int] | None = None,
) -> list[Debit]:
    """A party's debits with their charges in one unit, oldest first; `span` (offset, length):
    those that concern one of these curators."""
    values: dict[str, Any] = {"of_party": party}
    if span is not None:
        values |= {"after_span": span[0] + span[1], "before_span": span[0]}
    if since is not None:
        values["since"] = since
    if overlapping is not None:
        values |= {"after_window": overlapping.end, "before_window": overlapping.start}
    rows = await transaction.execute(_debits(frozenset(values)), values)
    return [_debit(row, unit) for row in rows]


async def debits_of(
    transaction: Transaction,
    party: str,
    unit: PrivacyUnit,
    position: int,
    before: int | None,
    limit: int,
) -> list[tuple[int, Debit]]:
    """A page of the debits of one curator of a party, by its position, newest first: (id, debit);
    `before`: the id of the last one of the page before."""
    listed: list[tuple[int, Debit]] = []
    concerned = select(debits).where(
        debits.c.party == party,
        debits.c.offset <= position,
        debits.c.offset + debits.c.length > position,
    )
    while len(listed) < limit:
        page = concerned if before is None else concerned.where(debits.c.id < before)
        rows = (await transaction.execute(page.order_by(debits.c.id.desc()).limit(IDS))).all()
        for row in rows:
            if presence_bits(row.presence, row.length)[position - row.offset]:
                listed.append((row.id, _debit(row, unit)))
        if len(rows) < IDS:
            break
        before = rows[-1].id
    return listed[:limit]


def charge_in(row: Row[Any], unit: PrivacyUnit) -> Charge:
    """What a debit's row charges in this unit."""
    return Charge(*(getattr(row, f"{unit}_{name}") for name in _AMOUNTS))


def _debit(row: Row[Any], unit: PrivacyUnit) -> Debit:
    return Debit(
        charge_in(row, unit),
        row.offset,
        presence_bits(row.presence, row.length),
        Window(start=row.window_start, end=row.window_end),
        row.made,
        row.credited is not None,
        row.contribution,
    )


# --- running totals ------------------------------------------------------------------------------


async def totals(
    transaction: Transaction,
    party: str,
    period_s: int,
    now: datetime,
    span: tuple[int, int],
) -> Totals:
    """What the curators offset..offset+length-1 spent, in the unit `curator`, in the current period
    (or the lifetime)."""
    offset, length = span
    start, _ = period_of(now, period_s)
    chunks = _chunks(offset, length)
    values = {**_of(party, chunks), "period": period_s, "start": start}
    rows = await transaction.execute(_TOTALS, values)
    by_chunk = {row.chunk: _totals(row) for row in rows}
    debits = None
    parts = []
    for chunk in chunks:
        first = max(offset, chunk * CHUNK)
        last = min(offset + length, (chunk + 1) * CHUNK)
        if chunk in by_chunk:
            parts.append(by_chunk[chunk].part(first - chunk * CHUNK, last - chunk * CHUNK))
            continue
        if debits is None:
            debits = await list_debits(transaction, party, PrivacyUnit.CURATOR, since=start)
        parts.append(sum_debits(debits, first, last - first, verified_only=period_s != LIFETIME))
    columns = zip(*(part.columns() for part in parts), strict=True)
    return Totals(*(np.concatenate(column) for column in columns))


async def charge_accounts(
    transaction: Transaction,
    party: str,
    curators: int,
    charge: Charge,
    made_at: datetime,
    members: tuple[int, Bits],
    periods: Sequence[int],
    *,
    factor: int = 1,
) -> None:
    """Add a debit to every running total that covers its time (`factor` -1: subtract (e) again).

    `charge`: in the unit `curator`. `members`: offset and bits. Rows for `LIFETIME` and for each
    of `periods` are created if missing; call it *before* the debit's own row is written.
    """
    offset, bits = members
    chunks = _chunks(offset, len(bits))
    rows = await transaction.execute(_COVERING, {**_of(party, chunks), "at": made_at})
    stored = {(row.chunk, row.period_s): row for row in rows}
    account_periods = {LIFETIME, *periods} if factor > 0 else set()
    missing = [key for key in product(chunks, sorted(account_periods)) if key not in stored]
    sizes = {chunk: min(CHUNK, curators - chunk * CHUNK) for chunk in chunks}
    masks = {chunk: members_over(members, chunk * CHUNK, size) for chunk, size in sizes.items()}

    def row_of(chunk: int, period_s: int, packed: dict[str, bytes]) -> dict[str, Any]:
        start, end = period_of(made_at, period_s)
        place = {"party": party, "chunk": chunk, "period_s": period_s}
        return {**place, "period_start": start, "period_end": end, **packed}

    def changed(chunk: int, period_s: int, row: Row[Any]) -> dict[str, Any]:
        charge_of_period, mask = for_account(charge, period_s), masks[chunk]
        return row_of(chunk, period_s, _changed(row, charge_of_period, mask, factor))

    if stored:
        await transaction.execute(
            _CHANGE, [_bound(changed(*key, row)) for key, row in stored.items()]
        )
    if not missing:
        return
    fresh = []
    for period_s in sorted(account_periods):
        start = period_of(made_at, period_s)[0]
        earlier = await list_debits(transaction, party, PrivacyUnit.CURATOR, since=start)
        for chunk in (chunk for chunk, period in missing if period == period_s):
            place, verified_only = chunk * CHUNK, period_s != LIFETIME
            total = sum_debits(earlier, place, sizes[chunk], verified_only=verified_only)
            charge_of_period = for_account(charge, period_s)
            after = total.plus(charge_of_period, masks[chunk], factor=factor)
            fresh.append(row_of(chunk, period_s, _packed(after)))
    await transaction.execute(_ACCOUNT, fresh)


def _chunks(offset: int, length: int) -> range:
    """The chunks that a span of curators meets."""
    return range(offset // CHUNK, (offset + length - 1) // CHUNK + 1)


def _of(party: str, chunks: range) -> dict[str, Any]:
    return {"of_party": party, "first": chunks.start, "end": chunks.stop}


_KEYS: Final = ("party", "chunk", "period_s", "period_start")
_AMOUNTS: Final = tuple(field.name for field in fields(Charge))
_CHANGE: Final = (
    update(accounts)
    .where(*(accounts.c[name] == bindparam(f"of_{name}") for name in _KEYS))
    .values({name: bindparam(f"new_{name}") for name in _AMOUNTS})
)


def _bound(row: dict[str, Any]) -> dict[str, Any]:
    """A row's values under the names that `_CHANGE` binds."""
    keys = {f"of_{name}": row[name] for name in _KEYS}
    return keys | {f"new_{name}": row[name] for name in _AMOUNTS}


def _totals(row: Row[Any]) -> Totals:
    return Totals(*map(ledger.unpack_run_lengths, _blobs(row)))


def _blobs(row: Row[Any]) -> tuple[bytes, ...]:
    return tuple(getattr(row, name) for name in _AMOUNTS)


def _changed(row: Row[Any], charge: Charge, members: Bits, factor: int) -> dict[str, bytes]:
    """An account's columns with a charge added. If everyone is charged, a run stays a run."""
    if not members.all():
        return _packed(_totals(row).plus(charge, members, factor=factor))
    values, lengths = zip(*map(ledger.unpack_runs, _blobs(row)), strict=True)
    after = Totals(*values).plus(charge, members[:1], factor=factor)
    columns = zip(after.columns(), lengths, strict=True)
    packed = [ledger.pack_runs(*column) for column in columns]
    return dict(zip(_AMOUNTS, packed, strict=True))


def _packed(totals: Totals) -> dict[str, bytes]:
    columns = zip(_AMOUNTS, totals.columns(), strict=True)
    return {name: ledger.pack_run_lengths(column) for name, column in columns}


async def credit(transaction: Transaction, contribution: int, now: datetime) -> list[Row[Any]]:
    """Mark a contribution's debits as credited; returns the rows that were not before. A debit
    without a verified figure is not changed (`Debit.counted`)."""
    rows = await transaction.execute(
        select(debits).where(debits.c.contribution == contribution, debits.c.credited.is_(None))
    )
    uncredited = list(rows.all())
    await transaction.execute(
        update(debits).where(debits.c.id.in_([row.id for row in uncredited])).values(credited=now)
    )
    return uncredited


async def note_refused(
    transaction: Transaction, contribution: int, refused: Mapping[int, str]
) -> int:
    """Record with a contribution's debits that their proofs were refused; returns how many were.

    `refused`: the reasons by the curators' positions in their party. A part is refused as a
    whole, so each reason is the debit's.
    """
    noted = 0
    for row in await transaction.execute(
        select(debits).where(debits.c.contribution == contribution)
    ):
        present = np.flatnonzero(presence_bits(row.presence, row.length)) + row.offset
        reasons = sorted({refused[at] for at in present.tolist() if at in refused})
        if reasons:
            noted += 1
            await transaction.execute(
                update(debits).where(debits.c.id == row.id).values(refused=", ".join(reasons))
            )
    return noted


# --- refusals ------------------------------------------------------------------------------------


async def add_refusal(
    transaction: Transaction,
    contribution: int,
    span: tuple[int, int],
    members: bytes,
    ground: tuple[str, str, str],
    now: datetime,
) -> None:
    """Record why curators of a span do not participate: (name, detail, figures as JSON), public."""
    name, detail, figures = ground
    values = {
        "contribution": contribution,
        "offset": span[0],
        "length": span[1],
        "members": members,
        "name": name,
        "detail": detail,
        "figures": figures,
        "made": now,
    }
    await transaction.execute(_ADD_REFUSAL, values)


async def forget_refusals(
    transaction: Transaction, contribution: int, offsets: Sequence[int]
) -> None:
    """Before the spans that begin there are decided again (after a crash)."""
    values = [{"of_contribution": contribution, "at_offset": offset} for offset in offsets]
    await transaction.execute(_FORGET, values)
