"""Tokens that were ended with all others are renewed by their holders, while rounds run.

Spec: keys, section 5.2. Real coordinator, aggregators and curators. `test_party_rotation.py` has
the parties' side; here are the coordinator, and identities that were replaced as compromised.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from common.store.tokens import hash_token
from common.web.dependencies import part_of
from coordinator.registry.members import Registry
from curator.participation.loop import Participation
from tacit.crypto.signing import Identity
from tacit.protocol.enrolment import RENEWAL_LABEL, TokenRenewal
from tacit.protocol.identities import CoordinatorRenewal, IdentityChain
from tests.aggregator.double import Peer
from tests.coordinator.double import problem
from tests.e2e.federation import Site, site
from tests.e2e.rotation import (
    KEYS,
    commit,
    coordinator_token,
    look_again,
    opened,
    peers,
    released,
    rotate,
    settled,
    successor,
)
from tests.e2e.test_coordinator_rotation import commit as commit_coordinator
from tests.e2e.test_coordinator_rotation import key_of
from tests.e2e.test_coordinator_rotation import rotate as rotate_coordinator

PATH = "/v1/coordinator/token"
REFUSED = (403, "renewal_refused")
pytestmark = pytest.mark.slow


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path) as found:
        await settled(found)
        yield found


def identity(it: Site) -> Identity:
    return part_of(it.house.app, Registry).own.current


async def ended(peer: Peer) -> dict[str, int]:
    """How many tokens of each kind ended there."""
    answer = await peer.ask("POST", "/v1/tokens/end")
    assert answer.status_code == 200, answer.text
    found: dict[str, int] = answer.json()["ended"]
    return found


async def asked(
    peer: Peer,
    signer: Identity,
    old: str,
    new: str,
    chain: IdentityChain | None = None,
    **changes: Any,
) -> tuple[int, str]:
    """What an aggregator answers to a request for a token."""
    values = {"service": peer.id, "party": "tacit", "made": datetime.now(UTC)}
    hashes = {"token_hash": hash_token(old), "new_hash": hash_token(new)}
    statement = TokenRenewal.model_validate({**values, **hashes, **changes})
    request = CoordinatorRenewal(renewal=signer.sign(RENEWAL_LABEL, statement), chain=chain)
    answer = await peer.client.post(
        PATH, json=request.model_dump(mode="json", by_alias=True, exclude_none=True)
    )
    return answer.status_code, "" if answer.is_success else problem(answer)[1]


async def opens(peer: Peer, token: str) -> tuple[int, str]:
    """What a coordinator's token is worth at an aggregator."""
    answer = await peer.ask("GET", "/v1/rounds/019a0c2e-8f00-7000-8000-00000000abcd", None, token)
    return problem(answer)


async def test_a_round_goes_on_though_all_aggregators_end_the_coordinators_token(
    it: Site,
) -> None:
    running = await opened(it, "running", 12)
    before = {peer.id: await coordinator_token(it, peer) for peer in peers(it)}
    for peer in peers(it):
        assert (await ended(peer))["coordinator"] == 1
        assert await opens(peer, before[peer.id]) == (401, "token_expired")
    assert (await released(it, running))["participants"] == 2
    for peer in peers(it):
        token = await coordinator_token(it, peer)
        assert token != before[peer.id]
        assert await opens(peer, before[peer.id]) == (401, "token_expired")
        assert await opens(peer, token) == (404, "unknown_round")
    assert (await released(it, await opened(it, "after")))["participants"] == 2


async def test_nobody_else_gets_the_coordinators_token(it: Site) -> None:
    """A stranger, a thief of the old token, one who repeats what was sent, and a token that a
    person revoked."""
    peer, own = peers(it)[0], identity(it)
    old = await coordinator_token(it, peer)
    assert await asked(peer, own, old, "new") == REFUSED  # it is good
    await ended(peer)
    thief = Identity.generate()
    assert await asked(peer, thief, old, "new") == REFUSED
    assert await asked(peer, own, "unknown", "new") == REFUSED
    for changes in (
        {"service": peers(it)[1].id},
        {"party": "other"},
        {"made": datetime(2026, 1, 1, tzinfo=UTC)},
    ):
        assert await asked(peer, own, old, "new", **changes) == REFUSED
    assert await asked(peer, own, old, "first") == (204, "")
    assert await asked(peer, own, old, "second") == (204, "")  # as if the answer had been lost
    assert await opens(peer, "first") == (401, "token_expired")
    assert await asked(peer, own, old, "first") == REFUSED  # sent again by who saw it
    assert await opens(peer, "second") == (404, "unknown_round")
    assert await asked(peer, own, old, "second") == (204, "")  # and this changes nothing
    assert await opens(peer, "second") == (404, "unknown_round")
    operators = await peer.ask("GET", "/v1/tokens?limit=100")
    (second,) = [
        each["id"]
        for each in operators.json()["tokens"]
        if each["scopes"] == ["coordinator"] and not (each["expires"] or each["revoked"])
    ]
    assert (await peer.ask("DELETE", f"/v1/tokens/{second}")).status_code == 204
    assert await asked(peer, own, "second", "third") == REFUSED
    assert (await peer.ask("DELETE", "/v1/coordinator")).status_code == 204
    assert await asked(peer, own, old, "fourth") == (409, "not_paired")


async def test_a_compromised_aggregator_ends_tokens_and_all_renew_them(it: Site) -> None:
    first = peers(it)[0]
    await commit(first, KEYS[0])
    assert (await released(it, await opened(it, "seen")))["participants"] == 2
    token = await coordinator_token(it, first)
    await rotate(first, 0, compromised=True)
    assert await opens(first, token) == (401, "token_expired")
    look_again(it)
    part_of(it.app, Participation).wake()
    after = await opened(it, "after", 20)
    assert (await released(it, after))["participants"] == 2
    now = await coordinator_token(it, first)
    # the same command again ends nothing, and a planned one neither
    assert (await successor(first, 0, compromised=True)).status_code == 200
    await rotate(first, 1)
    assert await opens(first, now) == (404, "unknown_round")


async def test_a_compromised_coordinators_tokens_end_at_aggregators(it: Site) -> None:
    """They are renewed under the new identity; the thief of the old key gets none."""
    await commit_coordinator(it)
    assert (await released(it, await opened(it, "seen")))["participants"] == 2
    stolen = Identity.from_bytes(identity(it).to_bytes())
    tokens = {peer.id: await coordinator_token(it, peer) for peer in peers(it)}
    await rotate_coordinator(it, 0, compromised=True)
    assert key_of(it) == KEYS[0].public.ed25519
    for peer in peers(it):
        assert await opens(peer, tokens[peer.id]) == (401, "token_expired")
        assert await asked(peer, stolen, tokens[peer.id], "of a thief") == REFUSED
    assert (await released(it, await opened(it, "after", 20)))["participants"] == 2


async def test_a_chain_comes_with_the_request_where_both_ended_at_once(it: Site) -> None:
    """An aggregator that has not heard of the new identity is shown it together with the request,
    and keeps nothing of a chain that the request does not belong to."""
    await commit_coordinator(it)
    assert (await released(it, await opened(it, "seen")))["participants"] == 2
    peer, own = peers(it)[0], part_of(it.house.app, Registry).own
    stolen = Identity.from_bytes(own.current.to_bytes())
    old = await coordinator_token(it, peer)
    await ended(peer)
    wire = it.house.wires[0]
    wire.fault = lambda _method, _path: "request"
    done = await rotate_coordinator(it, 0, compromised=True)
    wire.fault = lambda _method, _path: None
    assert done["untold"] == [peer.id]
    chain = own.chain
    before = (await peer.ask("GET", "/v1/coordinator")).json()
    assert await asked(peer, stolen, old, "of a thief", chain) == REFUSED
    assert (await peer.ask("GET", "/v1/coordinator")).json() == before
    assert (await released(it, await opened(it, "after", 20)))["participants"] == 2
    assert (await peer.ask("GET", "/v1/coordinator")).json()["fingerprint"] == done[
        "key_fingerprint"
    ]
