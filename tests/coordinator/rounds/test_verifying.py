"""Proved rounds through the coordinator: keys before curators, liars left out and named."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter
from sqlalchemy import select

from aggregator.context import Aggregator, RoundContext
from aggregator.errors import StillVerifying, TranscriptRefused
from aggregator.rounds import verifier_shares
from aggregator.rounds.routes import seal_transcript
from aggregator.rounds.verification import Verifying
from common.identity.own_identity import NoIdentityDocument
from common.store.transactions import Database
from common.web.dependencies import part_of
from coordinator.rounds.conductor import Conductor
from coordinator.store import rounds as store
from coordinator.store.tables import rounds
from tacit.crypto.signing import Signed
from tacit.protocol.round.agreement import members_hash
from tacit.protocol.round.messages import Commitment, Manifest, Reveal, Transcript
from tacit.protocol.round.opening import check_transcript
from tacit.protocol.round.state import RoundState
from tacit.query.disclosure import RuleNotMet
from tacit.wire import parse_binary
from tests.aggregator.double import Sender
from tests.aggregator.proved import ProvedRound
from tests.coordinator.conftest import Houses
from tests.coordinator.double import House, query

READINGS = 3 * [1] + 3 * [20]


def proved(**changes: Any) -> dict[str, Any]:
    """A small proved query, as JSON."""
    small = {"bounds": ["0", "10"], "resolution": "1", "max_readings": 2, "n_max": 10_000}
    return query(**{**small, "validity": "proved", **changes})


async def opened(house: House, asked: dict[str, Any]) -> ProvedRound:
    """A proved round that curators can see."""
    found = await house.open(asked)
    return ProvedRound(found.federation, found.signed)


async def lone(house: House, count: int) -> list[Sender]:
    """Enrolled lone curators."""
    return [await house.enrol(house.federation.sender(f"curator-{i}")) for i in range(count)]


def corrupt(plain: list[bytearray]) -> None:
    """Another measurement than the one that is proved."""
    plain[0][16] ^= 1


async def test_a_liar_is_left_out_and_named(house: Houses) -> None:
    async with house(3) as it:
        senders = [it.federation.sender(f"curator-{index}") for index in range(6)]
        host = it.federation.sender("gateway", [f"home-{index}" for index in range(70)])
        tokens = {sender.id: await it.enrolled(sender) for sender in (*senders, host)}
        current = await opened(it, proved())
        for sender, value in zip(senders, READINGS, strict=True):
            await current.prove(
                sender, np.array([value]), corrupt if sender is senders[2] else None
            )
        values = np.arange(70).reshape(70, 1) % 21
        await current.prove_parts(host, values)
        shown = await it.finish(current)
        assert shown["state"] == "released", shown
        assert (shown["participants"], shown["refused"]) == (75, 1)
        result = (await it.ask("GET", f"/v1/rounds/{current.id}/result")).json()
        total = sum(READINGS) - READINGS[2] + int(values.sum())
        assert float(result["result"]["sum"]) == total
        stated = (await it.ask("GET", f"/v1/rounds/{current.id}/report")).json()["validity"]
        assert (stated["refused"], stated["influence"][0]["host_parts"]) == (1, [70])
        furthest = "the host that reaches furthest, 70 curators in 1 part, by at most 1,400 kWh"
        assert furthest in stated["sentences"][0]
        assert "of the released total" in stated["sentences"][0]
        assert stated["sentences"][-1].startswith("1 of the round's curators was excluded")
        preview = (await it.ask("POST", "/v1/queries/preview", proved())).json()
        assert furthest in preview["validity"]["sentences"][0]

        everyone = (await it.ask("GET", f"/v1/rounds/{current.id}/refused")).json()
        number = senders[2].first
        assert everyone["count"] == 1 and everyone["statements"] == []
        (named,) = everyone["refused"]
        assert (named["number"], named["reasons"]) == (number, ["proof"])
        assert named["curator"] == "curator-2"
        for sender in (senders[2], senders[3], host):
            path = f"/v1/rounds/{current.id}/standing"
            own = await it.ask("GET", path, token=tokens[sender.id])
            assert own.status_code == 200, own.text
            expected = [number] if sender is senders[2] else []
            assert [item["number"] for item in own.json()["refused"]] == expected

        text = (await it.ask("GET", f"/v1/rounds/{current.id}/transcript")).text
        identity = (await it.client.get("/.well-known/tacit-coordinator")).json()
        transcript = Transcript.model_validate_json(text)
        checked = check_transcript(transcript, parse_binary(identity["identity_key"]))
        assert checked.total.tolist() == [total]
        paths = [path for wire in it.wires for _, path in wire.seen]
        assert not any("/verification/" in path for path in paths), "shares ride along"


async def test_different_keys_end_a_round_before_any_curator_sees_it(house: Houses) -> None:
    async with house(3) as it:
        await lone(it, 3)

        def lie(path: str, found: Any) -> Any:
            if path.endswith("verification-keys"):
                found["key_check"] = "A" * 43
            return found

        it.wires[1].lie = lie
        shown = await it.ask_for(proved())
        current = await it.round_of(shown["id"])
        ended = await it.finish(current)
        assert ended["state"] == "aborted"
        assert ended["reason"].startswith("verify_keys_differ")
        assert {item["statement"]["frozen"] for item in ended["aborts"]} == {"never"}


async def test_too_few_candidates_are_never_verified(house: Houses) -> None:
    async with house(3) as it:
        senders = await lone(it, 3)
        current = await opened(it, proved(min_participants=3))
        for sender in senders[:2]:
            await current.prove(sender, np.array([1]))
        assert (await it.finish(current, by="close"))["state"] == "aborted"
        assert not any(wire.count("/verification") for wire in it.wires)


async def test_too_few_after_refusals_are_not_summed(house: Houses) -> None:
    async with house(3) as it:
        senders = await lone(it, 3)
        current = await opened(it, proved(min_participants=3))
        for sender in senders:
            await current.prove(sender, np.array([1]), corrupt if sender is senders[0] else None)
        assert (await it.finish(current))["state"] == "aborted"
        assert not any(wire.count("/commitment") for wire in it.wires)


@pytest.mark.parametrize(
    "step",
    [
        pytest.param("verification", marks=pytest.mark.slow),
        "verification/0",
        "verdict",
        pytest.param("commitment", marks=pytest.mark.slow),
    ],
)
async def test_a_restarted_coordinator_goes_on_in_the_middle(
    house: Houses, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    if step == "verification/0":  # these shares are relayed alone
        monkeypatch.setattr(verifier_shares, "SHORT_SHARES", 0)
    async with house(3) as it:
        senders = await lone(it, 4)
        current = await opened(it, proved())
        hurt = asyncio.Event()

        def fault(method: str, path: str) -> str | None:
            if path.endswith(f"/{step}"):
                hurt.set()
                return "answer"
            return None

        it.wires[1].fault = fault
        for sender in senders:
            await current.prove(sender, np.array([5]))
        async with asyncio.timeout(60):
            await hurt.wait()
        await it.stop()
        it.wires[1].fault = lambda _method, _path: None
        await it.start()
        shown = await it.finish(current)
        assert (shown["state"], shown["participants"]) == ("released", 4)


@pytest.mark.parametrize(
    "state", [RoundState.FROZEN, pytest.param(RoundState.VERIFIED, marks=pytest.mark.slow)]
)
async def test_an_aggregator_at_work_after_a_restart_is_asked_again(
    house: Houses, monkeypatch: pytest.MonkeyPatch, state: RoundState
) -> None:
    """In the verdict and in the commitment, as in the verification: it is no aggregator that does
    not answer."""
    asked, said = [0], []
    remember, wait = Verifying.remember, Conductor._wait

    async def at_work(self: Verifying, context: RoundContext, before: RoundState) -> None:
        if before is state and context.index == 1 and asked[0] < 3:
            asked[0] += 1
            raise StillVerifying
        await remember(self, context, before)

    def waited(self: Conductor, row: Any, look: Any, error: Exception) -> float:
        said.append(getattr(error, "name", repr(error)))
        return wait(self, row, look, error)

    monkeypatch.setattr(Verifying, "remember", at_work)
    monkeypatch.setattr(Conductor, "_wait", waited)
    async with house(3) as it:
        senders = await lone(it, 3)
        current = await opened(it, proved())
        for sender in senders:
            await current.prove(sender, np.array([5]))
        shown = await it.finish(current)
        assert (shown["state"], shown["participants"]) == ("released", 3)
    assert said == ["still_verifying"] * 3


LARGEST = 20
"""What a proof admits: two readings of 10 kWh."""
SHARED: dict[str, Any] = {"rule": {"min_participants": 3, "max_share": "0.5"}}


async def total_of(house: House, total: int) -> tuple[ProvedRound, dict[str, Any]]:
    """A proved sum without noise of four curators, and how it ended."""
    senders = await lone(house, 4)
    current = await opened(house, proved(**SHARED, min_participants=3))
    for sender, value in zip(senders, [total - 30, 10, 10, 10], strict=True):
        await current.prove(sender, np.array([value]))
    return current, await house.finish(current)


async def test_a_sum_of_which_nobody_can_hold_too_much_is_released(house: Houses) -> None:
    async with house(3) as it:
        current, shown = await total_of(it, 2 * LARGEST)
        assert shown["state"] == "released", shown
        found = (await it.ask("GET", f"/v1/rounds/{current.id}/result")).json()
        assert float(found["result"]["sum"]) == 2 * LARGEST
        text = (await it.ask("GET", f"/v1/rounds/{current.id}/transcript")).text
        transcript = Transcript.model_validate_json(text)
        for wire in it.wires:  # accepted, but there is no pair to seal it with
            with pytest.raises(NoIdentityDocument):
                await seal_transcript(part_of(wire.app, Aggregator), current.id, transcript)
        report = (await it.ask("GET", f"/v1/rounds/{current.id}/report")).json()
        assert "at most 0.5 of the sum. It is released only from 40 kWh on" in str(report)


async def test_a_smaller_one_is_shown_nowhere_and_sealed_by_nobody(house: Houses) -> None:
    """The coordinator has seen it by then. It keeps nothing of it, and asks at once no more."""
    async with house(3) as it:
        reveals: dict[str, Any] = {}

        def listen(path: str, found: Any) -> Any:
            if path.endswith("/reveal"):
                reveals[found["aggregator"]] = found
            return found

        for wire in it.wires:
            wire.lie = listen
        current, shown = await total_of(it, 2 * LARGEST - 1)
        assert shown["state"] == "aborted"
        assert shown["reason"].startswith(RuleNotMet.title)
        assert [wire.count("/reveal") for wire in it.wires] == [1, 1, 1]
        assert shown["aborts"] == []  # nobody says that nothing was opened: no credit
        assert (await it.ask("GET", "/v1/budget")).json()["released"]["exact_answers"] == 1
        for what in ("result", "report", "transcript"):
            answer = await it.ask("GET", f"/v1/rounds/{current.id}/{what}")
            assert answer.status_code == 409, what

        kept = select(rounds.c.result, rounds.c.figures, rounds.c.report, rounds.c.transcript)
        async with part_of(it.app, Database).reading() as transaction:
            stored = await transaction.execute(kept.where(rounds.c.id == current.id))
            assert tuple(stored.one()) == (None, None, None, None)
            row = await store.find(transaction, current.id)
        assert row is not None and row.manifest is not None and row.commitments is not None
        # Who has seen the reveals can put the transcript together: nobody accepts it.
        manifest = Manifest.model_validate_json(row.manifest)
        transcript = Transcript(
            descriptor=current.signed,
            members_hash=members_hash(manifest.salt, manifest.members, manifest.parts),
            quorum=manifest.quorum,
            participants=manifest.count,
            contributions=manifest.contributions,
            commitments=TypeAdapter(tuple[Signed[Commitment], ...]).validate_json(row.commitments),
            reveals=tuple(Reveal.model_validate(reveals[name]) for name in sorted(reveals)),
        )
        identity = (await it.client.get("/.well-known/tacit-coordinator")).json()
        with pytest.raises(RuleNotMet):
            check_transcript(transcript, parse_binary(identity["identity_key"]))
        for wire in it.wires:
            with pytest.raises(TranscriptRefused, match=RuleNotMet.title):
                await seal_transcript(part_of(wire.app, Aggregator), current.id, transcript)
