"""The ledger's rows: events, checkpoint, disclosures, acknowledged debits, lasting seals.

Lasting seals verify for years: of transcripts by aggregators, of the ledger's head by day. Days are
counted from 1970-01-01 (UTC).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Row, bindparam, delete, func, insert, select, update

from common.store.transactions import Transaction
from coordinator.models.budget_ledger import GENESIS, Checkpoint, Event, Figures, Kind
from coordinator.store.tables import (
    acknowledgements,
    curators,
    disclosures,
    ledger_checkpoints,
    ledger_events,
    ledger_seals,
    parties,
    transcript_seals,
)
from tacit import sets
from tacit.protocol.trust import ShownLedgerSeal, ShownSeal

CHUNK: Final = 2_000
# Built once, so that it is compiled once.
_ADD_EVENTS = insert(ledger_events)
_HEAD = (
    select(ledger_events.c.seq, ledger_events.c.hash).order_by(ledger_events.c.seq.desc()).limit(1)
)
_AFTER = (
    select(ledger_events)
    .where(ledger_events.c.seq > bindparam("last"))
    .order_by(ledger_events.c.seq)
    .limit(bindparam("most"))
)


def _event(row: Row[Any]) -> Event:
    return Event(
        row.seq,
        row.time,
        Kind(row.kind),
        row.actor,
        row.first,
        row._mapping["count"],
        json.loads(row.payload),
        row.previous,
        row.hash,
    )


async def add(transaction: Transaction, events: Sequence[Event]) -> None:
    """Write events; the database refuses a number that is taken."""
    rows = [
        {
            "seq": event.seq,
            "time": event.time,
            "kind": event.kind.value,
            "actor": event.actor,
            "first": event.first,
            "count": event.count,
            "payload": json.dumps(event.payload),
            "previous": event.previous,
            "hash": event.hash,
        }
        for event in events
    ]
    await transaction.execute(_ADD_EVENTS, rows)


async def head(transaction: Transaction) -> tuple[int, bytes]:
    """(number, hash) of the newest event."""
    row = (await transaction.execute(_HEAD)).first()
    return (0, GENESIS) if row is None else (row.seq, row.hash)


async def after(transaction: Transaction, seq: int, limit: int = CHUNK) -> list[Event]:
    """The events that follow a number, oldest first."""
    rows = await transaction.execute(_AFTER, {"last": seq, "most": limit})
    return [_event(row) for row in rows]


async def chunks(transaction: Transaction, seq: int = 0) -> AsyncIterator[list[Event]]:
    """All events that follow a number, in chunks."""
    while events := await after(transaction, seq):
        yield events
        seq = events[-1].seq


async def about(transaction: Transaction, number: int, seq: int, limit: int) -> list[Event]:
    """The events after `seq` whose run holds a curator."""
    rows = await transaction.execute(
        select(ledger_events)
        .where(
            ledger_events.c.seq > seq,
            ledger_events.c.first <= number,
            ledger_events.c.first + ledger_events.c.count > number,
        )
        .order_by(ledger_events.c.seq)
        .limit(limit)
    )
    return [_event(row) for row in rows]


async def of_kinds(transaction: Transaction, kinds: Sequence[Kind], seq: int) -> list[Event]:
    """The events of some kinds after a number, oldest first."""
    rows = await transaction.execute(
        select(ledger_events)
        .where(ledger_events.c.seq > seq, ledger_events.c.kind.in_([kind.value for kind in kinds]))
        .order_by(ledger_events.c.seq)
    )
    return [_event(row) for row in rows]


async def count_kinds(
    transaction: Transaction, kinds: Sequence[Kind], seq: int
) -> tuple[dict[Kind, int], int]:
    """How many events of some kinds come after a number, and the number of the last of them."""
    result = await transaction.execute(
        select(ledger_events.c.kind, func.count(), func.max(ledger_events.c.seq))
        .where(ledger_events.c.seq > seq, ledger_events.c.kind.in_([kind.value for kind in kinds]))
        .group_by(ledger_events.c.kind)
    )
    rows = result.all()
    counts = {Kind(kind): count for kind, count, _ in rows}
    return counts, max((last for _, _, last in rows), default=seq)


async def hash_of(transaction: Transaction, seq: int) -> bytes | None:
    """The hash of an event; that of no event at all for 0."""
    if seq == 0:
        return GENESIS
    result = await transaction.execute(
        select(ledger_events.c.hash).where(ledger_events.c.seq == seq)
    )
    value: bytes | None = result.scalar_one_or_none()
    return value


# --- checkpoint ----------------------------------------------------------------------------------


async def checkpoint(transaction: Transaction) -> Checkpoint | None:
    """The newest checkpoint of the state."""
    row = (await transaction.execute(select(ledger_checkpoints))).first()
    if row is None:
        return None
    figures = Figures(row.seq, row.head, row.digest)
    return Checkpoint(figures, row.version, row.content, row.signature, row.doubted)


async def checkpoint_seq(transaction: Transaction) -> tuple[int, bool]:
    """(last event's number, whether it is doubted) of the newest checkpoint; (0, False) without."""
    table = ledger_checkpoints.c
    row = (await transaction.execute(select(table.seq, table.doubted))).first()
    return (0, False) if row is None else (row.seq, row.doubted)


async def put_checkpoint(transaction: Transaction, checkpoint: Checkpoint) -> None:
    """Store a checkpoint in place of the one before."""
    figures = checkpoint.figures
    await transaction.execute(delete(ledger_checkpoints))
    await transaction.execute(
        insert(ledger_checkpoints).values(
            id=1,
            seq=figures.seq,
            head=figures.head,
            digest=figures.digest,
            version=checkpoint.version,
            content=checkpoint.content,
            signature=checkpoint.signature,
            doubted=checkpoint.doubted,
        )
    )


async def doubt_checkpoint(transaction: Transaction) -> None:
    """The rows did not verify: the next start reads them all before it is ready."""
    await transaction.execute(update(ledger_checkpoints).values(doubted=True))


# --- disclosures ---------------------------------------------------------------------------------


async def add_disclosure(transaction: Transaction, digest: str, body: str) -> None:
    """Keep a disclosure, apart from the events."""
    await transaction.execute(insert(disclosures).values(digest=digest, body=body))


async def load_disclosures(transaction: Transaction, digests: Iterable[str]) -> dict[str, str]:
    """Those that are kept, by digest."""
    digests_left, body_of = list(digests), {}
    for start in range(0, len(digests_left), CHUNK):
        rows = await transaction.execute(
            select(disclosures).where(disclosures.c.digest.in_(digests_left[start : start + CHUNK]))
        )
        body_of.update({row.digest: row.body for row in rows})
    return body_of


# --- curators by name ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CuratorRow:
    """An enrolled curator."""

    number: int
    id: str
    party: str


async def curators_named(transaction: Transaction, ids: Sequence[str]) -> list[CuratorRow]:
    """Those of these ids that are enrolled, by number."""
    rows_found: list[CuratorRow] = []
    for start in range(0, len(ids), CHUNK):
        rows = await transaction.execute(
            select(curators.c.number, curators.c.id, curators.c.party).where(
                curators.c.id.in_(ids[start : start + CHUNK])
            )
        )
        rows_found += [CuratorRow(row.number, row.id, row.party) for row in rows]
    return sorted(rows_found, key=lambda item: item.number)


async def curator_names(transaction: Transaction, numbers: Sequence[int]) -> dict[int, str]:
    """The ids of some roster numbers."""
    rows = await transaction.execute(
        select(curators.c.number, curators.c.id).where(curators.c.number.in_(list(numbers)))
    )
    return {row.number: row.id for row in rows}


async def runs_of_parties(transaction: Transaction) -> list[tuple[str, int, int, bool]]:
    """(id, first number, curators, whether it left) of every party, by number."""
    rows = await transaction.execute(select(parties).order_by(parties.c.first))
    return [(row.id, row.first, row.curators, row.left is not None) for row in rows]


# --- acknowledgements ----------------------------------------------------------------------------


# For every lone curator of every round: made once, and so compiled once.
_FORGET = delete(acknowledgements).where(
    acknowledgements.c.round_id == bindparam("of_round"),
    acknowledgements.c.party == bindparam("of_party"),
)
_ADD = insert(acknowledgements)


async def put_acknowledgement(
    transaction: Transaction, round_id: str, party: str, members: bytes, made_at: datetime
) -> None:
    """Store which of its curators a party debited for a round; replaces its earlier report."""
    await transaction.execute(_FORGET, {"of_round": round_id, "of_party": party})
    compacted = sets.compact(members)
    values = {"round_id": round_id, "party": party, "members": compacted, "made": made_at}
    await transaction.execute(_ADD, values)


async def list_acknowledgements(
    transaction: Transaction, round_id: str
) -> list[tuple[str, int, int, bytes]]:
    """(party, first number, curators, bitmap over its curators) for a round."""
    rows = await transaction.execute(
        select(
            acknowledgements.c.party,
            parties.c.first,
            parties.c.curators,
            acknowledgements.c.members,
        )
        .join(parties, parties.c.id == acknowledgements.c.party)
        .where(acknowledgements.c.round_id == round_id)
        .order_by(parties.c.first)
    )
    return [
        (row.party, row.first, row.curators, sets.expanded(row.members, row.curators))
        for row in rows
    ]


# Seals that are believed for years: of transcripts by aggregators, of the ledger's head by day.
#
# Days are counted from 1970-01-01 (UTC).


async def put_transcript_seals(
    transaction: Transaction, round_id: str, seals: Sequence[ShownSeal]
) -> None:
    """Store the seals of a round; they replace earlier ones of the same aggregators."""
    table = transcript_seals
    for seal in seals:
        mine = (table.c.round == round_id) & (table.c.aggregator == seal.aggregator)
        await transaction.execute(delete(table).where(mine))
        text = seal.model_dump_json(exclude_none=True)
        await transaction.execute(
            insert(table).values(round=round_id, aggregator=seal.aggregator, content=text)
        )


async def seals_of(transaction: Transaction, round_id: str) -> list[str]:
    """The seals of a round's transcript, by aggregator, in JSON."""
    table = transcript_seals
    query = select(table.c.content).where(table.c.round == round_id).order_by(table.c.aggregator)
    return list((await transaction.execute(query)).scalars())


async def has_ledger_seal(transaction: Transaction, day: int) -> bool:
    """Whether the ledger's head was sealed on a day."""
    query = select(ledger_seals.c.day).where(ledger_seals.c.day == day)
    return (await transaction.execute(query)).first() is not None


async def add_ledger_seal(transaction: Transaction, day: int, seal: ShownLedgerSeal) -> None:
    """Keep the seal of a day."""
    text = seal.model_dump_json(exclude_none=True)
    await transaction.execute(insert(ledger_seals).values(day=day, content=text))


async def list_ledger_seals(
    transaction: Transaction, after: int | None, limit: int
) -> list[tuple[int, str]]:
    """(day, seal in JSON) of the days after one, the oldest first."""
    query = select(ledger_seals.c.day, ledger_seals.c.content).order_by(ledger_seals.c.day)
    if after is not None:
        query = query.where(ledger_seals.c.day > after)
    return [(row.day, row.content) for row in await transaction.execute(query.limit(limit))]
