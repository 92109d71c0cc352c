"""Whom an aggregator sums with: pinned peers, and no inventions beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import text

from aggregator.context import Aggregator
from tacit.crypto.signing import Identity, Signed, fingerprint
from tacit.protocol.round.descriptor import AggregatorEntry, RoundDescriptor
from tacit.protocol.sealing_sessions import SEAL_KEY_LABEL
from tacit.wire import encode_binary
from tests.aggregator.conftest import Alliance
from tests.aggregator.double import DEPLOYMENT, Federation, Peer, query
from tests.aggregator.rounds.test_state_machine import refused

EXACT: dict[str, Any] = {"aggregators": 2, "mechanism": "exact"}


def pin_of(peer: Peer, **changes: Any) -> dict[str, Any]:
    pinned = encode_binary(fingerprint(peer.identity_key))
    return {"id": peer.id, "fingerprint": pinned, "operator": peer.operator, **changes}


async def rows(peer: Peer) -> list[int]:
    """How many rows of rounds, of pieces and of shared noise the aggregator holds."""
    async with peer.part(Aggregator).database.reading() as transaction:
        found = []
        for table in ("round", "piece", "contribution"):
            counted = await transaction.execute(text(f"SELECT count(*) FROM {table}"))
            found.append(counted.scalar_one())
    return found


def invented(like: AggregatorEntry, **changes: Any) -> AggregatorEntry:
    """An aggregator that exists nowhere: the coordinator holds all of its keys."""
    identity = Identity.generate()
    named = changes.get("id", like.id)
    statement = like.seal.model_copy(update={"party": named})
    key = identity.sign(SEAL_KEY_LABEL, statement)
    own = {"identity_key": identity.public_key, "seal_key": key}
    return like.model_copy(update={**own, **changes})


async def offered(
    federation: Federation, entries: Sequence[AggregatorEntry]
) -> Signed[RoundDescriptor]:
    return await federation.descriptor(query(**EXACT), aggregators=tuple(entries))


async def test_no_round_is_opened_beside_an_invented_aggregator(pair: Federation) -> None:
    first, second = pair.peers
    await pair.lone(1)
    plain = await pair.descriptor(query(**EXACT))
    own, other = plain.statement.aggregators
    # Nothing is pinned: the coordinator's word is taken, as it was before there were pins.
    trusting = await offered(pair, (own, invented(other)))
    assert (await first.coordinate("POST", "/v1/rounds", trusting)).status_code == 201
    before = await rows(first)

    assert (await first.ask("PUT", "/v1/peers", pin_of(second))).status_code == 200
    for entry, words in (
        (invented(other), "shows another identity"),
        (invented(other, id="aggregator-7"), "aggregator-7 is not pinned"),
        (other.model_copy(update={"operator": "operator-0"}), "another operator"),
    ):
        answer = await first.coordinate("POST", "/v1/rounds", await offered(pair, (own, entry)))
        refused(answer, 403, "peer_not_anchored")
        assert words in answer.json()["detail"]
    assert await rows(first) == before
    opened = await first.coordinate("POST", "/v1/rounds", plain)
    assert opened.status_code == 201, opened.text
    assert await rows(first) > before


@pytest.mark.parametrize(("peers", "status"), [("pinned", 403), ("any", 201), (None, 201)])
async def test_the_setting_decides_while_none_is_pinned(
    alliance: Alliance, peers: str | None, status: int
) -> None:
    async with alliance(2, peers=peers) as pair:
        first, second = pair.peers
        signed = await pair.descriptor(query(**EXACT))
        assert (await first.coordinate("POST", "/v1/rounds", signed)).status_code == status
        # A pin of another identity: only who takes any still opens a round.
        stranger = pin_of(second, fingerprint=encode_binary(b"x" * 32))
        await first.ask("PUT", "/v1/peers", stranger)
        answer = await first.coordinate("POST", "/v1/rounds", await pair.descriptor(query(**EXACT)))
        assert answer.status_code == (201 if peers == "any" else 403)


@pytest.mark.usefixtures("database_url")
async def test_pins_are_kept_listed_replaced_and_removed(pair: Federation) -> None:
    first, second = pair.peers
    body = pin_of(second)
    made = await first.ask("PUT", "/v1/peers", body)
    assert made.json()["fingerprint"] == fingerprint(second.identity_key).hex()
    assert (await first.ask("PUT", "/v1/peers", body)).json() == made.json()
    assert (await first.ask("GET", "/v1/peers")).json() == {"peers": [made.json()]}

    other = {**body, "operator": "someone else"}
    refused(await first.ask("PUT", "/v1/peers", other), 409, "peer_pinned")
    replaced = await first.ask("PUT", "/v1/peers?replace=true", other)
    assert replaced.json()["operator"] == "someone else"

    assert (await first.ask("DELETE", f"/v1/peers/{second.id}")).status_code == 204
    refused(await first.ask("DELETE", f"/v1/peers/{second.id}"), 404, "unknown_peer")
    assert (await first.ask("GET", "/v1/peers")).json() == {"peers": []}


async def test_its_operator_sees_whom_an_aggregator_is_paired_with(pair: Federation) -> None:
    found = (await pair.peers[0].ask("GET", "/v1/coordinator")).json()
    assert found == {"deployment": DEPLOYMENT, "fingerprint": pair.identity.fingerprint.hex()}
    refused(await pair.peers[0].coordinate("GET", "/v1/coordinator"), 403, "scope_missing")


async def test_what_is_no_pin_names_its_field(pair: Federation) -> None:
    first, second = pair.peers
    await first.ask("PUT", "/v1/peers", pin_of(second))
    own = encode_binary(fingerprint(first.identity_key))
    for changes, pointer in (
        ({"id": "no name"}, "/id"),
        ({"id": first.id, "fingerprint": encode_binary(b"y" * 32)}, "/id"),
        ({"id": "aggregator-9"}, "/fingerprint"),
        ({"id": "aggregator-9", "fingerprint": own}, "/fingerprint"),
        ({"fingerprint": "AAAA"}, "/fingerprint"),
        ({"operator": ""}, "/operator"),
        ({"url": "http://x"}, "/url"),
    ):
        answer = await first.ask("PUT", "/v1/peers", pin_of(second, **changes))
        assert answer.status_code == 422, answer.text
        assert [item["pointer"] for item in answer.json()["errors"]] == [pointer]
    for method, path, sent in (
        ("PUT", "/v1/peers", pin_of(second)),
        ("GET", "/v1/peers", None),
        ("DELETE", f"/v1/peers/{second.id}", None),
    ):
        refused(await first.coordinate(method, path, sent), 403, "scope_missing")
