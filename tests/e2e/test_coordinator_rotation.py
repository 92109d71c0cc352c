"""The coordinator's identity is replaced while rounds run: aggregators and curators follow it.

Spec: keys, sections 5 and 9 (check 10). Real coordinator, aggregators and curators.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from common.runtime.clock import SystemClock
from common.store.own_identities import OwnIdentities
from common.web.dependencies import part_of
from coordinator.budget.ledger import Ledger
from coordinator.registry.members import Registry
from coordinator.store.tables import identities as table
from curator.participation.loop import Planning
from curator.parties.identities import Coordinators
from curator.store import parties as party_store
from tacit.client.client import AsyncClient
from tacit.crypto.signing import HybridIdentity, Identity, Signed, fingerprint
from tacit.protocol.identities import IdentityChain, IdentitySuperseded
from tacit.protocol.round.descriptor import DESCRIPTOR_LABEL, RoundDescriptor
from tacit.protocol.trust import TranscriptNotAnchored, Trust
from tacit.wire import encode_binary
from tests.coordinator.double import WINDOW, problem, query
from tests.e2e import rotation
from tests.e2e.federation import COORDINATOR, CURATOR_OPERATOR, Site, site
from tests.e2e.rotation import (
    KEYS,
    coordinator_token,
    forged,
    lied,
    opened,
    peers,
    released,
    settled,
)
from tests.e2e.test_federated_jobs import CENTRES, HOSTED, KMEANS, blobs

CHAIN = "/.well-known/tacit-coordinator/identity"


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path) as found:
        await settled(found)
        yield found


def own(it: Site) -> OwnIdentities:
    return part_of(it.house.app, Registry).own


def key_of(it: Site) -> bytes:
    return own(it).current.public_key


async def commit(it: Site, number: int = 0) -> None:
    answer = await it.house.ask("PUT", "/v1/identity/next", pair(number))
    assert (answer.status_code, answer.json()["untold"]) == (200, []), answer.text


def pair(number: int) -> dict[str, Any]:
    return KEYS[number].public.model_dump(mode="json")


async def successor(it: Site, number: int, **changes: Any) -> httpx.Response:
    """Pair `number` becomes the identity; the next one follows."""
    secret = encode_binary(KEYS[number].to_bytes())
    body = {"secret": secret, "following": pair(number + 1), **changes}
    return await it.house.ask("POST", "/v1/identity/successor", body)


async def rotate(it: Site, number: int, **changes: Any) -> dict[str, Any]:
    answer = await successor(it, number, **changes)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    assert found["key_fingerprint"] == fingerprint(KEYS[number].public.ed25519).hex()
    return found


async def chain_of(it: Site) -> IdentityChain:
    return IdentityChain.model_validate_json((await it.house.client.get(CHAIN)).content)


async def known_to_curators(it: Site) -> set[bytes]:
    async with part_of(it.app, Coordinators).database.reading() as transaction:
        return {each.key for each in await party_store.coordinators(transaction)}


async def known_to_aggregators(it: Site) -> set[str]:
    answers = [await peer.ask("GET", "/v1/coordinator") for peer in peers(it)]
    return {answer.json()["fingerprint"] for answer in answers}


async def aborted(it: Site, name: str) -> str:
    """Why a round that opens does not go on."""
    asked = await it.house.ask_for(query(name=name, deadline_s=8))
    ended = await it.house.finish(await it.house.round_of(asked["id"]))
    assert ended["state"] == "aborted", ended
    reason: str = ended["reason"]
    return reason


async def verified(it: Site, round_id: str, trust: Trust | None = None) -> dict[str, Any]:
    transport = httpx.ASGITransport(app=it.house.app)
    token = await it.house.token("analyst")
    async with AsyncClient(COORDINATOR, token, transport=transport) as client:
        found: dict[str, Any] = await client.rounds.verify(round_id, trust=trust)
        return found


@pytest.mark.slow
async def test_a_planned_rotation_while_rounds_run(it: Site) -> None:
    await commit(it)
    before = key_of(it)
    running = [await opened(it, f"running-{number}", 12) for number in range(3)]
    done = await rotate(it, 0)
    assert done["untold"] == []
    assert own(it).replaced() == ()  # the old private key is gone: nothing needs it
    assert await known_to_aggregators(it) == {done["key_fingerprint"]}
    later = await opened(it, "later")
    for each in (*running, later):
        assert (await released(it, each))["participants"] == 2
    assert await known_to_curators(it) == {KEYS[0].public.ed25519}
    # the same request again changes nothing; the ledger goes on
    assert await rotate(it, 0) == done
    assert (await it.house.ask("GET", "/v1/budget/verification")).json()["verified"]
    # rounds of before are verified by the key of then, which the chain shows
    for each, key in ((running[0], before), (later, KEYS[0].public.ed25519)):
        found = await verified(it, each.id)
        assert found["matches"]
        assert found["coordinator_fingerprint"] == fingerprint(key).hex()
    only_old = Trust(deployment="tacit", coordinator=(fingerprint(before).hex(),))
    with pytest.raises(TranscriptNotAnchored):
        await verified(it, later.id, only_old)
    # and once more, after a restart, from what everybody followed
    await it.house.restart()
    assert key_of(it) == KEYS[0].public.ed25519
    await rotate(it, 1)
    third = await opened(it, "third")
    assert (await released(it, third))["participants"] == 2
    assert await known_to_curators(it) == {KEYS[1].public.ed25519}


@pytest.mark.slow
async def test_who_enrols_or_pairs_after_a_rotation_follows_the_next_one(it: Site) -> None:
    await commit(it)
    await rotate(it, 0)
    await it.enrol("east")
    items = [{"curator": "east", "time": "2025-12-31T23:30:00Z", "value": "1", "unit": "kWh"}]
    assert (await it.own("POST", "/v1/readings", items)).status_code == 200
    first = peers(it)[0]
    body = {"deployment": "tacit", "identity_key": encode_binary(key_of(it))}
    answer = await first.ask("PUT", "/v1/coordinator?replace=true", json.dumps(body).encode())
    assert answer.status_code == 200, answer.text
    async with own(it).database.begin() as transaction:
        from coordinator.store import registry

        rows = await registry.list_aggregators(transaction)
        (row,) = [row for row in rows if row.id == first.id]
        from dataclasses import replace as changed

        fresh = changed(row, token=answer.json()["token"])
        await registry.put_aggregator(
            transaction, fresh, part_of(it.house.app, Registry).clock.now()
        )
    await rotate(it, 1)
    assert (await released(it, await opened(it, "after")))["participants"] == 3
    assert await known_to_curators(it) == {KEYS[1].public.ed25519}


@pytest.mark.slow
async def test_a_compromised_identity_ends_at_once(it: Site) -> None:
    """Its rounds abort; what a thief signs with it is refused by aggregators and curators."""
    await commit(it)
    sound = await opened(it, "sound")
    assert (await released(it, sound))["participants"] == 2
    stolen = Identity.from_bytes(own(it).current.to_bytes())
    running = await opened(it, "running", 60)
    await rotate(it, 0, compromised=True)
    ended = await it.house.finish(running)
    assert (ended["state"], ended["reason"]) == ("aborted", "identity_superseded")
    after = await opened(it, "after", 20)  # parties renew their tokens first
    assert (await released(it, after))["participants"] == 2
    # the thief opens a round: at an aggregator, and at the address of the coordinator
    statement = running.descriptor.model_copy(
        update={"round": "019a0c2e-8f00-7000-8000-00000000abcd"}
    )
    signed = stolen.sign(DESCRIPTOR_LABEL, statement)
    first = peers(it)[0]
    token = await coordinator_token(it, first)
    answer = await first.ask("POST", "/v1/rounds", signed, token)
    assert problem(answer) == (422, "descriptor_refused")
    coordinators = part_of(it.app, Coordinators)
    known = set(await coordinators.known(COORDINATOR))
    planning = Planning(coordinators.database, SystemClock(), 0)
    items = [json.loads(signed.model_dump_json())]
    assert (await planning.take_up(known, items))[1]
    ours = Signed[RoundDescriptor].model_validate_json(
        (await it.house.ask("GET", f"/v1/rounds/{sound.id}/descriptor")).content
    )
    items = [json.loads(ours.model_dump_json())]
    assert (await planning.take_up(known, items))[1]


@pytest.mark.slow
async def test_who_steals_the_running_key_gets_no_further(it: Site) -> None:
    """A succession without the next pair: aggregators refuse it, curators pass it over."""
    await commit(it)
    assert (await released(it, await opened(it, "seen")))["participants"] == 2
    await part_of(it.app, Coordinators).follow(COORDINATOR)
    chain = await chain_of(it)
    async with own(it).database.reading() as transaction:
        (row,) = await transaction.execute(table.select())
    thief, stolen = HybridIdentity(b"t" * 64), HybridIdentity(row.secret)
    false = lied(chain, thief, forged(chain, thief, stolen))
    for peer in peers(it):
        token = await coordinator_token(it, peer)
        answer = await peer.ask(
            "PUT", "/v1/coordinator/identity", json.dumps(false).encode(), token
        )
        assert problem(answer) == (403, "succession_refused")
    await shown_instead(it, false)
    assert await known_to_curators(it) == {key_of(it)}
    assert (await released(it, await opened(it, "sound")))["participants"] == 2


async def shown_instead(it: Site, false: dict[str, Any]) -> None:
    """Curators are shown a false chain, once."""
    coordinators = part_of(it.app, Coordinators)
    honest = coordinators.peers.identities

    async def lie(_url: str, _document: str) -> IdentityChain:
        return IdentityChain.model_validate_json(json.dumps(false))

    coordinators.peers.identities = lie  # type: ignore[method-assign, assignment]
    assert not await coordinators.follow(COORDINATOR)
    coordinators.peers.identities = honest  # type: ignore[method-assign]


@pytest.mark.slow
async def test_two_successors_are_a_fork_until_a_person_confirms_one(it: Site) -> None:
    await commit(it)
    assert (await released(it, await opened(it, "seen")))["participants"] == 2
    before = await chain_of(it)
    new = await rotate(it, 0)
    assert (await released(it, await opened(it, "followed")))["participants"] == 2
    both = lied(before, KEYS[0], forged(before, KEYS[0], None))
    first = peers(it)[0]
    token = await coordinator_token(it, first)
    answer = await first.ask("PUT", "/v1/coordinator/identity", json.dumps(both).encode(), token)
    assert problem(answer) == (403, "identity_forked")
    assert f"{first.id} refuses the descriptor: identity_forked" in await aborted(it, "forked")
    await shown_instead(it, both)
    assert not (await part_of(it.app, Coordinators).follow(COORDINATOR))  # the true one, too late
    listed = (await it.own("GET", "/v1/anchors")).json()["anchors"]
    assert [each["forked"] for each in listed] == [True, False, False, False]
    # confirmed, each by its own operator
    body = {"fingerprint": encode_binary(bytes.fromhex(new["fingerprint"]))}
    wrong = {"fingerprint": encode_binary(bytes(32))}
    path = "/v1/coordinator/confirmation"
    assert problem(await first.ask("POST", path, json.dumps(body).encode())) == (
        403,
        "key_not_anchored",
    )
    await first.ask("PUT", "/v1/coordinator/identity", await chain_of(it), token)
    answer = await first.ask("POST", path, json.dumps(body).encode())
    assert answer.status_code == 200, answer.text
    ended = await it.house.finish(await opened(it, "curators-refuse"))
    assert ended["state"] == "aborted"
    path = "/v1/anchors/tacit/confirmation"
    assert problem(await it.own("POST", path, wrong)) == (403, "key_not_anchored")
    assert problem(await it.own("POST", "/v1/anchors/nobody/confirmation", body)) == (
        404,
        "unknown_anchor",
    )
    answer = await it.own("POST", path, body)
    assert answer.status_code == 200, answer.text
    assert [each["forked"] for each in answer.json()["anchors"]] == [False]
    assert (await released(it, await opened(it, "confirmed")))["participants"] == 2


@pytest.mark.slow
async def test_the_ledger_starts_from_a_checkpoint_of_the_new_key(it: Site) -> None:
    """A thief of the old key cannot plant a state of the ledger."""
    await commit(it)
    before = key_of(it)
    await rotate(it, 0, compromised=True)
    ledger = part_of(it.house.app, Ledger)
    async with own(it).database.reading() as transaction:
        found = await ledger._known(transaction)
    assert found is not None
    with pytest.raises(ValueError, match="signature"):
        found.check(before)


@pytest.mark.slow
async def test_where_every_change_has_to_be_confirmed(tmp_path: Path) -> None:
    """A rotation that follows from the committed pair still waits for each operator."""
    async with site(tmp_path, confirm_key_changes=True) as it:
        await settled(it)
        await commit(it)
        assert (await released(it, await opened(it, "seen")))["participants"] == 2
        await part_of(it.app, Coordinators).follow(COORDINATOR)
        done = await rotate(it, 0, compromised=True)
        assert done["untold"] == []  # aggregators need no confirmation here
        waiting = await it.house.finish(await opened(it, "waiting"))
        assert waiting["state"] == "aborted", waiting
        assert KEYS[0].public.ed25519 not in await known_to_curators(it)
        body = {"fingerprint": encode_binary(bytes.fromhex(done["fingerprint"]))}
        answer = await it.own("POST", "/v1/anchors/tacit/confirmation", body)
        assert answer.status_code == 200, answer.text
        assert await known_to_curators(it) == {KEYS[0].public.ed25519}
        assert (await released(it, await opened(it, "confirmed")))["participants"] == 2


@pytest.mark.slow
async def test_an_answer_of_before_a_rotation_is_still_checked(it: Site) -> None:
    """By the key that signed its round, which a party keeps with what it followed."""
    await commit(it)
    before = key_of(it)
    answered = await opened(it, "before")
    await released(it, answered)
    await rotate(it, 0)
    await released(it, await opened(it, "after"))
    assert before not in await known_to_curators(it)
    transport = httpx.ASGITransport(app=it.app)
    async with AsyncClient("http://curators.test", CURATOR_OPERATOR, transport=transport) as client:
        (name, *_) = [each["id"] async for each in client.curators.hosted()]
        anchors = await client.contributions.anchors(name, answered.id)
        assert anchors["coordinator_key"] == encode_binary(before)
        assert (await client.contributions.check(name, answered.id))["same_round"]


@pytest.mark.slow
async def test_a_join_token_of_before_a_rotation_is_good(it: Site) -> None:
    """Its fingerprints lead to the identities of now; those of an impostor do not."""
    token = await it.join_token("east")
    await commit(it)
    await rotate(it, 0)
    first = peers(it)[0]
    await rotation.commit(first, KEYS[2])
    await rotation.rotate(first, 2)
    await it.enrol_by(token)
    async with part_of(it.app, Coordinators).database.reading() as transaction:
        row = await party_store.party(transaction, "east")
    assert row is not None
    assert (row.state, row.coordinator_key) == ("active", KEYS[0].public.ed25519)
    false = (await it.join_token("west")).coordinator.model_copy(update={"fingerprint": bytes(32)})
    other = (await it.join_token("west")).model_copy(update={"coordinator": false})
    answer = await it.own("POST", "/v1/enrolments", {"token": other.to_text()})
    assert problem(answer) == (403, "fingerprint_mismatch")


@pytest.mark.slow
async def test_a_revoked_identity_opens_nothing_more(it: Site) -> None:
    """Its rounds end, aggregators refuse what it signed, and after a start it opens none."""
    await commit(it)
    sound = await opened(it, "sound")
    assert (await released(it, sound))["participants"] == 2
    running = await opened(it, "running", 60)
    stolen = Identity.from_bytes(own(it).current.to_bytes())
    body = {"secret": encode_binary(KEYS[0].to_bytes()), "compromised": True}
    answer = await it.house.ask("POST", "/v1/identity/revocation", body)
    assert (answer.status_code, answer.json()["untold"]) == (200, []), answer.text
    ended = await it.house.finish(running)
    assert (ended["state"], ended["reason"]) == ("aborted", "identity_superseded")
    statement = running.descriptor.model_copy(
        update={"round": "019a0c2e-8f00-7000-8000-00000000abcd"}
    )
    first = peers(it)[0]
    signed = stolen.sign(DESCRIPTOR_LABEL, statement)
    token = await coordinator_token(it, first)
    refused = await first.ask("POST", "/v1/rounds", signed, token)
    assert problem(refused) == (403, "identity_superseded")
    await it.house.restart()
    created = await it.house.ask("POST", "/v1/queries", query(name="after"))
    asked = {"query_id": created.json()["id"], "window": WINDOW}
    assert problem(await it.house.ask("POST", "/v1/rounds", asked)) == (403, "identity_superseded")
    assert (await it.house.ask("GET", "/v1/budget/verification")).json()["verified"]
    again = await it.house.ask("POST", "/v1/identity/revocation", body)
    assert again.json()["fingerprint"] == answer.json()["fingerprint"]
    # what was released stays verified by the key of then
    assert (await verified(it, sound.id))["matches"]
    assert await part_of(it.app, Coordinators).follow(COORDINATOR)
    (known,) = await part_of(it.app, Coordinators).known(COORDINATOR)
    with pytest.raises(IdentitySuperseded):
        known.keys(SystemClock().now())


@pytest.mark.slow
async def test_a_job_and_an_upload_go_on(tmp_path: Path) -> None:
    """The identity is replaced in the middle of an upload, while rounds of a job run."""
    async with site(tmp_path) as it:
        await it.enrol("host", HOSTED)
        for number, name in enumerate(HOSTED):
            await it.give(name, ["a", "b"], blobs(20, number))
        await it.agree("kmeans", record={"period": {"epsilon": "9"}})
        await commit(it)
        asked = await it.ask(KMEANS)
        async with asyncio.timeout(60):  # one sum is opened, and the next round is in progress
            while (await it.shown(asked["id"]))["progress"] <= 0.5:
                await asyncio.sleep(0.02)
        head = {"name": "rows", "kind": "numeric-table", "format": "csv"}
        fields = "".join(
            f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in head.items()
        )
        file = '--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nx,y\n'

        async def body() -> AsyncIterator[bytes]:
            yield (fields + file).encode()
            for number in range(4000):
                yield f"{number},{number % 7}\n".encode()
                if number == 2000:
                    assert (await it.shown(asked["id"]))["state"] == "running"
                    await rotate(it, 0)
            yield b"\r\n--b--\r\n"

        headers = {"Content-Type": "multipart/form-data; boundary=b"}
        stored = await it.house.ask("POST", "/v1/datasets", content=body(), headers=headers)
        assert stored.status_code == 201, stored.text
        assert stored.json()["schema"]["rows"] == 4000, stored.text
        found = await it.result(asked["id"])
        centres = np.array(sorted(found["summary"]["centres"]))
        assert np.abs(centres - CENTRES).max() < 0.5
        # another one, under the new key from its start
        again = await it.ask(KMEANS)
        assert (await it.result(again["id"]))["summary"]["truncated"] is False
        assert await known_to_curators(it) == {KEYS[0].public.ed25519}
