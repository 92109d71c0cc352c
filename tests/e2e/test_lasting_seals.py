"""Signatures that are believed for years: seal keys that ML-DSA signed, too, sealed transcripts,
and the ledger's head. Spec: keys, section 4. Real coordinator, aggregators and curators.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aggregator.context import Aggregator
from common.store.transactions import Database
from common.web.dependencies import part_of
from coordinator.budget.ledger import LedgerSeals
from coordinator.registry.members import Registry
from curator.errors import LastingSignatureMissing
from curator.parties.identities import Identities
from curator.parties.keys import SealKeys
from curator.parties.peers import Peers
from curator.store import parties as party_store
from tacit.crypto.signing import HybridIdentity, Signed
from tacit.protocol.identities import IDENTITY_LABEL
from tacit.protocol.round.messages import Transcript
from tacit.protocol.sealing_sessions import SEAL_KEY_LABEL, SealKeyStatement
from tacit.protocol.trust import (
    LASTING_SEAL_KEY_LABEL,
    TRANSCRIPT_SEAL_LABEL,
    SealRefused,
    ShownLedgerSeal,
    ShownSeal,
    check_ledger_seal,
    check_seal,
)
from tests.aggregator.double import Peer
from tests.coordinator.double import problem
from tests.e2e.federation import Site, site
from tests.e2e.rotation import (
    KEYS,
    commit,
    coordinator_token,
    opened,
    peers,
    released,
    settled,
)
from tests.e2e.test_coordinator_rotation import verified

pytestmark = pytest.mark.slow


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path, require_pq_signatures=True) as found:
        changes = {"lasting_seals": True}
        found.house.settings = found.house.settings.model_copy(update=changes)
        await settled(found)
        yield found


async def signature(peer: Peer, key_hash: str) -> Any:
    return await peer.client.get(f"/v1/seal-keys/{key_hash}/signature")


async def test_a_round_is_answered_only_if_every_seal_key_is_signed_twice(it: Site) -> None:
    """One aggregator has no pair: its rounds are refused. With it, they are released."""
    first, *others = peers(it)
    for number, peer in enumerate(others):
        await commit(peer, KEYS[number])
    unsigned = await opened(it, "unsigned")
    assert (await it.house.finish(unsigned))["state"] == "aborted"
    answer = await it.own("GET", f"/v1/curators/north/contributions/{unsigned.id}")
    assert "pq_signature_missing" in answer.text, answer.text
    await commit(first, KEYS[2])
    part_of(it.app, Identities)._checked.clear()
    signed = await opened(it, "signed")
    assert (await released(it, signed))["participants"] == 2
    entry = signed.descriptor.aggregators[0]
    current = (await first.client.get("/v1/seal-keys/current")).json()
    found = await signature(first, current["statement"]["public_key_hash"])
    twice = Signed[SealKeyStatement].model_validate_json(found.content)
    assert twice.statement == entry.seal
    unknown = await signature(first, "A" * 43)
    assert problem(unknown) == (404, "unknown_seal_key")


async def test_what_an_aggregator_shows_is_checked(it: Site) -> None:
    """Another pair's signature, one half alone, another statement or label are refused."""
    for number, peer in enumerate(peers(it)):
        await commit(peer, KEYS[number])
    seen = await opened(it, "seen")
    assert (await released(it, seen))["participants"] == 2
    first = peers(it)[0]
    own = first.part(Aggregator).identities
    found = own.pair(own.current.public_key)
    assert found is not None
    pair, _ = found
    database = part_of(it.app, Database)
    async with database.reading() as transaction:
        party = await party_store.party(transaction, "north")
    assert party is not None

    async def answered(shown: Signed[SealKeyStatement] | None) -> bool:
        """Whether a curator seals to this round, shown this."""
        calls = part_of(it.app, Peers)
        honest, here = calls.seal_signature, first.client.base_url.host

        async def told(url: str, key_hash: bytes) -> Signed[SealKeyStatement]:
            return shown if shown is not None and here in url else await honest(url, key_hash)

        calls.seal_signature = told  # type: ignore[method-assign]
        try:
            return len(await SealKeys(calls, database).of(seen.descriptor, party)) == 3
        except LastingSignatureMissing:
            return False
        finally:
            calls.seal_signature = honest  # type: ignore[method-assign]

    statement = seen.descriptor.aggregators[0].seal
    good = pair.sign(LASTING_SEAL_KEY_LABEL, statement)
    thief = HybridIdentity(own.current.to_bytes() + bytes(32))  # the Ed25519 key, another ML-DSA
    later = statement.model_copy(update={"number": statement.number + 1})
    assert await answered(None)
    assert await answered(good)
    for lie in (
        thief.sign(LASTING_SEAL_KEY_LABEL, statement),
        good.model_copy(update={"signature": good.signature[:64]}),
        pair.sign(SEAL_KEY_LABEL, statement),
        pair.sign(LASTING_SEAL_KEY_LABEL, later),
    ):
        assert not await answered(lie)


async def test_transcripts_and_heads_are_sealed_for_years(it: Site) -> None:
    for number, peer in enumerate(peers(it)):
        await commit(peer, KEYS[number])
    done = await opened(it, "sealed")
    assert (await released(it, done))["participants"] == 2
    found = await verified(it, done.id)
    assert sorted(found["sealed_by"]) == sorted(peer.id for peer in peers(it))
    path = f"/v1/rounds/{done.id}"
    again = await it.house.ask("POST", f"{path}/seals")
    assert again.json() == {"seals": 3}
    shown = (await it.house.ask("GET", f"{path}/seals")).json()["seals"]
    seals = [ShownSeal.model_validate_json(json.dumps(each)) for each in shown]
    content = (await it.house.ask("GET", f"{path}/transcript")).content
    transcript = Transcript.model_validate_json(content)
    assert {check_seal(transcript, each).hex() for each in seals} == set(
        found["sealed_by"].values()
    )
    # of another transcript, by another, with one half, or by a pair of the same Ed25519 key
    changed = transcript.model_copy(update={"participants": transcript.participants + 1})
    for seal in seals:
        with pytest.raises(SealRefused):
            check_seal(changed, seal)
    with pytest.raises(SealRefused):
        check_seal(transcript, seals[0].model_copy(update={"aggregator": seals[1].aggregator}))
    half = seals[0].seal.model_copy(update={"signature": seals[0].seal.signature[:64]})
    with pytest.raises(SealRefused):
        check_seal(transcript, seals[0].model_copy(update={"seal": half}))
    first = next(each for each in peers(it) if each.id == seals[0].aggregator)
    own = first.part(Aggregator).identities.current
    thief = HybridIdentity(own.to_bytes() + bytes(32))
    document = seals[0].document.statement.model_copy(update={"mldsa65": thief.public.mldsa65})
    forged = ShownSeal(
        aggregator=first.id,
        document=thief.sign(IDENTITY_LABEL, document),
        seal=thief.sign(TRANSCRIPT_SEAL_LABEL, seals[0].seal.statement),
    )
    fingerprint = check_seal(transcript, forged).hex()  # whose document nobody has kept
    assert fingerprint not in found["sealed_by"].values()
    other = KEYS[5].public
    keys = {"ed25519": other.ed25519, "mldsa65": other.mldsa65}
    stranger = ShownSeal(
        aggregator=first.id,
        document=KEYS[5].sign(IDENTITY_LABEL, document.model_copy(update=keys)),
        seal=KEYS[5].sign(TRANSCRIPT_SEAL_LABEL, seals[0].seal.statement),
    )
    with pytest.raises(SealRefused, match="another identity"):
        check_seal(transcript, stranger)
    # an aggregator seals nothing that it did not take part in
    token = await coordinator_token(it, first)
    refused = await first.ask("POST", f"{path}/seal", changed, token)
    assert problem(refused) == (409, "transcript_refused")
    own_reveal = [each for each in transcript.reveals if each.aggregator != first.id]
    less = transcript.model_copy(update={"reveals": tuple(own_reveal)})
    assert problem(await first.ask("POST", f"{path}/seal", less, token))[1] == "transcript_refused"


async def test_the_ledgers_head_is_sealed_once_a_day(it: Site) -> None:
    registry = part_of(it.house.app, Registry)
    daily = LedgerSeals(registry.own.database, registry.own, "tacit", registry.clock)
    await daily.look()  # a key alone seals nothing
    assert (await it.house.ask("GET", "/v1/budget/seals")).json()["seals"] == []
    body = KEYS[0].public.model_dump(mode="json")
    assert (await it.house.ask("PUT", "/v1/identity/next", body)).status_code == 200
    for _ in range(2):
        await daily.look()
    (shown,) = (await it.house.ask("GET", "/v1/budget/seals")).json()["seals"]
    day = shown.pop("day")
    seal = ShownLedgerSeal.model_validate_json(json.dumps(shown))
    assert day == int(registry.clock.now().timestamp()) // 86_400
    assert check_ledger_seal(seal) == seal.document.statement.fingerprint
    said = seal.seal.statement
    known = await it.house.ask(
        "GET", f"/v1/budget/verification?seq={said.rows}&head={said.head.hex()}"
    )
    assert known.json()["verified"], known.text
    other = said.model_copy(update={"rows": said.rows + 1})
    with pytest.raises(SealRefused):
        check_ledger_seal(
            seal.model_copy(update={"seal": seal.seal.model_copy(update={"statement": other})})
        )
