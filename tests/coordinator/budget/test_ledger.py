"""A start from a checkpoint: what is taken from it, what is verified, and when it is not used."""

from __future__ import annotations

import random
import zlib
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import delete, update
from structlog.testing import capture_logs

from common.runtime.clock import SystemClock
from common.store.database import migrate, open_database
from common.store.transactions import Database
from coordinator.budget import ledger as ledger_module
from coordinator.budget.ledger import Ledger, Watch
from coordinator.errors import LedgerBroken
from coordinator.models.budget_ledger import (
    VERSION,
    Checkpoint,
    Draft,
    Event,
    Kind,
    MemberSet,
    chain,
    packed,
    unpacked,
)
from coordinator.services import MIGRATIONS
from coordinator.store import ledger as store
from coordinator.store.tables import ledger_checkpoints, ledger_events
from tacit.crypto.signing import Identity
from tests.coordinator.budget.test_state import PRICE, Book, step

NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)
OURS = Identity.generate()


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    found = open_database(f"sqlite:///{tmp_path / 'test.db'}")
    await migrate(found, MIGRATIONS)
    yield found
    await found.dispose()


def drafts(first: int, count: int) -> list[Draft]:
    """Rounds of four curators: half of them are released without the last curator."""
    everybody = np.ones(4, np.bool_)
    came = MemberSet.of(np.array([True, True, True, False]))
    found = [] if first else [Draft(Kind.JOINED, "test", {"party": "host"}, 0, 4)]
    for turn in range(first, first + count):
        payload: dict[str, Any] = {
            "round": f"round-{turn}",
            "query": "q",
            "made": turn,
            "window": [turn, turn + 3],
            "price": PRICE.to_payload(),
            "members": MemberSet.of(everybody).text,
            "size": 4,
            "operators": ["a"],
        }
        found.append(Draft(Kind.ROUND_DEBITED, "test", payload))
        if turn % 2:
            left = {"round": f"round-{turn}", "members": came.text, "size": 4}
            found.append(Draft(Kind.ROUND_RELEASED, "test", left))
    return found


async def append(database: Database, some: list[Draft]) -> list[Event]:
    async with database.begin() as transaction:
        seq, head = await store.head(transaction)
        events = list(chain(some, seq, head, NOON))
        await store.add(transaction, events)
    return events


async def started(database: Database, identity: Identity = OURS) -> Ledger:
    ledger = Ledger(database, SystemClock(), lambda: identity)
    await ledger.load()
    return ledger


async def verified(ledger: Ledger) -> Ledger:
    while await ledger.verify_more():
        pass
    return ledger


async def change(database: Database, statement: Any) -> None:
    async with database.begin() as transaction:
        await transaction.execute(statement)


async def kept(database: Database) -> Checkpoint:
    async with database.reading() as transaction:
        found = await store.checkpoint(transaction)
    assert found is not None
    return found


async def test_a_start_from_a_checkpoint_leads_to_the_same_state(database: Database) -> None:
    await append(database, drafts(0, 40))
    first = await started(database)
    assert (first.verified, first._check) == (61, None)
    await append(database, drafts(40, 7))
    second = await started(database)
    assert second.verified == 0
    assert second.folded.seq == 71
    async with database.reading() as transaction:
        plain = await first.current(transaction)
    assert second.folded.figures() == plain.figures()
    await verified(second)
    assert (second.verified, second._check, second.broken) == (71, None, None)


async def test_a_kept_state_goes_on_as_one_that_never_stopped() -> None:
    """The states of the random book of `test_state`, put away and taken up again and again."""
    chance, book = random.Random(11), Book()
    kept_state = None
    for turn in range(400):
        before = len(book.events)
        step(book, chance, turn)
        if kept_state is not None:
            for event in book.events[before:]:
                kept_state.fold(event)
        if turn % 40 == 7:
            source = kept_state or book.state
            snapshot = source.snapshot()
            assert snapshot.figures() == book.state.figures()
            parts = unpacked(packed(snapshot.parts))
            kept_state = type(book.state).of(source.seq, source.head, parts, book.told.__getitem__)
            assert kept_state.figures() == book.state.figures()
            assert kept_state.roster.aggregates() == book.state.roster.aggregates()
            assert kept_state.roster.counts() == book.state.roster.counts()
            assert kept_state.roster.undeclared == book.state.roster.undeclared
    assert kept_state is not None
    assert kept_state.figures() == book.state.figures()


@pytest.mark.parametrize("what", ["signature", "signer", "version", "content", "digest", "seq"])
async def test_a_checkpoint_that_is_not_ours_is_not_used(database: Database, what: str) -> None:
    await append(database, drafts(0, 20))
    await started(database)
    mine, table = await kept(database), ledger_checkpoints
    match what:
        case "signature":
            changed: dict[str, Any] = {"signature": bytes(64)}
        case "signer":
            other = replace(mine, signature=b"")
            parts = unpacked(other.content)
            forged = Checkpoint.of(mine.figures, parts, Identity.generate())
            changed = {"signature": forged.signature}
        case "version":
            changed = {"version": VERSION + 1}
        case "content":
            changed = {"content": mine.content[:-1] + bytes([mine.content[-1] ^ 1])}
        case "digest":
            changed = {"digest": bytes(32)}
        case _:
            changed = {"seq": 10_000}
    await change(database, update(table).values(**changed))
    with capture_logs() as logs:
        again = await started(database)
    assert "ledger_checkpoint_not_used" in [line["event"] for line in logs]
    assert (again.verified, again.broken) == (31, None)
    assert await kept(database) == mine, "a good one is put in its place"


async def test_a_state_of_another_ledger_is_a_break_though_it_is_signed(
    database: Database,
) -> None:
    """Rows and checkpoint contradict each other: nothing is opened, before and after a start."""
    await append(database, drafts(0, 20))
    ledger = await started(database)
    mine = await kept(database)
    parts = unpacked(mine.content)
    parts["spending_rounds_credited"][0] = 1
    state = type(ledger.folded).of(mine.figures.seq, mine.figures.head, parts)
    state.spending._instants._forget()
    state.spending._instants._costs[:] = -1
    snapshot = state.snapshot()
    signed = Checkpoint.of(snapshot.figures(), snapshot.parts, OURS)
    async with database.begin() as transaction:
        await store.put_checkpoint(transaction, signed)
    again = await started(database)
    assert again.broken is None
    await verified(again)
    assert again.broken is not None
    assert (again.broken.seq, again.broken.reason) == (
        31,
        "the stored state differs from what the rows give",
    )
    with pytest.raises(LedgerBroken):
        await append_by(again, database)
    assert (await started(database)).broken == again.broken, "found before it was ready"


async def append_by(ledger: Ledger, database: Database) -> None:
    async with database.begin() as transaction:
        await ledger.append(transaction, [Draft(Kind.FLAGGED, "test", {}, 0, 1)])


@pytest.mark.parametrize(
    ("row", "how"), [(2, "edit"), (31, "edit"), (31, "remove"), (33, "remove")]
)
async def test_a_bad_row_is_found_before_or_while_it_serves(
    database: Database, row: int, how: str
) -> None:
    """Rows after the checkpoint, and the one at which it stands, before the start is ready."""
    await append(database, drafts(0, 20))
    await started(database)
    await append(database, drafts(20, 4))
    table = ledger_events
    if how == "edit":
        await change(database, update(table).where(table.c.seq == row).values(actor="nobody"))
    else:
        await change(database, delete(table).where(table.c.seq == row))
    again = await started(database)
    assert (again.broken is not None) == (row > 31 or (row == 31 and how == "remove"))
    await verified(again)
    assert again.broken is not None
    assert again.broken.seq == row
    assert await again.readiness() is not None
    assert (await kept(database)).doubted
    assert (await started(database)).broken == again.broken, "found before it was ready"


async def test_a_repaired_ledger_is_trusted_again(database: Database) -> None:
    await append(database, drafts(0, 20))
    await started(database)
    table = ledger_events
    await change(database, update(table).where(table.c.seq == 5).values(actor="nobody"))
    await verified(await started(database))
    assert (await kept(database)).doubted
    await change(database, update(table).where(table.c.seq == 5).values(actor="test"))
    again = await started(database)
    assert (again.broken, again.verified) == (None, 31)
    assert not (await kept(database)).doubted


async def test_a_tail_cut_off_behind_a_checkpoint_is_missed(database: Database) -> None:
    await append(database, drafts(0, 20))
    await started(database)
    await change(database, delete(ledger_events).where(ledger_events.c.seq > 25))
    again = await started(database)
    assert again.broken is not None
    assert again.broken.reason == "the tail is missing: row 31 was there once"


async def test_the_checkpoint_is_renewed_while_it_runs(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "RENEWED_AFTER", 10)
    await append(database, drafts(0, 2))
    ledger = await started(database)
    assert (await kept(database)).figures.seq == 4
    watch = Watch(ledger)
    for first, expected in ((2, 4), (8, 19)):
        await append(database, drafts(first, 6 if first == 2 else 4))
        async with database.reading() as transaction:
            await ledger.follow(transaction)
        await watch.look()
        assert (await kept(database)).figures.seq == expected
    await watch.stop()


async def test_no_checkpoint_takes_the_place_of_a_newer_or_doubted_one(database_url: str) -> None:
    database = open_database(database_url)
    await migrate(database, MIGRATIONS)
    await append(database, drafts(0, 2))
    old = await started(database)
    await append(database, drafts(2, 6))
    newer = await started(database)
    await newer.checkpoint()
    assert (await kept(database)).figures.seq == 13
    state = old.folded
    assert state.seq == 4
    assert old._checkpoint(state).figures.seq == 4
    async with database.begin() as transaction:
        await store.doubt_checkpoint(transaction)
    await append(database, drafts(8, 2))
    await old.checkpoint()
    assert (await kept(database)).figures.seq == 13
    await old.checkpoint(instead=True)
    assert (await kept(database)).figures.seq == 16
    await database.dispose()


def test_content_that_is_none_is_refused() -> None:
    parts = {
        "numbers": np.array([5, -3, 2**62, -(2**62)], np.int64),
        "small": np.array([3, 250], np.uint8),
        "table": np.arange(6, dtype=np.int64).reshape(1, 2, 3),
        "nothing": np.zeros((0, 4), np.int64),
        "text": b"abc",
    }
    content = packed(parts)
    again = unpacked(content)
    assert again.pop("text") == b"abc"
    for name, part in again.items():
        assert part.dtype == parts[name].dtype
        assert part.shape == parts[name].shape
        assert part.tolist() == parts[name].tolist()
        part += 1  # a state may write into what it was given
    for bad in (b"", content[:3], content[:-4], zlib.compress(b"x")):
        with pytest.raises(ValueError):
            unpacked(bad)
