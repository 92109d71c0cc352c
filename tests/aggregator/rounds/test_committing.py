"""From the manifest to the partial sum: one manifest, one nonce, one answer."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from aggregator.audit import Listener, audited
from aggregator.context import stored_round
from aggregator.errors import RoundClosed
from aggregator.rounds import partial_sum
from aggregator.store import rounds as store
from tacit.crypto.signing import Identity, Signed
from tacit.protocol.round.agreement import ManifestRefused, manifest_hash, manifest_of
from tacit.protocol.round.messages import (
    ACCEPTED_LABEL,
    AcceptedSet,
    Manifest,
    ManifestRequest,
    RevealRequest,
)
from tacit.protocol.round.opening import CommitmentRefused
from tacit.protocol.round.state import RoundState
from tacit.query.mechanisms import aggregator_plan, draw
from tacit.randomness import SeededRandom
from tacit.wire import encode_binary
from tests.aggregator.conftest import Alliance
from tests.aggregator.double import SALT, Federation, Round, manifest_request, query
from tests.aggregator.rounds.test_opening import EXACT, NOISY, SHAMIR, aggregator_of
from tests.aggregator.rounds.test_state_machine import refused


async def delivered(federation: Federation, count: int = 3, **asked: Any) -> Round:
    """A round in which lone curators sent 1, 2, ..."""
    lone = await federation.lone(count)
    current = await federation.open(query(**asked))
    for value, sender in enumerate(lone):
        await current.contribute(sender, np.array([[value + 1]]))
    return current


async def commit(current: Round, accepted: list[Signed[AcceptedSet]], index: int = 0) -> Any:
    """An aggregator's answer to the manifest of these sets."""
    manifest = manifest_of(current.descriptor, accepted, SALT)
    request = manifest_request(manifest, accepted)
    peer = current.federation.peers[index]
    return await peer.coordinate("POST", current.path("commitment"), request)


async def test_every_step_repeats_its_bytes_and_the_sum_is_exact(pair: Federation) -> None:
    current = await delivered(pair, **EXACT)
    early = await pair.peers[0].coordinate(
        "POST", current.path("reveal"), RevealRequest(commitments=())
    )
    refused(early, 409, "round_not_committed")
    made_up = Manifest(
        round=current.id,
        descriptor_hash=current.descriptor.digest(),
        quorum=(0, 1),
        members=b"\x07",
        count=3,
        contributions=(),
        salt=SALT,
    )
    request = manifest_request(made_up, ())
    answer = await pair.peers[0].coordinate("POST", current.path("commitment"), request)
    refused(answer, 409, "round_not_frozen")
    accepted = await current.freeze()
    first = await commit(current, accepted)
    assert (first.status_code, first.content) == (200, (await commit(current, accepted)).content)
    manifest, commitments = await current.commit(accepted)
    own, other = commitments
    altered = other.statement.model_copy(update={"manifest_hash": bytes(32)})
    stranger = Identity.generate().sign("tacit commitment v1", altered)
    for hostile in [(own,), (other,), (own, own), (own, stranger), ()]:
        answer = await pair.peers[0].coordinate(
            "POST", current.path("reveal"), RevealRequest(commitments=hostile)
        )
        refused(answer, 409, "commitment_refused")
    again = own.statement.model_copy(update={"hash": bytes(32)})
    signed = aggregator_of(pair).identities.current.sign("tacit commitment v1", again)
    answer = await pair.peers[0].coordinate(
        "POST", current.path("reveal"), RevealRequest(commitments=(signed, other))
    )
    refused(answer, 409, "commitment_refused")
    assert answer.json()["detail"] == ("the commitment of this aggregator is not the one it signed")
    reveals = await current.reveal(manifest, commitments)
    assert await current.reveal(manifest, commitments[::-1]) == reveals
    assert [len(item.nonce) for item in reveals] == [32, 32]
    total, _ = await current.release()
    assert total.tolist() == [6]


async def test_a_manifest_is_the_one_of_the_sets_that_were_signed(pair: Federation) -> None:
    current = await delivered(pair, **EXACT)
    accepted = await current.freeze()
    honest = manifest_of(current.descriptor, accepted, SALT)
    peer, path = pair.peers[0], current.path("commitment")
    for changed in ({"members": b"\x03", "count": 2}, {"count": 4}):
        request = manifest_request(honest.model_copy(update=changed), accepted)
        refused(await peer.coordinate("POST", path, request), 409, "manifest_refused")
    altered = accepted[1].statement.model_copy(update={"members": b"\x06"})
    unsigned = accepted[1].model_copy(update={"statement": altered})
    for sets in ((accepted[0],), (accepted[0], unsigned)):
        request = manifest_request(honest, sets)
        refused(await peer.coordinate("POST", path, request), 409, "manifest_refused")
    # Another set under this aggregator's own signature, which it has not kept as its answer.
    smaller = accepted[0].statement.model_copy(update={"members": b"\x03"})
    forged = aggregator_of(pair).identities.current.sign(ACCEPTED_LABEL, smaller)
    refused(await commit(current, [forged, accepted[1]]), 409, "manifest_refused")
    assert (await commit(current, accepted)).status_code == 200


async def test_a_manifest_is_asked_for_by_its_salt_and_hash_too(pair: Federation) -> None:
    current = await delivered(pair, **EXACT)
    accepted = await current.freeze()
    manifest = manifest_of(current.descriptor, accepted, SALT)
    peer, path = pair.peers[0], current.path("commitment")

    async def asked(salt: bytes = SALT, digest: bytes = manifest_hash(manifest)) -> Any:
        request = ManifestRequest(salt=salt, manifest_hash=digest, accepted=tuple(accepted))
        return await peer.coordinate("POST", path, request)

    refused(await asked(digest=bytes(32)), 409, "manifest_refused")
    refused(await asked(salt=bytes(32)), 409, "manifest_refused")
    signed = await asked()
    assert signed.status_code == 200
    assert (await commit(current, accepted)).content == signed.content
    sets = [item.model_dump(mode="json") for item in accepted]
    salt, digest = encode_binary(SALT), encode_binary(manifest_hash(manifest))
    for neither in (
        {},
        {"salt": salt},
        {"manifest_hash": digest},
        {"manifest": manifest.model_dump(mode="json"), "salt": salt, "manifest_hash": digest},
    ):
        body = json.dumps({**neither, "accepted": sets}).encode()
        answer = await peer.ask("POST", path, body, peer.coordinator_token)
        refused(answer, 422, "bad_parameter")


async def test_of_two_quorums_one_is_committed_to_and_only_the_own(trio: Federation) -> None:
    current = await delivered(trio, **SHAMIR)
    accepted = await current.freeze()
    refused(await commit(current, accepted[1:]), 409, "manifest_refused")
    assert (await commit(current, accepted[:2])).status_code == 200
    answer = await commit(current, accepted)
    refused(answer, 409, "manifest_refused")
    assert answer.json()["detail"] == (
        "another manifest was committed to; there is never a second one"
    )


@pytest.mark.parametrize("asked", [NOISY, SHAMIR, {**EXACT}], ids=["additive", "shamir", "exact"])
async def test_noise_is_in_the_sum_once(alliance: Alliance, asked: dict[str, Any]) -> None:
    """Additive noise joins the partial sum; under Shamir its shares are among the pieces."""
    async with alliance(asked["aggregators"]) as federation:
        current = await delivered(federation, **asked)
        accepted = await current.freeze()
        manifest = manifest_of(current.descriptor, accepted, SALT)
        aggregator = aggregator_of(federation)
        context = await aggregator.round(current.id)

        async def partial(seed: int) -> np.ndarray:
            seeded = replace(aggregator, random=SeededRandom(seed))  # type: ignore[arg-type]
            listener = Listener(audited(context.descriptor.query))
            return await partial_sum._partial_sum(seeded, context, manifest, listener)

        plan = aggregator_plan(context.descriptor.query)
        one, other = await partial(1), await partial(2)
        if asked is not NOISY:
            assert one.tolist() == other.tolist()
            return
        assert plan is not None
        first, second = (draw(plan, SeededRandom(seed), 1)[0] for seed in (1, 2))
        assert first.tolist() != second.tolist()
        assert (one - first.astype(np.uint64)).tolist() == (
            other - second.astype(np.uint64)
        ).tolist()


async def test_a_second_process_gets_what_the_first_stored(pair: Federation) -> None:
    """As two processes on one store, both of which found the round frozen."""
    current = await delivered(pair, **EXACT)
    accepted = await current.freeze()
    manifest = manifest_of(current.descriptor, accepted, SALT)
    aggregator = aggregator_of(pair)
    context = await aggregator.round(current.id)
    listener = Listener(audited(context.descriptor.query))
    partial = await partial_sum._partial_sum(aggregator, context, manifest, listener)

    async with aggregator.database.reading() as transaction:
        row = await stored_round(transaction, current.id)

    async def again(wanted: Manifest = manifest) -> str:
        digest, heard = manifest_hash(wanted), listener.heard()
        async with aggregator.database.begin() as transaction:
            return await partial_sum._commit(
                aggregator, transaction, context, row, wanted, digest, partial, heard
            )

    async def reveal() -> str:
        async with aggregator.database.begin() as transaction:
            return await partial_sum._reveal(aggregator, transaction, context, bytes(32))

    first = await again()
    assert await again() == first
    with pytest.raises(ManifestRefused):
        await again(manifest.model_copy(update={"salt": bytes(32)}))
    reason = {"reason": "test"}
    await pair.peers[0].coordinate("POST", current.path("abort"), reason)
    with pytest.raises(RoundClosed):
        await again()
    with pytest.raises(RoundClosed):
        await reveal()
    refused(await commit(current, accepted), 410, "round_closed")
    answer = await pair.peers[0].coordinate(
        "POST", current.path("reveal"), RevealRequest(commitments=())
    )
    refused(answer, 410, "round_closed")


async def test_a_partial_sum_is_revealed_to_one_set_of_commitments(pair: Federation) -> None:
    current = await delivered(pair, **EXACT)
    await current.release()
    aggregator = aggregator_of(pair)
    context = await aggregator.round(current.id)

    async def reveal(request: bytes) -> str:
        async with aggregator.database.begin() as transaction:
            return await partial_sum._reveal(aggregator, transaction, context, request)

    with pytest.raises(CommitmentRefused):
        await reveal(bytes(32))
    async with aggregator.database.reading() as transaction:
        row = await store.round_by_key(transaction, context.key)
    assert row.state is RoundState.RELEASED
    assert row.reveal_request is not None
    assert "partial" in await reveal(row.reveal_request)
