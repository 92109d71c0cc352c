"""What the coordinator checks for itself: an aggregator that deviates opens nothing false.

It ends the round where asking again could not help, and never asks for a partial sum before it
holds the whole quorum's commitments to one manifest (the other side of spec: aggregation, section
10, check 8).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from common.runtime.clock import ManualClock
from tacit.crypto.signing import Identity
from tacit.protocol.round.descriptor import ABORT_LABEL, AbortStatement
from tacit.wire import encode_binary
from tests.coordinator.conftest import Houses
from tests.coordinator.double import House, integers, query

SHAMIR: dict[str, Any] = {"sharing": "shamir", "aggregators": 5, "threshold": 3}
Lie = Callable[[str, Any], Any]


def lying(ending: str, change: Callable[[Any], None]) -> Lie:
    """A lie in the answers to one step."""

    def lie(path: str, answer: Any) -> Any:
        if path.endswith(ending):
            change(answer)
        return answer

    return lie


async def ended(it: House, asked: dict[str, Any]) -> dict[str, Any]:
    """How a round ends whose aggregator 1 lies."""
    host = await it.host("gateway", 4)
    opened = await it.open(asked)
    await opened.contribute(host, integers(4))
    return await it.finish(opened)


def other_manifest(answer: Any) -> None:
    answer["statement"]["manifest_hash"] = encode_binary(bytes(32))


def other_signature(answer: Any) -> None:
    answer["signature"] = encode_binary(bytes(64))


async def test_no_reveal_is_asked_for_before_all_commitments_agree(house: Houses) -> None:
    async with house(3) as it:
        host = await it.host("gateway", 4)
        await it.host("absent", 1)  # so that sets are signed first
        for change in (other_manifest, other_signature):
            it.wires[1].lie = lying("/commitment", change)
            opened = await it.open(query(name=change.__name__))
            await opened.contribute(host, integers(4))
            finished = await it.finish(opened, by="close")
            assert finished["state"] == "aborted"
            assert finished["reason"].startswith("The commitments are not those of one manifest")
        assert [wire.count("/reveal") for wire in it.wires] == [0, 0, 0]


async def test_commitments_that_do_not_agree_are_made_again_from_signed_sets(house: Houses) -> None:
    async with house(3) as it:
        host = await it.host("gateway", 4)
        for change in (other_manifest, other_signature):

            def once(path: str, answer: Any, change: Any = change) -> Any:
                if path.endswith("/freeze") and "manifest_hash" in answer["statement"]:
                    change(answer)
                return answer

            it.wires[1].lie = once
            opened = await it.open(query(name=change.__name__))
            await opened.contribute(host, integers(4))
            finished = await it.finish(opened)
            assert (finished["state"], finished["participants"]) == ("released", 4)
        assert [wire.count("/commitment") for wire in it.wires] == [2, 2, 2]


async def test_a_partial_sum_that_was_not_committed_to_ends_the_round(house: Houses) -> None:
    def other_sum(answer: Any) -> None:
        answer["partial"] = encode_binary(bytes(8))

    async with house(3) as it:
        it.wires[1].lie = lying("/reveal", other_sum)
        finished = await ended(it, query())
        assert finished["state"] == "aborted"
        assert finished["reason"].startswith("A partial sum does not match its commitment")
        assert (await it.ask("GET", f"/v1/rounds/{finished['id']}/transcript")).status_code == 409


async def test_a_set_of_another_identity_is_not_counted(house: Houses) -> None:
    async with house(5, patience_s=8.0) as it:
        it.wires[1].lie = lying("/freeze", other_signature)
        finished = await ended(it, query(**SHAMIR))
        assert (finished["state"], finished["participants"]) == ("released", 4)
        transcript = await it.ask("GET", f"/v1/rounds/{finished['id']}/transcript")
        assert transcript.json()["quorum"] == [0, 2, 3, 4]


async def test_an_aggregator_that_never_answers_or_in_another_form_is_waited_out(
    house: Houses, clock: ManualClock
) -> None:
    async with house(3, clock=clock) as it:
        host = await it.host("gateway", 4)
        await it.host("absent", 1)
        for down, aborts in ((False, 3), (True, 2)):
            it.wires[1].lie = lying("/freeze", lambda answer: answer.clear())
            opened = await it.open(query(name=f"q-{aborts}"))
            await opened.contribute(host, integers(4))
            it.wires[1].down = down
            await it.ask("POST", f"/v1/rounds/{opened.id}/close")
            await it.wires[1].heard("/freeze")
            clock.advance(timedelta(seconds=400))
            finished = await it.finish(opened)
            assert finished["state"] == "aborted"
            assert finished["reason"] == "aggregator-1: no answer to the freeze"
            assert len(finished["aborts"]) == aborts


async def test_an_abort_that_another_signed_earns_nobody_a_credit(house: Houses) -> None:
    async with house(3) as it:

        def forged(answer: Any) -> None:
            statement = AbortStatement.model_validate(
                {**answer["statement"], "frozen": "never"}, strict=False
            )
            signed = Identity.generate().sign(ABORT_LABEL, statement)
            answer.update(signed.model_dump(mode="json"))

        it.wires[1].lie = lying("/abort", forged)
        await it.host("gateway", 4)
        opened = await it.open(query())
        finished = await it.finish(opened, by="abort")
        named = {item["statement"]["aggregator"] for item in finished["aborts"]}
        assert named == {"aggregator-0", "aggregator-2"}


async def test_a_key_of_another_identity_opens_no_round(house: Houses) -> None:
    async with house(3) as it:
        await it.host("gateway", 4)
        created = (await it.ask("POST", "/v1/queries", query())).json()
        it.wires[1].lie = lying("/v1/seal-keys/current", other_signature)
        window = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}
        body = {"query_id": created["id"], "window": window}
        assert (await it.ask("POST", "/v1/rounds", body)).status_code == 503
        assert (await it.ask("GET", "/v1/rounds")).json() == {"rounds": []}


async def test_an_answer_of_another_round_opens_nothing(house: Houses, clock: ManualClock) -> None:
    """Rounds share requests; an aggregator that mixes up their answers spoils its own alone."""
    shown: list[Any] = []

    def mixed_up(path: str, answer: Any) -> Any:
        if path.endswith("/freeze") and "statement" in answer:
            shown.append(answer)
            return shown[0]
        return answer

    async with house(3, clock=clock) as it:
        host = await it.host("gateway", 4)
        it.wires[1].lie = mixed_up
        rounds = [await it.open(query(name=f"q-{index}")) for index in range(4)]
        for opened in rounds:
            await opened.contribute(host, integers(4))
        if not shown:
            await it.wires[1].heard("/freeze")
        sound = shown[0]["statement"]["round"]
        for opened in sorted(rounds, key=lambda opened: opened.id != sound):
            state = (await it.finish(opened))["state"]
            assert state == ("released" if opened.id == sound else "aborted")
            clock.advance(timedelta(seconds=400))
