"""A corrupt aggregator, or the coordinator, lies while a proved round is verified.

False verifier shares drop contributions, and no rule stops that: it is signed. But nobody's value
is shown, all honest aggregators sum one set or none, and statements that cannot all be true name
who made them.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from aggregator.context import Aggregator
from aggregator.pieces.peer_seals import verify_key
from tacit.crypto.signing import Signed
from tacit.protocol.proved_rounds import (
    ChunkPlace,
    candidates_of,
    chunk_key,
    contradictions,
    seal_chunk,
)
from tacit.protocol.round.agreement import ManifestRefused, TooFewParticipants
from tacit.protocol.round.messages import (
    COMMITMENT_LABEL,
    VERDICT_LABEL,
    VERIFICATION_LABEL,
    Commitment,
    ManifestRequest,
    ProofReason,
    RevealRequest,
    Verdict,
    VerdictRequest,
    Verification,
)
from tests.aggregator.double import Federation, manifest_request
from tests.aggregator.proved import ProvedRound, keyed, proved
from tests.aggregator.rounds.test_state_machine import refused

LIAR = 2


async def filled(federation: Federation, count: int = 3) -> ProvedRound:
    """A round in which everyone has delivered 1."""
    lone = await federation.lone(count)
    current = await keyed(federation, proved())
    for sender in lone:
        await current.prove(sender, np.array([1]))
    return current


async def forged(
    current: ProvedRound, honest: Signed[Verification], shares: bytes
) -> tuple[Signed[Verification], bytes]:
    """What the liar signs of other shares, and the chunk that holds them."""
    aggregator = current.federation.peers[LIAR].part(Aggregator)
    key = await verify_key(aggregator, await aggregator.round(current.id))
    own = chunk_key(key, current.descriptor.digest(), aggregator.id)
    made = honest.statement
    place = ChunkPlace(made.descriptor_hash, made.candidates_hash, LIAR, 0, 1, made.items)
    statement = made.model_copy(update={"shares_hash": hashlib.sha256(shares).digest()})
    signed = aggregator.identities.current.sign(VERIFICATION_LABEL, statement)
    return signed, seal_chunk(own, place, shares)


async def asked(current: ProvedRound, index: int, step: str, body: Any) -> Any:
    return await current.federation.peers[index].coordinate("POST", current.path(step), body)


async def test_zeros_for_shares_drop_all_and_show_nothing(trio: Federation) -> None:
    current = await filled(trio)
    accepted = await current.freeze()
    honest = await current.verify(accepted)
    await current.exchange()
    signed, chunk = await forged(current, honest[LIAR], bytes(3 * 24))
    verifications = (*honest[:LIAR], signed)
    verdicts = []
    for index in (0, 1):
        peer = trio.peers[index]
        assert (await current.put_chunk(peer, LIAR, 0, chunk)).status_code == 204
        answer = await asked(current, index, "verdict", VerdictRequest(verifications=verifications))
        assert answer.status_code == 200, answer.text
        verdicts.append(answer.json()["statement"]["reasons"])
    assert verdicts == [{ProofReason.PROOF.value: "Bw"}] * 2


async def test_shares_of_a_wrong_length_name_who_signed_them(trio: Federation) -> None:
    current = await filled(trio)
    honest = await current.verify(await current.freeze())
    await current.exchange()
    for shares in (b"", bytes(3 * 24 + 8)):
        signed, chunk = await forged(current, honest[LIAR], shares)
        await current.put_chunk(trio.peers[0], LIAR, 0, chunk)
        request = VerdictRequest(verifications=(*honest[:LIAR], signed))
        answer = await asked(current, 0, "verdict", request)
        refused(answer, 409, "verification_refused")
        assert f"aggregator-{LIAR}" in answer.json()["detail"]
    # other shares than those that are signed
    signed, _ = await forged(current, honest[LIAR], b"other")
    await current.exchange()
    request = VerdictRequest(verifications=(*honest[:LIAR], signed))
    refused(await asked(current, 0, "verdict", request), 409, "verification_refused")


async def test_two_verifications_give_two_verdicts_that_say_so(trio: Federation) -> None:
    current = await filled(trio)
    accepted = await current.freeze()
    honest = await current.verify(accepted)
    await current.exchange()
    signed, chunk = await forged(current, honest[LIAR], bytes(3 * 24))
    await current.put_chunk(trio.peers[0], LIAR, 0, chunk)
    one = VerdictRequest(verifications=(*honest[:LIAR], signed))
    answer = await asked(current, 0, "verdict", one)
    assert answer.status_code == 200
    rest = VerdictRequest(verifications=tuple(honest))
    refused(await asked(current, 0, "verdict", rest), 409, "verification_refused")
    signed_verdicts = [
        Signed[Verdict].model_validate_json((await asked(current, index, "verdict", body)).content)
        for index, body in enumerate((one, rest, rest))
    ]
    made = [item.statement for item in honest]
    said = list(contradictions(made, [item.statement for item in signed_verdicts]))
    assert said == [
        f"aggregator-{LIAR} signed two verifications, or aggregator-0 decided on shares that "
        f"aggregator-{LIAR} did not sign"
    ]
    # the sets stay equal: nobody counts what one of them does not
    with pytest.raises(TooFewParticipants):
        current.request(accepted, signed_verdicts)


async def test_two_verdicts_stop_the_round_before_anything_is_opened(trio: Federation) -> None:
    current = await filled(trio, 4)
    accepted, verdicts = await current.verdicts()
    found = candidates_of(current.descriptor, accepted)
    other = verdicts[LIAR].statement.model_copy(update={"reasons": {ProofReason.PROOF: b"\x08"}})
    assert found.items == 4
    identity = trio.peers[LIAR].part(Aggregator).identities.current
    second = identity.sign(VERDICT_LABEL, other)
    requests = [
        current.request(accepted, verdicts),
        current.request(accepted, [*verdicts[:LIAR], second]),
    ]
    commitments = []
    for index, request in enumerate((requests[0], requests[1], requests[0])):
        answer = await asked(current, index, "commitment", request)
        assert answer.status_code == 200, answer.text
        commitments.append(Signed[Commitment].model_validate_json(answer.content))
    signed = tuple(commitments)
    for index in range(3):
        answer = await asked(current, index, "reveal", RevealRequest(commitments=signed))
        refused(answer, 409, "commitment_refused")


async def test_what_the_coordinator_passes_on_wrongly_is_not_taken(trio: Federation) -> None:
    current = await filled(trio, 4)
    accepted = await current.freeze()
    honest = await current.verify(accepted)
    verifications = VerdictRequest(verifications=tuple(honest))
    # other shares, which it cannot seal; then the right ones
    await current.exchange()
    (chunk,) = await current.chunks(1)
    spoilt = chunk[:-1] + bytes([chunk[-1] ^ 1])
    assert (await current.put_chunk(trio.peers[0], 1, 0, spoilt)).status_code == 204
    refused(await asked(current, 0, "verdict", verifications), 409, "shares_missing")
    assert (await current.put_chunk(trio.peers[0], 1, 0, chunk)).status_code == 204
    verdicts = await current.decide(honest)
    manifest, good = (current.manifest(accepted, verdicts), current.request(accepted, verdicts))
    # a manifest that leaves one out, or without all verdicts
    wrong = manifest.model_copy(update={"members": b"\x07", "count": 3})
    for bad in (
        manifest_request(wrong, accepted, verdicts),
        good.model_copy(update={"verdicts": tuple(verdicts[:2])}),
        good.model_copy(update={"verdicts": None}),
        good.model_copy(update={"accepted": tuple(accepted[:2])}),
        good.model_copy(update={"manifest_hash": bytes(32)}),
        good.model_copy(update={"salt": bytes(32)}),
    ):
        assert isinstance(bad, ManifestRequest)
        refused(await asked(current, 0, "commitment", bad), 409, "manifest_refused")
    # commitments of which one names another offset
    commitments = await current.commit_to(good)
    identity = trio.peers[LIAR].part(Aggregator).identities.current
    other = commitments[LIAR].statement.model_copy(update={"offset": ("1",)})
    signed = (*commitments[:LIAR], identity.sign(COMMITMENT_LABEL, other))
    answer = await asked(current, 0, "reveal", RevealRequest(commitments=signed))
    refused(answer, 409, "commitment_refused")
    with pytest.raises(ManifestRefused):
        current.request(accepted[:2], verdicts)


async def test_no_commitment_before_the_verdict(trio: Federation) -> None:
    current = await filled(trio)
    accepted = await current.freeze()
    honest = await current.verify(accepted)
    await current.exchange()
    request = VerdictRequest(verifications=tuple(honest))
    verdicts = [
        Signed[Verdict].model_validate_json(
            (await asked(current, index, "verdict", request)).content
        )
        for index in (1, 2)
    ]
    mine = verdicts[0].statement.model_copy(update={"aggregator": "aggregator-0"})
    identity = trio.peers[0].part(Aggregator).identities.current
    made = current.request(accepted, [identity.sign(VERDICT_LABEL, mine), *verdicts])
    refused(await asked(current, 0, "commitment", made), 409, "round_not_verified")
