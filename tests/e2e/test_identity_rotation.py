"""An aggregator's identity is replaced while rounds run: everybody follows, and nobody is fooled.

Spec: keys, sections 5 and 9 (check 11). Real coordinator, aggregators and curators.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from aggregator import identities
from aggregator.context import Aggregator
from aggregator.pieces.intake import Intake
from aggregator.rounds import identity_ends
from aggregator.store import rounds as round_store
from common.web.parts import part_of
from coordinator.registry.identities import Identities
from coordinator.store import registry as registry_store
from tacit.crypto.hybrid_signing import HybridIdentity
from tacit.crypto.signing import fingerprint
from tacit.protocol.identities import (
    IDENTITY_LABEL,
    IdentityChain,
    Reason,
    Succession,
    commitment,
    succeed,
)
from tacit.wire import encode_binary
from tests.aggregator.double import Peer, Round
from tests.coordinator.double import WINDOW, problem, query
from tests.e2e.federation import Site, site

KEYS = [HybridIdentity(bytes([40 + number]) * 64) for number in range(6)]
CHAIN = "/.well-known/tacit-aggregator/identity"


async def settled(it: Site) -> None:
    """Every aggregator pins the others; two curators have a reading."""
    it.house.settings = it.house.settings.model_copy(update={"insecure_allow_exact": True})
    await it.house.restart()
    await it.agree(allow_unverified=True, min_participants=1, allow_repeats=True)
    for name in ("north", "south"):
        await it.enrol(name)
    items = [
        {"curator": name, "time": "2025-12-31T23:30:00Z", "value": "1.5", "unit": "kWh"}
        for name in ("north", "south")
    ]
    assert (await it.own("POST", "/v1/readings", items)).status_code == 200
    for peer, wire in zip(peers(it), it.house.wires, strict=True):
        peer.client.app = wire.app  # type: ignore[attr-defined]
    for name in ("late", "later"):  # rounds wait for them
        await it.house.enrol(it.house.federation.sender(name))
    documents = [await peer.client.get("/.well-known/tacit-aggregator") for peer in peers(it)]
    shown = {each.json()["id"]: each.json() for each in documents}
    for peer in peers(it):
        for name, other in shown.items():
            if name != peer.id:
                body = {
                    "id": name,
                    "operator": other["operator"],
                    "fingerprint": other["fingerprint_base64url"],
                }
                assert (await peer.ask("PUT", "/v1/peers", body)).status_code == 200


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path) as found:
        await settled(found)
        yield found


def peers(it: Site) -> list[Peer]:
    return it.house.federation.peers


async def commit(peer: Peer, key: HybridIdentity) -> dict[str, Any]:
    answer = await peer.ask("PUT", "/v1/identity/next", key.public)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def successor(peer: Peer, number: int, **changes: Any) -> httpx.Response:
    """Pair `number` becomes the identity; the next one follows."""
    body = {
        "secret": encode_binary(KEYS[number].to_bytes()),
        "following": KEYS[number + 1].public.model_dump(mode="json"),
        **changes,
    }
    return await peer.ask("POST", "/v1/identity/successor", body)


async def rotate(peer: Peer, number: int, **changes: Any) -> dict[str, Any]:
    answer = await successor(peer, number, **changes)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    assert found["key_fingerprint"] == fingerprint(KEYS[number].public.ed25519).hex()
    return found


def look_again(it: Site) -> None:
    """The coordinator's next look at the identities is now."""
    part_of(it.house.app, Identities)._looked.clear()


async def released(it: Site, opened: Any) -> dict[str, Any]:
    done = await it.house.finish(opened)
    assert done["state"] == "released", done
    return await it.house.result(opened)


def secrets_of(peer: Peer) -> int:
    """How many replaced identities an aggregator still could sign with."""
    return len(peer.part(Aggregator).keyring.identities.replaced())


async def opened(it: Site, name: str, deadline_s: int = 8) -> Round:
    return await it.house.open(query(name=name, deadline_s=deadline_s))


async def refused(it: Site, name: str) -> tuple[int, str]:
    """Why a round cannot be opened."""
    created = await it.house.ask("POST", "/v1/queries", query(name=name))
    body = {"query_id": created.json()["id"], "window": WINDOW}
    return problem(await it.house.ask("POST", "/v1/rounds", body))


async def test_a_planned_rotation_while_rounds_run(
    it: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = peers(it)[0]
    await commit(first, KEYS[0])
    running = [await opened(it, f"running-{number}", 12) for number in range(3)]
    old = running[0].descriptor.aggregators[0].identity_key
    await rotate(first, 0)
    assert secrets_of(first) == 1
    between = await opened(it, "between")  # the coordinator knows nothing yet
    assert between.descriptor.aggregators[0].identity_key == old
    look_again(it)
    later = await opened(it, "later")
    assert later.descriptor.aggregators[0].identity_key == KEYS[0].public.ed25519 != old
    for each in (*running, between, later):
        assert (await released(it, each))["participants"] == 2
    monkeypatch.setattr(identities, "GRACE", timedelta())
    await identity_ends.sweep(first.part(Aggregator), first.part(Intake))
    assert secrets_of(first) == 0
    # and again, from what everybody followed; the same request again changes nothing
    done = await rotate(first, 1)
    assert await rotate(first, 1) == done
    look_again(it)
    third = await opened(it, "third")
    assert third.descriptor.aggregators[0].identity_key == KEYS[1].public.ed25519
    assert (await released(it, third))["participants"] == 2


async def test_a_compromised_identity_ends_at_once(it: Site) -> None:
    """Its rounds abort without "never frozen", its keys are gone, and new rounds go on."""
    first = peers(it)[0]
    await commit(first, KEYS[0])
    running = await opened(it, "running", 60)
    await rotate(first, 0, compromised=True)
    assert secrets_of(first) == 0
    shown = (await it.house.ask("GET", f"/v1/rounds/{running.id}")).json()
    answer = await first.ask("GET", f"/v1/rounds/{running.id}")
    assert answer.json()["state"] == "aborted", (answer.text, shown)
    stored = first.part(Aggregator).database
    async with stored.reading() as transaction:
        row = await round_store.round_row(transaction, running.id)
    assert row is not None and row.abort_statement is not None
    assert json.loads(row.abort_statement)["statement"]["frozen"] != "never"
    old = running.descriptor.aggregators[0].identity_key
    assert await first.part(Aggregator).seal_keyring.signed_by(old) == ()
    look_again(it)
    after = await opened(it, "after")
    assert (await released(it, after))["participants"] == 2


async def test_who_steals_the_running_key_gets_no_further(it: Site) -> None:
    """A succession without the next pair, shown at the aggregator's own address."""
    first = peers(it)[0]
    await commit(first, KEYS[0])
    await opened(it, "seen")  # everybody knows the document
    chain = await shown_by(first)
    stolen = first.part(Aggregator).keyring.identities
    secret = stolen._held[-1].secret
    assert secret is not None
    thief, own = HybridIdentity(b"t" * 64), HybridIdentity(secret)
    link = forged(chain, thief, own)
    it.house.wires[0].lie = lambda path, answer: (
        lied(chain, thief, link) if path == CHAIN else answer
    )
    look_again(it)
    assert await refused(it, "stolen") == (403, "succession_refused")
    it.house.wires[0].lie = None
    assert (await released(it, await opened(it, "sound")))["participants"] == 2


async def test_two_successors_are_a_fork_until_a_person_confirms_one(it: Site) -> None:
    """Who has both pairs can fork: coordinator, peers and curators each refuse both."""
    first, second, _ = peers(it)
    await commit(first, KEYS[0])
    await opened(it, "seen")
    before = await shown_by(first)
    new = await rotate(first, 0)
    look_again(it)
    sound = await opened(it, "sound")
    assert (await released(it, sound))["participants"] == 2
    # the same next pair, another document; not signed as planned, for the old key is not needed
    fork = forged(before, KEYS[0], None)
    both = lied(before, KEYS[0], fork)
    it.house.wires[0].lie = lambda path, answer: both if path == CHAIN else answer
    look_again(it)
    assert await refused(it, "forked") == (403, "identity_forked")
    it.house.wires[0].lie = None
    assert await refused(it, "forked-still") == (403, "identity_forked")
    await it.house.restart()
    assert await refused(it, "after-a-restart") == (403, "identity_forked")
    chain = IdentityChain.model_validate_json(json.dumps(both))
    token = await coordinator_token(it, second)
    answer = await second.ask("PUT", f"/v1/peers/{first.id}/identity", chain, token)
    assert problem(answer) == (403, "identity_forked")
    # confirmed, each by its own operator
    path = f"/v1/aggregators/{first.id}/confirmation"
    body = {"fingerprint": encode_binary(bytes.fromhex(new["fingerprint"]))}
    wrong = {"fingerprint": encode_binary(bytes(32))}
    assert problem(await it.house.ask("POST", path, wrong)) == (403, "key_not_anchored")
    assert (await it.house.ask("POST", path, body)).status_code == 200
    path = f"/v1/peers/{first.id}/confirmation"
    assert problem(await second.ask("POST", path, body)) == (403, "key_not_anchored")
    await second.ask("PUT", f"/v1/peers/{first.id}/identity", await shown_by(first), token)
    answer = await second.ask("POST", path, body)
    assert answer.status_code == 200, answer.text
    assert (await released(it, await opened(it, "confirmed")))["participants"] == 2


async def coordinator_token(it: Site, peer: Peer) -> str:
    async with part_of(it.house.app, Identities).database.reading() as transaction:
        rows = await registry_store.list_aggregators(transaction)
    return next(row.token for row in rows if row.id == peer.id)


async def shown_by(peer: Peer) -> IdentityChain:
    return IdentityChain.model_validate_json((await peer.client.get(CHAIN)).content)


def forged(chain: IdentityChain, pair: HybridIdentity, old: HybridIdentity | None) -> Any:
    """A succession to a document of this pair, which commits to another pair than the owner's."""
    before = chain.documents[-1].statement
    document = before.model_copy(
        update={
            "serial": before.serial + 1,
            "ed25519": pair.public.ed25519,
            "mldsa65": pair.public.mldsa65,
            "next": commitment(KEYS[5].public),
        }
    )
    now = datetime.now(UTC).replace(microsecond=0)
    planned = old is not None
    statement = Succession(
        deployment="tacit",
        role=before.role,
        name=before.name,
        replaced=before.fingerprint,
        document=document,
        effective=now,
        overlap_until=now + timedelta(days=1) if planned else now,
        reason=Reason.PLANNED if planned else Reason.COMPROMISED,
    )
    return succeed(statement, pair, old)


def lied(chain: IdentityChain, pair: HybridIdentity, link: Any) -> Any:
    """The chain with that at its end."""
    new = pair.sign(IDENTITY_LABEL, link.statement.document)
    made = IdentityChain(documents=(*chain.documents, new), links=(*chain.links, link))
    return made.model_dump(mode="json", by_alias=True, exclude_none=True)
