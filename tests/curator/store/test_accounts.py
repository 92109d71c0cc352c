"""The ledger's rows: running totals are the sums of the debits, for any span of curators."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, astuple
from datetime import UTC, datetime, timedelta
from itertools import count

import numpy as np
import pytest
from sqlalchemy import insert, select

from common.store.transactions import Transaction
from curator import ledger
from curator.ledger import INFINITE, LIFETIME, Bits, Charge, Totals
from curator.store import tables
from curator.store.accounts import (
    CHUNK,
    NewDebit,
    add_debits,
    add_refusal,
    charge_accounts,
    credit,
    debited_members,
    debited_segments,
    forget_refusals,
    list_debits,
    totals,
)
from tacit import sets
from tacit.query.fields import Window
from tacit.query.terms import PrivacyUnit

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
COVERS = Window(start=NOON - HOUR, end=NOON)
ONE = Charge(1, 10, 100, 1000, 3, 30, 300, 3000)
TWO = Charge(2, 20, 200, 2000, 6, 60, 600, 6000)
UNVERIFIED = Charge(INFINITE, 0, 7, 0, INFINITE, 0, 9, 0)
PERIOD_S = 3600
EDGES = [(0, 1), (CHUNK - 1, 1), (CHUNK, 1), (CHUNK - 1, 2), (5, CHUNK), (CHUNK + 3, 20)]
"""Spans before, at and across the end of a chunk."""
_numbers = count()


def bits(*numbers: int, length: int) -> Bits:
    members = np.zeros(length, np.bool_)
    members[list(numbers)] = True
    return members


def row(
    members: Bits,
    charge: Charge = ONE,
    *,
    offset: int = 0,
    made: datetime = NOON,
    window: Window = COVERS,
    contribution: int | None = None,
    segment: int = 0,
    party: str = "gateway",
) -> NewDebit:
    return NewDebit(
        contribution=contribution,
        party=party,
        segment=segment,
        part=0,
        offset=offset,
        length=members.size,
        presence=sets.pack(members),
        unit=PrivacyUnit.CURATOR,
        charges={PrivacyUnit.CURATOR: charge, PrivacyUnit.RECORD: TWO},
        window=window,
        made=made,
        used=b"",
        clamped=b"",
        kept=b"",
    )


async def pay(
    transaction: Transaction, curators: int, new: NewDebit, periods: tuple[int, ...] = ()
) -> None:
    """A debit as a contribution makes it: the running totals first, then its row."""
    members = (new.offset, sets.unpack(new.presence, new.length))
    charge = new.charges[PrivacyUnit.CURATOR]
    await charge_accounts(transaction, new.party, curators, charge, new.made, members, periods)
    await add_debits(transaction, [new])


async def party(transaction: Transaction) -> None:
    """Make the party `gateway` unless it is there."""
    if (await transaction.execute(select(tables.parties))).first() is None:
        await transaction.execute(
            insert(tables.parties).values(
                id="gateway",
                kind="host",
                state="enrolled",
                deployment="test",
                identity=b"",
                coordinator_url="",
                first_key=0,
                curators=10,
                created=NOON,
            )
        )


async def contribution(
    transaction: Transaction, query_hash: bytes = b"", window: Window = COVERS
) -> int:
    """The key of a new contribution of the party `gateway`, to a round `round-N`."""
    name = f"round-{next(_numbers)}"
    await party(transaction)
    await transaction.execute(
        insert(tables.rounds).values(
            id=name,
            hash=b"",
            descriptor="{}",
            deployment="test",
            query_hash=query_hash,
            window_start=window.start,
            window_end=window.end,
            opened=NOON,
            deadline=NOON + HOUR,
        )
    )
    done = await transaction.execute(
        insert(tables.contributions)
        .values(party="gateway", round=name, state="sent", send_at=NOON, planned=NOON)
        .returning(tables.contributions.c.id)
    )
    return int(done.scalar_one())


async def rows(transaction: Transaction) -> set[tuple[int, int, datetime]]:
    """Chunk, length and start of the period of every running total."""
    account = tables.accounts.c
    found = await transaction.execute(select(account.chunk, account.period_s, account.period_start))
    return {(item.chunk, item.period_s, item.period_start) for item in found}


def plain(found: Totals) -> list[list[int]]:
    return [column.tolist() for column in found.columns()]


async def test_running_totals_are_the_sums_of_the_debits_of_each_curator(
    transaction: Transaction,
) -> None:
    curators = 2 * CHUNK + 100
    random = np.random.default_rng(3)
    lifetime, period = (np.zeros((8, curators), np.int64) for _ in range(2))
    debits = [
        (0, curators, ONE),
        (CHUNK + 5, 1, UNVERIFIED),
        (CHUNK - 2, 4, TWO),
        (10, CHUNK, ONE),
        (2 * CHUNK, 100, TWO),
        (CHUNK + 6, 1, UNVERIFIED),
    ]
    for place, (offset, length, charge) in enumerate(debits):
        members = random.random(length) < 0.6
        members[[0, -1]] = True
        # The period's rows are made only now and then: what went before is summed from the debits.
        periods = (PERIOD_S,) if place >= 2 else ()
        made = NOON + timedelta(minutes=place)
        new = row(members, charge, offset=offset, made=made)
        await pay(transaction, curators, new, periods)
        amounts = np.array([[amount] for amount in astuple(charge)])
        lifetime[:, offset : offset + length] += amounts * members
        counted = charge if charge.verified else charge.everyones
        period[:, offset : offset + length] += np.array([astuple(counted)]).T * members
    lifetime = np.minimum(lifetime, INFINITE)
    now = NOON + timedelta(minutes=30)
    for span in [(0, curators), *EDGES, (2 * CHUNK - 1, 101)]:
        here = slice(span[0], span[0] + span[1])
        # 7200 is a period that no row is kept for.
        for period_s, wanted in ((LIFETIME, lifetime), (PERIOD_S, period), (7200, period)):
            found = await totals(transaction, "gateway", period_s, now, span)
            assert plain(found) == wanted[:, here].tolist()
    elsewhere = await totals(transaction, "another", LIFETIME, now, (0, 2))
    assert plain(elsewhere) == [[0, 0]] * 8


async def test_a_chunk_holds_16384_curators_and_the_last_one_the_rest(
    transaction: Transaction,
) -> None:
    """Rows that are stored are read with the same size for ever."""
    for number, chunk, size in ((16_383, 0, 16_384), (16_384, 1, 3_616)):
        party = f"party-{number}"
        new = row(bits(0, length=1), offset=number, party=party)
        await pay(transaction, 20_000, new)
        account = tables.accounts.c
        query = select(account.chunk, account.epsilon).where(account.party == party)
        found = (await transaction.execute(query)).one()
        assert (found.chunk, ledger.unpack_run_lengths(found.epsilon).size) == (chunk, size)


async def test_a_total_changes_with_a_debit_in_its_period_and_no_other(
    transaction: Transaction,
) -> None:
    """A period holds its start and not its end; another chunk's total stays as it is."""
    curators = CHUNK + 1
    everyone = np.ones(curators, np.bool_)
    await pay(transaction, curators, row(everyone, made=NOON), (PERIOD_S,))
    starts = {(chunk, LIFETIME) for chunk in (0, 1)} | {(chunk, PERIOD_S) for chunk in (0, 1)}
    assert {item[:2] for item in await rows(transaction)} == starts
    first = bits(0, length=1)
    for made in (NOON, NOON + HOUR - timedelta(microseconds=1), NOON + HOUR):
        await pay(transaction, curators, row(first, TWO, made=made), (PERIOD_S,))
    later = (await rows(transaction)) - {(0, PERIOD_S, NOON), (1, PERIOD_S, NOON)}
    assert {item for item in later if item[1] == PERIOD_S} == {(0, PERIOD_S, NOON + HOUR)}

    async def epsilon(period_s: int, now: datetime) -> list[int]:
        found = await totals(transaction, "gateway", period_s, now, (0, curators))
        return [int(found.epsilon[0]), int(found.epsilon[1]), int(found.epsilon[-1])]

    assert await epsilon(PERIOD_S, NOON) == [5, 1, 1]
    assert await epsilon(PERIOD_S, NOON + HOUR) == [2, 0, 0]
    assert await epsilon(LIFETIME, NOON) == [7, 1, 1]


async def test_a_credit_takes_back_from_the_totals_that_there_are(
    transaction: Transaction,
) -> None:
    members = bits(1, 2, length=4)
    await pay(transaction, 4, row(members, TWO), (PERIOD_S,))
    before = await rows(transaction)
    taken = TWO.assumed
    await charge_accounts(
        transaction, "gateway", 4, taken, NOON, (0, bits(2, length=4)), (60,), factor=-1
    )
    assert await rows(transaction) == before
    for period_s in (LIFETIME, PERIOD_S):
        found = await totals(transaction, "gateway", period_s, NOON, (0, 4))
        kept, left = [TWO.epsilon, TWO.delta, TWO.rho, TWO.rho_delta], TWO.everyones
        spent = plain(found)
        assert [spent[0], spent[1], spent[4], spent[5]] == [[0, each, 0, 0] for each in kept]
        both = [left.epsilon_all, left.delta_all, left.rho_all, left.rho_delta_all]
        assert [spent[2], spent[3], spent[6], spent[7]] == [[0, each, each, 0] for each in both]


async def listed(transaction: Transaction, **asked: object) -> list[int]:
    """The debits that are listed, by their first curator."""
    found = await list_debits(transaction, "gateway", PrivacyUnit.CURATOR, **asked)
    return [item.offset for item in found]


async def test_debits_are_listed_by_party_span_time_and_window(
    transaction: Transaction,
) -> None:
    later = Window(start=NOON, end=NOON + HOUR)
    three = np.ones(3, np.bool_)
    await add_debits(transaction, [row(three, offset=16, made=NOON)])
    await add_debits(transaction, [row(three, TWO, offset=24, made=NOON + HOUR, window=later)])
    await add_debits(transaction, [row(three, offset=99, party="another")])
    assert await listed(transaction) == [16, 24]
    for since, wanted in ((NOON, [16, 24]), (NOON + timedelta(microseconds=1), [24])):
        assert await listed(transaction, since=since) == wanted
    for start, end, wanted in (
        (NOON - 2 * HOUR, NOON - HOUR, []),
        (NOON - 2 * HOUR, NOON - HOUR + timedelta(microseconds=1), [16]),
        (NOON - timedelta(microseconds=1), NOON, [16]),
        (NOON, NOON + HOUR, [24]),
        (NOON + HOUR, NOON + 2 * HOUR, []),
        (NOON - timedelta(microseconds=1), NOON + timedelta(microseconds=1), [16, 24]),
    ):
        assert await listed(transaction, overlapping=Window(start=start, end=end)) == wanted
    for span, wanted in (
        ((0, 16), []),
        ((0, 17), [16]),
        ((18, 1), [16]),
        ((19, 5), []),
        ((19, 6), [24]),
        ((17, 8), [16, 24]),
        ((26, 100), [24]),
        ((27, 100), []),
    ):
        assert await listed(transaction, span=span) == wanted
    first, second = await list_debits(transaction, "gateway", PrivacyUnit.CURATOR)
    assert (first.charge, first.window, first.made) == (ONE, COVERS, NOON)
    assert (second.charge, second.members.tolist()) == (TWO, [True] * 3)
    assert not first.credited
    for item in await list_debits(transaction, "gateway", PrivacyUnit.RECORD):
        assert item.charge == TWO


async def test_what_a_contribution_debited_is_its_own(transaction: Transaction) -> None:
    one, other, none = [await contribution(transaction) for _ in range(3)]
    of_one = [
        row(bits(0, length=2), contribution=one, offset=2, segment=0),
        row(bits(1, 2, length=3), contribution=one, offset=5, segment=4),
    ]
    await add_debits(transaction, of_one)
    await add_debits(transaction, [row(bits(0, length=1), contribution=other, offset=0, segment=1)])
    assert await debited_segments(transaction, [one, none]) == {one: {0, 4}, none: set()}
    found = await debited_members(transaction, {one: 10, other: 10, none: 3})
    assert {key: np.flatnonzero(members).tolist() for key, members in found.items()} == {
        one: [2, 6, 7],
        other: [0],
        none: [],
    }
    assert {key: members.size for key, members in found.items()} == {one: 10, other: 10, none: 3}


async def test_a_contribution_is_credited_once(transaction: Transaction) -> None:
    one, other = [await contribution(transaction) for _ in range(2)]
    await add_debits(transaction, [row(bits(0, length=1), contribution=one, offset=1)])
    await add_debits(transaction, [row(bits(0, length=1), contribution=other, offset=2)])
    found = await credit(transaction, one, NOON)
    assert [item.offset for item in found] == [1]
    assert await credit(transaction, one, NOON + HOUR) == []
    credited = {
        item.offset: item.credited
        for item in await list_debits(transaction, "gateway", PrivacyUnit.CURATOR)
    }
    assert credited == {1: True, 2: False}


def test_a_debit_cannot_be_changed() -> None:
    new = row(bits(0, length=1))
    with pytest.raises(FrozenInstanceError):
        new.segment = 1  # type: ignore[misc]


async def test_a_span_that_is_decided_again_forgets_its_own_refusals(
    transaction: Transaction,
) -> None:
    one, other = [await contribution(transaction) for _ in range(2)]
    for which, span in ((one, (0, 64)), (one, (64, 10)), (other, (0, 64))):
        ground = ("budget_exceeded", "too much", "{}")
        await add_refusal(transaction, which, span, b"\x01", ground, NOON)
    await forget_refusals(transaction, one, [0])
    kept = await transaction.execute(select(tables.refusals).order_by(tables.refusals.c.id))
    assert [(item.contribution, item.offset, item.length) for item in kept] == [
        (one, 64, 10),
        (other, 0, 64),
    ]
