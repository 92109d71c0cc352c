"""The steps of a proved round: once each, in their order, and again after a kill."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text

from aggregator.context import Aggregator
from aggregator.rounds import verification
from aggregator.rounds.routes import RoundSteps
from aggregator.rounds.verifier_shares import Evaluation
from aggregator.store import rounds
from tacit.protocol.round.messages import (
    ManifestRequest,
    ProofReason,
    RevealRequest,
    VerdictRequest,
    VerificationRequest,
    Verified,
)
from tacit.protocol.round.state import RoundState
from tacit.wire import encode_binary
from tests.aggregator.double import Federation, Sender
from tests.aggregator.proved import ProvedRound, keyed, proved
from tests.aggregator.rounds.test_state_machine import refused

TWO = {"aggregators": 2}


def corrupt(plain: list[bytearray]) -> None:
    """Another measurement than the one that is proved."""
    plain[0][16] ^= 1


async def filled(
    federation: Federation, count: int = 3, liars: int = 0, **changes: Any
) -> tuple[ProvedRound, list[Sender]]:
    """A round in which everyone has delivered 1, and the last ones a lie."""
    lone = await federation.lone(count)
    current = await keyed(federation, proved(**{**TWO, **changes}))
    for place, sender in enumerate(lone):
        lie = corrupt if place >= count - liars else None
        await current.prove(sender, np.array([1]), lie)
    return current, lone


async def test_a_liar_is_named_alike_by_all(trio: Federation) -> None:
    current, _ = await filled(trio, 6, 1, aggregators=3)
    accepted, verdicts = await current.verdicts()
    reasons = [item.statement.reasons for item in verdicts]
    assert reasons == [{ProofReason.PROOF: b"\x20"}] * 3
    total, manifest = await current.opened(accepted, verdicts)
    assert (total.tolist(), manifest.count) == ([5], 5)


@pytest.mark.usefixtures("database_url")
async def test_steps_come_in_their_order_and_repeat_their_bytes(pair: Federation) -> None:
    current, _ = await filled(pair)
    peer = pair.peers[0]

    async def step(name: str, body: Any) -> Any:
        return await peer.coordinate("POST", current.path(name), body)

    nobody = VerificationRequest(accepted=())
    refused(await step("verification", nobody), 409, "round_not_frozen")
    accepted = await current.freeze()
    sets = VerificationRequest(accepted=tuple(accepted))
    refused(await step("verdict", VerdictRequest(verifications=())), 409, "round_not_verified")
    put = await current.put_chunk(peer, 1, 0, b"")
    refused(put, 409, "round_not_verified")
    answer = await peer.coordinate("GET", current.path("verification/0"))
    refused(answer, 404, "unknown_chunk")
    first = await step("verification", sets)
    assert (await step("verification", sets)).content == first.content
    assert [first.json()["shares"]] == [encode_binary(body) for body in await current.chunks(0)]
    verifications = await current.verify(accepted)
    request = VerdictRequest(verifications=tuple(verifications))
    refused(await step("verdict", request), 409, "shares_missing")
    await current.exchange()
    decided = await step("verdict", request)
    assert (await step("verdict", request)).content == decided.content
    shown = (await peer.coordinate("GET", current.path())).json()
    assert shown["state"] == RoundState.VERIFIED
    verdicts = await current.decide(verifications)
    asked = current.request(accepted, verdicts)
    bare = asked.model_copy(update={"accepted": ()})  # the candidates are fixed
    committed = await step("commitment", bare)
    assert committed.status_code == 200, committed.text
    assert (await step("commitment", asked)).content == committed.content
    assert (await step("verification", sets)).content == first.content
    assert (await step("verdict", request)).content == decided.content
    commitments = await current.commit_to(asked)
    revealed = await step("reveal", RevealRequest(commitments=tuple(commitments)))
    assert revealed.status_code == 200


async def test_another_s_chunk_has_its_place_and_length(pair: Federation) -> None:
    current, _ = await filled(pair)
    await current.verify(await current.freeze())
    peer, (body,) = pair.peers[0], await current.chunks(1)
    refused(await current.put_chunk(peer, 0, 0, body), 404, "unknown_chunk")
    refused(await current.put_chunk(peer, 2, 0, body), 404, "unknown_chunk")
    refused(await current.put_chunk(peer, 1, 1, body), 404, "unknown_chunk")
    for bad in (b"", body[:50], b"x" + body[1:], bytes(5 << 20)):
        refused(await current.put_chunk(peer, 1, 0, bad), 400, "seal_broken")
    (own,) = await current.chunks(0)
    refused(await current.put_chunk(peer, 1, 0, own), 400, "seal_broken")
    token = pair.peers[0].operator_token
    path = current.path("verification/1/0")
    form = "application/octet-stream"
    assert (await peer.ask("PUT", path, body, token, form=form)).status_code == 403
    assert (await current.put_chunk(peer, 1, 0, body)).status_code == 204


async def test_short_shares_come_with_the_verification_and_go_with_the_decision(
    pair: Federation,
) -> None:
    current, _ = await filled(pair)
    sets = VerificationRequest(accepted=tuple(await current.freeze()))
    answers = [
        Verified.model_validate_json(
            (await peer.coordinate("POST", current.path("verification"), sets)).content
        )
        for peer in pair.peers
    ]
    verifications = tuple(item.verification for item in answers)
    own, other = (item.shares for item in answers)
    assert own is not None and other is not None
    spoilt = other[:-1] + bytes([other[-1] ^ 1])
    peer, path = pair.peers[0], current.path("verdict")
    for bad in ((), (own, None), (None, own), (None, spoilt), (None, b""), (other,)):
        request = VerdictRequest(verifications=verifications, shares=bad)
        refused(await peer.coordinate("POST", path, request), 409, "shares_missing")
    for long in ((None, bytes((64 << 10) + 1)), (None,) * 17):
        body = {"verifications": [], "shares": [item and encode_binary(item) for item in long]}
        refused(await peer.coordinate("POST", path, body), 422, "bad_parameter")
    # one for itself is not looked at, nor one for nobody
    request = VerdictRequest(verifications=verifications, shares=(spoilt, other, spoilt))
    answer = await peer.coordinate("POST", path, request)
    assert answer.status_code == 200, answer.text
    bare = VerdictRequest(verifications=verifications)
    assert (await peer.coordinate("POST", path, bare)).content == answer.content
    aggregator = peer.part(Aggregator)
    context = await aggregator.round(current.id)
    async with aggregator.database.reading() as transaction:
        assert await rounds.held_chunks(transaction, context.key) == {(0, 0)}


async def test_it_is_aborted_from_every_state_and_keeps_nothing(pair: Federation) -> None:
    for stop in range(4):
        lone = await pair.lone(2, f"round-{stop}")
        current = await keyed(pair, proved(**TWO))
        for sender in lone:
            await current.prove(sender, np.array([1]))
        if stop >= 1:
            accepted = await current.freeze()
        if stop >= 2:
            verifications = await current.verify(accepted)
            await current.exchange()
        if stop >= 3:
            await current.decide(verifications)
        peer = pair.peers[0]
        answer = await peer.coordinate("POST", current.path("abort"), {"reason": "enough"})
        assert answer.status_code == 200
        aggregator = peer.part(Aggregator)
        async with aggregator.database.reading() as transaction:
            for table, column in (("piece", "bodies"), ("share_chunk", "body")):
                sizes = f"SELECT COALESCE(SUM(length({column})), 0) FROM {table}"
                assert (await transaction.execute(text(sizes))).scalar_one() == 0
        if stop >= 1:
            body = VerificationRequest(accepted=tuple(accepted))
            answer = await peer.coordinate("POST", current.path("verification"), body)
            refused(answer, 410, "round_closed")


async def test_killed_while_it_verifies_it_makes_the_same_shares(pair: Federation) -> None:
    """The candidates are durable, and nothing else is: as after a kill before the signature."""
    current, _ = await filled(pair)
    accepted = await current.freeze()
    before = await current.verify(accepted)
    aggregator = pair.peers[0].part(Aggregator)
    async with aggregator.database.begin() as transaction:
        await transaction.execute(text("UPDATE round SET verification = NULL"))
        await transaction.execute(text("DELETE FROM share_chunk"))
    assert await current.verify(accepted) == before
    await current.exchange()
    total, _ = await current.opened(accepted, await current.decide(before))
    assert total.tolist() == [3]


async def test_no_sum_without_noise_is_in_the_store(pair: Federation) -> None:
    """What all contributions of an aggregator add up to is nowhere before its noise is in it."""
    current, _ = await filled(pair, mechanism="distributed", epsilon="1")
    accepted, verdicts = await current.verdicts()
    aggregator = pair.peers[0].part(Aggregator)
    async with aggregator.database.reading() as transaction:
        row = (await transaction.execute(text("SELECT partial, nonce FROM round"))).one()
    assert (row.partial, row.nonce) == (None, None)
    request = current.request(accepted, verdicts)
    assert isinstance(request, ManifestRequest)
    await current.commit_to(request)


async def test_a_refusal_that_leaves_two_sums_one_curator_apart_is_not_committed(
    pair: Federation,
) -> None:
    """The guard is asked about the set that is summed, not about the one that was frozen."""
    lone = await pair.lone(4)
    first = await keyed(pair, proved(**TWO))
    for sender in lone:
        await first.prove(sender, np.array([1]))
    assert (await first.proved_release())[1].count == 4
    second = await keyed(pair, proved(**TWO))
    for sender in lone:
        await second.prove(sender, np.array([1]), corrupt if sender is lone[0] else None)
    accepted, verdicts = await second.verdicts()
    request = second.request(accepted, verdicts)
    assert second.manifest(accepted, verdicts).count == 3
    for peer in pair.peers:
        answer = await peer.coordinate("POST", second.path("commitment"), request)
        refused(answer, 409, "difference_refused")


async def test_a_long_verification_is_asked_for_again_and_ends_with_an_abort(
    pair: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = asyncio.Event(), asyncio.Event()
    evaluate = verification.Verifying._evaluate

    async def slow(self: Any, context: Any, candidates: Any) -> Any:
        begun.set()
        await go.wait()
        return await evaluate(self, context, candidates)

    monkeypatch.setattr(verification, "HOLD_S", 0.05)
    monkeypatch.setattr(verification.Verifying, "_evaluate", slow)
    first, lone = await filled(pair)
    second = await keyed(pair, proved(**TWO))
    for sender in lone:
        await second.prove(sender, np.array([1]))
    peer = pair.peers[0]
    for current in (first, second):
        body = VerificationRequest(accepted=tuple(await current.freeze()))
        path = current.path("verification")
        for _ in range(2):
            refused(await peer.coordinate("POST", path, body), 503, "still_verifying")
        await begun.wait()
        if current is second:  # nobody waits for the verification to be over
            ended = await peer.coordinate("POST", current.path("abort"), {"reason": "enough"})
            assert ended.status_code == 200
        go.set()
        monkeypatch.setattr(verification, "HOLD_S", 20.0)
        answer = await peer.coordinate("POST", path, body)
        assert answer.status_code == (200 if current is first else 410), answer.text
        monkeypatch.setattr(verification, "HOLD_S", 0.05)
        go.clear()


@pytest.mark.parametrize(("step", "ends"), [("verdict", "abort"), ("commitment", "answer")])
async def test_after_a_restart_a_long_evaluation_is_made_again_and_asked_for_again(
    pair: Federation, monkeypatch: pytest.MonkeyPatch, step: str, ends: str
) -> None:
    """A process that was killed in these steps has lost what it computed. No request waits long for
    it, and an abort not at all."""
    begun, go = asyncio.Event(), asyncio.Event()
    run = Evaluation.run

    async def slow(self: Any, *given: Any) -> Any:
        begun.set()
        await go.wait()
        return await run(self, *given)

    current, _ = await filled(pair, 4, 1)
    accepted = await current.freeze()
    verifications = await current.verify(accepted)
    await current.exchange()
    body: Any = VerdictRequest(verifications=tuple(verifications))
    if step == "commitment":
        body = current.request(accepted, await current.decide(verifications))
    peer, path = pair.peers[0], current.path(step)
    peer.part(RoundSteps).verifying.evaluations.drop(current.id)  # as after a restart
    with monkeypatch.context() as patched:
        patched.setattr(verification, "HOLD_S", 0.05)
        patched.setattr(Evaluation, "run", slow)
        for _ in range(2):
            refused(await peer.coordinate("POST", path, body), 503, "still_verifying")
        await begun.wait()
        if ends == "abort":
            ended = await peer.coordinate("POST", current.path("abort"), {"reason": "enough"})
            assert ended.status_code == 200
        go.set()
        patched.setattr(verification, "HOLD_S", 20.0)
        if ends == "abort":
            refused(await peer.coordinate("POST", path, body), 410, "round_closed")
            return
        first = await peer.coordinate("POST", path, body)
        assert first.status_code == 200, first.text
    assert (await peer.coordinate("POST", path, body)).content == first.content
    verdicts = await current.decide(verifications)
    total, manifest = await current.opened(accepted, verdicts)
    assert (total.tolist(), manifest.count) == ([3], 3)
