"""API tokens of an aggregator: its operators', and the end of anyone's."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.aggregator.double import Federation, Peer, query
from tests.aggregator.pieces.test_pieces import problem

NOT_ISSUED: list[tuple[str, dict[str, Any]]] = [
    ("/scope", {"scope": "curator", "subject": "house-1"}),
    ("/scope", {"scope": "coordinator"}),
    ("/scope", {"scope": "king"}),
    ("/subject", {"subject": "house-1"}),
    ("/valid_s", {"valid_s": 59}),
    ("/valid_s", {"valid_s": 10**12}),
    ("/label", {"label": "x" * 201}),
    ("/owner", {"owner": "me"}),
]


async def listed(peer: Peer) -> dict[str, dict[str, Any]]:
    """By id, over all pages."""
    found: dict[str, dict[str, Any]] = {}
    path = "/v1/tokens?limit=2"
    while path:
        answer = await peer.ask("GET", path)
        found |= {item["id"]: item for item in answer.json()["tokens"]}
        path = answer.links.get("next", {}).get("url", "")
    return found


async def test_a_partys_token_ends_at_once_where_it_was_remembered(pair: Federation) -> None:
    """Senders are remembered beside the authenticator: both must forget."""
    peer = pair.peers[0]
    lone = await pair.lone(2)
    current = await pair.open(query(aggregators=2, mechanism="exact"))
    first, second = (current.piece(lone[0], 0, np.array([i], np.uint64)) for i in (1, 2))
    assert (await current.send(lone[0], 0, first)).status_code == 201
    (mine,) = [item for item in (await listed(peer)).values() if item["subject"] == lone[0].id]
    assert mine["scopes"] == ["curator"]
    assert (await peer.ask("DELETE", f"/v1/tokens/{mine['id']}")).status_code == 204
    for piece in (first, second):
        answer = await current.send(lone[0], 0, piece)
        assert (answer.status_code, problem(answer)) == (401, "token_unknown")
    other = current.piece(lone[1], 0, np.array([3], np.uint64))
    assert (await current.send(lone[1], 0, other)).status_code == 201


async def test_only_an_operator_sees_or_makes_or_ends_tokens(pair: Federation) -> None:
    peer = pair.peers[0]
    (lone,) = await pair.lone(1)
    asked = [("POST", "/v1/tokens", {"scope": "operator"}), ("GET", "/v1/tokens", None)]
    asked += [("DELETE", f"/v1/tokens/{name}", None) for name in await listed(peer)]
    for token in (lone.tokens[0], peer.coordinator_token):
        for method, path, body in asked:
            answer = await peer.ask(method, path, body, token)
            assert (answer.status_code, problem(answer)) == (403, "scope_missing")
    assert all(item["revoked"] is None for item in (await listed(peer)).values())
    assert (await peer.client.get("/v1/tokens")).status_code == 401


async def test_what_is_not_issued_is_named(pair: Federation) -> None:
    peer = pair.peers[0]
    before = await listed(peer)
    for pointer, fields in NOT_ISSUED:
        answer = await peer.ask("POST", "/v1/tokens", {"scope": "operator", **fields})
        assert (answer.status_code, problem(answer)) == (422, "bad_parameter"), fields
        assert [item["pointer"] for item in answer.json()["errors"]] == [pointer]
    assert await listed(peer) == before
