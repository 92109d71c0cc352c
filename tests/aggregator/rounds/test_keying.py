"""The verify key: fixed once, before any contribution, and made again from what is stored."""

from __future__ import annotations

from typing import Any

import numpy as np

from aggregator.context import Aggregator
from aggregator.pieces.peer_seals import verify_key
from tacit.protocol.round.messages import RelayedKeyShares
from tests.aggregator.double import Federation, query
from tests.aggregator.proved import announce, keyed, proved
from tests.aggregator.rounds.test_state_machine import refused

TWO = {"aggregators": 2}


async def test_nothing_is_taken_before_the_key(pair: Federation) -> None:
    (sender,) = await pair.lone(1)
    host = await pair.host("gateway", 8)
    current = await announce(pair, proved(**TWO))
    plain = [bytes(item) for item in current.plaintexts(np.array([3]))]
    piece = current.proved_piece(sender, 0, plain[0])
    refused(await current.send(sender, 0, piece), 409, "round_not_keyed")
    part = current.part(host, 0, bytes(current.plaintexts(np.array([3]), 8)[0]))
    refused(await current.send_batch(host, 0, part), 409, "round_not_keyed")
    peer = pair.peers[0]
    refused(await peer.coordinate("POST", current.path("freeze")), 409, "round_not_keyed")
    assert (await current.relay_keys(0)).status_code == 200
    assert (await current.send(sender, 0, piece)).status_code == 201
    assert (await current.send_batch(host, 0, part)).status_code == 201


async def test_a_key_is_fixed_once(pair: Federation) -> None:
    first, second = await announce(pair, proved(**TWO)), await announce(pair, proved(**TWO))
    answer = await first.relay_keys(0)
    assert answer.status_code == 200
    assert (await first.relay_keys(0)).content == answer.content
    peer = pair.peers[0]
    again = await peer.coordinate("POST", "/v1/rounds", first.signed)
    assert again.json() == first.openings[0], "the same shares again, not sealed afresh"

    async def other(shares: Any) -> Any:
        body = RelayedKeyShares(shares=tuple(shares))
        return await peer.coordinate("POST", first.path("verification-keys"), body)

    foreign = second.key_shares(0).shares
    refused(await other(foreign), 409, "verify_key_fixed")
    refused(await other(()), 409, "verify_key_fixed")
    # and in the round that has no key yet, none but its own are taken
    path = second.path("verification-keys")
    (own,) = foreign
    for bad in (
        (),
        first.key_shares(0).shares,
        (own, own),
        second.key_shares(1).shares,
        (own.model_copy(update={"sender": "stranger"}),),
        (own.model_copy(update={"sealed": bytes(48)}),),
    ):
        body = RelayedKeyShares(shares=tuple(bad))
        refused(await peer.coordinate("POST", path, body), 422, "key_share_refused")
    declared = await pair.open(query(mechanism="exact", **TWO))
    body = RelayedKeyShares(shares=(own,))
    answer = await peer.coordinate("POST", declared.path("verification-keys"), body)
    refused(answer, 422, "key_share_refused")
    await peer.coordinate("POST", second.path("abort"), {"reason": "enough"})
    answer = await peer.coordinate("POST", path, second.key_shares(0))
    refused(answer, 410, "round_closed")


async def test_all_have_one_key_and_each_round_its_own(pair: Federation) -> None:
    keys = []
    for _ in range(2):
        current = await keyed(pair, proved(**TWO))
        for peer in pair.peers:
            aggregator = peer.part(Aggregator)
            context = await aggregator.round(current.id)
            made = await verify_key(aggregator, context)
            aggregator.forget_rounds()
            assert await verify_key(aggregator, await aggregator.round(current.id)) == made
            keys.append(made)
    assert keys[0] == keys[1] != keys[2] == keys[3]


async def test_no_key_is_in_the_store(pair: Federation) -> None:
    current = await keyed(pair, proved(**TWO))
    aggregator = pair.peers[0].part(Aggregator)
    key = await verify_key(aggregator, await aggregator.round(current.id))
    files = [path for path in aggregator.settings.data_dir.rglob("*") if path.is_file()]
    assert all(key not in path.read_bytes() for path in files)
