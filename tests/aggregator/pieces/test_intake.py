"""The queue: what is stored, known, in conflict or too late, also of what waits together."""

from __future__ import annotations

import asyncio
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sqlalchemy import text

from aggregator.errors import BatchOverlaps
from aggregator.pieces.intake import (
    Held,
    Intake,
    Outcome,
    PiecesItem,
    TransitionItem,
    _Part,
    _refuse_overlap,
)
from aggregator.pieces.routes import open_received
from aggregator.pieces.unsealing import BatchItem, LonePiece, Words, open_lone, session_for
from aggregator.store import rounds as store
from aggregator.store.pieces import BatchRow
from common.store.transactions import Transaction
from tacit import sets
from tacit.crypto.sealing import BatchHeader, Span
from tacit.errors import DomainError
from tacit.protocol.round.pieces import ItemAnswer
from tacit.protocol.round.state import RoundState
from tacit.wire import parse_binary
from tests.aggregator.conftest import Alliance
from tests.aggregator.double import Federation, Round, Sender, parts_of, query, vector
from tests.aggregator.pieces.test_pieces import held, problem


async def opened_piece(current: Round, sender: Sender, value: int) -> LonePiece:
    """A freshly sealed piece, opened as the route does it."""
    service = parts_of(current.federation)
    context = await service.aggregator.round(current.id)
    party = await service.directory.find(sender.tokens[0])
    piece = current.piece(sender, 0, np.array([value], np.uint64))
    session = await session_for(service.aggregator, context, party, piece.session, piece.announce)
    return open_lone(service.aggregator, context, party, piece, session)


async def request(current: Round, *pieces: LonePiece) -> PiecesItem:
    """The pieces of one request."""
    context = await parts_of(current.federation).aggregator.round(current.id)
    return PiecesItem(context, pieces)


def names(answers: Any) -> list[Any]:
    """Outcomes, or the names of errors."""
    return [each.name if isinstance(each, DomainError) else each for each in answers]


async def nothing(_: Transaction) -> str:
    """A transition that leaves the round as it is."""
    return "flushed"


async def test_items_have_the_size_of_their_bodies_and_cannot_be_changed(
    alliance: Alliance,
) -> None:
    assert [int(each) for each in Outcome] == [200, 201]
    async with alliance(1) as federation:
        (sender,) = await federation.lone(1)
        current = await federation.open(query())
        piece = await opened_piece(current, sender, 1)
        pieces = await request(current, piece, piece)
        assert pieces.size == 2 * len(piece.body) > 0
        transition = TransitionItem(pieces.context, nothing)
        assert transition.size == 0
        row = BatchRow(0, 0, 0, 0, 0, b"", b"")
        for value, name in ((pieces, "pieces"), (transition, "size"), (_Part(row), "count")):
            with pytest.raises(FrozenInstanceError):
                setattr(value, name, None)


def test_what_is_held_is_learned_row_by_row() -> None:
    book = Held(6)
    assert (book.last, [book.row_of(number) for number in range(6)]) == (0, [None] * 6)
    book.add(7, np.array([1, 4], np.uint32))
    book.add(9, np.array([0], np.uint32))
    rows = [9, 7, None, None, 7, None]
    assert (book.last, [book.row_of(number) for number in range(6)]) == (9, rows)
    book.add(8, np.array([5], np.uint32))
    assert (book.last, book.row_of(5)) == (9, 8)


def overlap(first: int, mine: NDArray[np.bool_], *others: NDArray[np.bool_]) -> dict[str, Any]:
    """What a refusal says of a batch that meets others of its segment."""
    header = BatchHeader(
        "h", bytes(32), 0, 1, Span(0, first, mine.size), 1, bytes(16), sets.pack(mine)
    )
    rows = [BatchRow(1, 0, 0, 0, first, b"", sets.pack(other)) for other in others]
    with pytest.raises(BatchOverlaps) as found:
        _refuse_overlap(header, rows)
    return dict(found.value.extra)


def test_an_overlap_names_the_first_ten_thousand_numbers() -> None:
    size = 10_003
    everyone, odd = np.ones(size, np.bool_), np.arange(size) % 2 == 1
    found = overlap(64, everyone, everyone)
    assert (found["count"], found["numbers"]) == (size, list(range(64, 10_064)))
    some = np.arange(size) == 10
    found = overlap(0, ~some, odd, some)
    assert found["numbers"] == [number for number in range(size) if number % 2]
    assert parse_binary(found["overlap"]) == sets.pack(odd)
    header = BatchHeader("h", bytes(32), 0, 1, Span(0, 0, size), 1, bytes(16), sets.pack(odd))
    _refuse_overlap(header, [BatchRow(1, 0, 0, 0, 0, b"", sets.pack(~odd))])


async def test_pieces_that_were_stored_together_are_compared_one_by_one(single: Federation) -> None:
    """Several pieces are one row: each is compared with its own part of it."""
    senders = await single.lone(5)
    current = await single.open(query())
    service = parts_of(single)
    pieces = [await opened_piece(current, sender, 10 + n) for n, sender in enumerate(senders)]
    assert await service.intake.submit(await request(current, pieces[4])) == [201]
    together = await request(current, *pieces[:3], pieces[1])
    assert await service.intake.submit(together) == [201, 201, 201, 200]
    assert await service.intake.submit(await request(current, pieces[3])) == [201]
    restarted = Intake(service.aggregator)
    for queue in (service.intake, restarted):
        for n, sender in enumerate(senders):
            fresh = await opened_piece(current, sender, 10 + n)
            other = await opened_piece(current, sender, 20 + n)
            answers = await queue.submit(await request(current, pieces[n], fresh, other))
            assert names(answers) == [200, 200, "piece_conflict"]
    await restarted.stop()
    assert await held(current) == 5
    total, _ = await current.release()
    assert total.tolist() == [10 + 11 + 12 + 13 + 14]


async def test_rounds_of_one_transaction_are_kept_apart(single: Federation) -> None:
    """What a transition of one round wrote is no piece of another, and each row holds its own."""
    senders = await single.lone(2)
    one, two = [await single.open(query()) for _ in range(2)]
    service = parts_of(single)
    first = [await opened_piece(one, sender, 3) for sender in senders]
    second = await opened_piece(two, senders[0], 4)
    flush = TransitionItem((await request(one)).context, nothing)
    items = [
        await request(one, first[0]),
        flush,
        await request(two, second),
        await request(one, first[1]),
        flush,
        await request(one, first[1], first[0], await opened_piece(one, senders[1], 5)),
        await request(two, second),
    ]
    answers = await asyncio.gather(*(service.intake.submit(each) for each in items))
    assert [names(each) if isinstance(each, list) else each for each in answers] == [
        [201],
        "flushed",
        [201],
        [201],
        "flushed",
        [200, 200, "piece_conflict"],
        [200],
    ]
    assert (await held(one), await held(two)) == (2, 1)


async def test_a_round_that_is_not_stored_any_more_takes_nothing(single: Federation) -> None:
    (sender,) = await single.lone(1)
    current = await single.open(query())
    pieces = await request(current, await opened_piece(current, sender, 1))
    service = parts_of(single)
    async with service.aggregator.database.begin() as transaction:
        await transaction.execute(text("DELETE FROM round"))
    with pytest.raises(DomainError) as found:
        await service.intake.submit(pieces)
    assert found.value.name == "round_expired"


async def test_a_piece_again_is_known_and_another_conflicts(pair: Federation) -> None:
    (sender,) = await pair.lone(1)
    current = await pair.open(query(aggregators=2, mechanism="exact"))
    piece = current.piece(sender, 0, np.array([5], np.uint64))
    assert (await current.send(sender, 0, piece)).status_code == 201
    assert (await current.send(sender, 0, piece)).status_code == 200
    words = np.array([123], np.uint64)
    other = await current.send(sender, 0, current.piece(sender, 0, words))
    assert (other.status_code, problem(other)) == (409, "piece_conflict")
    assert await held(current) == 1


@pytest.mark.usefixtures("database_url")
async def test_batches_by_the_table(pair: Federation) -> None:
    """Spec: hot-path, section 2: the cases of an arriving batch, in its order."""
    host = await pair.host("gateway", 100)
    current = await pair.open(vector(2, aggregators=2, mechanism="exact"))
    words = current.split(np.arange(200, dtype=np.int64).reshape(100, 2))[0]
    early = np.arange(100) < 60
    (first,) = current.batches(host, 0, words, early)
    (again,) = current.batches(host, 0, words, early)
    (rest,) = current.batches(host, 0, words, ~early, part=1)
    (meets,) = current.batches(host, 0, words, np.arange(100) >= 58, part=2)
    (other,) = current.batches(host, 0, words + np.uint64(1), early)
    assert (await current.send_batch(host, 0, first)).status_code == 201
    assert (await current.send_batch(host, 0, first)).status_code == 200
    assert again != first
    assert (await current.send_batch(host, 0, again)).status_code == 200
    answer = await current.send_batch(host, 0, other)
    assert (answer.status_code, problem(answer)) == (409, "piece_conflict")
    answer = await current.send_batch(host, 0, meets)
    assert (answer.status_code, problem(answer)) == (409, "batch_overlaps")
    assert answer.json()["numbers"] == [58, 59]
    assert (await current.send_batch(host, 0, rest)).status_code == 201
    assert await held(current) == 100
    accepted = await current.freeze([0])
    assert sets.count(accepted[0].statement.members) == 100
    answer = await current.send_batch(host, 0, first)
    assert (answer.status_code, answer.json()["included"]) == (410, True)
    answer = await current.send_batch(host, 0, meets)
    assert (answer.status_code, answer.json()["included"]) == (410, False)


@pytest.mark.usefixtures("database_url")
async def test_batches_that_wait_together_meet_each_other(pair: Federation) -> None:
    """One transaction for all that waits: what it does not hold yet is compared all the same."""
    host, next_door = await pair.host("gateway", 100), await pair.host("other", 64)
    current = await pair.open(vector(2, aggregators=2, mechanism="exact"))
    words = current.split(np.arange(200, dtype=np.int64).reshape(100, 2))[0]
    early = np.arange(100) < 60
    service = parts_of(pair)
    context = await service.aggregator.round(current.descriptor.round)

    async def item(sender: Sender, sent: Words, present: NDArray[np.bool_], part: int) -> BatchItem:
        party = await service.directory.find(sender.tokens[0])
        (body,) = current.batches(sender, 0, sent, present, part)
        await current.announced(sender, 0)
        return await open_received(service.aggregator, context, party, body)

    items = [
        await item(host, words, early, 0),
        await item(host, words, early, 0),
        await item(host, words + np.uint64(1), early, 0),
        await item(next_door, words[:64], early[:64], 0),
        await item(host, words, np.arange(100) >= 58, 1),
        await item(host, words, ~early, 1),
    ]
    items.append(items[0])
    answers = await asyncio.gather(
        *(service.intake.submit(one) for one in items), return_exceptions=True
    )
    names = [answer.name if isinstance(answer, DomainError) else answer for answer in answers]
    assert names == [201, 200, "piece_conflict", 201, "batch_overlaps", 201, 200]
    assert await held(current) == 160
    accepted = await current.freeze([0])
    assert sets.count(accepted[0].statement.members) == 160


async def test_a_piece_before_and_after_the_freeze_in_one_transaction(pair: Federation) -> None:
    """What an earlier item of the transaction brought is known to a later one, though a transition
    between them wrote it."""
    senders = await pair.lone(2)
    current = await pair.open(query(aggregators=2, mechanism="exact"))
    intake = parts_of(pair).intake
    first, late = [
        await request(current, await opened_piece(current, sender, value))
        for value, sender in enumerate(senders, 1)
    ]
    context = first.context

    async def close(transaction: Transaction) -> str:
        await store.advance(transaction, context.key, RoundState.OPEN, RoundState.FROZEN)
        return "closed"

    flush, end = TransitionItem(context, nothing), TransitionItem(context, close)
    items = [first, flush, first, end, first, late]
    answers = await asyncio.gather(*(intake.submit(each) for each in items))
    stored, _, known, _, (closed,), (shut,) = answers
    assert (stored, known) == ([201], [200])
    assert (closed.name, dict(closed.extra)["included"]) == ("round_closed", True)
    assert (shut.name, dict(shut.extra)["included"]) == ("round_closed", False)
    assert await held(current) == 1


async def test_an_array_after_the_freeze_says_what_is_in(single: Federation) -> None:
    one, two = await single.lone(2)
    current = await single.open(query())
    mine = current.piece(one, 0, np.array([1], np.uint64))
    other = current.piece(one, 0, np.array([2], np.uint64))
    theirs = current.piece(two, 0, np.array([1], np.uint64))

    async def post() -> list[ItemAnswer]:
        answer = await single.peers[0].ask(
            "POST", current.path("pieces"), [mine, mine, other, theirs], one.tokens[0]
        )
        assert answer.status_code == 200
        return [ItemAnswer.model_validate(item) for item in answer.json()]

    before = await post()
    assert [item.status for item in before] == [201, 200, 409, 403]
    assert [item.included for item in before] == [None] * 4
    await current.freeze()
    after = await post()
    assert [item.status for item in after] == [410, 410, 410, 403]
    assert [item.included for item in after] == [True, True, False, None]
    assert [item.index for item in after] == [0, 1, 2, 3]


async def test_a_part_is_sent_again_with_the_same_members_only(single: Federation) -> None:
    host = await single.host("gateway", 60)
    current = await single.open(query())
    words = np.ones((60, 1), np.uint64)
    (body,) = current.batches(host, 0, words, np.arange(60) < 40)
    (wider,) = current.batches(host, 0, words, np.arange(60) < 41)
    assert (await current.send_batch(host, 0, body)).status_code == 201
    answer = await current.send_batch(host, 0, wider)
    assert (answer.status_code, problem(answer)) == (409, "piece_conflict")
    assert await held(current) == 40
