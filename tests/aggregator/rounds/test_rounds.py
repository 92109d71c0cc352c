"""A round's set, its end, what is reported of it, and the sweep."""

from __future__ import annotations

import asyncio
from dataclasses import FrozenInstanceError
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from structlog.testing import capture_logs

from aggregator.rounds import key_rotation, state_machine
from aggregator.rounds.state_machine import Awaited
from common.runtime.clock import ManualClock
from tacit import sets
from tacit.answers.registry import RoundProgress
from tacit.crypto.signing import Signed, verify
from tacit.errors import Invalid
from tacit.protocol.enrolment import GRANT_HEADER, grant_hash
from tacit.protocol.round.descriptor import ABORT_LABEL, AbortStatement, Frozen
from tacit.protocol.round.messages import AcceptedSet
from tests.aggregator.conftest import Alliance
from tests.aggregator.double import Federation, Round, parts_of, query
from tests.aggregator.rounds.test_state_machine import refused


def numbers(bitmap: bytes, size: int) -> list[int]:
    return np.flatnonzero(sets.unpack(bitmap, size)).tolist()


async def contribute(current: Round, *parties: Any) -> None:
    """One value of every curator of these parties."""
    for party in parties:
        await current.contribute(party, np.ones((len(party.curators), 1), np.int64))


async def aborted(current: Round, answer: bytes | str) -> AbortStatement:
    peer = current.federation.peers[0]
    signed = Signed[AbortStatement].model_validate_json(answer)
    return verify(ABORT_LABEL, signed, peer.identity_key)


async def test_the_set_is_of_all_pieces_but_of_parties_that_left(single: Federation) -> None:
    one, gone = await single.lone(2)
    host = await single.host("gateway", 70)
    leaving = await single.host("leaving", 3)
    last, silent = [await single.enrol(single.sender(f"late-{i}")) for i in range(2)]
    size = single.next_number
    current = await single.open(query())
    await contribute(current, one, gone, host, leaving, last)
    service = parts_of(single)
    wanted = [0, *range(64, 134), last.first]
    everyone = sorted([*wanted, gone.first, *range(leaving.first, leaving.first + 3)])
    absent = [silent.first, 50]

    async def missing(asked: list[int]) -> int:
        bits = np.zeros(size, np.bool_)
        bits[asked] = True
        return await state_machine.missing(service.aggregator, current.id, sets.pack(bits))

    assert await missing(everyone) == 0
    assert await missing([*everyone[:3], *absent]) == 2
    assert await missing([]) == 0
    with pytest.raises(Invalid) as found:
        await state_machine.missing(service.aggregator, current.id, b"\xff")
    assert found.value.pointer == "/members"
    for party in (gone, leaving):
        answer = await single.peers[0].ask("DELETE", f"/v1/parties/{party.id}")
        assert answer.status_code == 204
    (signed,) = await current.freeze()
    assert numbers(signed.statement.members, size) == wanted
    again = await single.peers[0].coordinate("POST", current.path("freeze"))
    assert Signed[AcceptedSet].model_validate_json(again.content) == signed


async def test_an_abort_says_whether_the_round_was_frozen_and_stays(single: Federation) -> None:
    lone = await single.lone(2)
    for frozen in (False, True):
        current = await single.open(query())
        await contribute(current, *lone)
        if frozen:
            await current.freeze()
        path, peer = current.path("abort"), single.peers[0]
        first = await peer.coordinate("POST", path, {"reason": "test"})
        statement = await aborted(current, first.content)
        assert statement.reason == "test"
        assert statement.frozen is (Frozen.YES if frozen else Frozen.NEVER)
        again = await peer.coordinate("POST", path, {"reason": "another"})
        assert again.content == first.content
        answer = await peer.coordinate("POST", current.path("freeze"))
        if not frozen:
            refused(answer, 410, "round_closed")
            assert (answer.json()["included"], answer.json()["state"]) == (False, "aborted")
    current = await single.open(query())
    await contribute(current, *lone)
    await current.release()
    answer = await single.peers[0].coordinate("POST", current.path("abort"), {"reason": "late"})
    refused(answer, 409, "round_released")


async def test_a_restored_store_vouches_for_no_round(single: Federation) -> None:
    lone = await single.lone(2)
    service = parts_of(single)
    opened = [await single.open(query()) for _ in range(3)]
    await contribute(opened[2], *lone)
    await opened[2].release()
    found = await state_machine.abort_unreleased(service.aggregator, service.intake, "restored")
    assert found == 2
    for current in opened[:2]:
        answer = await single.peers[0].coordinate(
            "POST", current.path("abort"), {"reason": "again"}
        )
        statement = await aborted(current, answer.content)
        assert (statement.frozen, statement.reason) == (Frozen.MAYBE, "restored")
    shown = await single.peers[0].coordinate("GET", opened[2].path())
    assert shown.json()["state"] == "released"


async def test_what_is_awaited_is_reported_as_soon_as_it_is_there(single: Federation) -> None:
    one, two = await single.lone(2)
    current = await single.open(query())
    service = parts_of(single)

    async def described(accepted: int, wait_s: float) -> RoundProgress:
        awaited = Awaited(accepted, wait_s)
        return await state_machine.describe(service.aggregator, service.intake, current.id, awaited)

    with pytest.raises(FrozenInstanceError):
        Awaited(0, 0).accepted = 1  # type: ignore[misc]
    assert (await described(5, 0)).accepted == 0
    waiting = asyncio.create_task(described(1, 250))
    done, _ = await asyncio.wait([waiting], timeout=0.1)
    assert not done
    await contribute(current, one)
    assert (await asyncio.wait_for(waiting, 60)).accepted == 1
    assert (await asyncio.wait_for(described(1, 250), 60)).accepted == 1
    assert (await asyncio.wait_for(described(0, 250), 60)).state == "open"
    await contribute(current, two)
    await current.freeze()
    shown = await asyncio.wait_for(described(9, 250), 60)
    assert (shown.state, shown.accepted, shown.contributions) == ("frozen", 2, [])
    peer, path = single.peers[0], current.path()
    answer = await peer.coordinate("GET", f"{path}?wait_s=30")
    assert answer.status_code == 200
    refused(await peer.coordinate("GET", f"{path}?wait_s=30.5"), 422, "bad_parameter")


async def test_the_sweep_ends_what_is_abandoned_and_forgets_what_is_old(
    alliance: Alliance, clock: ManualClock
) -> None:
    async with alliance(1, abandon_s=3600, retention_s=86_400) as federation:
        service, peer = parts_of(federation), federation.peers[0]
        current = await federation.open(query(), roster_size=1)

        async def state() -> str:
            answer = await peer.coordinate("GET", current.path())
            return str(answer.json().get("state", answer.status_code))

        # The deadline is after 300 s, and both times count from it.
        for passed_s, wanted in (
            (0, "open"),
            (3890, "open"),
            (20, "aborted"),
            (82_700, "aborted"),
            (200, "410"),
        ):
            clock.advance(timedelta(seconds=passed_s))
            await state_machine.sweep(service.aggregator, service.intake)
            assert await state() == wanted


async def test_an_id_is_never_opened_again(
    alliance: Alliance, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_machine, "FORGOTTEN_AT_ONCE", 2)
    async with alliance(1, retention_s=3600) as federation:
        service, peer = parts_of(federation), federation.peers[0]
        (sender,) = await federation.lone(1)
        opened = [await federation.open(query()) for _ in range(5)]
        for current in opened:
            await current.contribute(sender, np.array([[4]]))
            await peer.coordinate("POST", current.path("abort"), {"reason": "test"})
        clock.advance(timedelta(hours=3))
        federation.now = clock.now()
        assert await state_machine.sweep(service.aggregator, service.intake) == 5
        assert await state_machine.sweep(service.aggregator, service.intake) == 0
        for old in opened:
            again = await federation.descriptor(query(), round=old.id)
            answers = [
                await peer.coordinate("POST", "/v1/rounds", again),
                await peer.coordinate("GET", old.path()),
                await peer.coordinate("POST", old.path("freeze")),
                await peer.coordinate("POST", old.path("abort"), {"reason": "test"}),
                await old.send(sender, 0, old.piece(sender, 0, np.array([4], np.uint64))),
            ]
            for answer in answers:
                refused(answer, 410, "round_expired")
        await federation.open(query())


async def test_the_sweep_keeps_grants_that_may_still_be_used(alliance: Alliance) -> None:
    async with alliance(1, retention_s=10**7) as federation:
        service, peer = parts_of(federation), federation.peers[0]
        newcomer = federation.sender("newcomer")
        secret = await federation.grant(peer, newcomer)
        await state_machine.sweep(service.aggregator, service.intake)
        body = federation.enrolment(peer, newcomer, secret)
        headers = {"Content-Type": "application/json", GRANT_HEADER: grant_hash(secret)}
        answer = await peer.client.post(
            "/v1/enrolments", content=body.model_dump_json(), headers=headers
        )
        assert answer.status_code == 201, answer.text


async def test_rounds_are_forgotten_with_the_keys_that_opened_their_pieces(
    alliance: Alliance, clock: ManualClock
) -> None:
    async with alliance(1, seal_key_s=3600, seal_key_grace_s=60) as federation:
        (sender,) = await federation.lone(1)
        service = parts_of(federation)
        current = await federation.open(query())
        await contribute(current, sender)
        await state_machine.sweep(service.aggregator, service.intake)
        before = await service.aggregator.round(current.id)
        assert before.own_key is not None
        assert await service.aggregator.round(current.id) is before
        await federation.peers[0].coordinate("POST", current.path("abort"), {"reason": "test"})
        clock.advance(timedelta(seconds=7300))
        with capture_logs() as logs:
            await state_machine.sweep(service.aggregator, service.intake)
            await key_rotation.sweep_keys(service.aggregator, service.intake)
        assert (await service.aggregator.round(current.id)).own_key is None
        assert [entry for entry in logs if entry["event"] == "log_not_emptied"] == []
