"""Accepting: what fits is stored once, what does not is refused by name and changes nothing."""

from __future__ import annotations

from typing import Any

import cbor2
import httpx
import numpy as np
import pytest

from aggregator.context import Aggregator
from common.web.problems import TYPE_PREFIX
from tacit.protocol.round.pieces import Piece
from tests.aggregator.double import Federation, Round, query


def problem(answer: httpx.Response) -> str:
    """The stable name of a problem."""
    kind: str = answer.json()["type"]
    return kind.removeprefix(TYPE_PREFIX)


def flipped(data: bytes, at: int) -> bytes:
    """One bit changed."""
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


async def held(current: Round) -> int:
    answer = await current.federation.peers[0].coordinate("GET", current.path())
    return int(answer.json()["accepted"])


async def test_an_altered_piece_changes_nothing(pair: Federation) -> None:
    other_sender, sender = await pair.lone(2)
    asked = query(aggregators=2, mechanism="exact")
    current, elsewhere = await pair.open(asked), await pair.open(asked)
    words = current.split(np.array([[5]]))
    piece = current.piece(sender, 0, words[0][0])
    others = current.piece(other_sender, 0, words[0][0])

    def altered(**changes: Any) -> Piece:
        return piece.model_copy(update=changes)

    for sent, status, name in (
        (altered(sealed=flipped(piece.sealed, 3)), 400, "seal_broken"),
        (altered(sealed=flipped(piece.sealed, len(piece.sealed) - 1)), 400, "seal_broken"),
        (altered(nonce=flipped(piece.nonce, 0)), 400, "seal_broken"),
        (altered(sealed=piece.sealed[:-1]), 400, "wrong_length"),
        (altered(sealed=piece.sealed + bytes(8)), 400, "wrong_length"),
        (current.piece(sender, 1, words[1][0]), 400, "session_refused"),
        (elsewhere.piece(sender, 0, words[0][0]), 400, "seal_broken"),
        (others, 403, "not_your_piece"),
        (others.model_copy(update={"sender": sender.id}), 400, "session_refused"),
        (altered(session=bytes(16), announce=None), 409, "unknown_session"),
    ):
        answer = await current.send(sender, 0, sent)
        assert (answer.status_code, problem(answer)) == (status, name)
    assert await held(current) == 0
    assert (await current.send(sender, 0, piece)).status_code == 201


async def test_an_altered_batch_changes_nothing(pair: Federation) -> None:
    host = await pair.host("gateway", 64)
    asked = query(aggregators=2, mechanism="exact")
    current, elsewhere = await pair.open(asked), await pair.open(asked)
    words = current.split(np.ones((64, 1), np.int64))
    (body,) = current.batches(host, 0, words[0])
    for sent, names in (
        (flipped(body, len(body) // 2), {"seal_broken"}),
        (flipped(body, 37), {"seal_broken", "wrong_round"}),
        (body[:-1], {"seal_broken"}),
        (current.batches(host, 1, words[1])[0], {"seal_broken", "wrong_round"}),
        (elsewhere.batches(host, 0, words[0])[0], {"wrong_round"}),
        (b"", {"seal_broken"}),
    ):
        answer = await current.send_batch(host, 0, sent)
        assert answer.status_code == 400
        assert problem(answer) in names
    assert await held(current) == 0
    assert (await current.send_batch(host, 0, body)).status_code == 201


async def test_an_array_of_batches_is_answered_item_by_item(pair: Federation) -> None:
    one, other = await pair.host("one", 64), await pair.host("other", 64)
    current = await pair.open(query(aggregators=2, mechanism="exact"))
    words = current.split(np.ones((64, 1), np.int64))[0]
    mine, (theirs,) = current.batches(one, 0, words), current.batches(other, 0, words)
    peer = pair.peers[0]
    for host in (one, other):
        await current.announced(host, 0)

    async def send(*items: Any) -> httpx.Response:
        packed = cbor2.dumps(list(items))
        path = current.path("batches")
        return await peer.ask("POST", path, packed, one.tokens[0], form="application/cbor")

    foreign = {"body": theirs, "token": other.tokens[0]}
    wrong = {"body": flipped(mine[0], len(mine[0]) - 20), "token": None}
    found = (await send(wrong, foreign, {"body": mine[0]}, {"body": theirs}, 3)).json()
    assert [item["status"] for item in found] == [400, 201, 201, 403, 422]
    assert [item["index"] for item in found] == list(range(5))
    assert await held(current) == 128
    again = (await send(foreign, {"body": mine[0]}, {"body": mine[0], "token": "tct_no"})).json()
    assert [item["status"] for item in again] == [200, 200, 401]
    for packed in (cbor2.dumps({"body": mine[0]}), b"\xff"):
        path = current.path("batches")
        answer = await peer.ask("POST", path, packed, one.tokens[0], form="application/cbor")
        assert answer.status_code == 400


async def test_an_array_may_hold_pieces_of_several_parties_each_with_its_token(
    pair: Federation,
) -> None:
    senders = await pair.lone(3)
    current = await pair.open(query(aggregators=2, mechanism="exact"))
    shares = current.split(np.array([[1], [2], [3]]))[0]
    pieces = [current.piece(sender, 0, shares[i]) for i, sender in enumerate(senders)]
    tokens = [sender.tokens[0] for sender in senders]
    peer = pair.peers[0]

    async def sent(*carried: tuple[Piece, str | None]) -> list[tuple[int, str | None]]:
        items = [
            {**piece.model_dump(), **({} if token is None else {"token": token})}
            for piece, token in carried
        ]
        answer = await peer.ask(
            "POST", current.path("pieces"), cbor2.dumps(items), tokens[0], form="application/cbor"
        )
        assert answer.status_code == 200
        assert not any(token in answer.text for _, token in carried if token)
        return [(item["status"], item.get("problem")) for item in answer.json()]

    assert await sent((pieces[0], None), (pieces[1], None)) == [
        (201, None),
        (403, "not_your_piece"),
    ]
    others = (tokens[0], "tct_curator_unknown", peer.coordinator_token, "x" * 513)
    assert await sent(*((pieces[1], token) for token in others)) == [
        (403, "not_your_piece"),
        (401, "token_unknown"),
        (401, "token_unknown"),
        (422, "bad_parameter"),
    ]
    assert await held(current) == 1
    everything = list(zip(pieces, tokens, strict=True))
    assert await sent(*everything) == [(200, None), (201, None), (201, None)]
    assert await sent(*everything) == [(200, None)] * 3
    assert await held(current) == 3


@pytest.mark.usefixtures("database_url")
async def test_a_request_may_be_for_many_rounds(pair: Federation) -> None:
    """Each item names its round; bad ones among them spoil no other."""
    senders, peer = await pair.lone(2), pair.peers[0]
    rounds = [await pair.open(query(aggregators=2, mechanism="exact")) for _ in range(5)]
    items: list[dict[str, Any]] = []
    for current in rounds:
        for sender, words in zip(senders, current.split(np.array([[1], [2]]))[0], strict=True):
            piece = current.piece(sender, 0, words).model_dump(exclude_none=True)
            items.append({**piece, "token": sender.tokens[0], "round": current.id})
    nowhere = {**items[0], "round": "019a0c2e-8f00-7000-8000-000000000001"}
    elsewhere = {**items[0], "round": rounds[1].id}
    unnamed = {name: value for name, value in items[0].items() if name != "round"}
    await pair.peers[0].coordinate("POST", rounds[3].path("freeze"))

    async def sent(path: str, *some: Any) -> list[tuple[int, str | None]]:
        packed, token = cbor2.dumps(list(some)), senders[0].tokens[0]
        answer = await peer.ask("POST", path, packed, token, form="application/cbor")
        assert answer.status_code == 200, answer.text
        assert [item["index"] for item in answer.json()] == list(range(len(some)))
        return [(item["status"], item.get("problem")) for item in answer.json()]

    found = await sent("/v1/pieces", nowhere, elsewhere, unnamed, 7, *items)
    assert found[:4] == [
        (404, "unknown_round"),
        (400, "seal_broken"),
        (422, "bad_parameter"),
        (422, "bad_parameter"),
    ]
    assert found[4:] == [
        (410, "round_closed") if number in (6, 7) else (201, None) for number in range(10)
    ]
    assert {await held(current) for current in rounds} == {0, 2}
    assert await sent(rounds[0].path("pieces"), items[0], items[2]) == [
        (200, None),
        (422, "bad_parameter"),
    ]
    alone = cbor2.dumps(items[0])
    answer = await peer.ask(
        "POST", "/v1/pieces", alone, senders[0].tokens[0], form="application/cbor"
    )
    assert answer.status_code == 400


async def test_batches_of_many_rounds_share_a_request(pair: Federation) -> None:
    one, other, peer = await pair.host("one", 64), await pair.host("other", 64), pair.peers[0]
    rounds = [await pair.open(query(aggregators=2, mechanism="exact")) for _ in range(3)]
    items: list[dict[str, Any]] = []
    for current in rounds:
        words = current.split(np.ones((64, 1), np.int64))[0]
        for host in (one, other):
            (body,) = current.batches(host, 0, words)
            await current.announced(host, 0)
            items.append({"body": body, "token": host.tokens[0], "round": current.id})
    swapped = {**items[0], "round": rounds[1].id}
    counts = peer.part(Aggregator).database.counts
    before = counts.writing
    answer = await peer.ask(
        "POST",
        "/v1/batches",
        cbor2.dumps([swapped, {**items[0], "round": "x"}, *items]),
        one.tokens[0],
        form="application/cbor",
    )
    assert [item["status"] for item in answer.json()] == [400, 422, *[201] * 6]
    assert {await held(current) for current in rounds} == {128}
    assert counts.writing - before <= 2
    answer = await peer.ask(
        "POST", "/v1/batches", items[0]["body"], one.tokens[0], form="application/octet-stream"
    )
    assert answer.status_code == 415


async def test_who_may_send(single: Federation) -> None:
    (sender,) = await single.lone(1)
    current = await single.open(query())
    piece = current.piece(sender, 0, np.array([1], np.uint64))
    (late,) = await single.lone(1, "late")
    host = await single.host("gateway", 10)
    peer, path = single.peers[0], current.path("pieces")

    async def refused(token: str | None, status: int, name: str, sent: Piece = piece) -> None:
        answer = await peer.ask("POST", path, sent, token)
        assert (answer.status_code, problem(answer)) == (status, name)

    await refused(None, 403, "scope_missing")  # the operator's
    await refused(peer.coordinator_token, 403, "scope_missing")
    await refused("tct_curator_unknown", 401, "token_unknown")
    await refused(late.tokens[0], 403, "not_your_piece")
    late_piece = current.piece(late, 0, np.array([1], np.uint64))
    await refused(late.tokens[0], 409, "not_in_round", late_piece)
    host_piece = current.piece(host, 0, np.array([1], np.uint64))
    await refused(host.tokens[0], 403, "unknown_sender", host_piece)
    missing = path.replace(current.id, "00000000-0000-0000-0000-000000000000")
    answer = await peer.ask("POST", missing, piece, sender.tokens[0])
    assert (answer.status_code, problem(answer)) == (404, "unknown_round")
    assert (await peer.ask("DELETE", f"/v1/parties/{sender.id}")).status_code == 204
    await refused(sender.tokens[0], 401, "token_unknown")


async def test_a_shamir_word_outside_the_field_is_refused(trio: Federation) -> None:
    (sender,) = await trio.lone(1)
    asked = query(
        aggregators=3, sharing="shamir", threshold=2, mechanism="exact", min_participants=2
    )
    current = await trio.open(asked)
    piece = current.piece(sender, 0, np.array([2**57 - 13], np.uint64))
    answer = await current.send(sender, 0, piece)
    assert (answer.status_code, problem(answer)) == (400, "out_of_field")
